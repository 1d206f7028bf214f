/* A small training run for tests: model, data and trainer, and its results bit
 * for bit. */
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

/* ---- Device memory ------------------------------------------------------ */

/* Bytes allocated on devices since the last run_create(). */
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
    float eps; /* epsilon of the optimizer; 0: its default */
    bool clip_per_stage;
    struct vp_scale_config scale;
    vp_init_fn init; /* NULL: the model's own initial weights */
    /* The pipeline; NULL and 0: one stage. */
    const char *schedule;
    int n_stages, n_chunks;
    int schedule_memory;
    const char *schedule_text;
    bool schedule_v;
    const int *partition, *replicas, *depth, *rank_numbers;
    const double *ratios; /* per stage; NULL: `recompute` everywhere */
    const uint64_t *sets; /* recomputed, per block; NULL: by the ratios */
    const int64_t *bases; /* per block; NULL: one after the other */
    bool early;
    bool in_backward;          /* recompute within backward */
    bool w_recomputed;         /* W of recomputed operators runs apart from B */
    const uint64_t *swap_sets; /* swapped, per block; NULL: by the ratios */
    const double *swap_ratios; /* per stage; NULL: no swap */
    const int *swap_buffers;   /* per stage; NULL: the default */
    const struct vp_plan_slot *slots; /* for the first minibatches */
    int n_slots;
    int swap_delay_us; /* delay of copies; see vp_copier_disturb() */
    int layers;        /* 0 stands for 2 */
    int vocab;         /* 0 stands for 96 */
    int64_t bundle_bytes;
    bool compress;
    bool shard; /* replicas own shards of the optimizer's state */
    struct vp_blackbox **blackboxes; /* one per rank; NULL: none */
    vp_fault_fn fault;
    void *fault_ctx;
    int timeout_ms; /* 0: 20 s */
    const struct vp_saver *saver;
    const struct vp_loader *loader;
    const struct vp_backend_ops *device; /* NULL: test_device() */
    struct vp_world *world;              /* NULL: ranks are threads */
    enum vp_dtype dtype;
    /* Evaluation only, without memory for training. */
    bool forward_only;
    unsigned outputs;           /* 0: the loss */
    struct vp_cache_size cache; /* only with logits; n_lines 0: none */
    const struct vp_feed *feed;
    const struct vp_sink *sink;
    int64_t batch;          /* batch size of every bucket; 0: the usual one */
    int shorter;            /* positions that are cut off every bucket */
    int members;            /* ranks that share each operator; 0: 1 */
    bool sequence_parallel; /* members have slices of rows */
    bool keep_all;          /* keep all activations for backward */
    bool keep_gathered;     /* keep gathered rows for W */
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

/* The caller frees the result. */
float *trainer_weights(const struct run *run, vp_par par, int replica);

uint64_t hash_floats(uint64_t hash, const float *x, int64_t n);

#define HASH_START 14695981039346656037u

uint64_t hash_weights(const struct run *run);

/* Returns the weights `par` of a stage that was run by hand. The caller frees
 * them. */
float *stage_weights(const struct run *run, const struct vp_stage *stage,
                     vp_par par);

void assert_same_weights(const struct run *run, const struct vp_stage *stage,
                         int replica);

bool keep_step(void *ctx, const struct vp_step_report *report);

/* Trains and keeps losses, norms and the hash of the weights. With setup->eval,
 * evaluates in the middle. */
void train(struct run *run, const struct setup *setup);

void assert_same(const struct run *a, const struct run *b, int n_steps);

/* Initial weights with output layers that make gradients overflow floats under
 * a loss scale of 2^118, some of them under 2^115, none under 2^112. grad_clip
 * must not be much smaller than their norm, or the factor of an update is no
 * normal float. */
void loud_init(const struct vp_graph *graph, vp_par par, uint64_t seed,
               int64_t begin, int64_t n, float *out);

struct setup loud(const char *schedule, int n_stages, const int *partition);

extern const char *const models[3];

/* Allocates a message for a pipeline that is run by hand, in the stage's
 * memory. */
struct vp_stage_message *new_message(const struct vp_stage *stage,
                                     int64_t n_bytes);

void free_message(const struct vp_stage *stage,
                  struct vp_stage_message *message, int64_t n_bytes);

#endif
