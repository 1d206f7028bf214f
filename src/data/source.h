/* The interface of a data source. To add one: a file with a table of functions,
 * a row in data.c, a value of enum vp_data_source. */
#ifndef VP_DATA_SOURCE_H
#define VP_DATA_SOURCE_H

#include "base/status.h"
#include "data/data_config.h"

/* The cut of running text into samples: window i covers the tokens
 * [i * stride, i * stride + length). Both are 0 for tasks on pairs. */
struct vp_data_window {
    int64_t length, stride;
};

enum { VP_SOURCE_CHOICES = 10 };
enum { VP_SOURCE_NOTICES = 4, VP_SOURCE_NOTICE_BYTES = 1024 };

/* An open source. Samples are numbered across both splits; the caller chooses
 * the held-out ones. */
struct vp_source {
    const struct vp_source_ops *ops;
    void *state;
    int64_t n_samples;
    int64_t vocab;    /* all ids are below it */
    int64_t max_pair; /* longest side of any pair, in tokens */
    int32_t pad;      /* fills short rows; default VP_TOKEN_PAD */
    int32_t begin;    /* pairs: first decoder input; default VP_TOKEN_CLS */
    int32_t end;      /* pairs: ends both sides; default VP_TOKEN_SEP */
    bool left_pad;    /* pairs: padding is before the source tokens */
    bool by_length;   /* pairs: batches are made by length, see by_length.h */
    /* Number of samples that are read together, a multiple of 10, for
     * vp_sampler_create_runs(); 0: the cost does not depend on the order. */
    int64_t block;
    int64_t n_survey; /* samples to count labels in; 0: all */
    bool is_split;    /* all samples belong to config->split */
    /* Ids of the possible answers, the same for all samples; n_choices 0:
     * samples are not questions. See chid/chid.h. */
    int32_t choices[VP_SOURCE_CHOICES];
    int n_choices;
    char what[128]; /* description: "text: 48 files, 612 kB" */
    char notice[VP_SOURCE_NOTICES][VP_SOURCE_NOTICE_BYTES];
    int n_notices;
};

/* Adds a notice for the start of the run about data that was left out, changed
 * or generated. Text beyond VP_SOURCE_NOTICE_BYTES is cut. At most
 * VP_SOURCE_NOTICES calls. */
void vp_source_notice(struct vp_source *source, const char *fmt, ...)
    VP_PRINTF(2, 3);

/* One sample of masked LM, stored with its masks or masked by the source. The
 * caller owns the arrays, of dims.seq elements each. Arrays that are NULL are
 * not written; `tokens` is never NULL for sources that mask tokens
 * themselves. */
struct vp_masked {
    int32_t *tokens, *types, *mask;
    int32_t *positions, *labels; /* [n_labels], positions in the sequence */
    int64_t n_labels, n_tokens;  /* outputs */
    uint64_t key; /* input: random key, for sources that mask tokens */
};

/* The reading functions are re-entrant and allocate nothing. */
struct vp_source_ops {
    const char *name;
    /* Checks the configuration and sets the fields of `source` except `ops`,
     * which are zero or have their defaults before. With window->length 0 the
     * samples are pairs. After an error close() is not called. */
    enum vp_status (*open)(const struct vp_data_config *config,
                           const struct vp_data_window *window,
                           struct vp_source *source, struct vp_err *err);
    void (*close)(struct vp_source *source);

    /* Writes the window->length ids of window i. Optional: NULL means that
     * samples are not windows of a text. */
    enum vp_status (*window)(const struct vp_source *source, int64_t i,
                             int32_t *ids_out, struct vp_err *err);
    /* Writes pair i without special ids. *n_src_out and *n_tgt_out: capacity of
     * each side before the call, at most max_pair; number of ids after it.
     * Fails if a pair whose length lengths() has returned does not fit, which
     * means that the file changed. Optional: NULL means the source has no
     * pairs. */
    enum vp_status (*pair)(const struct vp_source *source, int64_t i,
                           int32_t *src_out, int64_t *n_src_out,
                           int32_t *tgt_out, int64_t *n_tgt_out,
                           struct vp_err *err);
    /* Writes the lengths of pairs first to first + n - 1, the same as pair().
     * Required if by_length is set. */
    enum vp_status (*lengths)(const struct vp_source *source, int64_t first,
                              int64_t n, int64_t *n_src_out, int64_t *n_tgt_out,
                              struct vp_err *err);
    /* Writes sample i of a causal model, 2 to window->length ids, of which only
     * the last is scored. Optional: NULL means that window() is used, and all
     * tokens but the first are scored. */
    enum vp_status (*sequence)(const struct vp_source *source, int64_t i,
                               int32_t *ids_out, int64_t *n_out,
                               struct vp_err *err);
    /* Writes the index in `choices` of the right answer to sample i. Required
     * if n_choices is above 0. */
    enum vp_status (*answer)(const struct vp_source *source, int64_t i,
                             int32_t *choice_out, struct vp_err *err);
    /* Writes sample i with its masks; the arrays hold padding before. Optional:
     * NULL means that the task chooses the tokens to mask. */
    enum vp_status (*masked)(const struct vp_source *source, int64_t i,
                             struct vp_masked *out, struct vp_err *err);
    /* Prefetches sample i, which will be read soon. Ignores errors: they are
     * returned when the sample is read. Optional: NULL means there is nothing
     * to prefetch. */
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
