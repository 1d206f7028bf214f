/* Sequential reading of parallel text: two files whose lines i are a pair, or
 * one file with both languages, .tsv or JSONL; see parallel.h. */
#ifndef VP_DATA_PAIRS_PAIR_READER_H
#define VP_DATA_PAIRS_PAIR_READER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_pair_options {
    const char *const *paths; /* source and target, or one file with both */
    int n_paths;              /* 1 or 2 */
    const char *lang[2];      /* source, target: keys in JSONL */
    bool replace; /* NUL bytes and invalid UTF-8 become U+FFFD; false: they are
                     refused */
};

/* Both sides of a pair, valid until the next call. */
struct vp_text_pair {
    const char *bytes[2];
    size_t n_bytes[2];
};

struct vp_pair_reader;

/* Copies `options`, but borrows the strings and paths that they point to. */
enum vp_status vp_pair_reader_open(const struct vp_pair_options *options,
                                   struct vp_pair_reader **out,
                                   struct vp_err *err);
/* `reader` may be NULL. */
void vp_pair_reader_close(struct vp_pair_reader *reader);
/* Reads the next pair with text on both sides. Returns VP_ERR_END after the
 * last. Other errors name file, offset and line. */
enum vp_status vp_pair_reader_next(struct vp_pair_reader *reader,
                                   struct vp_text_pair *out,
                                   struct vp_err *err);
/* Returns the number of pairs with an empty side that were skipped so far. */
int64_t vp_pair_reader_empty(const struct vp_pair_reader *reader);
/* Returns the number of bytes read so far from the files as they are stored. */
int64_t vp_pair_reader_offset(const struct vp_pair_reader *reader);

#endif
