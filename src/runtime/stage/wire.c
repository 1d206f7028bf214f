/* Packs and unpacks messages between stages; compresses FP32 values to BF16. */
#include "runtime/stage/wire.h"

#include <string.h>

/* ---- Compression -------------------------------------------------------- */

static bool is_float(const struct vp_program *program,
                     const struct vp_boundary_value *entry)
{
    return program->graph->values[entry->value].dtype == VP_DTYPE_F32;
}

/* Returns the bytes that are sent for a message of this bucket. */
static int64_t message_bytes(const struct vp_stage *stage,
                             const struct vp_program *program,
                             enum vp_space space)
{
    return vp_stage_compresses(&stage->plan.sizes, &stage->plan.shape, space)
               ? vp_program_compressed_bytes(program, space)
               : vp_program_boundary(program, space)->n_bytes;
}

static int64_t n_floats(const struct vp_boundary_value *entry)
{
    return entry->n_bytes / (int64_t)sizeof(float);
}

static void squeeze(const struct vp_program *program,
                    const struct vp_boundary *boundary, const char *host,
                    char *wire)
{
    for (int i = 0; i < boundary->n_entries; i++) {
        const struct vp_boundary_value *entry = &boundary->entries[i];
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
                  const struct vp_boundary *boundary, const char *wire,
                  char *host)
{
    for (int i = 0; i < boundary->n_entries; i++) {
        const struct vp_boundary_value *entry = &boundary->entries[i];
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

/* Rounds the values of a boundary in place, as squeeze() and widen() would. */
static enum vp_status shorten(struct vp_stage *stage,
                              const struct vp_program *program,
                              const struct vp_boundary *boundary, char *tensors)
{
    for (int i = 0; i < boundary->n_entries; i++) {
        const struct vp_boundary_value *entry = &boundary->entries[i];

        if (is_float(program, entry))
            VP_TRY(stage->ops->shorten(stage->backend, stage->stream,
                                       (float *)(tensors + entry->offset),
                                       n_floats(entry)));
    }
    return VP_OK;
}

/* ---- Messages ----------------------------------------------------------- */

/* Returns true if the device has its own memory. */
static bool is_staged(const struct vp_stage_message *message)
{
    return message->host && message->host != message->tensors;
}

enum vp_status vp_wire_pack(struct vp_stage *stage,
                            struct vp_stage_message *message, enum vp_list list,
                            size_t *n_bytes_out)
{
    const struct vp_program *program =
        &stage->plan.train[message->header.bucket];
    enum vp_space space = list == VP_LIST_F ? VP_SPACE_OUT : VP_SPACE_DIN;
    const struct vp_boundary *boundary = vp_program_boundary(program, space);

    *n_bytes_out = (size_t)message_bytes(stage, program, space);
    if (!message->wire)
        return stage->plan.shape.compress && stage->plan.sizes.has_floats
                   ? shorten(stage, program, boundary, message->tensors)
                   : VP_OK;
    if (is_staged(message)) {
        VP_TRY(vp_stream_copy(stage->stream, message->host, message->tensors,
                              (size_t)boundary->n_bytes));
        VP_TRY(vp_stage_wait(stage));
    }
    if (message->wire != message->host)
        squeeze(program, boundary, message->host, message->wire);
    return VP_OK;
}

enum vp_status vp_wire_unpack(struct vp_stage *stage,
                              struct vp_stage_message *message,
                              enum vp_list list, size_t *n_bytes_out)
{
    const struct vp_program *program =
        &stage->plan.train[message->header.bucket];
    enum vp_space space = list == VP_LIST_F ? VP_SPACE_IN : VP_SPACE_DOUT;
    const struct vp_boundary *boundary = vp_program_boundary(program, space);

    *n_bytes_out = (size_t)message_bytes(stage, program, space);
    if (!message->wire)
        return vp_stream_wait(stage->stream, message->written);
    if (message->wire != message->host)
        widen(program, boundary, message->wire, message->host);
    if (!is_staged(message))
        return VP_OK;
    VP_TRY(vp_stream_copy(stage->stream, message->tensors, message->host,
                          (size_t)boundary->n_bytes));
    return vp_event_record(message->read, stage->stream);
}

enum vp_status vp_wire_give_back(struct vp_stage *stage,
                                 const struct vp_stage_message *message)
{
    /* Copied before its first use, so this does not wait long. */
    if (is_staged(message))
        return vp_event_sync(message->read, stage->config.timeout_ms);
    return vp_event_record(message->read, stage->stream);
}

/* ---- Memory ------------------------------------------------------------- */

typedef enum vp_status (*messages_fn)(struct vp_stage *stage,
                                      struct vp_stage_message *messages, int n,
                                      enum vp_space space);

/* Calls `fn` for all rings of messages that pass through the host to or from
 * another process. */
static enum vp_status each_ring(struct vp_stage *stage, messages_fn fn)
{
    const struct vp_stage_shape *shape = &stage->plan.shape;

    if (shape->edge[0] == VP_EDGE_HOST) {
        VP_TRY(fn(stage, stage->act_bufs, shape->n_act_bufs, VP_SPACE_IN));
        VP_TRY(fn(stage, stage->din_bufs, shape->n_din_bufs, VP_SPACE_DIN));
    }
    if (shape->edge[1] == VP_EDGE_HOST) {
        VP_TRY(fn(stage, stage->grad_bufs, shape->n_grad_bufs, VP_SPACE_DOUT));
        VP_TRY(fn(stage, stage->out_bufs, shape->n_out_bufs, VP_SPACE_OUT));
    }
    return VP_OK;
}

static enum vp_status alloc_host(struct vp_stage *stage, int64_t n_bytes,
                                 void **out)
{
    return vp_device_host_alloc(stage->device,
                                n_bytes > 0 ? (size_t)n_bytes : 1, out);
}

/* The transport uses host memory; a device with its own memory has a host
 * copy. */
static enum vp_status allocate(struct vp_stage *stage,
                               struct vp_stage_message *messages, int n,
                               enum vp_space space)
{
    for (int i = 0; i < n; i++) {
        struct vp_stage_message *message = &messages[i];

        if (vp_device_has_host_memory(stage->device))
            message->host = message->tensors;
        else
            VP_TRY(alloc_host(stage, stage->plan.sizes.n_bytes[space],
                              &message->host));
        if (vp_stage_compresses(&stage->plan.sizes, &stage->plan.shape, space))
            VP_TRY(alloc_host(stage,
                              vp_stage_wire_bytes(&stage->plan.sizes,
                                                  &stage->plan.shape, space),
                              &message->wire));
        else
            message->wire = message->host;
    }
    return VP_OK;
}

static enum vp_status release(struct vp_stage *stage,
                              struct vp_stage_message *messages, int n,
                              enum vp_space space)
{
    (void)space;
    for (int i = 0; i < n; i++) {
        struct vp_stage_message *message = &messages[i];

        if (message->wire && message->wire != message->host)
            vp_device_host_free(stage->device, message->wire);
        if (is_staged(message))
            vp_device_host_free(stage->device, message->host);
        message->wire = message->host = NULL;
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
