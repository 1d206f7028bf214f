/* What a data source offers. To add one: one file with a table, one row in
 * data.c, one value of enum vp_data_source. */
#ifndef VP_DATA_SOURCE_H
#define VP_DATA_SOURCE_H

#include "base/status.h"
#include "data/data_config.h"

/* How a task cuts running text into samples: window i covers the tokens
 * [i * stride, i * stride + length). Zero for tasks on pairs. */
struct vp_data_window {
    int64_t length, stride;
};

enum { VP_SOURCE_CHOICES = 10 };
enum { VP_SOURCE_NOTICES = 4, VP_SOURCE_NOTICE_BYTES = 1024 };

/* An open source. Samples are numbered over both splits; the caller decides
 * which of them are held out. */
struct vp_source {
    const struct vp_source_ops *ops;
    void *state;
    int64_t n_samples;
    int64_t vocab;    /* every id is below it */
    int64_t max_pair; /* longest side of any pair, in tokens */
    int32_t pad;      /* fills short rows; VP_TOKEN_PAD if not set */
    int32_t begin;    /* pairs: first input of a decoder; VP_TOKEN_CLS */
    int32_t end;      /* pairs: ends both sides; VP_TOKEN_SEP */
    bool left_pad;    /* pairs: padding stands before the source */
    bool by_length;   /* pairs: batches are made by length, see by_length.h */
    /* Samples that are read together, a multiple of 10, for
     * vp_sampler_create_runs(); 0: any order costs the same. */
    int64_t block;
    int64_t n_survey; /* samples to look at before training; 0: all */
    bool is_split;    /* all samples are of the split asked for */
    /* Ids of the answers that every sample may have; 0: samples are no questions.
     * See chid/chid.h. */
    int32_t choices[VP_SOURCE_CHOICES];
    int n_choices;
    char what[128]; /* "text: 48 files, 612 kB" */
    char notice[VP_SOURCE_NOTICES][VP_SOURCE_NOTICE_BYTES];
    int n_notices;
};

/* Adds a line for the start of the run: what was left out, changed or made up.
 * Long lines are cut. */
void vp_source_notice(struct vp_source *source, const char *fmt, ...)
    VP_PRINTF(2, 3);

/* One sample of masked LM as a source has it stored, or makes it. The arrays are the
 * caller's, with room for dims.seq elements each; those that are NULL are not
 * written; `tokens` is never NULL for sources that hide tokens. */
struct vp_masked {
    int32_t *tokens, *types, *mask;
    int32_t *positions, *labels; /* [n_labels], positions in the sequence */
    int64_t n_labels, n_tokens;  /* outputs */
    uint64_t key; /* of random choices, for sources that hide tokens; input */
};

/* The reading functions are re-entrant and allocate nothing. */
struct vp_source_ops {
    const char *name;
    /* Checks the configuration and sets the fields of `source` but `ops`; they
     * are zero before, or as said above. With window->length 0 the samples are
     * pairs. */
    enum vp_status (*open)(const struct vp_data_config *config,
                           const struct vp_data_window *window,
                           struct vp_source *source, struct vp_err *err);
    void (*close)(struct vp_source *source);

    /* Writes the `length` ids of window i. Optional: NULL means the samples are
     * not cut from text. */
    enum vp_status (*window)(const struct vp_source *source, int64_t i,
                             int32_t *ids_out, struct vp_err *err);
    /* Writes pair i without special ids. *n_src_out and *n_tgt_out hold the room
     * on each side before, at most max_pair, and the number of ids afterwards.
     * lengths() found pairs that fit; a pair that does not fit any longer fails.
     * Optional: NULL means the source has no pairs. */
    enum vp_status (*pair)(const struct vp_source *source, int64_t i,
                           int32_t *src_out, int64_t *n_src_out,
                           int32_t *tgt_out, int64_t *n_tgt_out,
                           struct vp_err *err);
    /* Writes the lengths of pairs first to first + n - 1, as pair() would.
     * Needed if by_length is set. */
    enum vp_status (*lengths)(const struct vp_source *source, int64_t first,
                              int64_t n, int64_t *n_src_out, int64_t *n_tgt_out,
                              struct vp_err *err);
    /* Writes sample i of a causal model, 2 to window->length ids, of which only
     * the last is scored. Optional: NULL means that windows are. */
    enum vp_status (*sequence)(const struct vp_source *source, int64_t i,
                               int32_t *ids_out, int64_t *n_out,
                               struct vp_err *err);
    /* Finds the right one of `choices` of sample i. Needed if there are any. */
    enum vp_status (*answer)(const struct vp_source *source, int64_t i,
                             int32_t *choice_out, struct vp_err *err);
    /* Writes what sample i has; the arrays hold padding before. Optional: NULL
     * means that the task chooses the tokens to hide. */
    enum vp_status (*masked)(const struct vp_source *source, int64_t i,
                             struct vp_masked *out, struct vp_err *err);
    /* Sample i will be asked for soon; what is wrong with it comes to light
     * then. Optional: NULL means there is nothing to prepare. */
    void (*ahead)(const struct vp_source *source, int64_t i);
};

extern const struct vp_source_ops vp_source_text;
extern const struct vp_source_ops vp_source_language;
extern const struct vp_source_ops vp_source_hdf5;
extern const struct vp_source_ops vp_source_tokens;
extern const struct vp_source_ops vp_source_fairseq;
extern const struct vp_source_ops vp_source_chid;
extern const struct vp_source_ops vp_source_parallel;
extern const struct vp_source_ops vp_source_packed;

#endif
