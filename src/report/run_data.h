/* What a report knows about a run, read from its folder. Nothing in the folder is
 * trusted: what is missing or broken becomes a note, and texts are escaped where
 * they are written. */
#ifndef VP_REPORT_RUN_DATA_H
#define VP_REPORT_RUN_DATA_H

#include "base/memory.h"
#include "base/yaml.h"
#include "plan/plan.h"
#include "report/series.h"
#include "run/metrics.h"
#include "trace/trace.h"

/* The curves of steps. */
enum vp_curve {
    VP_CURVE_LOSS,
    VP_CURVE_RATE, /* tokens per second */
    VP_CURVE_BUBBLE,
    VP_CURVE_NORM, /* of the gradient */
    VP_CURVE_LR,
    VP_CURVE_SECONDS, /* of a step */
    VP_CURVE_MEMORY,  /* bytes of all stages */
    VP_CURVE_COUNT
};

/* Kinds of memory, as plan.json names them. */
enum { VP_N_MEMORY_KINDS = 6 };
extern const char *const vp_memory_kinds[VP_N_MEMORY_KINDS];

enum {
    VP_RUN_DATA_EVENTS = 300, /* the newest are kept */
    VP_RUN_DATA_NOTES = 16,
    VP_RUN_DATA_MOVES = 64,
};

enum vp_event_kind {
    VP_EVENT_CHECKPOINT,
    VP_EVENT_RESUME,
    VP_EVENT_SKIPPED, /* an update was skipped: its gradient was not finite */
    VP_EVENT_PLAN,    /* the run moved to another plan */
    VP_EVENT_NOTE,    /* other lines of the log, warnings among them */
};

struct vp_run_event {
    enum vp_event_kind kind;
    int64_t step; /* -1: not known */
    char *text;
};

struct vp_run_data {
    char *name;                        /* of the folder */
    struct vp_series steps;            /* enum vp_curve */
    struct vp_series evals;            /* one curve: the held-out loss */
    struct vp_metrics_record last;     /* the newest step; step -1: none */
    struct vp_metrics_record forecast; /* step -1: none */
    double last_eval;                  /* NAN: none */
    struct vp_series_x end;
    int64_t n_steps;

    struct vp_run_event events[VP_RUN_DATA_EVENTS]; /* a ring */
    int64_t n_events;                               /* so far */
    struct vp_metrics_record moves[VP_RUN_DATA_MOVES];
    int n_moves;

    bool has_plan;
    struct vp_plan plan;
    const struct vp_yaml_node *plan_root; /* NULL: no plan */
    /* Bytes by kind and stage; all 0 where plan.json does not say. */
    int64_t memory[VP_N_MEMORY_KINDS][VP_MAX_STAGES];
    bool has_memory;

    const struct vp_yaml_node *config; /* a map; NULL: not readable */
    bool has_trace;
    struct vp_trace trace; /* the last minibatches, without a start-up */

    char *notes[VP_RUN_DATA_NOTES]; /* what could not be read */
    int n_notes;
    struct vp_arena arena;
};

/* VP_ERR_INVALID if `folder` is not the folder of a run: it has neither
 * config.yml nor metrics.jsonl. `n_buckets` of each curve. */
enum vp_status vp_run_data_read(const char *folder, int n_buckets,
                                struct vp_run_data *out, struct vp_err *err);
void vp_run_data_release(struct vp_run_data *run);

/* Reads the log of the lowest rank in `folder`, if there is one: checkpoints,
 * resumes, and lines that are not among those of every run. */
void vp_run_data_read_log(struct vp_run_data *run, const char *folder);

/* The value of a key of config.yml as text; NULL: there is none. The text lives
 * as long as `run`. */
const char *vp_run_data_config(const struct vp_run_data *run, const char *key);
/* A node of a configuration as text, on one line. */
const char *vp_node_text(struct vp_arena *arena,
                         const struct vp_yaml_node *node);

/* Appends an event; a copy of `text` is kept. */
void vp_run_data_add_event(struct vp_run_data *run, enum vp_event_kind kind,
                           int64_t step, const char *text);
/* The i-th event that is kept, the oldest first. */
int vp_run_data_n_kept(const struct vp_run_data *run);
const struct vp_run_event *vp_run_data_event(const struct vp_run_data *run,
                                             int i);
void vp_run_data_note(struct vp_run_data *run, const char *fmt, ...)
    VP_PRINTF(2, 3);

#endif
