/* libvpipe: train Transformers as a pipeline of stages, inside of a program.
 *
 * Four kinds of objects, all opaque:
 *
 *   struct vpipe_config   what is to be trained: keys, a model, data
 *   struct vpipe_trainer  a training in progress
 *   struct vpipe_model    a trained model that is on disk
 *   struct vpipe_run      what a run wrote about itself
 *
 * Errors. A function that can fail returns an enum vpipe_status and takes a
 * struct vpipe_error as its last argument, which may be NULL. After a failure it
 * holds one line: place, cause, remedy. Outputs (`*_out`) are written only on
 * success. NULL for a pointer that must not be NULL is VPIPE_INVALID.
 *
 * Threads. Different objects may be used by different threads at the same time;
 * one object by one thread at a time. Stages run on threads of the library.
 *
 * The library installs no signal handlers, starts no processes, does not print
 * and does not exit. When a function returns, the floating-point mode, the
 * locale and the number of OpenMP threads of the calling thread are as before.
 *
 * Versions. Until 1.0 a new minor version may change this interface, and has
 * another SONAME. */
#ifndef VPIPE_VPIPE_H
#define VPIPE_VPIPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VPIPE_VERSION "0.1.0"

#if defined(__GNUC__)
#define VPIPE_API __attribute__((visibility("default")))
#else
#define VPIPE_API
#endif

/* ---- Errors and versions ------------------------------------------------ */

enum vpipe_status {
    VPIPE_OK = 0,
    VPIPE_INVALID,     /* an argument, a key, a file or a model is not right */
    VPIPE_IO,          /* a file could not be read or written */
    VPIPE_NO_MEMORY,   /* memory of the host or of a device is exhausted */
    VPIPE_NOT_FINITE,  /* NaN or infinity in a loss, gradient or logit */
    VPIPE_TIMEOUT,     /* a stage did not answer within watchdog_seconds; its
                          memory is not freed */
    VPIPE_UNSUPPORTED, /* this build, machine or kind of model cannot do it */
    VPIPE_CALLBACK,    /* a callback of the caller's returned an error */
    VPIPE_FAILED       /* anything else */
};

struct vpipe_error {
    enum vpipe_status status;
    char message[2044]; /* one line of UTF-8; "" after success */
};

/* Returns the version of the library that is loaded, "0.1.0". */
VPIPE_API const char *vpipe_version(void);
/* Returns a name for programs and logs, "invalid"; "unknown" for other numbers. */
VPIPE_API const char *vpipe_status_name(enum vpipe_status status);

/* ---- Configurations ------------------------------------------------------ */

/* What is to be trained, and how: keys and values as in the configuration files
 * of the program vpipe, and optionally a model and data of the caller's own. */
struct vpipe_config;

/* Without keys. Free it with vpipe_config_free(). */
VPIPE_API enum vpipe_status vpipe_config_create(
    struct vpipe_config **config_out, struct vpipe_error *error);
/* NULL is allowed here, and for all functions that free. */
VPIPE_API void vpipe_config_free(struct vpipe_config *config);
/* Takes keys from a YAML file, which is read when a trainer is created. Keys
 * that are set by vpipe_config_set() win. */
VPIPE_API enum vpipe_status vpipe_config_set_file(struct vpipe_config *config,
                                                  const char *path,
                                                  struct vpipe_error *error);
/* Sets a key, such as "stages" to "2" or "partition" to "[3, 4]"; `vpipe train
 * --help` lists the keys. VPIPE_INVALID for an unknown key; values are checked
 * when a trainer is created, where messages call this place "--set". */
VPIPE_API enum vpipe_status vpipe_config_set(struct vpipe_config *config,
                                             const char *key, const char *value,
                                             struct vpipe_error *error);
/* Takes partition, schedule, recomputation and swap from the JSON text of a plan:
 * plan.json of a run, or what `vpipe plan --out` wrote. */
VPIPE_API enum vpipe_status vpipe_config_set_plan(struct vpipe_config *config,
                                                  const char *json,
                                                  struct vpipe_error *error);
/* Calls `fn` with lines for people about what a trainer of this configuration
 * does: notices and warnings. NULL: they are dropped. */
VPIPE_API void vpipe_config_set_log(struct vpipe_config *config,
                                    void (*fn)(void *ctx, const char *line),
                                    void *ctx);

/* ---- Data by a callback -------------------------------------------------- */

/* Sizes of a minibatch. Rows are sample-major: row = sample * seq + position. */
struct vpipe_shape {
    int64_t batch;      /* samples */
    int64_t seq;        /* positions of a sample */
    int64_t target_seq; /* the same of a decoder; 0: there is none */
    int64_t n_labels;   /* rows that are scored, where the batch names them; 0:
                           all rows are, those of the decoder if there is one */
};

enum vpipe_split { VPIPE_TRAIN = 0, VPIPE_EVAL = 1 };

/* A minibatch to be filled. Arrays that the model does not read are NULL. The
 * library checks every number before it is used. */
struct vpipe_batch {
    enum vpipe_split split;
    int64_t number; /* of the minibatch, from 0 on, across epochs */
    struct vpipe_shape shape;
    int32_t *ids;        /* [batch * seq]; 0 before the call */
    int32_t *types;      /* [batch * seq] segment ids; 0 */
    int32_t *mask;       /* [batch * seq] 0: padding; 1 before the call */
    int32_t *target_ids; /* [batch * target_seq] input of a decoder; 0 */
    int32_t *label_rows; /* [n_labels] row that is scored, -1: none; -1 */
    int32_t *labels;     /* [n_labels], or one per row; -1: not scored; -1 */
};

/* Fills a minibatch. A pure function of `split` and `number`: a run that is
 * resumed asks for the same minibatches. Called by threads of the library ahead
 * of the training, never by two at the same time. Returns 0; any other number
 * ends the training with VPIPE_CALLBACK. */
typedef int (*vpipe_fill_fn)(void *ctx, struct vpipe_batch *batch);

/* Gives the minibatches of an epoch: `n_train` to train on, and `n_eval` to
 * evaluate, which may be 0. Without this the key data_dir names the data. */
VPIPE_API enum vpipe_status vpipe_config_set_data(struct vpipe_config *config,
                                                  vpipe_fill_fn fill, void *ctx,
                                                  int64_t n_train,
                                                  int64_t n_eval,
                                                  struct vpipe_error *error);

/* ---- Models from operators ----------------------------------------------- */

/* A model that is being built. Values are matrices [rows, cols], parameters are
 * weights; both are numbers that the functions below return. The first mistake is
 * kept: later calls return VPIPE_NONE and do nothing, so that a builder need not
 * check in between. */
struct vpipe_graph;
#define VPIPE_NONE (-1)

/* Appends the operators of a model; the last one is vpipe_cross_entropy().
 * Called several times, by any thread, until the last trainer of the
 * configuration is freed, and must do the same each time. Returns 0; any other
 * number refuses the model with VPIPE_CALLBACK. */
typedef int (*vpipe_build_fn)(void *ctx, struct vpipe_graph *graph);

/* Uses a model of the caller's in place of the key model_type. Builds it once to
 * check it, and reports the first mistake. Needs vpipe_config_set_data(). */
VPIPE_API enum vpipe_status vpipe_config_set_model(
    struct vpipe_config *config, const struct vpipe_shape *shape,
    vpipe_build_fn build, void *ctx, struct vpipe_error *error);

enum vpipe_input {
    VPIPE_IDS,
    VPIPE_TYPES,
    VPIPE_MASK,
    VPIPE_TARGET_IDS,
    VPIPE_LABEL_ROWS,
    VPIPE_LABELS
};

enum vpipe_init { VPIPE_ZERO, VPIPE_ONE, VPIPE_NORMAL, VPIPE_SINUSOID };

enum vpipe_activation {
    VPIPE_LINEAR, /* none */
    VPIPE_RELU,
    VPIPE_GELU,     /* by the error function */
    VPIPE_GELU_TANH /* its approximation by tanh */
};

/* Begins the next block: the unit in which a model is cut into stages. Operators
 * and parameters belong to the block that was begun last; at most 64 operators.
 * Usually a block ends with vpipe_add(), so that one value passes the cut. */
VPIPE_API void vpipe_block(struct vpipe_graph *graph, const char *name);
/* Returns an array of the minibatch as a value [rows, 1]. */
VPIPE_API int vpipe_input(struct vpipe_graph *graph, enum vpipe_input input);
/* Returns a new parameter [rows, cols] of this block, with a name that no other
 * has. VPIPE_NORMAL draws with deviation `std`; VPIPE_SINUSOID makes positions,
 * which are not trained. Weight decay spares parameters of one row. A parameter
 * is used by exactly one operator. */
VPIPE_API int vpipe_param(struct vpipe_graph *graph, const char *name,
                          int64_t rows, int64_t cols, enum vpipe_init init,
                          float std);
/* Returns this block's use of a parameter of an earlier block: tied weights. */
VPIPE_API int vpipe_tied(struct vpipe_graph *graph, int param);

/* table[ids] + positions[position] + types_table[types]. `types` goes with
 * `types_table`; these and `positions` may be VPIPE_NONE. */
VPIPE_API int vpipe_embed(struct vpipe_graph *graph, int ids, int table,
                          int positions, int types, int types_table);
/* activation(x weight^T + bias). x: [rows, K], weight: [N, K], bias: [1, N] or
 * VPIPE_NONE. */
VPIPE_API int vpipe_linear(struct vpipe_graph *graph, int x, int weight,
                           int bias, enum vpipe_activation activation);
/* (x - mean) / sqrt(variance + eps) of each row, times gamma, plus beta, which are
 * [1, cols]. */
VPIPE_API int vpipe_layernorm(struct vpipe_graph *graph, int x, int gamma,
                              int beta, float eps);
/* softmax(q k^T / sqrt(dim)) v with `heads` heads. Self-attention: q is
 * [rows, 3H], query, key and value side by side, and kv is VPIPE_NONE. Else q is
 * [rows, H] and kv [other rows, 2H]. `mask` is an input or VPIPE_NONE: keys with
 * 0 are left out. `causal`: not 0 if positions see only earlier ones. `p`: dropout
 * of the weights. */
VPIPE_API int vpipe_attention(struct vpipe_graph *graph, int q, int kv,
                              int mask, int heads, int causal, float p);
/* Sets elements to 0 with probability `p`, below 1, and scales the others; not in
 * evaluations. */
VPIPE_API int vpipe_dropout(struct vpipe_graph *graph, int x, float p);
/* branch + trunk, of the same shape. */
VPIPE_API int vpipe_add(struct vpipe_graph *graph, int branch, int trunk);
/* factor * x */
VPIPE_API int vpipe_scale(struct vpipe_graph *graph, int x, float factor);
/* Rows of x by number; -1 gives a row of zeros. `rows`: VPIPE_LABEL_ROWS. */
VPIPE_API int vpipe_gather(struct vpipe_graph *graph, int x, int rows);
/* The loss: the mean over rows whose label is not -1. logits: [n, V], labels:
 * [n], `smoothing`: share of the target that is spread over all V. */
VPIPE_API int vpipe_cross_entropy(struct vpipe_graph *graph, int logits,
                                  int labels, float smoothing);

/* ---- Training ------------------------------------------------------------ */

struct vpipe_trainer;

/* Plans, allocates and draws the first weights, or loads them. `config` may be
 * changed and freed afterwards; what its callbacks use must outlive the trainer.
 *
 *   output  a folder for the run, as `vpipe train --output` makes it: metrics,
 *           logs, checkpoints. NULL: nothing is written
 *   resume  a run, or a checkpoint, to go on from. NULL: from the start
 *
 * All stages are threads of this process: distributed_backend must be local. */
VPIPE_API enum vpipe_status vpipe_trainer_create(
    const struct vpipe_config *config, const char *output, const char *resume,
    struct vpipe_trainer **trainer_out, struct vpipe_error *error);
/* Ends the training. Saves nothing. */
VPIPE_API void vpipe_trainer_free(struct vpipe_trainer *trainer);

struct vpipe_step {
    int64_t step, n_steps; /* from 1 on; of the whole run */
    int64_t minibatch;     /* minibatches done */
    double loss;           /* NaN: no minibatch of the step has labels */
    double lr;
    double grad_norm;
    double seconds;
    double tokens_per_second;
    double bubble; /* share of the stages' time spent waiting */
};

/* Called after each step by the thread that trains, and in its floating-point
 * mode and locale. Returns 0 to go on. Any other number ends the call after the
 * steps that stages have begun, which are reported, too; they may be some steps
 * ahead. The trainer can go on. */
typedef int (*vpipe_step_fn)(void *ctx, const struct vpipe_step *step);

/* Trains `n_steps` updates (sync_mode asp: minibatches); 0: all that are left of
 * the keys total_steps or epochs. `fn` may be NULL. Two calls give the same losses
 * as one. With the last step of the run, a run that has a folder is saved. */
VPIPE_API enum vpipe_status vpipe_trainer_run(struct vpipe_trainer *trainer,
                                              int64_t n_steps, vpipe_step_fn fn,
                                              void *ctx,
                                              struct vpipe_error *error);
/* The same, with the losses in an array of `n_steps`. */
VPIPE_API enum vpipe_status vpipe_trainer_run_losses(
    struct vpipe_trainer *trainer, int64_t n_steps, double *losses_out,
    struct vpipe_error *error);
/* Returns the number of steps done, those before a resume included. */
VPIPE_API int64_t vpipe_trainer_step(const struct vpipe_trainer *trainer);
/* Mean loss over the labels of `n_batches` held-out minibatches, dropout off; 0:
 * all. Training goes on as if there had been no evaluation. */
VPIPE_API enum vpipe_status vpipe_trainer_evaluate(
    struct vpipe_trainer *trainer, int64_t n_batches, double *loss_out,
    struct vpipe_error *error);
/* Writes the checkpoint `folder`/checkpoints/step-<n> and waits until it is on
 * disk. NULL: in the folder of the run. VPIPE_INVALID for a folder with
 * checkpoints that this trainer did not write. */
VPIPE_API enum vpipe_status vpipe_trainer_save(struct vpipe_trainer *trainer,
                                               const char *folder,
                                               struct vpipe_error *error);
/* Copies the newest weights of a parameter, [rows, cols], by its name: that of
 * vpipe_param(), or the one Hugging Face uses. `n` must be rows * cols. */
VPIPE_API enum vpipe_status vpipe_trainer_weights(
    const struct vpipe_trainer *trainer, const char *name, float *weights_out,
    size_t n, struct vpipe_error *error);
/* Returns the plan as JSON: a text of the trainer's, valid until the next call or
 * until it is freed. NULL: out of memory. */
VPIPE_API const char *vpipe_trainer_plan(struct vpipe_trainer *trainer);
/* Returns the configuration with all keys as YAML, likewise. */
VPIPE_API const char *vpipe_trainer_config(struct vpipe_trainer *trainer);

/* ---- Trained models ------------------------------------------------------ */

struct vpipe_model;

/* Opens the folder of a run, a checkpoint or a Hugging Face folder. */
VPIPE_API enum vpipe_status vpipe_model_open(const char *path,
                                             struct vpipe_model **model_out,
                                             struct vpipe_error *error);
/* Closes it. */
VPIPE_API void vpipe_model_free(struct vpipe_model *model);
/* Sets a key for how the model is run, such as stages, threads_per_stage,
 * batch_size or data_dir. */
VPIPE_API enum vpipe_status vpipe_model_set(struct vpipe_model *model,
                                            const char *key, const char *value,
                                            struct vpipe_error *error);
/* Returns the model's keys as YAML, as vpipe_trainer_config() does. NULL if a key
 * that was set is wrong, with the reason in `error`. */
VPIPE_API const char *vpipe_model_config(struct vpipe_model *model,
                                         struct vpipe_error *error);

/* How the next id is drawn. Begin with VPIPE_SAMPLING. */
struct vpipe_sampling {
    size_t size;               /* sizeof(struct vpipe_sampling) */
    double temperature;        /* 0: the most likely id */
    double top_p;              /* 1: off */
    double repetition_penalty; /* 1: off */
    int32_t top_k;             /* 0: off */
    int32_t end_id;            /* ends a text; -1: none */
    uint64_t seed;
};
#define VPIPE_SAMPLING                                                  \
    {                                                                   \
        sizeof(struct vpipe_sampling), 0.0, 1.0, 1.0, 0, VPIPE_NONE, 0, \
    }

/* Continues `prompt` by up to `n_new` ids, which are written to `ids_out`; their
 * number to *n_out. NULL for `sampling`: always the most likely id. The last id
 * may be end_id; a text also ends with the positions of the model.
 * VPIPE_UNSUPPORTED: the model is not causal. */
VPIPE_API enum vpipe_status vpipe_model_generate(
    struct vpipe_model *model, const int32_t *prompt, size_t n_prompt,
    const struct vpipe_sampling *sampling, size_t n_new, int32_t *ids_out,
    size_t *n_out, struct vpipe_error *error);

struct vpipe_score {
    double loss;     /* mean over predictions, in nats; NaN: there are none */
    double accuracy; /* share of labels that were the most likely id */
    double n_labels;
};

/* Evaluates the model on the held-out part of its data: that of its run, or of
 * the key data_dir. */
VPIPE_API enum vpipe_status vpipe_model_evaluate(struct vpipe_model *model,
                                                 struct vpipe_score *score_out,
                                                 struct vpipe_error *error);

/* Writes the newest checkpoint of a run, or a checkpoint, as a Hugging Face
 * folder `to`, which must be empty or not exist. */
VPIPE_API enum vpipe_status vpipe_export(const char *from, const char *to,
                                         struct vpipe_error *error);
/* Makes a checkpoint of step 0 from a Hugging Face folder. */
VPIPE_API enum vpipe_status vpipe_import(const char *from, const char *to,
                                         struct vpipe_error *error);

/* ---- Runs ---------------------------------------------------------------- */

/* What a run wrote; it may be running. */
struct vpipe_run;

/* Reads the folder of a run once. */
VPIPE_API enum vpipe_status vpipe_run_open(const char *folder,
                                           struct vpipe_run **run_out,
                                           struct vpipe_error *error);
/* Frees the arrays and texts that it returned, too. */
VPIPE_API void vpipe_run_free(struct vpipe_run *run);
/* Returns a column of the metrics and its length; NULL for other names.
 *
 *   per step        step, minibatch, loss, lr, grad_norm, seconds,
 *                   samples_per_second, tokens_per_second, bubble
 *   per evaluation  eval_step, eval_loss
 *
 * What a record does not have is NaN. The array is the run's. */
VPIPE_API const double *vpipe_run_metric(const struct vpipe_run *run,
                                         const char *name, size_t *n_out);
/* Returns config.yml, a text of the run's. NULL: there is none. */
VPIPE_API const char *vpipe_run_config(const struct vpipe_run *run);
/* Returns plan.json, likewise. */
VPIPE_API const char *vpipe_run_plan(const struct vpipe_run *run);

#ifdef __cplusplus
}
#endif
#endif
