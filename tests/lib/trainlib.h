/* A small training run for tests: model, data, trainer; and its result in
 * bits. */
#ifndef VP_TESTS_LIB_TRAINLIB_H
#define VP_TESTS_LIB_TRAINLIB_H

#include "graph/slice.h"
#include "lib/testdevice.h"
#include "model/model.h"
#include "runtime/stage/stage.h"
#include "runtime/trainer/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- Counting: device memory -------------------------------------------- */

extern atomic_llong n_device_bytes;

/* ---- A small run -------------------------------------------------------- */

struct setup {
    const char *model;
    int threads, prefetch, accumulation;
    double recompute;
    float dropout, lr;
    bool tied, reference, eval;
    uint64_t seed;
    int n_steps;
    enum vp_optim_kind optim;
    float grad_clip;
    float eps; /* of the optimizer; 0: its default */
    bool clip_per_stage;
    struct vp_scale_config scale;
    vp_init_fn init; /* NULL: as published */
    /* The pipeline; NULL and 0: one stage. */
    const char *schedule;
    int n_stages, n_chunks;
    int schedule_memory;
    const char *schedule_text;
    bool schedule_v;
    const int *partition, *replicas, *depth, *rank_numbers;
    const double *ratios; /* per stage; NULL: `recompute` everywhere */
    const uint64_t *sets; /* per block, recomputed; NULL: by the ratios */
    const int64_t *bases; /* per block; NULL: one after the other */
    bool early;
    bool in_backward;          /* recomputed there */
    bool w_recomputed;         /* W of what is recomputed runs later */
    const uint64_t *swap_sets; /* per block, swapped; NULL: by the ratios */
    const double *swap_ratios; /* per stage; NULL: nothing */
    const int *swap_buffers;   /* per stage; NULL: the default */
    const struct vp_plan_slot *slots; /* of the first minibatches in flight */
    int n_slots;
    int swap_delay_us; /* of copies; see vp_copier_disturb() */
    int layers;        /* 0: 2 */
    int vocab;         /* 0: 96 */
    int64_t bundle_bytes;
    bool compress;
    bool shard; /* replicas own shards of the optimizer's state */
    struct vp_blackbox **blackboxes; /* of each rank; NULL: none are kept */
    vp_fault_fn fault;
    void *fault_ctx;
    int timeout_ms; /* 0: 20 s */
    const struct vp_saver *saver;
    const struct vp_loader *loader;
    const struct vp_backend_ops *device; /* NULL: test_device() */
    struct vp_world *world;              /* NULL: ranks are threads */
    enum vp_dtype dtype;
    /* Evaluation alone, without memory to train. */
    bool forward_only;
    unsigned outputs;           /* 0: the loss */
    struct vp_cache_size cache; /* with logits only; n_lines 0: none */
    const struct vp_feed *feed;
    const struct vp_sink *sink;
    int64_t batch; /* of every bucket; 0: as usual */
    int shorter;   /* positions that every bucket has less than usual */
    int members;   /* ranks that share each operator; 0: 1 */
    bool sequence_parallel; /* these have slices of rows */
    bool keep_all;          /* nothing that backward reads is made again */
    bool keep_gathered;     /* rows that were gathered are not */
};

extern const struct setup usual;

enum { MAX_STEPS = 64, MAX_DIMS = 3 };

struct run {
    struct vp_device_ops device;
    struct vp_backend_ops backend;
    const struct vp_model *model;
    struct vp_model_config sizes;
    struct vp_dims dims[MAX_DIMS];
    int n_dims;
    struct vp_graph graphs[MAX_DIMS];
    struct vp_data *data, *eval_data;
    struct vp_train_config config;
    struct vp_trainer *trainer;
    double same_ratio[VP_MAX_STAGES];
    double losses[MAX_STEPS], norms[MAX_STEPS];
    double eval_loss; /* 0.0: none */
    float scales[MAX_STEPS];
    int64_t skipped[MAX_STEPS];
    int n_steps;
    uint64_t weights; /* hash of all weights at the end */
};

struct vp_model_config small_sizes(const struct setup *setup);

void make_dims(struct run *run);

struct vp_plan make_plan(const struct run *run, const struct setup *setup);

enum vp_status run_create(struct run *run, const struct setup *setup,
                          size_t memory_limit, struct vp_err *err);

void run_free(struct run *run);

int64_t count_weights(const struct run *run, vp_par par);

/* The caller frees them. */
float *trainer_weights(const struct run *run, vp_par par, int replica);

uint64_t hash_floats(uint64_t hash, const float *x, int64_t n);

#define HASH_START 14695981039346656037u

uint64_t hash_weights(const struct run *run);

/* The same of a stage that was trained literally, which has `par`. */
float *stage_weights(const struct run *run, const struct vp_stage *stage,
                     vp_par par);

void assert_same_weights(const struct run *run, const struct vp_stage *stage,
                         int replica);

bool keep_step(void *ctx, const struct vp_step_report *report);

/* Trains and keeps what must not change. With setup->eval there is an
 * evaluation in the middle. */
void train(struct run *run, const struct setup *setup);

void assert_same(const struct run *a, const struct run *b, int n_steps);

/* Output layers so large that gradients overflow floats under a loss scale of
 * 2^118, some of them under 2^115, none under 2^112; grad_clip must not be much
 * smaller than their norm, or the factor of an update is no normal float. */
void loud_init(const struct vp_graph *graph, vp_par par, uint64_t seed,
               int64_t begin, int64_t n, float *out);

struct setup loud(const char *schedule, int n_stages, const int *partition);

extern const char *const models[3];

/* A message of a pipeline that is run by hand, in the stage's memory. */
struct vp_stage_message *new_message(const struct vp_stage *stage,
                                     int64_t n_bytes);

void free_message(const struct vp_stage *stage,
                  struct vp_stage_message *message, int64_t n_bytes);

#endif
