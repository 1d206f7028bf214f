#include "runtime/stage/wire.h"

#include <string.h>

/* ---- Packets ------------------------------------------------------------ */

/* Types of two bytes have nothing to spare. */
static bool compresses(const struct vp_stage *stage)
{
    return stage->config.compress &&
           stage->config.graphs[0].dtype == VP_DTYPE_F32;
}

static bool is_float(const struct vp_program *program,
                     const struct vp_packet_entry *entry)
{
    return program->graph->values[entry->value].dtype == VP_DTYPE_F32;
}

static const struct vp_packet *packet_of(const struct vp_program *program,
                                         enum vp_space space)
{
    switch (space) {
    case VP_SPACE_IN:
        return &program->in;
    case VP_SPACE_OUT:
        return &program->out;
    case VP_SPACE_DIN:
        return &program->din;
    default:
        return &program->dout;
    }
}

bool vp_wire_is_direct(const struct vp_stage *stage, enum vp_space space)
{
    bool next = space == VP_SPACE_OUT || space == VP_SPACE_DOUT;

    return stage->shape.direct[next];
}

/* Compressed entries follow each other without gaps. Devices round, but send
 * floats as floats. */
static int64_t travelling_bytes(const struct vp_stage *stage,
                                const struct vp_program *program,
                                enum vp_space space)
{
    const struct vp_packet *packet = packet_of(program, space);
    int64_t n = 0;

    if (!compresses(stage) || vp_wire_is_direct(stage, space))
        return packet->n_bytes;
    for (int i = 0; i < packet->n_entries; i++)
        n += is_float(program, &packet->entries[i])
                 ? packet->entries[i].n_bytes / 2
                 : packet->entries[i].n_bytes;
    return n;
}

int64_t vp_wire_bytes(const struct vp_stage *stage, enum vp_space space)
{
    int64_t most = 0;

    for (int i = 0; i < stage->config.n_graphs; i++) {
        int64_t n = travelling_bytes(stage, &stage->buckets[i].train, space);

        most = n > most ? n : most;
    }
    return most;
}

static int64_t n_floats(const struct vp_packet_entry *entry)
{
    return entry->n_bytes / (int64_t)sizeof(float);
}

static void squeeze(const struct vp_program *program,
                    const struct vp_packet *packet, const char *host,
                    char *wire)
{
    for (int i = 0; i < packet->n_entries; i++) {
        const struct vp_packet_entry *entry = &packet->entries[i];
        const char *from = host + entry->offset;

        if (is_float(program, entry)) {
            vp_dtype_round(VP_DTYPE_BF16, (uint16_t *)wire, (const float *)from,
                           n_floats(entry));
            wire += entry->n_bytes / 2;
        } else {
            memcpy(wire, from, (size_t)entry->n_bytes);
            wire += entry->n_bytes;
        }
    }
}

static void widen(const struct vp_program *program,
                  const struct vp_packet *packet, const char *wire, char *host)
{
    for (int i = 0; i < packet->n_entries; i++) {
        const struct vp_packet_entry *entry = &packet->entries[i];
        char *to = host + entry->offset;

        if (is_float(program, entry)) {
            vp_dtype_expand(VP_DTYPE_BF16, (float *)to, (const uint16_t *)wire,
                            n_floats(entry));
            wire += entry->n_bytes / 2;
        } else {
            memcpy(to, wire, (size_t)entry->n_bytes);
            wire += entry->n_bytes;
        }
    }
}

/* What squeezing and widening would leave, where the packet is. */
static enum vp_status shorten(struct vp_stage *stage,
                              const struct vp_program *program,
                              const struct vp_packet *packet, char *tensors)
{
    for (int i = 0; i < packet->n_entries; i++) {
        const struct vp_packet_entry *entry = &packet->entries[i];

        if (is_float(program, entry))
            VP_TRY(stage->ops->shorten(stage->backend, stage->stream,
                                       (float *)(tensors + entry->offset),
                                       n_floats(entry)));
    }
    return VP_OK;
}

/* ---- Messages ----------------------------------------------------------- */

/* The device has memory of its own. */
static bool is_staged(const struct vp_parcel *parcel)
{
    return parcel->host && parcel->host != parcel->tensors;
}

enum vp_status vp_wire_pack(struct vp_stage *stage, struct vp_parcel *parcel,
                            enum vp_list list, size_t *n_bytes_out)
{
    const struct vp_program *program =
        &stage->buckets[parcel->header.bucket].train;
    enum vp_space space = list == VP_LIST_F ? VP_SPACE_OUT : VP_SPACE_DIN;
    const struct vp_packet *packet = packet_of(program, space);

    *n_bytes_out = (size_t)travelling_bytes(stage, program, space);
    if (!parcel->wire)
        return compresses(stage)
                   ? shorten(stage, program, packet, parcel->tensors)
                   : VP_OK;
    if (is_staged(parcel)) {
        VP_TRY(stage->ops->copy(stage->backend, stage->stream, parcel->host,
                                parcel->tensors, (size_t)packet->n_bytes));
        VP_TRY(vp_stage_wait(stage));
    }
    if (parcel->wire != parcel->host)
        squeeze(program, packet, parcel->host, parcel->wire);
    return VP_OK;
}

enum vp_status vp_wire_unpack(struct vp_stage *stage, struct vp_parcel *parcel,
                              enum vp_list list, size_t *n_bytes_out)
{
    const struct vp_program *program =
        &stage->buckets[parcel->header.bucket].train;
    enum vp_space space = list == VP_LIST_F ? VP_SPACE_IN : VP_SPACE_DOUT;
    const struct vp_packet *packet = packet_of(program, space);

    *n_bytes_out = (size_t)travelling_bytes(stage, program, space);
    if (!parcel->wire)
        return stage->ops->stream_wait(stage->stream, parcel->written);
    if (parcel->wire != parcel->host)
        widen(program, packet, parcel->wire, parcel->host);
    if (!is_staged(parcel))
        return VP_OK;
    VP_TRY(stage->ops->copy(stage->backend, stage->stream, parcel->tensors,
                            parcel->host, (size_t)packet->n_bytes));
    return stage->ops->event_record(parcel->read, stage->stream);
}

enum vp_status vp_wire_give_back(struct vp_stage *stage,
                                 const struct vp_parcel *parcel)
{
    if (is_staged(parcel)) /* it was copied before its first use: long ago */
        return stage->ops->event_sync(parcel->read, stage->config.timeout_ms);
    return stage->ops->event_record(parcel->read, stage->stream);
}

/* ---- Memory ------------------------------------------------------------- */

typedef enum vp_status (*parcels_fn)(struct vp_stage *stage,
                                     struct vp_parcel *parcels, int n,
                                     enum vp_space space);

/* All parcels that the host carries to or from another process. */
static enum vp_status each_ring(struct vp_stage *stage, parcels_fn fn)
{
    const struct vp_stage_shape *shape = &stage->shape;

    if (shape->apart[0] && !shape->direct[0])
        VP_TRY(fn(stage, stage->act_bufs, shape->n_act_bufs, VP_SPACE_IN));
    if (shape->apart[1] && !shape->direct[1])
        VP_TRY(fn(stage, stage->grad_bufs, shape->n_grad_bufs, VP_SPACE_DOUT));
    if (!shape->direct[1])
        VP_TRY(fn(stage, stage->out_bufs, shape->n_out_bufs, VP_SPACE_OUT));
    if (!shape->direct[0])
        VP_TRY(fn(stage, stage->din_bufs, shape->n_din_bufs, VP_SPACE_DIN));
    return VP_OK;
}

static enum vp_status count(struct vp_stage *stage, struct vp_parcel *parcels,
                            int n, enum vp_space space)
{
    (void)parcels;
    stage->memory.boundary += n * vp_wire_bytes(stage, space);
    return VP_OK;
}

void vp_wires_plan(struct vp_stage *stage)
{
    if (stage->ops->host_memory && compresses(stage))
        each_ring(stage, count);
}

static enum vp_status alloc_host(struct vp_stage *stage, int64_t n_bytes,
                                 void **out)
{
    return stage->ops->host_alloc(stage->backend, (size_t)n_bytes + 1, out);
}

/* The transport reaches what the host can use; other memory has a copy. */
static enum vp_status allocate(struct vp_stage *stage,
                               struct vp_parcel *parcels, int n,
                               enum vp_space space)
{
    for (int i = 0; i < n; i++) {
        struct vp_parcel *parcel = &parcels[i];

        if (stage->ops->host_memory)
            parcel->host = parcel->tensors;
        else
            VP_TRY(alloc_host(stage, stage->n_bytes[space], &parcel->host));
        if (compresses(stage))
            VP_TRY(
                alloc_host(stage, vp_wire_bytes(stage, space), &parcel->wire));
        else
            parcel->wire = parcel->host;
    }
    return VP_OK;
}

static enum vp_status release(struct vp_stage *stage, struct vp_parcel *parcels,
                              int n, enum vp_space space)
{
    (void)space;
    for (int i = 0; i < n; i++) {
        struct vp_parcel *parcel = &parcels[i];

        if (parcel->wire && parcel->wire != parcel->host)
            stage->ops->host_free(stage->backend, parcel->wire);
        if (is_staged(parcel))
            stage->ops->host_free(stage->backend, parcel->host);
        parcel->wire = parcel->host = NULL;
    }
    return VP_OK;
}

enum vp_status vp_wires_allocate(struct vp_stage *stage)
{
    return each_ring(stage, allocate);
}

void vp_wires_free(struct vp_stage *stage)
{
    each_ring(stage, release);
}
