/* Options, result table and cases of bench_pipeline. */
#ifndef VP_BENCH_BENCH_H
#define VP_BENCH_BENCH_H

#include "lab.h"
#include "series.h"

#include <stdio.h>

struct bench {
    struct lab_size size;
    int n_rounds;
    int n_mb;             /* minibatches per run; 0: the default of the case */
    const char *schedule; /* worker: its schedule */
    int n_stages;         /* 0: the default of the case */
    int n_threads;        /* per stage */
    bool pinned;          /* see struct lab_spec */
    int n_copies;         /* worker: one-stage runs at the same time; 0: one
                             run */
    int dropout;          /* percent */
    FILE *table;          /* printed at the end */
    bool missed;          /* a target was missed */
};

/* Returns "met" or "MISSED" for the table, and sets bench->missed. */
const char *bench_judge(struct bench *bench, bool met);

/* Each prints a line of JSON to stdout and rows to bench->table. */
void case_asp(struct bench *bench);
void case_bsp(struct bench *bench);
void case_zb(struct bench *bench);
void case_overhead(struct bench *bench);
void case_memory(struct bench *bench);
void case_saving(struct bench *bench);
/* For each line on stdin, trains n_mb minibatches and prints the seconds, for a
 * script that lets several programs take turns. Prints a first line when the
 * run is set up and warm. Under mpirun each process is a stage. A pipeline of
 * threads also prints seconds and speed-up of that run as simulated from its
 * recorded actions. Copies print their mean seconds. */
void case_worker(struct bench *bench);
/* Returns the description of a training run with the model, threads and pinning
 * of `bench`. */
struct lab_spec bench_spec(const struct bench *bench, const char *schedule,
                           int n_stages, const int *partition, int n_mb);
/* Opens `n` independent runs with one stage each; with `pinned`, each on its
 * own cores. */
void bench_open_copies(const struct bench *bench, const char *schedule, int n,
                       int n_mb, struct lab **copies_out);

#endif
