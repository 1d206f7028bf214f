/* The data of a run for a report, read from its folder. Files are not trusted:
 * what is missing or broken becomes a note, and texts are escaped when they are
 * written to the page. */
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
    VP_CURVE_NORM, /* gradient norm */
    VP_CURVE_LR,
    VP_CURVE_SECONDS, /* time of a step */
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
    int64_t step; /* -1: unknown */
    char *text;
};

struct vp_run_data {
    char *name;                        /* name of the folder */
    struct vp_series steps;            /* enum vp_curve */
    struct vp_series evals;            /* one curve: the held-out loss */
    struct vp_metrics_record last;     /* the newest step; step -1: none */
    struct vp_metrics_record forecast; /* step -1: none */
    double last_eval;                  /* NAN: none */
    struct vp_series_x end;            /* position of the last step */
    int64_t n_steps;

    struct vp_run_event events[VP_RUN_DATA_EVENTS]; /* a ring buffer */
    int64_t n_events;                               /* all, kept or not */
    struct vp_metrics_record moves[VP_RUN_DATA_MOVES];
    int n_moves;

    bool has_plan;
    struct vp_plan plan;
    const struct vp_yaml_node *plan_root; /* NULL: no plan */
    /* Bytes by kind and stage; 0 if plan.json does not have them. */
    int64_t memory[VP_N_MEMORY_KINDS][VP_MAX_STAGES];
    bool has_memory;

    const struct vp_yaml_node *config; /* a map; NULL: missing or broken */
    bool has_trace;
    struct vp_trace trace; /* without the first quarter of its minibatches */

    char *notes[VP_RUN_DATA_NOTES]; /* reports of files that were not read */
    int n_notes;
    struct vp_arena arena;
};

/* Reads all files of a run; curves have at most `n_buckets` buckets. Returns
 * VP_ERR_INVALID if `folder` has neither config.yml nor metrics.jsonl. Release
 * with vp_run_data_release(). */
enum vp_status vp_run_data_read(const char *folder, int n_buckets,
                                struct vp_run_data *out, struct vp_err *err);
void vp_run_data_release(struct vp_run_data *run);

/* Adds the events in the log of the lowest rank in `folder`, if there is one:
 * checkpoints, resumes, and lines that are not part of every log. */
void vp_run_data_read_log(struct vp_run_data *run, const char *folder);

/* Returns the value of a key of config.yml; NULL if it is missing or not a
 * scalar. Valid until `run` is released. */
const char *vp_run_data_config(const struct vp_run_data *run, const char *key);
/* Returns a node of a configuration as one line of text, allocated in
 * `arena`. */
const char *vp_node_text(struct vp_arena *arena,
                         const struct vp_yaml_node *node);

/* Appends an event; a copy of `text` is kept. */
void vp_run_data_add_event(struct vp_run_data *run, enum vp_event_kind kind,
                           int64_t step, const char *text);
/* Return the number of events that are kept, and event `i` of them, the oldest
 * first. */
int vp_run_data_n_kept(const struct vp_run_data *run);
const struct vp_run_event *vp_run_data_event(const struct vp_run_data *run,
                                             int i);
/* Adds a note; ignored if there are VP_RUN_DATA_NOTES already. */
void vp_run_data_note(struct vp_run_data *run, const char *fmt, ...)
    VP_PRINTF(2, 3);

#endif
