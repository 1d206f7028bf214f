/* Declarations shared by the files of this folder: handles, errors, and the
 * saved state of the calling thread. */
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

/* Saved floating-point environment and locale of the calling thread. The
 * library works with the default ones, so that files are written in the C
 * locale and results do not depend on the caller's rounding mode. */
struct vp_caller {
    fenv_t fenv;
    locale_t locale; /* 0: newlocale() failed; the locale was not changed */
};

/* Saves the state of the calling thread and sets the defaults. */
void vp_caller_enter(struct vp_caller *caller);
/* Restores the saved state. */
void vp_caller_leave(const struct vp_caller *caller);

/* ---- Errors -------------------------------------------------------------- */

/* Writes status and message to `error`, which may be NULL; the message is empty
 * for VP_OK. Returns the public status. */
enum vpipe_status vp_api_report(struct vpipe_error *error, enum vp_status st,
                                const struct vp_err *err);
/* The same, but a failure is VPIPE_CALLBACK if `code`, which a callback
 * returned, is not 0. */
enum vpipe_status vp_api_report_callback(struct vpipe_error *error,
                                         enum vp_status st,
                                         const struct vp_err *err, int code);
/* Returns VPIPE_INVALID with "function: argument ... is NULL". */
enum vpipe_status vp_api_null(struct vpipe_error *error, const char *function,
                              const char *argument);

/* ---- Keys ---------------------------------------------------------------- */

/* "key=value" lines in the order in which they were set. */
struct vp_key_sets {
    char **at;
    int n;
};

/* Appends a copy. Fails with VP_ERR_INVALID for an unknown key. */
enum vp_status vp_key_sets_add(struct vp_key_sets *sets, const char *key,
                               const char *value, struct vp_err *err);
void vp_key_sets_release(struct vp_key_sets *sets);

/* ---- Models and data by callback ----------------------------------------- */

/* A model by callback; `build` NULL: there is none. */
struct vp_api_model {
    vpipe_build_fn build;
    void *ctx;
    int code; /* last value other than 0 that the callback returned */
    struct vp_custom_model custom;
    struct vp_model model;
    struct vp_model_size size;
};

/* Sets the pointers between the parts of the model, after it was copied, and
 * builds it once to check it. */
enum vp_status vp_api_model_init(struct vp_api_model *model,
                                 struct vp_err *err);

/* Minibatches by callback; `fill` NULL: there are none. */
struct vp_api_data {
    vpipe_fill_fn fill;
    void *ctx;
    int64_t n_train, n_eval;
    int code; /* last value other than 0 that the callback returned */
    struct vp_dims dims;
    struct vp_input_range ranges[VP_ROLE_COUNT];
    bool is_read[VP_ROLE_COUNT]; /* the model reads this array */
    bool has_range[VP_ROLE_COUNT];
    pthread_mutex_t lock; /* serialises calls of `fill` */
    struct vp_data_maker train, eval;
};

/* Finds the arrays that the model of `config` reads, and sets up `train` and
 * `eval`, which point to `data`: it must not move afterwards. Release with
 * vp_api_data_release(). */
enum vp_status vp_api_data_init(struct vp_api_data *data,
                                const struct vp_config *config,
                                struct vp_err *err);
void vp_api_data_release(struct vp_api_data *data);

/* ---- Handles ------------------------------------------------------------- */

struct vpipe_config {
    char *path; /* YAML file; NULL: none */
    struct vp_key_sets sets;
    char *plan; /* JSON; NULL: none */
    struct vp_api_model model;
    struct vp_api_data data; /* only fill, ctx, n_train and n_eval are set */
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
};

#endif
