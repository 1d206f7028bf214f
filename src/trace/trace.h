/* The timeline of a run, collected from the recorders of its ranks. It can be
 * written as a file for Chrome and Perfetto, as an SVG drawing, or as rows of a
 * terminal. */
#ifndef VP_TRACE_TRACE_H
#define VP_TRACE_TRACE_H

#include "base/status.h"
#include "trace/recorder.h"

#include <stdbool.h>
#include <stdint.h>

/* The memory of a stage on one of its ranks is base_bytes + slot_bytes x
 * minibatches in flight. A minibatch is in flight from the start of F to the
 * end of B, or of W if backward is split. */
struct vp_trace_stage {
    int64_t base_bytes; /* weights, gradients, moments, buffers */
    int64_t slot_bytes; /* activations of one minibatch */
    int64_t host_bytes; /* host memory for swapped activations */
};

struct vp_trace_rank {
    int number;                    /* its number in files and pictures */
    struct vp_trace_event *events; /* in time order, without overlap */
    int n_events;
};

enum { VP_TRACE_MAX_RANKS = 4096, VP_TRACE_MAX_STAGES = 4096 };

struct vp_trace {
    char name[64]; /* name of the run, for titles */
    int n_ranks, n_stages;
    struct vp_trace_rank *ranks;
    struct vp_trace_stage *stages;
    /* The window: it has all events of all ranks between these times. */
    int64_t begin_ns, end_ns;
    int64_t plan_ns; /* time of the last move to another plan; -1: no move in
                        the window */
};

/* Copies the events of the recorders, whose ranks must be idle. Rank i gets
 * number i, which the caller may change. Rings reach back to different times:
 * the window begins where all of them are complete, and that is time 0 of the
 * trace. `name` is cut to fit. `stages` are those of the current plan; if an
 * earlier plan had more stages, the others have 0 bytes. The caller releases
 * the trace. */
enum vp_status vp_trace_collect(const char *name,
                                const struct vp_recorder *const *recorders,
                                int n_ranks,
                                const struct vp_trace_stage *stages,
                                int n_stages, struct vp_trace *out,
                                struct vp_err *err);
void vp_trace_release(struct vp_trace *trace);

/* ---- Queries ------------------------------------------------------------ */

struct vp_trace_times {
    int64_t busy_ns; /* time in actions, without waits */
    int64_t wait_ns; /* waits inside actions */
    double bubble;   /* 1 - busy / window */
};

/* Writes the times of each rank to `ranks_out` (n_ranks). Returns the bubble of
 * all ranks together. */
double vp_trace_sum(const struct vp_trace *trace,
                    struct vp_trace_times *ranks_out);

/* Returns true if the rank has an event of the stage. */
bool vp_trace_has_stage(const struct vp_trace *trace, int rank, int stage);
/* Writes the stages of which the rank has events, cut to fit: "stage 0",
 * "stages 0, 4", or "". */
void vp_trace_list_stages(const struct vp_trace *trace, int rank, char *text,
                          size_t n_bytes);

/* Memory in use from `ns` until the next point. */
struct vp_trace_point {
    int64_t ns;
    int64_t bytes;
};

/* Computes the memory of `rank` over time, of `stage` or, if `stage` is -1, of
 * all its stages. There is at least one point; the first is at begin_ns. The
 * caller frees the points. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_trace_memory(const struct vp_trace *trace, int rank,
                               int stage, struct vp_trace_point **points_out,
                               int *n_out);

/* A range of minibatch numbers of the run; empty if last < first. */
struct vp_trace_range {
    int first, last;
};

/* Return the minibatches that begin in the window, and their number. */
struct vp_trace_range vp_trace_minibatches(const struct vp_trace *trace);
int vp_trace_n_minibatches(const struct vp_trace *trace);

/* Returns the number of minibatches that shows a pipeline with fill and
 * drain. */
int vp_trace_enough(int n_ranks);
/* Returns the number of minibatches for a picture: vp_trace_enough(), rounded
 * up to whole updates. */
int vp_trace_some(const struct vp_trace *trace);

/* Cuts the window to the last `n` >= 1 minibatches: from the start of the first
 * of them to the end of training, without a later evaluation. Events that cross
 * a border are shortened. */
void vp_trace_keep_last(struct vp_trace *trace, int n);

/* ---- Files -------------------------------------------------------------- */

/* Writes Chrome's trace event format, which Perfetto reads too: a thread for
 * each rank, arrows for messages, a counter for the memory of each stage. */
enum vp_status vp_trace_write_chrome(const struct vp_trace *trace,
                                     const char *path, struct vp_err *err);

/* Reads a file of vp_trace_write_chrome(), exact to the nanosecond. Returns
 * VP_ERR_INVALID for any other file. The caller releases the trace. */
enum vp_status vp_trace_read_chrome(const char *path, struct vp_trace *out,
                                    struct vp_err *err);

/* ---- Pictures; the caller frees the text -------------------------------- */

/* Draws a lane for each rank, with waits light and bubbles hatched, and the
 * memory of each rank below. `title` may be NULL: the name of the run. Returns
 * VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_trace_svg(const struct vp_trace *trace, const char *title,
                            char **text_out);

/* Draws a row for each rank, `width` columns wide (at least 40). Returns VP_OK
 * or VP_ERR_NOMEM. */
enum vp_status vp_trace_terminal(const struct vp_trace *trace, int width,
                                 bool colour, char **text_out);

#endif
