/* What the cases of bench_pipeline share. */
#ifndef VP_BENCH_BENCH_H
#define VP_BENCH_BENCH_H

#include "lab.h"
#include "series.h"

#include <stdio.h>

struct bench {
    struct lab_size size;
    int n_rounds;
    int n_mb;             /* 0: what the case usually takes */
    const char *schedule; /* worker */
    int n_stages;         /* 0: what the case usually has */
    int n_threads;        /* of a stage */
    bool pinned;          /* see struct lab_spec */
    int n_copies;         /* worker: of a run with one stage, at the same time;
                             0: one run */
    int dropout;          /* percent */
    FILE *table;          /* printed at the end */
    bool missed;          /* a target */
};

/* Says in the table whether a target was met, and remembers. */
const char *bench_judge(struct bench *bench, bool met);

/* Each prints a line of JSON to stdout and rows to bench->table. */
void case_asp(struct bench *bench);
void case_bsp(struct bench *bench);
void case_zb(struct bench *bench);
void case_overhead(struct bench *bench);
void case_memory(struct bench *bench);
void case_saving(struct bench *bench);
/* Waits for a line on stdin, trains n_mb minibatches, prints the seconds, and
 * again until stdin ends: for a script that lets several programs take turns.
 * The first line of output says that everything is set up and warm. Under
 * mpirun each process is a stage. A pipeline of threads also prints what the
 * simulator makes of the actions of that run: seconds and speed-up. Copies
 * print their mean seconds. */
void case_worker(struct bench *bench);
/* A training run of the case's model: threads and pinning as asked for. */
struct lab_spec bench_spec(const struct bench *bench, const char *schedule,
                           int n_stages, const int *partition, int n_mb);
/* Opens `n` independent runs with one stage each; pinned, each is on cores of
 * its own. */
void bench_open_copies(const struct bench *bench, const char *schedule, int n,
                       int n_mb, struct lab **copies_out);

#endif
