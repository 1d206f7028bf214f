/* The timeline of a run: what ranks recorded, put side by side; as a file for
 * Chrome and Perfetto, as an SVG drawing, as rows in a terminal. */
#ifndef VP_TRACE_TRACE_H
#define VP_TRACE_TRACE_H

#include "base/status.h"
#include "trace/recorder.h"

#include <stdbool.h>
#include <stdint.h>

/* The memory of a stage on one of its ranks: base_bytes + slot_bytes x
 * minibatches in flight, from the start of F to the end of B (of W where
 * backward is split). */
struct vp_trace_stage {
    int64_t base_bytes; /* weights, gradients, moments, buffers */
    int64_t slot_bytes; /* activations of one minibatch */
    int64_t host_bytes; /* beside these: where swapped values wait */
};

struct vp_trace_rank {
    int number;                    /* the user's, in files and pictures */
    struct vp_trace_event *events; /* in time order, without overlap */
    int n_events;
};

enum { VP_TRACE_MAX_RANKS = 4096, VP_TRACE_MAX_STAGES = 4096 };

struct vp_trace {
    char name[64]; /* of the run, for titles */
    int n_ranks, n_stages;
    struct vp_trace_rank *ranks;
    struct vp_trace_stage *stages;
    /* The window: all events lie inside, and nothing else happened in it. */
    int64_t begin_ns, end_ns;
    int64_t plan_ns; /* when the run got the plan it has; -1: before */
};

/* Copies what the recorders hold; their ranks must be idle. Rank i has number
 * i; the caller may change that. Rings reach back
 * to different times: the window begins where the shortest one does, and is
 * time 0 of the trace. `name` is cut to fit. `stages` are those of the plan in
 * force; stages of a plan before it that had more of them count no bytes. */
enum vp_status vp_trace_collect(const char *name,
                                const struct vp_recorder *const *recorders,
                                int n_ranks,
                                const struct vp_trace_stage *stages,
                                int n_stages, struct vp_trace *out,
                                struct vp_err *err);
void vp_trace_release(struct vp_trace *trace);

/* ---- Asking ------------------------------------------------------------- */

struct vp_trace_times {
    int64_t busy_ns; /* in actions, without their waits */
    int64_t wait_ns;
    double bubble; /* 1 - busy / window */
};

/* Fills `ranks_out` (n_ranks); returns the bubble of all ranks together. */
double vp_trace_sum(const struct vp_trace *trace,
                    struct vp_trace_times *ranks_out);

/* Whether the rank did anything for the stage. */
bool vp_trace_has_stage(const struct vp_trace *trace, int rank, int stage);
/* "stage 0", "stages 0, 4", or nothing: what it worked for, cut to fit. */
void vp_trace_list_stages(const struct vp_trace *trace, int rank, char *text,
                          size_t n_bytes);

/* The bytes that a stage uses from `ns` on. */
struct vp_trace_point {
    int64_t ns;
    int64_t bytes;
};

/* The memory of `rank` over time, for `stage` or, if that is -1, for all of
 * its stages. At least one point, the first one at begin_ns. The caller frees
 * the points. */
enum vp_status vp_trace_memory(const struct vp_trace *trace, int rank,
                               int stage, struct vp_trace_point **points_out,
                               int *n_out);

/* Minibatches by their numbers in the run; none: last < first. */
struct vp_trace_range {
    int first, last;
};

/* The minibatches that begin in the window, and their number. */
struct vp_trace_range vp_trace_minibatches(const struct vp_trace *trace);
int vp_trace_n_minibatches(const struct vp_trace *trace);

/* A number of minibatches in which a pipeline can be seen at work. */
int vp_trace_enough(int n_ranks);
/* A number of minibatches that makes a good picture: enough, and whole groups
 * where several make an update. */
int vp_trace_some(const struct vp_trace *trace);

/* Cuts the window to the last `n` >= 1 minibatches: from where the first of
 * them begins to the end of training, without an evaluation after it. What
 * lies across an end is cut. */
void vp_trace_keep_last(struct vp_trace *trace, int n);

/* ---- Files -------------------------------------------------------------- */

/* Chrome's trace event format, which Perfetto reads too: one thread per rank,
 * arrows for messages, a counter for the memory of every stage. */
enum vp_status vp_trace_write_chrome(const struct vp_trace *trace,
                                     const char *path, struct vp_err *err);

/* Reads what vp_trace_write_chrome() writes: equal to the nanosecond. Anything
 * else is refused with one line. */
enum vp_status vp_trace_read_chrome(const char *path, struct vp_trace *out,
                                    struct vp_err *err);

/* ---- Pictures; the caller frees the text -------------------------------- */

/* A lane per rank (waiting light, bubbles hatched), memory below. `title` may
 * be NULL: the name of the run. */
enum vp_status vp_trace_svg(const struct vp_trace *trace, const char *title,
                            char **text_out);

/* A row per rank, `width` columns (at least 40) altogether. */
enum vp_status vp_trace_terminal(const struct vp_trace *trace, int width,
                                 bool colour, char **text_out);

#endif
