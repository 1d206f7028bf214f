/* Encodes records of a TensorBoard event file.
 *
 * A record is the length of its data (8 bytes), the masked CRC-32C of these 8
 * bytes, the data, and the masked CRC-32C of the data, all little-endian. The
 * data is a protocol buffer: an Event with wall_time (1), step (2) and one of
 * file_version (3), summary (5) and session_log (7). A summary has values (1)
 * with tag (1) and simple_value (2). Pure functions without allocation. */
#ifndef VP_MONITOR_EVENT_RECORD_H
#define VP_MONITOR_EVENT_RECORD_H

#include <stddef.h>
#include <stdint.h>

/* A record of scalars under construction, in memory of the caller. */
struct vp_event_record {
    unsigned char *bytes;
    size_t capacity;
    size_t n_bytes; /* size of the values, which begin after room for the
                       longest head */
    double wall_time;
    int64_t step;
};

/* Writes the first record of a file. `wall_time` is in seconds since 1970.
 * Returns the size of the record; 0 if it does not fit `capacity`. */
size_t vp_event_version(double wall_time, unsigned char *out, size_t capacity);
/* Writes the record of a resumed run: readers drop `step` and later steps of
 * earlier files in the folder. Returns as above. */
size_t vp_event_restart(double wall_time, int64_t step, unsigned char *out,
                        size_t capacity);

/* Starts a record of scalars in `bytes`. */
void vp_event_begin(struct vp_event_record *record, unsigned char *bytes,
                    size_t capacity, double wall_time, int64_t step);
/* Adds a value under "tag" or, unless `stage` is -1, "tag/stage_<stage>".
 * Ignores a value that is not finite. */
void vp_event_scalar(struct vp_event_record *record, const char *tag, int stage,
                     double value);
/* Completes the record. Returns its size; 0 if it has no value or does not fit
 * the capacity. */
size_t vp_event_end(struct vp_event_record *record);

#endif
