/* Handmade and random timelines, and traces as text, for tests of traces. */
#ifndef VP_TESTS_LIB_TRACELIB_H
#define VP_TESTS_LIB_TRACELIB_H

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

enum { MS = 1000000, MAX_RANKS = 8, MAX_STAGES = 8 };

/* ---- Timelines ---------------------------------------------------------- */

/* An event, in milliseconds. `kind` is as in the terminal, "f" for an
 * evaluation. */
struct act {
    int rank;
    const char *kind;
    int stage, mb;
    double start, end, wait;
};

struct vp_trace_event event_of(const struct act *act);

extern const struct vp_trace_stage stages_by_hand[MAX_STAGES];

void collect(const struct act *acts, int n_acts, int capacity, int n_ranks,
             int n_stages, struct vp_trace *out);

#define COLLECT(acts, n_ranks, n_stages, out) \
    collect(acts, (int)VP_COUNT_OF(acts), 64, n_ranks, n_stages, out)

/* 1f1b with two stages and two minibatches: 9 ms, starting at 100 ms. */
extern const struct act pipeline_by_hand[15];

/* Makes a trace in which every rank runs random actions one after the other. */
void make_random(struct vp_trace *out, uint32_t seed, int n_ranks, int n_stages,
                 int n_events);

/* ---- Files -------------------------------------------------------------- */

char *chrome_text(const struct vp_trace *trace);

enum vp_status read_text(const char *text, size_t n, struct vp_trace *out,
                         struct vp_err *err);

/* Returns the number of times that `word` occurs in `text`. */
int count_in(const char *text, const char *word);

#endif
