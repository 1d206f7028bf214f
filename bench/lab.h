/* A training run to be measured: model, data and trainer, ready to go. What
 * fails here ends the program with a line. */
#ifndef VP_BENCH_LAB_H
#define VP_BENCH_LAB_H

#include "runtime/fit.h"
#include "runtime/trainer/trainer.h"

struct lab_size {
    const char *model; /* NULL: bert */
    int vocab, hidden, layers, heads, seq;
    int batch;  /* samples per minibatch */
    int labels; /* masked LM: scored tokens per sample; `seq`: logits of every
                   token */
    double dropout;
    bool tied; /* embeddings */
    enum vp_dtype dtype;
};

struct lab_spec {
    struct lab_size size;
    const char *schedule;
    int n_stages;
    int n_chunks;              /* of a stage; 0: 1 */
    int n_replicas;            /* of every stage; 0: 1 */
    const int *partition;      /* blocks; NULL with one stage */
    const int *depth;          /* warm-up; NULL: by the number of stages */
    int n_mb;                  /* per update; a stream updates as it likes */
    const char *schedule_text; /* its lists; NULL: the generator's */
    bool schedule_v;           /* auto: two chunks are in a V */
    int n_threads;             /* of a stage; 0: 1 */
    bool pinned; /* rank r stays on set first_device + r of n_threads
                         cores each */
    int first_device;
    double recompute;                     /* ratio, the same for every stage */
    bool keep_all;                        /* nothing is made again */
    bool dry;                             /* only plan: there is no trainer */
    float lr;                             /* 0: 1e-4 */
    const struct vp_backend_ops *backend; /* NULL: the CPU */
    const struct vp_saver *saver;         /* NULL: none */
    struct vp_world *world;               /* NULL: threads of this process */
    /* The whole layout, in place of the fields above that say a part of it;
     * NULL: they do. `schedule`, `n_stages` and `n_mb` are those of the plan. */
    const struct vp_plan *plan;
};

struct lab;

struct lab *lab_open(const struct lab_spec *spec);
void lab_close(struct lab *lab);
struct vp_trainer *lab_trainer(struct lab *lab);
/* What the trainer was made of, or would be made of. */
const struct vp_train_config *lab_train_config(const struct lab *lab);
/* Bytes of the device that the trainer has allocated so far. */
int64_t lab_allocated(const struct lab *lab);
/* Per stage, and the schedule: of the trainer or of the plan alone. */
const struct vp_stage_price *lab_prices(const struct lab *lab);
const struct vp_schedule *lab_schedule(const struct lab *lab);
const struct vp_data *lab_data(const struct lab *lab);
/* Of its last rank. */
struct vp_backend *lab_backend(struct lab *lab);
/* The graph of a usual batch. */
const struct vp_graph *lab_graph(const struct lab *lab);
/* Executed in one update; makes one. */
double lab_flops(struct lab *lab);
/* Wall-clock seconds of vp_trainer_run() for `n_mb` minibatches, which must be
 * whole updates: from an empty pipe to an empty pipe. */
double lab_run(struct lab *lab, int n_mb);
/* The same, all `n` at once: their mean time. */
double lab_run_together(struct lab *const *labs, int n, int n_mb);

/* Bytes that a rank's stages allocate. */
int64_t lab_rank_bytes(struct lab *lab, int rank);

int lab_n_blocks(const struct lab_size *size);
/* Same number of blocks everywhere, more in the last stages. */
void lab_cut_evenly(const struct lab_size *size, int n_stages, int *partition);
/* The times of every block alone, in seconds; with B and W apart if the
 * schedule of `spec` has them so, else b is both. */
void lab_time_blocks(const struct lab_spec *spec, struct vp_stage_costs *out);
/* The most balanced cut by measured times of the blocks, updates included as
 * often as the schedule makes them. */
void lab_cut_measured(const struct lab_spec *spec, int *partition);
/* The same by FLOPs: stages of equal work, or ranks if they own several. */
void lab_cut_by_flops(const struct lab_spec *spec, int *partition);
/* The same by times that are known. */
void lab_cut_by(const struct lab_spec *spec,
                const struct vp_stage_costs *blocks, int *partition);
/* The costs of stages from those of their blocks: what their last block sends
 * on, and their first one back. */
void lab_join_blocks(const struct vp_stage_costs *blocks, const int *partition,
                     int n_stages, struct vp_stage_costs *stages_out);

/* Ends the program. */
_Noreturn void lab_die(const char *what, const struct vp_err *err);

#endif
