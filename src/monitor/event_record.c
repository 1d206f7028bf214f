/* Writes the protocol buffers of event records by hand. */
#include "monitor/event_record.h"

#include "monitor/crc32c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FRAME_HEAD = 12, /* length and its checksum */
    FRAME_TAIL = 4,
    MAX_VARINT = 10,
    /* Most bytes before the values: frame, wall_time, step, length. */
    MAX_HEAD = FRAME_HEAD + 9 + 1 + MAX_VARINT + 1 + MAX_VARINT,
    MAX_TAG = 64,
};

/* Protocol buffers: a key has the number of a field and its wire type. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
#define KEY(field, wire) ((unsigned char)((field) << 3 | (wire)))

static size_t put_u32(unsigned char *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> 8 * i);
    return 4;
}

static size_t put_u64(unsigned char *out, uint64_t value)
{
    put_u32(out, (uint32_t)value);
    put_u32(out + 4, (uint32_t)(value >> 32));
    return 8;
}

static size_t put_varint(unsigned char *out, uint64_t value)
{
    size_t n = 0;

    for (; value > 127; value >>= 7)
        out[n++] = (unsigned char)(value | 128);
    out[n++] = (unsigned char)value;
    return n;
}

static uint32_t masked_crc(const unsigned char *bytes, size_t n)
{
    uint32_t crc = vp_crc32c(bytes, n);

    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* Writes head and tail around the data, which begins at FRAME_HEAD. Returns the
 * size of the record. */
static size_t frame(unsigned char *out, size_t n_data)
{
    put_u64(out, n_data);
    put_u32(out + 8, masked_crc(out, 8));
    put_u32(out + FRAME_HEAD + n_data, masked_crc(out + FRAME_HEAD, n_data));
    return FRAME_HEAD + n_data + FRAME_TAIL;
}

/* Writes wall_time, and the step unless it is 0. Returns their size. */
static size_t put_event(unsigned char *out, double wall_time, int64_t step)
{
    uint64_t bits;
    size_t n = 0;

    memcpy(&bits, &wall_time, sizeof(bits));
    out[n++] = KEY(1, WIRE_64);
    n += put_u64(out + n, bits);
    if (step == 0)
        return n;
    out[n++] = KEY(2, WIRE_VARINT);
    return n + put_varint(out + n, (uint64_t)step);
}

/* Writes a record of an event whose field `field` has the bytes of `text`, at
 * most 32. Returns its size; 0 if it does not fit. */
static size_t put_short(double wall_time, int64_t step, int field,
                        const char *text, size_t n_text, unsigned char *out,
                        size_t capacity)
{
    unsigned char bytes[MAX_HEAD + 32 + FRAME_TAIL];
    unsigned char *data = bytes + FRAME_HEAD;
    size_t n = put_event(data, wall_time, step);

    data[n++] = KEY(field, WIRE_BYTES);
    data[n++] = (unsigned char)n_text;
    memcpy(data + n, text, n_text);
    n = frame(bytes, n + n_text);
    if (n > capacity)
        return 0;
    memcpy(out, bytes, n);
    return n;
}

size_t vp_event_version(double wall_time, unsigned char *out, size_t capacity)
{
    static const char version[] = "brain.Event:2";

    return put_short(wall_time, 0, 3, version, sizeof(version) - 1, out,
                     capacity);
}

size_t vp_event_restart(double wall_time, int64_t step, unsigned char *out,
                        size_t capacity)
{
    static const char status_start[] = { KEY(1, WIRE_VARINT), 1 };

    return put_short(wall_time, step, 7, status_start, sizeof(status_start),
                     out, capacity);
}

/* ---- Scalars ------------------------------------------------------------ */

void vp_event_begin(struct vp_event_record *record, unsigned char *bytes,
                    size_t capacity, double wall_time, int64_t step)
{
    *record = (struct vp_event_record){ .bytes = bytes,
                                        .capacity = capacity,
                                        .wall_time = wall_time,
                                        .step = step };
}

void vp_event_scalar(struct vp_event_record *record, const char *tag, int stage,
                     double value)
{
    unsigned char *at = record->bytes + MAX_HEAD + record->n_bytes;
    const size_t fixed = 2 + 2 + 5; /* keys and lengths, the float */
    char name[MAX_TAG];
    float number = (float)value;
    uint32_t bits;
    size_t n;

    if (!isfinite(number))
        return;
    if (stage < 0)
        snprintf(name, sizeof(name), "%s", tag);
    else
        snprintf(name, sizeof(name), "%s/stage_%d", tag, stage);
    n = strlen(name);
    record->n_bytes += fixed + n;
    if (MAX_HEAD + record->n_bytes + FRAME_TAIL > record->capacity)
        return; /* vp_event_end() then returns 0 */
    *at++ = KEY(1, WIRE_BYTES);
    *at++ = (unsigned char)(fixed - 2 + n);
    *at++ = KEY(1, WIRE_BYTES);
    *at++ = (unsigned char)n;
    memcpy(at, name, n);
    at += n;
    *at++ = KEY(2, WIRE_32);
    memcpy(&bits, &number, sizeof(bits));
    put_u32(at, bits);
}

size_t vp_event_end(struct vp_event_record *record)
{
    unsigned char *data = record->bytes + FRAME_HEAD;
    size_t n;

    if (record->n_bytes == 0 ||
        MAX_HEAD + record->n_bytes + FRAME_TAIL > record->capacity)
        return 0;
    n = put_event(data, record->wall_time, record->step);
    data[n++] = KEY(5, WIRE_BYTES);
    n += put_varint(data + n, record->n_bytes);
    memmove(data + n, record->bytes + MAX_HEAD, record->n_bytes);
    return frame(record->bytes, n + record->n_bytes);
}
