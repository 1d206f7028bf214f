/* Shared by the files of this folder: handles, errors, and the state of the
 * calling thread. */
#ifndef VP_API_INTERNAL_H
#define VP_API_INTERNAL_H

#include "base/status.h"
#include "base/strbuf.h"
#include "config/load.h"
#include "graph/graph.h"
#include "model/model.h"

#include <vpipe/vpipe.h>

#include <fenv.h>
#include <locale.h>
#include <pthread.h>

/* ---- The calling thread -------------------------------------------------- */

/* Floating-point environment and locale of a caller, while the library works with
 * the default ones: files are written in the C locale, and results do not depend
 * on the caller's rounding. */
struct vp_caller {
    fenv_t fenv;
    locale_t locale; /* 0: the library could not make its own */
};

void vp_caller_enter(struct vp_caller *caller);
void vp_caller_leave(const struct vp_caller *caller);

/* ---- Errors -------------------------------------------------------------- */

/* Writes status and message; both are cleared for VP_OK. `error` may be NULL. */
enum vpipe_status vp_api_report(struct vpipe_error *error, enum vp_status st,
                                const struct vp_err *err);
/* The same with VPIPE_CALLBACK if a callback returned `code`, not 0. */
enum vpipe_status vp_api_report_callback(struct vpipe_error *error,
                                         enum vp_status st,
                                         const struct vp_err *err, int code);
/* VPIPE_INVALID: "function: argument ... is NULL". */
enum vpipe_status vp_api_null(struct vpipe_error *error, const char *function,
                              const char *argument);

/* ---- Keys ---------------------------------------------------------------- */

/* "key=value" lines in the order in which they were set. */
struct vp_key_sets {
    char **at;
    int n;
};

/* Refuses unknown keys. */
enum vp_status vp_key_sets_add(struct vp_key_sets *sets, const char *key,
                               const char *value, struct vp_err *err);
void vp_key_sets_release(struct vp_key_sets *sets);

/* ---- Models and data of the caller's ------------------------------------- */

/* A model by callback; `build` NULL: none. */
struct vp_api_model {
    vpipe_build_fn build;
    void *ctx;
    int code; /* what the callback returned last, if not 0 */
    struct vp_custom_model custom;
    struct vp_model model;
    struct vp_model_size size;
};

/* Points the parts of the model to each other, wherever it was copied to, and
 * builds it once. */
enum vp_status vp_api_model_init(struct vp_api_model *model,
                                 struct vp_err *err);

/* Minibatches by callback; `fill` NULL: none. */
struct vp_api_data {
    vpipe_fill_fn fill;
    void *ctx;
    int64_t n_train, n_eval;
    int code; /* what the callback returned, if not 0 */
    struct vp_dims dims;
    struct vp_input_range ranges[VP_ROLE_COUNT];
    bool is_read[VP_ROLE_COUNT]; /* by the model */
    bool has_range[VP_ROLE_COUNT];
    pthread_mutex_t lock; /* one call at a time */
    struct vp_data_maker train, eval;
};

/* Finds out what the model of `config` reads, and makes makers that fill its
 * batches. `data` must not move afterwards. Release it. */
enum vp_status vp_api_data_init(struct vp_api_data *data,
                                const struct vp_config *config,
                                struct vp_err *err);
void vp_api_data_release(struct vp_api_data *data);

/* ---- Handles ------------------------------------------------------------- */

struct vpipe_config {
    char *path; /* of a file; NULL: none */
    struct vp_key_sets sets;
    char *plan; /* JSON; NULL: none */
    struct vp_api_model model;
    struct vp_api_data data; /* callback and numbers only */
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
};

#endif
