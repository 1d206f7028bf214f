/* struct vpipe_model: generation and evaluation with a trained model on disk;
 * export and import of Hugging Face folders. */
#include "api/internal.h"

#include "run/evaluate.h"
#include "run/export.h"
#include "run/generate.h"
#include "run/import.h"
#include "run/model_source.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct vpipe_model {
    struct vp_model_source *source;
    struct vp_key_sets sets;
    char *text; /* last result of vpipe_model_config() */

    /* State of the last call that ran the model. */
    struct vp_config config;
    struct vp_generate_config generate;
    struct vp_evaluate_config evaluate;
    bool lost; /* a rank thread never returned and may still use all of it */
    struct vpipe_model *next_lost;
};

enum vpipe_status vpipe_model_open(const char *path,
                                   struct vpipe_model **model_out,
                                   struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vpipe_model *model;
    struct vp_caller caller;
    enum vp_status st;

    if (!path || !model_out)
        return vp_api_null(error, "vpipe_model_open",
                           path ? "model_out" : "path");
    model = calloc(1, sizeof(*model));
    if (!model)
        return vp_api_report(error, VP_ERR_NOMEM, &err);
    vp_caller_enter(&caller);
    st = vp_model_source_open(path, NULL, NULL, &model->source, &err);
    vp_caller_leave(&caller);
    if (st == VP_OK)
        *model_out = model;
    else
        free(model);
    return vp_api_report(error, st, &err);
}

/* Leaked on purpose, see `lost`. The list keeps it reachable for leak
 * checkers. */
static void keep_lost(struct vpipe_model *model)
{
    static _Atomic(struct vpipe_model *) lost;

    model->next_lost = atomic_exchange(&lost, model);
}

void vpipe_model_free(struct vpipe_model *model)
{
    if (!model)
        return;
    if (model->lost) {
        keep_lost(model);
        return;
    }
    vp_config_release(&model->config);
    vp_model_source_close(model->source);
    vp_key_sets_release(&model->sets);
    free(model->text);
    free(model);
}

enum vpipe_status vpipe_model_set(struct vpipe_model *model, const char *key,
                                  const char *value, struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };

    if (!model || !key || !value)
        return vp_api_null(error, "vpipe_model_set",
                           !model ? "model"
                           : !key ? "key"
                                  : "value");
    return vp_api_report(error, vp_key_sets_add(&model->sets, key, value, &err),
                         &err);
}

/* Release `config` with vp_config_release(), also after an error. */
static enum vp_status load_config(const struct vpipe_model *model,
                                  struct vp_config *config, struct vp_err *err)
{
    return vp_model_source_config(model->source,
                                  (const char *const *)model->sets.at,
                                  model->sets.n, config, err);
}

/* Loads model->config for a call that runs the model. */
static enum vp_status begin_call(struct vpipe_model *model, struct vp_err *err)
{
    if (model->lost)
        return vp_err_set(err, VP_ERR_INVALID,
                          "a stage of this model did not answer before; open "
                          "the model again");
    vp_config_release(&model->config);
    model->config = (struct vp_config){ .path = NULL };
    return load_config(model, &model->config, err);
}

const char *vpipe_model_config(struct vpipe_model *model,
                               struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vp_caller caller;
    struct vp_config config;
    enum vp_status st;

    if (!model) {
        vp_api_null(error, "vpipe_model_config", "model");
        return NULL;
    }
    vp_caller_enter(&caller);
    free(model->text);
    model->text = NULL;
    st = load_config(model, &config, &err);
    if (st == VP_OK)
        st = vp_config_explain(&config, &model->text, &err);
    vp_config_release(&config);
    vp_caller_leave(&caller);
    vp_api_report(error, st, &err);
    return model->text;
}

static void drop_line(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

/* ---- Generating ---------------------------------------------------------- */

struct text {
    int32_t *ids;
    size_t n, room;
};

static enum vp_status take_id(void *ctx, int64_t k, int32_t id, bool *stop_out,
                              struct vp_err *err)
{
    struct text *text = ctx;

    (void)k;
    (void)stop_out;
    (void)err;
    VP_BUG_ON(text->n == text->room);
    text->ids[text->n++] = id;
    return VP_OK;
}

static enum vp_status generate(struct vpipe_model *model,
                               const struct vp_sequence *prompt,
                               const struct vpipe_sampling *sampling,
                               struct text *text, struct vp_err *err)
{
    enum vp_status st;

    VP_TRY(begin_call(model, err));
    model->generate = (struct vp_generate_config){
        .config = &model->config,
        .source = model->source,
        .prompts = prompt,
        .n_prompts = 1,
        .max_tokens = (int64_t)text->room,
        .sampling = { .repetition_penalty = sampling->repetition_penalty,
                      .temperature = sampling->temperature,
                      .top_k = sampling->top_k,
                      .top_p = sampling->top_p },
        .seed = sampling->seed,
        .end_ids = &sampling->end_id,
        .n_end_ids = sampling->end_id >= 0,
        .sink = { text, take_id, NULL },
        .notice = drop_line,
    };
    st = vp_generate(&model->generate, err);
    model->lost = st == VP_ERR_TIMEOUT;
    return st;
}

static enum vp_status check_request(size_t n_prompt,
                                    const struct vpipe_sampling *sampling,
                                    size_t n_new, struct vp_err *err)
{
    if (sampling->size != sizeof(*sampling))
        return vp_err_set(err, VP_ERR_INVALID,
                          "vpipe_model_generate: struct vpipe_sampling has "
                          "size %zu, not %zu; begin with VPIPE_SAMPLING",
                          sampling->size, sizeof(*sampling));
    if (n_prompt < 1 || n_prompt > INT32_MAX || n_new < 1 || n_new > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "vpipe_model_generate: a prompt of %zu ids and %zu "
                          "new ones; ask for 1 to 2^31 - 1 of each",
                          n_prompt, n_new);
    return VP_OK;
}

enum vpipe_status vpipe_model_generate(struct vpipe_model *model,
                                       const int32_t *prompt, size_t n_prompt,
                                       const struct vpipe_sampling *sampling,
                                       size_t n_new, int32_t *ids_out,
                                       size_t *n_out, struct vpipe_error *error)
{
    static const struct vpipe_sampling greedy = VPIPE_SAMPLING;
    const struct vp_sequence sequence = { .ids = prompt,
                                          .n_ids = (int64_t)n_prompt };
    struct text text = { .ids = ids_out, .room = n_new };
    struct vp_err err = { .text = "" };
    struct vp_caller caller;
    enum vp_status st;

    if (!model || !prompt || !ids_out || !n_out)
        return vp_api_null(error, "vpipe_model_generate",
                           !model     ? "model"
                           : !prompt  ? "prompt"
                           : !ids_out ? "ids_out"
                                      : "n_out");
    if (!sampling)
        sampling = &greedy;
    vp_caller_enter(&caller);
    st = check_request(n_prompt, sampling, n_new, &err);
    if (st == VP_OK)
        st = generate(model, &sequence, sampling, &text, &err);
    vp_caller_leave(&caller);
    if (st == VP_OK)
        *n_out = text.n;
    return vp_api_report(error, st, &err);
}

/* ---- Evaluating ---------------------------------------------------------- */

static enum vp_status evaluate(struct vpipe_model *model,
                               struct vp_evaluation *found, struct vp_err *err)
{
    enum vp_status st;

    VP_TRY(begin_call(model, err));
    model->evaluate = (struct vp_evaluate_config){ .config = &model->config,
                                                   .source = model->source,
                                                   .notice = drop_line };
    st = vp_evaluate(&model->evaluate, found, err);
    model->lost = st == VP_ERR_TIMEOUT;
    return st;
}

enum vpipe_status vpipe_model_evaluate(struct vpipe_model *model,
                                       struct vpipe_score *score_out,
                                       struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vp_evaluation found;
    struct vp_caller caller;
    enum vp_status st;

    if (!model || !score_out)
        return vp_api_null(error, "vpipe_model_evaluate",
                           model ? "score_out" : "model");
    vp_caller_enter(&caller);
    st = evaluate(model, &found, &err);
    vp_caller_leave(&caller);
    if (st == VP_OK)
        *score_out = (struct vpipe_score){
            .loss = vp_score_loss(&found.score),
            .accuracy = found.score.n_labels > 0.0
                            ? found.score.top1 / found.score.n_labels
                            : (double)NAN,
            .n_labels = found.score.n_labels,
        };
    return vp_api_report(error, st, &err);
}

/* ---- Hugging Face folders ------------------------------------------------ */

enum vpipe_status vpipe_export(const char *from, const char *to,
                               struct vpipe_error *error)
{
    const struct vp_export_config with = { .from = from,
                                           .to = to,
                                           .type = VP_ST_COUNT };
    struct vp_err err = { .text = "" };
    struct vp_export_result result;
    struct vp_caller caller;
    enum vp_status st;

    if (!from || !to)
        return vp_api_null(error, "vpipe_export", from ? "to" : "from");
    vp_caller_enter(&caller);
    st = vp_export(&with, &result, &err);
    vp_caller_leave(&caller);
    return vp_api_report(error, st, &err);
}

enum vpipe_status vpipe_import(const char *from, const char *to,
                               struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vp_import_result result;
    struct vp_caller caller;
    enum vp_status st;

    if (!from || !to)
        return vp_api_null(error, "vpipe_import", from ? "to" : "from");
    vp_caller_enter(&caller);
    st = vp_import(from, to, drop_line, NULL, &result, &err);
    vp_caller_leave(&caller);
    return vp_api_report(error, st, &err);
}
