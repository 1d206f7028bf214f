/* A training run to measure: model, data and trainer. Functions end the program
 * with a line if something fails. */
#ifndef VP_BENCH_LAB_H
#define VP_BENCH_LAB_H

#include "runtime/fit.h"
#include "runtime/trainer/trainer.h"

struct lab_size {
    const char *model; /* NULL: bert */
    int vocab, hidden, layers, heads, seq;
    int batch;  /* samples per minibatch */
    int labels; /* masked LM: scored tokens per sample; if equal to `seq`, all
                   logits are computed */
    double dropout;
    bool tied; /* tied embeddings */
    enum vp_dtype dtype;
};

struct lab_spec {
    struct lab_size size;
    const char *schedule;
    int n_stages;
    int n_chunks;              /* stages per rank; 0: 1 */
    int n_replicas;            /* per stage; 0: 1 */
    const int *partition;      /* blocks; NULL with one stage */
    const int *depth;          /* warm-up; NULL: by the number of stages */
    int n_mb;                  /* per update; streams have their own rule */
    const char *schedule_text; /* lists of actions; NULL: the generator's */
    bool schedule_v;           /* auto: two chunks are in a V */
    int n_threads;             /* per stage; 0: 1 */
    bool pinned; /* rank r stays on set number first_device + r of n_threads
                    cores */
    int first_device;
    double recompute;                     /* ratio, the same for every stage */
    bool keep_all;                        /* `recompute: false` */
    bool dry;                             /* plans only, without a trainer */
    float lr;                             /* 0: 1e-4 */
    const struct vp_backend_ops *backend; /* NULL: the CPU */
    const struct vp_saver *saver;         /* NULL: none */
    struct vp_world *world;               /* NULL: threads of this process */
    /* A whole plan in place of the fields above; NULL: none. `schedule`,
     * `n_stages` and `n_mb` must be those of the plan. */
    const struct vp_plan *plan;
};

struct lab;

struct lab *lab_open(const struct lab_spec *spec);
void lab_close(struct lab *lab);
struct vp_trainer *lab_trainer(struct lab *lab);
/* Returns the configuration of the trainer, also if there is only a plan. */
const struct vp_train_config *lab_train_config(const struct lab *lab);
/* Returns the bytes that the trainer has allocated on the device so far. */
int64_t lab_allocated(const struct lab *lab);
/* Return the prices per stage, and the schedule; also if there is only a
 * plan. */
const struct vp_stage_price *lab_prices(const struct lab *lab);
const struct vp_schedule *lab_schedule(const struct lab *lab);
const struct vp_data *lab_data(const struct lab *lab);
/* Returns the backend of the last rank. */
struct vp_backend *lab_backend(struct lab *lab);
/* Returns the graph of the first bucket. */
const struct vp_graph *lab_graph(const struct lab *lab);
/* Trains one update and returns its FLOPs. */
double lab_flops(struct lab *lab);
/* Trains `n_mb` minibatches, which must be whole updates, and returns the
 * wall-clock seconds of vp_trainer_run(): from an empty pipe to an empty
 * pipe. */
double lab_run(struct lab *lab, int n_mb);
/* Runs `n` labs at the same time and returns the mean of their seconds. */
double lab_run_together(struct lab *const *labs, int n, int n_mb);

/* Returns the bytes that the stages of a rank allocate. */
int64_t lab_rank_bytes(struct lab *lab, int rank);

int lab_n_blocks(const struct lab_size *size);
/* Cuts into stages whose numbers of blocks differ by one at most. */
void lab_cut_evenly(const struct lab_size *size, int n_stages, int *partition);
/* Measures the seconds of every block alone. If the schedule of `spec` does not
 * split B and W, b includes both. */
void lab_time_blocks(const struct lab_spec *spec, struct vp_stage_costs *out);
/* Cuts into the most balanced stages by measured times of the blocks, with the
 * share of updates per minibatch. */
void lab_cut_measured(const struct lab_spec *spec, int *partition);
/* Cuts by FLOPs: stages of equal work, or, with several chunks, ranks. */
void lab_cut_by_flops(const struct lab_spec *spec, int *partition);
/* Cuts by the given times of the blocks. */
void lab_cut_by(const struct lab_spec *spec,
                const struct vp_stage_costs *blocks, int *partition);
/* Adds the costs of blocks to costs of stages. Messages of a stage are those
 * that its last block sends forward and its first block sends back. */
void lab_join_blocks(const struct vp_stage_costs *blocks, const int *partition,
                     int n_stages, struct vp_stage_costs *stages_out);

/* Prints `what` and the error, and exits with status 1. */
_Noreturn void lab_die(const char *what, const struct vp_err *err);

#endif
