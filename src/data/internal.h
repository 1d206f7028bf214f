/* Shared by the files of this folder: an open data set, and the interface of a
 * training task. */
#ifndef VP_DATA_INTERNAL_H
#define VP_DATA_INTERNAL_H

#include "base/batch.h"
#include "data/sampler.h"
#include "data/source.h"

struct vp_data;

enum { VP_DATA_MAX_DIMS = 32 };

/* Turns samples into batches. One row per enum vp_data_task, in
 * data_batch.c. */
struct vp_task_ops {
    const char *name;
    unsigned roles; /* bit r: a batch has the array of role r */
    /* Refuses buckets that the task cannot fill. */
    enum vp_status (*check)(const struct vp_data_config *config,
                            struct vp_err *err);
    /* Returns how running text is cut into samples; zeros if samples are
     * pairs. */
    struct vp_data_window (*window)(const struct vp_data_config *config);
    /* Writes the rows of samples; the arrays hold padding before. */
    enum vp_status (*fill)(const struct vp_data *data,
                           const struct vp_data_slot *slot,
                           struct vp_batch *batch, struct vp_err *err);
    /* Increments freq[id] for each label of sample i. `scratch` has
     * 2 * max(longest sequence, window length, max_pair) elements. */
    enum vp_status (*count)(const struct vp_data *data, int64_t i,
                            int32_t *scratch, int64_t *freq,
                            struct vp_err *err);
};

extern const struct vp_task_ops vp_tasks[VP_DATA_PAIRS + 1];

struct vp_data {
    struct vp_data_config config; /* dims are borrowed */
    const struct vp_task_ops *task;
    struct vp_data_window window;
    /* Elements per array in the largest bucket; 0 if the task has no such
     * role. */
    int64_t capacity[VP_ROLE_COUNT];
    struct vp_source source;
    struct vp_sampler *sampler;
    int64_t *members; /* pairs: samples of the split that fit a bucket, sorted
                         by group; NULL if all samples are in one group */
    int64_t group_first[VP_DATA_MAX_DIMS]; /* first index in `members` */
    struct vp_data_maker maker; /* `fill` NULL: samples come from `source` */
    struct vp_data_info info;
    char what[256];
};

/* Fills batch `m` of data that has a maker. */
enum vp_status vp_data_make(const struct vp_data *data, uint64_t m,
                            struct vp_batch *batch, struct vp_err *err);

/* Like vp_data_open(), with a source that is not in the table of data.c. */
enum vp_status vp_data_open_source(const struct vp_data_config *config,
                                   const struct vp_source_ops *ops,
                                   struct vp_data **out, struct vp_err *err);

/* Returns the number of samples of `split` among `n`. Every tenth sample is
 * held out: 9, 19, 29, ... */
static inline int64_t vp_split_count(enum vp_data_split split, int64_t n)
{
    return split == VP_DATA_EVAL ? n / 10 : n - n / 10;
}

/* Returns the source's number of sample `k` of `split`. */
static inline int64_t vp_split_sample(enum vp_data_split split, int64_t k)
{
    return split == VP_DATA_EVAL ? 10 * k + 9 : k + k / 9;
}

/* The same for open data, whose source may hold only one split. */
int64_t vp_data_count(const struct vp_data *data, enum vp_data_split split);
int64_t vp_data_number(const struct vp_data *data, enum vp_data_split split,
                       int64_t k);

/* Returns the source's number of the sample in row `row` of a batch. */
int64_t vp_data_sample(const struct vp_data *data,
                       const struct vp_data_slot *slot, int64_t row);

/* Returns the smallest bucket that holds a pair of these lengths with its
 * special ids, or -1. */
int vp_pair_bucket(const struct vp_data_config *config, int64_t n_src,
                   int64_t n_tgt);

#endif
