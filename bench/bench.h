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
    int n_stages;         /* worker */
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
 * mpirun each process is a stage. */
void case_worker(struct bench *bench);

#endif
