/* Records of a TensorBoard event file, as bytes.
 *
 * A record is the length of its data (8 bytes), the masked CRC-32C of these 8
 * bytes, the data, and the masked CRC-32C of the data, all little-endian. The data
 * is a protocol buffer: an Event with wall_time (1), step (2) and one of
 * file_version (3), summary (5) and session_log (7). A summary has values (1)
 * with tag (1) and simple_value (2). Pure: no files, no clock, no allocation. */
#ifndef VP_MONITOR_EVENT_RECORD_H
#define VP_MONITOR_EVENT_RECORD_H

#include <stddef.h>
#include <stdint.h>

/* A record of scalars in the making, at the start of the caller's bytes. */
struct vp_event_record {
    unsigned char *bytes;
    size_t capacity;
    size_t n_bytes; /* of the values, which begin behind the longest head */
    double wall_time;
    int64_t step;
};

/* Seconds since 1970; the first record of a file. Returns its bytes; 0: more
 * than `capacity`. */
size_t vp_event_version(double wall_time, unsigned char *out, size_t capacity);
/* A run goes on: readers drop what earlier files of the folder say of `step` and
 * later steps. */
size_t vp_event_restart(double wall_time, int64_t step, unsigned char *out,
                        size_t capacity);

void vp_event_begin(struct vp_event_record *record, unsigned char *bytes,
                    size_t capacity, double wall_time, int64_t step);
/* "tag", or "tag/stage_<stage>" unless `stage` is -1. Nothing is added for a
 * value that is not finite. */
void vp_event_scalar(struct vp_event_record *record, const char *tag, int stage,
                     double value);
/* Returns the bytes of the record; 0: it holds no value, or has more bytes than
 * the capacity. */
size_t vp_event_end(struct vp_event_record *record);

#endif
