/* libvpipe: trains Transformers as a pipeline of stages inside of a program.
 *
 * Four kinds of objects, all opaque:
 *
 *   struct vpipe_config   configuration: keys, a model, data
 *   struct vpipe_trainer  a training in progress
 *   struct vpipe_model    a trained model on disk
 *   struct vpipe_run      metrics, configuration and plan of a run on disk
 *
 * Errors. A function that can fail returns an enum vpipe_status and takes a
 * struct vpipe_error as its last argument, which may be NULL. After a failure
 * it holds one line: place, cause, remedy. Outputs (`*_out`) are written only
 * on success. A NULL argument that must not be NULL gives VPIPE_INVALID.
 *
 * Threads. Different objects may be used by different threads at the same time;
 * one object by one thread at a time. Stages run on threads of the library.
 *
 * The library installs no signal handlers, starts no processes, does not print
 * and does not exit. When a function returns, the floating-point mode, the
 * locale and the number of OpenMP threads of the calling thread are as before.
 *
 * Versions. Until 1.0 a new minor version may change this interface; it then
 * has another SONAME. */
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
    VPIPE_INVALID,     /* an argument, a key, a file or a model is wrong */
    VPIPE_IO,          /* a file could not be read or written */
    VPIPE_NO_MEMORY,   /* out of memory, of the host or of a device */
    VPIPE_NOT_FINITE,  /* NaN or infinity in a loss, gradient or logit */
    VPIPE_TIMEOUT,     /* a stage did not answer within watchdog_seconds; its
                          memory is not freed */
    VPIPE_UNSUPPORTED, /* not possible with this build, machine or model */
    VPIPE_CALLBACK,    /* a callback of the caller returned an error */
    VPIPE_FAILED       /* anything else */
};

struct vpipe_error {
    enum vpipe_status status;
    char message[2044]; /* one line of UTF-8; "" after success */
};

/* Returns the version of the loaded library, such as "0.1.0". */
VPIPE_API const char *vpipe_version(void);
/* Returns a name for programs and logs, such as "invalid"; "unknown" for
 * numbers that are no status. */
VPIPE_API const char *vpipe_status_name(enum vpipe_status status);

/* ---- Configurations ------------------------------------------------------ */

/* A configuration: keys and values as in the configuration files of the program
 * vpipe, and optionally a model and data of the caller. */
struct vpipe_config;

/* Creates a configuration without keys. Free it with vpipe_config_free(). */
VPIPE_API enum vpipe_status vpipe_config_create(
    struct vpipe_config **config_out, struct vpipe_error *error);
/* NULL is allowed here and in all functions named vpipe_*_free(). */
VPIPE_API void vpipe_config_free(struct vpipe_config *config);
/* Takes keys from a YAML file, which is read when a trainer is created. Keys of
 * vpipe_config_set() override those of the file. Copies `path`. */
VPIPE_API enum vpipe_status vpipe_config_set_file(struct vpipe_config *config,
                                                  const char *path,
                                                  struct vpipe_error *error);
/* Sets a key, such as "stages" to "2" or "partition" to "[3, 4]"; `vpipe train
 * --help` lists the keys. Returns VPIPE_INVALID for an unknown key. Values are
 * checked when a trainer is created; messages name their place "--set". */
VPIPE_API enum vpipe_status vpipe_config_set(struct vpipe_config *config,
                                             const char *key, const char *value,
                                             struct vpipe_error *error);
/* Takes partition, schedule, recomputation and swap from the JSON text of a
 * plan, as in plan.json of a run or in a file of `vpipe plan --out`. Copies
 * `json`. */
VPIPE_API enum vpipe_status vpipe_config_set_plan(struct vpipe_config *config,
                                                  const char *json,
                                                  struct vpipe_error *error);
/* Sets the function that is called with each notice and warning of trainers of
 * this configuration, one line each, without a newline. NULL: they are
 * dropped. */
VPIPE_API void vpipe_config_set_log(struct vpipe_config *config,
                                    void (*fn)(void *ctx, const char *line),
                                    void *ctx);

/* ---- Data by a callback -------------------------------------------------- */

/* Sizes of a minibatch. Rows are sample-major: row = sample * seq +
 * position. */
struct vpipe_shape {
    int64_t batch; /* samples */
    int64_t seq;   /* positions of a sample */
    /* Positions of a sample in the decoder; 0: there is no decoder. */
    int64_t target_seq;
    /* Number of label_rows, the only rows that are scored; 0: all rows are
     * scored, those of the decoder if there is one. */
    int64_t n_labels;
};

enum vpipe_split { VPIPE_TRAIN = 0, VPIPE_EVAL = 1 };

/* A minibatch to be filled. Arrays that the model does not read are NULL. The
 * library checks the range of every number. */
struct vpipe_batch {
    enum vpipe_split split;
    int64_t number; /* index of the minibatch, from 0 on, across epochs */
    struct vpipe_shape shape;
    /* All elements are 0 before the call if not stated otherwise. */
    int32_t *ids;        /* [batch * seq] */
    int32_t *types;      /* [batch * seq] segment ids */
    int32_t *mask;       /* [batch * seq] 0: padding; 1 before the call */
    int32_t *target_ids; /* [batch * target_seq] input of a decoder */
    int32_t *label_rows; /* [n_labels] scored row, -1: none; -1 before */
    int32_t *labels;     /* [n_labels], or one per row; -1: not scored; -1
                            before the call */
};

/* Fills a minibatch. The content must depend only on `split` and `number`,
 * because a resumed run requests the same minibatches again. Called by threads
 * of the library ahead of the training, never by two at the same time. Returns
 * 0; any other number ends the training with VPIPE_CALLBACK. */
typedef int (*vpipe_fill_fn)(void *ctx, struct vpipe_batch *batch);

/* Sets the source of minibatches. An epoch has `n_train` minibatches for
 * training and `n_eval`, which may be 0, for evaluation. Without this call the
 * data is read from the key data_dir. */
VPIPE_API enum vpipe_status vpipe_config_set_data(struct vpipe_config *config,
                                                  vpipe_fill_fn fill, void *ctx,
                                                  int64_t n_train,
                                                  int64_t n_eval,
                                                  struct vpipe_error *error);

/* ---- Models from operators ----------------------------------------------- */

/* A model under construction. Values are matrices [rows, cols], parameters are
 * weights; both are numbers that the functions below return. After the first
 * mistake all calls return VPIPE_NONE and do nothing, so that a builder need
 * not check each call. */
struct vpipe_graph;
#define VPIPE_NONE (-1)

/* Appends the operators of a model; the last one is vpipe_cross_entropy().
 * Called several times, by any thread, until the last trainer of the
 * configuration is freed. It must append the same operators each time. Returns
 * 0; any other number refuses the model with VPIPE_CALLBACK. */
typedef int (*vpipe_build_fn)(void *ctx, struct vpipe_graph *graph);

/* Uses a model of the caller instead of the key model_type. Builds it once to
 * check it, and reports the first mistake. Requires vpipe_config_set_data(). */
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
    VPIPE_GELU,     /* exact, with the error function */
    VPIPE_GELU_TANH /* approximation with tanh */
};

/* Begins the next block, the unit in which a model is cut into stages.
 * Operators and parameters belong to the block that was begun last; a block has
 * at most 64 operators. Usually it ends with vpipe_add(), so that only one
 * value crosses a cut. */
VPIPE_API void vpipe_block(struct vpipe_graph *graph, const char *name);
/* Returns an array of the minibatch as a value [rows, 1]. */
VPIPE_API int vpipe_input(struct vpipe_graph *graph, enum vpipe_input input);
/* Returns a new parameter [rows, cols] of this block. `name` must be unique.
 * VPIPE_NORMAL draws from a normal distribution with standard deviation `std`;
 * VPIPE_SINUSOID sets position encodings, which are not trained. Parameters of
 * one row have no weight decay. Each parameter is used by exactly one
 * operator. */
VPIPE_API int vpipe_param(struct vpipe_graph *graph, const char *name,
                          int64_t rows, int64_t cols, enum vpipe_init init,
                          float std);
/* Returns a parameter of this block that shares its weights with `param` of an
 * earlier block: tied weights. */
VPIPE_API int vpipe_tied(struct vpipe_graph *graph, int param);

/* The operators return a value.
 *
 * table[ids] + positions[position] + types_table[types]. `positions` may be
 * VPIPE_NONE; so may `types` and `types_table`, both together. */
VPIPE_API int vpipe_embed(struct vpipe_graph *graph, int ids, int table,
                          int positions, int types, int types_table);
/* activation(x weight^T + bias). x: [rows, K], weight: [N, K], bias: [1, N] or
 * VPIPE_NONE. */
VPIPE_API int vpipe_linear(struct vpipe_graph *graph, int x, int weight,
                           int bias, enum vpipe_activation activation);
/* (x - mean) / sqrt(variance + eps) * gamma + beta for each row. gamma, beta:
 * [1, cols]. */
VPIPE_API int vpipe_layernorm(struct vpipe_graph *graph, int x, int gamma,
                              int beta, float eps);
/* softmax(q k^T / sqrt(dim)) v with `heads` heads. Self-attention: q is [rows,
 * 3H], query, key and value side by side, and kv is VPIPE_NONE.
 * Cross-attention: q is [rows, H] and kv is [rows of the encoder, 2H]. `mask`:
 * an input or VPIPE_NONE; keys with mask 0 are ignored. `causal`: if not 0,
 * positions attend only to themselves and earlier ones. `p`: dropout
 * probability of the attention weights. */
VPIPE_API int vpipe_attention(struct vpipe_graph *graph, int q, int kv,
                              int mask, int heads, int causal, float p);
/* Sets elements to 0 with probability `p`, which is below 1, and scales the
 * others so that the mean stays the same. Has no effect in evaluations. */
VPIPE_API int vpipe_dropout(struct vpipe_graph *graph, int x, float p);
/* branch + trunk; both have the same shape. */
VPIPE_API int vpipe_add(struct vpipe_graph *graph, int branch, int trunk);
/* factor * x */
VPIPE_API int vpipe_scale(struct vpipe_graph *graph, int x, float factor);
/* The rows of x with the numbers in `rows`, which is the input
 * VPIPE_LABEL_ROWS; -1 gives a row of zeros. */
VPIPE_API int vpipe_gather(struct vpipe_graph *graph, int x, int rows);
/* The loss: the mean over rows whose label is not -1. logits: [n, V], labels:
 * [n]. `smoothing`: label smoothing, the probability that is spread over all
 * V. */
VPIPE_API int vpipe_cross_entropy(struct vpipe_graph *graph, int logits,
                                  int labels, float smoothing);

/* ---- Training ------------------------------------------------------------ */

struct vpipe_trainer;

/* Plans, allocates, and initialises or loads the weights. `config` may be
 * changed and freed afterwards; the `ctx` of its callbacks must outlive the
 * trainer. Free with vpipe_trainer_free().
 *
 *   output  a folder for the run, as `vpipe train --output` makes it: metrics,
 *           logs, checkpoints. NULL: nothing is written
 *   resume  a run or a checkpoint to resume. NULL: a new training
 *
 * All stages are threads of this process: distributed_backend must be local. */
VPIPE_API enum vpipe_status vpipe_trainer_create(
    const struct vpipe_config *config, const char *output, const char *resume,
    struct vpipe_trainer **trainer_out, struct vpipe_error *error);
/* Ends the training without saving. */
VPIPE_API void vpipe_trainer_free(struct vpipe_trainer *trainer);

struct vpipe_step {
    int64_t step;      /* number of this step, from 1 on */
    int64_t n_steps;   /* steps of the whole run */
    int64_t minibatch; /* minibatches done */
    double loss;       /* NaN: no minibatch of the step has labels */
    double lr;
    double grad_norm;
    double seconds;
    double tokens_per_second;
    double bubble; /* share of time that stages spent waiting */
};

/* Called after each step by the thread that called vpipe_trainer_run(), in its
 * floating-point mode and locale. Returns 0 to continue. Any other number ends
 * vpipe_trainer_run() after the steps that stages have already begun, which are
 * reported, too. A later call continues the training. */
typedef int (*vpipe_step_fn)(void *ctx, const struct vpipe_step *step);

/* Trains `n_steps` steps: updates, or minibatches if sync_mode is asp; 0: all
 * remaining steps of the keys total_steps or epochs. `fn` may be NULL. Two
 * calls give the same losses as one. After the last step of a run with an
 * output folder, a checkpoint is saved. */
VPIPE_API enum vpipe_status vpipe_trainer_run(struct vpipe_trainer *trainer,
                                              int64_t n_steps, vpipe_step_fn fn,
                                              void *ctx,
                                              struct vpipe_error *error);
/* Trains `n_steps` steps, at least 1, and writes their losses to an array of
 * `n_steps` elements. */
VPIPE_API enum vpipe_status vpipe_trainer_run_losses(
    struct vpipe_trainer *trainer, int64_t n_steps, double *losses_out,
    struct vpipe_error *error);
/* Returns the number of steps done, including those before a resume. */
VPIPE_API int64_t vpipe_trainer_step(const struct vpipe_trainer *trainer);
/* Computes the mean loss over the labels of `n_batches` held-out minibatches
 * (0: all), without dropout. Does not affect the training. */
VPIPE_API enum vpipe_status vpipe_trainer_evaluate(
    struct vpipe_trainer *trainer, int64_t n_batches, double *loss_out,
    struct vpipe_error *error);
/* Writes the checkpoint `folder`/checkpoints/step-<n> and waits until it is on
 * disk. `folder` NULL: the output folder of the run. Returns VPIPE_INVALID for
 * a folder with checkpoints that this trainer did not write. */
VPIPE_API enum vpipe_status vpipe_trainer_save(struct vpipe_trainer *trainer,
                                               const char *folder,
                                               struct vpipe_error *error);
/* Copies the newest weights [rows, cols] of a parameter. `name`: the name given
 * to vpipe_param(), or the one that Hugging Face uses. `n` must be rows *
 * cols. */
VPIPE_API enum vpipe_status vpipe_trainer_weights(
    const struct vpipe_trainer *trainer, const char *name, float *weights_out,
    size_t n, struct vpipe_error *error);
/* Returns the plan as JSON. The trainer owns the string, which is valid until
 * the next call of this function or until the trainer is freed. Returns NULL if
 * out of memory. */
VPIPE_API const char *vpipe_trainer_plan(struct vpipe_trainer *trainer);
/* Returns the configuration with all keys as YAML, with the same ownership. */
VPIPE_API const char *vpipe_trainer_config(struct vpipe_trainer *trainer);

/* ---- Trained models ------------------------------------------------------ */

struct vpipe_model;

/* Opens the folder of a run, a checkpoint or a Hugging Face folder. Free with
 * vpipe_model_free(). */
VPIPE_API enum vpipe_status vpipe_model_open(const char *path,
                                             struct vpipe_model **model_out,
                                             struct vpipe_error *error);
/* Closes the folder and frees the model. */
VPIPE_API void vpipe_model_free(struct vpipe_model *model);
/* Sets a key that controls how the model is run, such as stages,
 * threads_per_stage, batch_size or data_dir. */
VPIPE_API enum vpipe_status vpipe_model_set(struct vpipe_model *model,
                                            const char *key, const char *value,
                                            struct vpipe_error *error);
/* Returns the model's keys as YAML. The model owns the string, which is valid
 * until the next call of this function or until the model is freed. Returns
 * NULL and sets `error` if the value of a key is wrong. */
VPIPE_API const char *vpipe_model_config(struct vpipe_model *model,
                                         struct vpipe_error *error);

/* Options for the choice of the next id. Initialise with VPIPE_SAMPLING. */
struct vpipe_sampling {
    size_t size;               /* sizeof(struct vpipe_sampling) */
    double temperature;        /* 0: the most likely id */
    double top_p;              /* 1: off */
    double repetition_penalty; /* 1: off */
    int32_t top_k;             /* 0: off */
    int32_t end_id;            /* id that ends a text; -1: none */
    uint64_t seed;
};
#define VPIPE_SAMPLING                                                  \
    {                                                                   \
        sizeof(struct vpipe_sampling), 0.0, 1.0, 1.0, 0, VPIPE_NONE, 0, \
    }

/* Continues `prompt` by up to `n_new` ids. Writes them to `ids_out` and their
 * number to *n_out. `sampling` NULL: always the most likely id. The text ends
 * early after end_id, which is then the last id, or if all positions of the
 * model are used. Returns VPIPE_UNSUPPORTED if the model is not causal. */
VPIPE_API enum vpipe_status vpipe_model_generate(
    struct vpipe_model *model, const int32_t *prompt, size_t n_prompt,
    const struct vpipe_sampling *sampling, size_t n_new, int32_t *ids_out,
    size_t *n_out, struct vpipe_error *error);

struct vpipe_score {
    double loss;     /* mean over labels, in nats; NaN: there are none */
    double accuracy; /* share of labels that are the most likely id */
    double n_labels;
};

/* Evaluates the model on held-out data: of the data that its run was trained
 * on, or of the key data_dir. */
VPIPE_API enum vpipe_status vpipe_model_evaluate(struct vpipe_model *model,
                                                 struct vpipe_score *score_out,
                                                 struct vpipe_error *error);

/* Writes the newest checkpoint of the run `from`, or the checkpoint `from`, as
 * the Hugging Face folder `to`, which must be empty or not exist. */
VPIPE_API enum vpipe_status vpipe_export(const char *from, const char *to,
                                         struct vpipe_error *error);
/* Makes a checkpoint of step 0 in the folder `to` from the Hugging Face folder
 * `from`. */
VPIPE_API enum vpipe_status vpipe_import(const char *from, const char *to,
                                         struct vpipe_error *error);

/* ---- Runs ---------------------------------------------------------------- */

/* The files of a run, which may still be running. */
struct vpipe_run;

/* Reads the files in the folder of a run once. Free with vpipe_run_free(). */
VPIPE_API enum vpipe_status vpipe_run_open(const char *folder,
                                           struct vpipe_run **run_out,
                                           struct vpipe_error *error);
/* Frees also the arrays and strings that the functions below returned. */
VPIPE_API void vpipe_run_free(struct vpipe_run *run);
/* Returns a column of the metrics, which the run owns, and its length. Returns
 * NULL for an unknown name.
 *
 *   per step        step, minibatch, loss, lr, grad_norm, seconds,
 *                   samples_per_second, tokens_per_second, bubble
 *   per evaluation  eval_step, eval_loss
 *
 * Values that a record does not have are NaN. */
VPIPE_API const double *vpipe_run_metric(const struct vpipe_run *run,
                                         const char *name, size_t *n_out);
/* Returns the content of config.yml, which the run owns. NULL: there is
 * none. */
VPIPE_API const char *vpipe_run_config(const struct vpipe_run *run);
/* Returns the content of plan.json, which the run owns. NULL: there is none. */
VPIPE_API const char *vpipe_run_plan(const struct vpipe_run *run);

#ifdef __cplusplus
}
#endif
#endif
