/* struct vpipe_trainer: a session of src/run with the caller's callbacks. */
#include "api/internal.h"

#include "run/auto_plan.h"
#include "run/session.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct vpipe_trainer {
    struct vp_config config;
    struct vp_api_model model;
    struct vp_api_data data;
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    struct vp_run_events events;
    struct vp_session *session;
    char *plan, *text; /* last results of vpipe_trainer_plan() and _config() */
    bool lost;         /* a rank never returned while the trainer was created */
    struct vpipe_trainer *next_lost;

    /* State of a call that trains. */
    struct vp_caller caller;
    vpipe_step_fn on_step;
    void *step_ctx;
    double *losses; /* array of n_losses; NULL: not wanted */
    int64_t first_step, n_losses;
    volatile sig_atomic_t stop;
};

/* ---- Events -------------------------------------------------------------- */

static void on_line(void *ctx, const char *line)
{
    const struct vpipe_trainer *trainer = ctx;

    if (trainer->log)
        trainer->log(trainer->log_ctx, line);
}

static double rate(double n, double seconds)
{
    return seconds > 0.0 ? n / seconds : 0.0;
}

static void on_step(void *ctx, const struct vp_step_report *report)
{
    struct vpipe_trainer *trainer = ctx;
    const struct vpipe_step step = {
        .step = report->step,
        .n_steps = report->n_steps,
        .minibatch = report->minibatch,
        .loss = report->loss,
        .lr = report->lr,
        .grad_norm = report->grad_norm,
        .seconds = report->seconds,
        .tokens_per_second = rate((double)report->n_tokens, report->seconds),
        .bubble = report->bubble,
    };
    int64_t i = report->step - trainer->first_step - 1;

    if (trainer->losses && i >= 0 && i < trainer->n_losses)
        trainer->losses[i] = report->loss;
    if (!trainer->on_step)
        return;
    vp_caller_leave(&trainer->caller);
    if (trainer->on_step(trainer->step_ctx, &step) != 0)
        trainer->stop = 1;
    vp_caller_enter(&trainer->caller);
}

/* ---- Creating ------------------------------------------------------------ */

static struct vp_config_source source_of(const struct vpipe_config *config,
                                         const struct vpipe_trainer *trainer)
{
    static const char empty[] = "{}\n";

    return (struct vp_config_source){
        .path = config->path ? config->path : "vpipe_config",
        .bytes = config->path ? NULL : empty,
        .n_bytes = config->path ? 0 : strlen(empty),
        .sets = (const char *const *)config->sets.at,
        .n_sets = config->sets.n,
        .custom = trainer->model.build ? &trainer->model.model : NULL,
        .plan = config->plan,
    };
}

static enum vp_status load(const struct vpipe_config *config,
                           struct vpipe_trainer *trainer, const char *resume,
                           char **plan_line_out, struct vp_err *err)
{
    struct vp_auto_plan_options options = { .world = NULL };
    struct vp_config_source source;

    if (config->model.build && !config->data.fill)
        return vp_err_set(err, VP_ERR_INVALID,
                          "a model from operators needs minibatches by a "
                          "callback; call vpipe_config_set_data()");
    if (trainer->model.build)
        VP_TRY(vp_api_model_init(&trainer->model, err));
    source = source_of(config, trainer);
    VP_TRY(vp_config_load_from(&source, &trainer->config, err));
    if (vp_config_is_distributed(&trainer->config))
        return vp_err_set(
            err, VP_ERR_UNSUPPORTED,
            "%s: key 'distributed_backend': the library runs "
            "all stages in this process; remove the key, or use "
            "the program vpipe",
            vp_config_place(&trainer->config, "distributed_backend"));
    if (trainer->config.forward_only)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'forward_only': a trainer trains; remove "
                          "the key, or evaluate by vpipe_model_evaluate()",
                          vp_config_place(&trainer->config, "forward_only"));
    options.source = source;
    options.resume = resume;
    options.measure = true; /* by threads of its own */
    return vp_auto_plan(&trainer->config, &options, plan_line_out, err);
}

static enum vp_status open_session(struct vpipe_trainer *trainer,
                                   const char *output, const char *resume,
                                   const char *plan_line, struct vp_err *err)
{
    struct vp_run_options options = {
        .output = output,
        .resume = resume,
        .driven = true,
        .stop = &trainer->stop,
        .plan_line = plan_line,
    };

    if (trainer->data.fill) {
        VP_TRY(vp_api_data_init(&trainer->data, &trainer->config, err));
        options.train_maker = &trainer->data.train;
        if (trainer->data.n_eval > 0)
            options.eval_maker = &trainer->data.eval;
    }
    trainer->events = (struct vp_run_events){ .ctx = trainer,
                                              .on_step = on_step,
                                              .on_notice = on_line,
                                              .on_warning = on_line };
    for (int i = 0; i < trainer->config.n_notices; i++)
        on_line(trainer, trainer->config.notices[i]);
    return vp_session_open(&trainer->config, &options, &trainer->events,
                           &trainer->session, err);
}

static enum vp_status set_up(struct vpipe_trainer *trainer,
                             const struct vpipe_config *config,
                             const char *output, const char *resume,
                             struct vp_err *err)
{
    char *plan_line = NULL;
    enum vp_status st;

    trainer->model = config->model;
    trainer->data = config->data;
    trainer->log = config->log;
    trainer->log_ctx = config->log_ctx;
    st = load(config, trainer, resume, &plan_line, err);
    if (st == VP_OK)
        st = open_session(trainer, output, resume, plan_line, err);
    free(plan_line);
    trainer->lost = st == VP_ERR_TIMEOUT;
    return st;
}

enum vpipe_status vpipe_trainer_create(const struct vpipe_config *config,
                                       const char *output, const char *resume,
                                       struct vpipe_trainer **trainer_out,
                                       struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vpipe_trainer *trainer;
    struct vp_caller caller;
    enum vp_status st;
    int code;

    if (!config || !trainer_out)
        return vp_api_null(error, "vpipe_trainer_create",
                           config ? "trainer_out" : "config");
    trainer = calloc(1, sizeof(*trainer));
    if (!trainer)
        return vp_api_report(error, VP_ERR_NOMEM, &err);
    vp_caller_enter(&caller);
    st = set_up(trainer, config, output, resume, &err);
    vp_caller_leave(&caller);
    code = trainer->model.code != 0 ? trainer->model.code : trainer->data.code;
    if (st == VP_OK)
        *trainer_out = trainer;
    else
        vpipe_trainer_free(trainer);
    return vp_api_report_callback(error, st, &err, code);
}

/* Leaked on purpose: a rank thread that never returned may still use it. The
 * list keeps it reachable for leak checkers. */
static void keep_lost(struct vpipe_trainer *trainer)
{
    static _Atomic(struct vpipe_trainer *) lost;

    trainer->next_lost = atomic_exchange(&lost, trainer);
}

void vpipe_trainer_free(struct vpipe_trainer *trainer)
{
    struct vp_caller caller;

    if (!trainer)
        return;
    vp_caller_enter(&caller);
    if (!vp_session_close(trainer->session) || trainer->lost) {
        keep_lost(trainer);
    } else {
        vp_config_release(&trainer->config);
        vp_api_data_release(&trainer->data);
        free(trainer->plan);
        free(trainer->text);
        free(trainer);
    }
    vp_caller_leave(&caller);
}

/* ---- Training ------------------------------------------------------------ */

static enum vpipe_status run(struct vpipe_trainer *trainer, int64_t n_steps,
                             struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    enum vp_status st;

    vp_caller_enter(&trainer->caller);
    trainer->stop = 0;
    trainer->first_step = vp_session_step(trainer->session);
    st = vp_session_run(trainer->session, n_steps, &err);
    vp_caller_leave(&trainer->caller);
    return vp_api_report_callback(error, st, &err, trainer->data.code);
}

enum vpipe_status vpipe_trainer_run(struct vpipe_trainer *trainer,
                                    int64_t n_steps, vpipe_step_fn fn,
                                    void *ctx, struct vpipe_error *error)
{
    enum vpipe_status status;

    if (!trainer)
        return vp_api_null(error, "vpipe_trainer_run", "trainer");
    trainer->on_step = fn;
    trainer->step_ctx = ctx;
    status = run(trainer, n_steps, error);
    trainer->on_step = NULL;
    return status;
}

enum vpipe_status vpipe_trainer_run_losses(struct vpipe_trainer *trainer,
                                           int64_t n_steps, double *losses_out,
                                           struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    enum vpipe_status status;
    enum vp_status st;

    if (!trainer || !losses_out)
        return vp_api_null(error, "vpipe_trainer_run_losses",
                           trainer ? "losses_out" : "trainer");
    if (n_steps < 1) {
        st = vp_err_set(&err, VP_ERR_INVALID,
                        "vpipe_trainer_run_losses: %lld steps; ask for 1 or "
                        "more",
                        (long long)n_steps);
        return vp_api_report(error, st, &err);
    }
    trainer->losses = losses_out;
    trainer->n_losses = n_steps;
    status = run(trainer, n_steps, error);
    trainer->losses = NULL;
    return status;
}

int64_t vpipe_trainer_step(const struct vpipe_trainer *trainer)
{
    return trainer ? vp_session_step(trainer->session) : 0;
}

enum vpipe_status vpipe_trainer_evaluate(struct vpipe_trainer *trainer,
                                         int64_t n_batches, double *loss_out,
                                         struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vp_caller caller;
    enum vp_status st;

    if (!trainer || !loss_out)
        return vp_api_null(error, "vpipe_trainer_evaluate",
                           trainer ? "loss_out" : "trainer");
    vp_caller_enter(&caller);
    trainer->stop = 0;
    st = vp_session_evaluate(trainer->session, n_batches, loss_out, &err);
    vp_caller_leave(&caller);
    return vp_api_report_callback(error, st, &err, trainer->data.code);
}

enum vpipe_status vpipe_trainer_save(struct vpipe_trainer *trainer,
                                     const char *folder,
                                     struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vp_caller caller;
    enum vp_status st;

    if (!trainer)
        return vp_api_null(error, "vpipe_trainer_save", "trainer");
    vp_caller_enter(&caller);
    st = vp_session_save(trainer->session, folder, &err);
    vp_caller_leave(&caller);
    return vp_api_report(error, st, &err);
}

/* ---- Questions ----------------------------------------------------------- */

/* Finds the part of a parameter by its name. A tied copy has the name of its
 * owner, which comes first. Returns NULL if there is none. */
static const struct vp_part *find_part(const struct vp_graph *graph,
                                       const char *name, vp_par *param_out)
{
    for (int i = 0; i < graph->n_params; i++)
        for (int j = 0; j < graph->params[i].n_parts; j++)
            if (strcmp(graph->params[i].part[j].name, name) == 0) {
                *param_out = i;
                return &graph->params[i].part[j];
            }
    return NULL;
}

static enum vp_status copy_weights(const struct vpipe_trainer *trainer,
                                   const char *name, float *out, size_t n,
                                   struct vp_err *err)
{
    const struct vp_graph *graph = vp_session_graph(trainer->session);
    const struct vp_part *part;
    const struct vp_param *param;
    enum vp_status st;
    float *all;
    vp_par i = VP_NONE;

    part = find_part(graph, name, &i);
    if (!part)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the model has no parameter '%.200s'", name);
    param = &graph->params[i];
    if ((int64_t)n != part->rows * param->cols)
        return vp_err_set(err, VP_ERR_INVALID,
                          "parameter '%.200s' has %lld x %lld numbers, but "
                          "there is room for %zu",
                          name, (long long)part->rows, (long long)param->cols,
                          n);
    all = malloc((size_t)(param->rows * param->cols) * sizeof(*all));
    if (!all)
        return VP_ERR_NOMEM;
    st = vp_trainer_get_weights(vp_session_trainer(trainer->session), i, 0,
                                all);
    if (st == VP_OK)
        memcpy(out, all + part->row * param->cols, n * sizeof(*out));
    else
        vp_err_set(err, st, "parameter '%.200s': no stage has it", name);
    free(all);
    return st;
}

enum vpipe_status vpipe_trainer_weights(const struct vpipe_trainer *trainer,
                                        const char *name, float *weights_out,
                                        size_t n, struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };

    if (!trainer || !name || !weights_out)
        return vp_api_null(error, "vpipe_trainer_weights",
                           !trainer ? "trainer"
                           : !name  ? "name"
                                    : "weights_out");
    return vp_api_report(
        error, copy_weights(trainer, name, weights_out, n, &err), &err);
}

const char *vpipe_trainer_plan(struct vpipe_trainer *trainer)
{
    struct vp_caller caller;

    if (!trainer)
        return NULL;
    vp_caller_enter(&caller);
    free(trainer->plan);
    trainer->plan = NULL;
    vp_session_plan(trainer->session, &trainer->plan);
    vp_caller_leave(&caller);
    return trainer->plan;
}

const char *vpipe_trainer_config(struct vpipe_trainer *trainer)
{
    struct vp_caller caller;

    if (!trainer)
        return NULL;
    vp_caller_enter(&caller);
    free(trainer->text);
    trainer->text = NULL;
    vp_config_explain(&trainer->config, &trainer->text, NULL);
    vp_caller_leave(&caller);
    return trainer->text;
}
