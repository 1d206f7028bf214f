/* Reads metrics.jsonl, which run/folder.h writes: in one pass, with one line in
 * memory. Lines that are not complete JSON objects are counted and skipped,
 * such as the last line of a run that is writing it at this moment. */
#ifndef VP_RUN_METRICS_H
#define VP_RUN_METRICS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    VP_METRICS_STAGES = 64,      /* entries of a list; more are dropped */
    VP_METRICS_LINE = 64 * 1024, /* bytes; longer lines are skipped */
    VP_METRICS_TEXT = 256,
};

/* A list with one number per stage; n is 0 if the record has none. */
struct vp_metrics_list {
    int n;
    double at[VP_METRICS_STAGES];
};

/* One line. Numbers that are missing or null are NAN. */
struct vp_metrics_record {
    int64_t step;
    /* Step records, whose `event` is "". */
    double minibatch, loss, lr, seconds, bubble;
    double samples_per_second, tokens_per_second;
    double grad_norm; /* asp: root of the sum of squares over stages */
    double loss_scale, skipped;
    struct vp_metrics_list memory; /* bytes */
    /* Records of other events. */
    char event[32];
    double eval_loss;
    double step_seconds_forecast, step_seconds_measured;
    double bubble_forecast, bubble_measured;
    char forecast_by[32];
    char why[VP_METRICS_TEXT]; /* event rebalance: its reason */
    double blocks_moved, bytes_moved, move_seconds;
    struct vp_metrics_list partition;
};

/* Parses one line. Returns false if the text is not one JSON object with a
 * step. Skips unknown keys; truncates texts that are too long. `line` need not
 * end with NUL. */
bool vp_metrics_parse(const char *line, size_t n_bytes,
                      struct vp_metrics_record *out);

typedef void (*vp_metrics_fn)(void *ctx,
                              const struct vp_metrics_record *record);

struct vp_metrics_faults {
    int64_t n_bad;     /* number of skipped lines */
    int64_t first_bad; /* line number of the first of them, from 1 */
};

/* Calls `fn` for every record of <folder>/metrics.jsonl. A missing file has no
 * records. VP_ERR_IO if it cannot be read, or is not a regular file. */
enum vp_status vp_metrics_read(const char *folder, vp_metrics_fn fn, void *ctx,
                               struct vp_metrics_faults *faults_out,
                               struct vp_err *err);

#endif
