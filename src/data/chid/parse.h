/* A streaming parser for the CHID files of CPM-1-Finetune:
 *
 *   [ [id, ...],                                 tokens of the digits 0 to 9
 *     [ {"sent": [id, ...], "truth": 0 to 9}, ... ] ]
 *
 * The files are too large to load: they have one number per line. */
#ifndef VP_DATA_CHID_PARSE_H
#define VP_DATA_CHID_PARSE_H

#include "data/file_set.h"

#include <stdbool.h>

enum {
    VP_CHID_CHOICES = 10,
    VP_CHID_MAX_IDS = 1 << 20, /* in a sentence */
    VP_CHID_BUFFER = 32 << 10,
};

struct vp_chid_reader {
    struct vp_file_set *set;
    int file;
    int64_t vocab; /* ids must be below it */
    /* Tokens of the digits 0 to 9; set by vp_chid_begin(). */
    int32_t choices[VP_CHID_CHOICES];
    int64_t offset; /* file offset of buffer[0] */
    int at, n;      /* next byte and number of bytes in the buffer */
    unsigned char buffer[VP_CHID_BUFFER];
};

struct vp_chid_sample {
    int32_t *ids; /* input, owned by the caller; NULL: ids are only counted */
    int64_t max_ids; /* input: capacity of `ids` */
    int64_t n_ids;   /* at least 2 */
    int64_t truth;   /* 0 to 9 */
    int64_t offset;  /* file offset of the sample */
    bool more;       /* another sample follows */
};

/* Reads the beginning of a file, up to the first sample. *more_out: false if
 * the file has no samples. */
enum vp_status vp_chid_begin(struct vp_chid_reader *reader,
                             struct vp_file_set *set, int file, int64_t vocab,
                             bool *more_out, struct vp_err *err);
/* Continues at `offset`, which vp_chid_next() has set for a sample. Does not
 * set reader->choices. */
void vp_chid_seek(struct vp_chid_reader *reader, struct vp_file_set *set,
                  int file, int64_t vocab, int64_t offset);
/* Reads the next sample. Refuses a file that does not end after the last
 * one. */
enum vp_status vp_chid_next(struct vp_chid_reader *reader,
                            struct vp_chid_sample *sample, struct vp_err *err);

#endif
