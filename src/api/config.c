/* struct vpipe_config: keys, files, model and data for trainers. */
#include "api/internal.h"

#include "config/key.h"

#include <stdlib.h>
#include <string.h>

/* ---- Keys ---------------------------------------------------------------- */

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "configuration: out of memory");
}

enum vp_status vp_key_sets_add(struct vp_key_sets *sets, const char *key,
                               const char *value, struct vp_err *err)
{
    const struct vp_entry entry = { .key = key, .place = "--set" };
    struct vp_strbuf text = VP_STRBUF_INIT;
    char **wider;

    if (!vp_key_find(key))
        return vp_entry_unknown(&entry, err);
    wider = realloc(sets->at, (size_t)(sets->n + 1) * sizeof(*wider));
    if (!wider)
        return no_memory(err);
    sets->at = wider;
    vp_strbuf_addf(&text, "%s=%s", key, value);
    wider[sets->n] = text.failed ? NULL : strdup(vp_strbuf_text(&text));
    vp_strbuf_release(&text);
    if (!wider[sets->n])
        return no_memory(err);
    sets->n++;
    return VP_OK;
}

void vp_key_sets_release(struct vp_key_sets *sets)
{
    for (int i = 0; i < sets->n; i++)
        free(sets->at[i]);
    free(sets->at);
    *sets = (struct vp_key_sets){ .n = 0 };
}

/* ---- The handle ---------------------------------------------------------- */

enum vpipe_status vpipe_config_create(struct vpipe_config **config_out,
                                      struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vpipe_config *config;

    if (!config_out)
        return vp_api_null(error, "vpipe_config_create", "config_out");
    config = calloc(1, sizeof(*config));
    if (!config)
        return vp_api_report(error, no_memory(&err), &err);
    *config_out = config;
    return vp_api_report(error, VP_OK, &err);
}

void vpipe_config_free(struct vpipe_config *config)
{
    if (!config)
        return;
    free(config->path);
    free(config->plan);
    vp_key_sets_release(&config->sets);
    free(config);
}

/* Replaces a string of the handle by a copy of `text`. */
static enum vpipe_status set_text(char **field, const char *text,
                                  struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    char *copy = strdup(text);

    if (!copy)
        return vp_api_report(error, no_memory(&err), &err);
    free(*field);
    *field = copy;
    return vp_api_report(error, VP_OK, &err);
}

enum vpipe_status vpipe_config_set_file(struct vpipe_config *config,
                                        const char *path,
                                        struct vpipe_error *error)
{
    if (!config || !path)
        return vp_api_null(error, "vpipe_config_set_file",
                           config ? "path" : "config");
    return set_text(&config->path, path, error);
}

enum vpipe_status vpipe_config_set_plan(struct vpipe_config *config,
                                        const char *json,
                                        struct vpipe_error *error)
{
    if (!config || !json)
        return vp_api_null(error, "vpipe_config_set_plan",
                           config ? "json" : "config");
    return set_text(&config->plan, json, error);
}

enum vpipe_status vpipe_config_set(struct vpipe_config *config, const char *key,
                                   const char *value, struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };

    if (!config || !key || !value)
        return vp_api_null(error, "vpipe_config_set",
                           !config ? "config"
                           : !key  ? "key"
                                   : "value");
    return vp_api_report(
        error, vp_key_sets_add(&config->sets, key, value, &err), &err);
}

void vpipe_config_set_log(struct vpipe_config *config,
                          void (*fn)(void *ctx, const char *line), void *ctx)
{
    if (!config)
        return;
    config->log = fn;
    config->log_ctx = ctx;
}

/* ---- Data and model ------------------------------------------------------ */

enum vpipe_status vpipe_config_set_data(struct vpipe_config *config,
                                        vpipe_fill_fn fill, void *ctx,
                                        int64_t n_train, int64_t n_eval,
                                        struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_OK;

    if (!config || !fill)
        return vp_api_null(error, "vpipe_config_set_data",
                           config ? "fill" : "config");
    if (n_train < 1 || n_eval < 0 || n_train > INT32_MAX || n_eval > INT32_MAX)
        st = vp_err_set(&err, VP_ERR_INVALID,
                        "vpipe_config_set_data: %lld minibatches to train on "
                        "and %lld to evaluate; give at least 1 and 0, and at "
                        "most 2^31 - 1",
                        (long long)n_train, (long long)n_eval);
    else
        config->data = (struct vp_api_data){
            .fill = fill, .ctx = ctx, .n_train = n_train, .n_eval = n_eval
        };
    return vp_api_report(error, st, &err);
}

/* Limits rows to 2^30, so that row numbers fit 32 bits as in batches of
 * files. */
static enum vp_status check_shape(const struct vpipe_shape *shape,
                                  struct vp_err *err)
{
    int64_t rows = 0, target = 0, all = 0;

    if (shape->batch < 1 || shape->seq < 1 || shape->target_seq < 0 ||
        shape->n_labels < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "shape: batch and seq must be 1 or more, target_seq "
                          "and n_labels 0 or more");
    if (!vp_mul_i64(shape->batch, shape->seq, &rows) ||
        !vp_mul_i64(shape->batch, shape->target_seq, &target) ||
        !vp_mul_i64(rows > target ? rows : target, 2, &all) ||
        all > INT32_MAX || shape->n_labels > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "shape: a minibatch has over 2^30 rows; use a "
                          "smaller batch or seq");
    return VP_OK;
}

enum vpipe_status vpipe_config_set_model(struct vpipe_config *config,
                                         const struct vpipe_shape *shape,
                                         vpipe_build_fn build, void *ctx,
                                         struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vp_api_model model = { .build = build, .ctx = ctx };
    struct vp_caller caller;
    enum vp_status st;

    if (!config || !shape || !build)
        return vp_api_null(error, "vpipe_config_set_model",
                           !config  ? "config"
                           : !shape ? "shape"
                                    : "build");
    model.custom.dims = (struct vp_dims){ .batch = shape->batch,
                                          .seq = shape->seq,
                                          .tgt_seq = shape->target_seq,
                                          .n_labels = shape->n_labels };
    vp_caller_enter(&caller);
    st = check_shape(shape, &err);
    if (st == VP_OK)
        st = vp_api_model_init(&model, &err);
    vp_caller_leave(&caller);
    if (st == VP_OK)
        config->model = model; /* each trainer sets its pointers anew */
    return vp_api_report_callback(error, st, &err, model.code);
}
