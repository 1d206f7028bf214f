/* Reads the idiom tests of CPM-1-Finetune from front to back, without keeping
 * them in memory:
 *
 *   [ [id, ...],                                 tokens of the digits 0 to 9
 *     [ {"sent": [id, ...], "truth": 0 to 9}, ... ] ]
 *
 * The files have one number a line and are large. */
#ifndef VP_DATA_CHID_PARSE_H
#define VP_DATA_CHID_PARSE_H

#include "data/file_set.h"

#include <stdbool.h>

enum {
    VP_CHID_CHOICES = 10,
    VP_CHID_MAX_IDS = 1 << 20, /* of a sentence */
    VP_CHID_BUFFER = 32 << 10,
};

struct vp_chid_reader {
    struct vp_file_set *set;
    int file;
    int64_t vocab; /* ids are below it */
    int32_t
        choices[VP_CHID_CHOICES]; /* tokens of the digits; vp_chid_begin() */
    int64_t offset;               /* in the file, of buffer[0] */
    int at, n;                    /* in the buffer */
    unsigned char buffer[VP_CHID_BUFFER];
};

struct vp_chid_sample {
    int32_t *ids;    /* the caller's; NULL: only counted */
    int64_t max_ids; /* room in it */
    int64_t n_ids;   /* at least 2 */
    int64_t truth;   /* 0 to 9 */
    int64_t offset;  /* of the sample in the file */
    bool more;       /* another one follows */
};

/* Begins a file; *more_out: there is a sample. */
enum vp_status vp_chid_begin(struct vp_chid_reader *reader,
                             struct vp_file_set *set, int file, int64_t vocab,
                             bool *more_out, struct vp_err *err);
/* Goes on at the offset of a sample that was read before. */
void vp_chid_seek(struct vp_chid_reader *reader, struct vp_file_set *set,
                  int file, int64_t vocab, int64_t offset);
/* Reads the next sample. Behind the last one the file must end. */
enum vp_status vp_chid_next(struct vp_chid_reader *reader,
                            struct vp_chid_sample *sample, struct vp_err *err);

#endif
