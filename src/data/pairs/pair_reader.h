/* Pairs of parallel text from front to back: two files, of which line i is a
 * pair, or one with both languages, .tsv or lines of JSON, see parallel.h. */
#ifndef VP_DATA_PAIRS_PAIR_READER_H
#define VP_DATA_PAIRS_PAIR_READER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_pair_options {
    const char *const *paths; /* source and target, or one with both */
    int n_paths;
    const char *lang[2]; /* keys in lines of JSON */
    bool replace;        /* NUL bytes and what is not UTF-8 become U+FFFD; else
                            they are refused */
};

/* Both sides of a pair, valid until the next call. */
struct vp_text_pair {
    const char *bytes[2];
    size_t n_bytes[2];
};

struct vp_pair_reader;

/* Borrows what the options point at. */
enum vp_status vp_pair_reader_open(const struct vp_pair_options *options,
                                   struct vp_pair_reader **out,
                                   struct vp_err *err);
/* NULL is legal. */
void vp_pair_reader_close(struct vp_pair_reader *reader);
/* The next pair with text on both sides. VP_ERR_END: no more. Errors name file,
 * offset and line. */
enum vp_status vp_pair_reader_next(struct vp_pair_reader *reader,
                                   struct vp_text_pair *out,
                                   struct vp_err *err);
/* Pairs with an empty side that were passed over so far. */
int64_t vp_pair_reader_empty(const struct vp_pair_reader *reader);
/* Bytes of the files, as they are stored, that were read so far. */
int64_t vp_pair_reader_offset(const struct vp_pair_reader *reader);

#endif
