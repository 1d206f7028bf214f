/* One case of bench_forecast: measures a profile, searches a plan, trains
 * it. */
#include "forecast_case.h"

#include "base/clock.h"
#include "forecast.h"
#include "runtime/profile/profile_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_WARM = 3,      /* steps before those that count */
    STREAM_PART = 8, /* minibatches of a stream that are timed together */
    N_TRIES = 4,     /* runs of a case whose kernels sleep */
};

struct forecast_model {
    struct lab_size size;
    struct forecast_device device;
    struct lab *lab; /* for its graphs and configuration; never trains */
    int devices[VP_MAX_STAGES];
    struct vp_train_config train;
    struct vp_stage_config stage;
    struct vp_arena arena;
    struct vp_device_profile profile;
    struct vp_search *search;
};

/* ---- The model ---------------------------------------------------------- */

static void measure_profile(struct forecast_model *model)
{
    struct vp_profile_request request = {
        .config = &model->train,
        .facts = { "this machine", "", "", "", "" },
        .n_ranks = model->device.n_ranks,
        .n_repeats = model->device.n_repeats,
    };
    struct vp_err err = { .text = "" };

    if (vp_profile_measure(&request, &model->arena, &model->profile, &err) !=
        VP_OK)
        lab_die("profile", &err);
}

struct forecast_model *forecast_model_open(const struct lab_size *size,
                                           const struct forecast_device *device,
                                           double *seconds_out)
{
    struct forecast_model *model = calloc(1, sizeof(*model));
    struct lab_spec spec = { .size = *size,
                             .schedule = "1f1b",
                             .n_stages = 1,
                             .n_mb = 1,
                             .dry = true,
                             .backend = device->backend };
    int64_t start = vp_clock_ns();

    if (!model)
        lab_die("model", &(struct vp_err){ .text = "out of memory" });
    model->size = *size;
    model->device = *device;
    model->lab = lab_open(&spec);
    for (int r = 0; r < VP_MAX_STAGES; r++)
        model->devices[r] = device->shared ? 0 : r;
    model->train = *lab_train_config(model->lab);
    if (device->shared || device->pinned)
        model->train.plan.devices = model->devices;
    model->train.plan.recompute_ratio = NULL;
    model->stage = vp_train_stage_config(&model->train,
                                         &model->train.backend_config);
    measure_profile(model);
    if (vp_search_create(&model->stage.work, &model->profile, &model->search) !=
        VP_OK)
        lab_die("search", &(struct vp_err){ .text = "out of memory" });
    *seconds_out = vp_clock_seconds(start, vp_clock_ns());
    return model;
}

void forecast_model_close(struct forecast_model *model)
{
    vp_search_free(model->search);
    vp_arena_release(&model->arena);
    lab_close(model->lab);
    free(model);
}

const struct vp_device_profile *forecast_model_profile(
    const struct forecast_model *model)
{
    return &model->profile;
}

/* ---- The plan ----------------------------------------------------------- */

static struct vp_plan base_plan(const struct forecast_model *model,
                                const struct forecast_case *run)
{
    struct vp_plan plan = model->train.plan;

    plan.schedule = strcmp(run->schedule, "search") == 0 ? "1f1b"
                                                         : run->schedule;
    plan.n_stages = run->n_stages;
    plan.n_chunks = run->n_chunks;
    plan.accumulation_steps = vp_generator_find(plan.schedule)->stream
                                  ? 1
                                  : run->n_mb;
    return plan;
}

static bool is_found(enum vp_status st, const struct vp_err *err)
{
    if (st != VP_OK && st != VP_ERR_UNSUPPORTED && st != VP_ERR_INVALID)
        lab_die("search", err);
    if (st != VP_OK)
        fprintf(stderr, "bench_forecast: %s\n", err->text);
    return st == VP_OK;
}

/* Searches a plan for a limit between the bytes of the smallest plan (`room` 0)
 * and those of the fastest plan without a limit (1). */
static bool search(struct forecast_model *model, double room,
                   struct vp_search_input *input, struct forecast_result *out)
{
    struct vp_search_result *at = &out->plan;
    int64_t limits[VP_MAX_STAGES], least, most;
    struct vp_err err = { .text = "" };

    if (!is_found(vp_search_run(model->search, input, at, &err), &err))
        return false;
    most = vp_search_largest_rank(at);
    vp_search_result_release(at);
    if (!is_found(vp_search_least(model->search, input, &least, at, &err),
                  &err))
        return false;
    out->limit = least;
    if (room == 0.0 || most <= least)
        return true; /* the smallest plan itself */
    vp_search_result_release(at);
    out->limit += (int64_t)(room * (double)(most - least));
    for (int r = 0; r < VP_MAX_STAGES; r++)
        limits[r] = out->limit;
    input->limits = limits;
    return is_found(vp_search_run(model->search, input, at, &err), &err);
}

static bool make_plan(struct forecast_model *model,
                      const struct forecast_case *run,
                      struct forecast_result *out)
{
    struct vp_plan base = base_plan(model, run);
    struct vp_search_input input = {
        .base = &base,
        .stream = vp_generator_find(base.schedule)->stream,
        .free_schedule = strcmp(run->schedule, "search") == 0,
        .free_partition = true,
        .free_recompute = true,
        .allow_swap = run->swap && model->profile.copy_out > 0.0,
    };

    return search(model, run->room, &input, out);
}

/* ---- The run ------------------------------------------------------------ */

/* Collects the times of steps; the first and the last ones do not count. */
struct watch {
    int64_t n, first, end; /* steps; `end`: the first that does not count */
    int part;              /* steps that are timed together */
    double seconds, waited, all;
    struct series *series;
};

static bool note_step(void *ctx, const struct vp_step_report *report)
{
    struct watch *watch = ctx;
    int64_t i = watch->n++ - watch->first;

    if (i < 0 || watch->n > watch->end)
        return true;
    watch->seconds += report->seconds;
    watch->all += report->seconds;
    watch->waited += report->bubble * report->seconds;
    if ((i + 1) % watch->part == 0) {
        series_add(watch->series, watch->seconds / watch->part);
        watch->seconds = 0.0;
    }
    return true;
}

static void simulate_measured(const struct forecast_model *model,
                              struct lab *lab, struct forecast_result *out)
{
    struct vp_plan_costs costs = { .device = NULL };
    struct vp_plan_forecast_time time;
    struct vp_err err = { .text = "" };

    memcpy(costs.stages, out->measured, sizeof(costs.stages));
    costs.sched.stages = costs.stages;
    costs.sched.latency = model->profile.same_host.seconds;
    for (int s = 0; s < out->plan.n_stages; s++) {
        costs.stages[s].swap_out = out->plan.costs[s].swap_out;
        costs.stages[s].swap_in = out->plan.costs[s].swap_in;
    }
    if (vp_plan_forecast_seconds(lab_schedule(lab), &costs, &time, &err) !=
        VP_OK)
        lab_die("simulation", &err);
    out->replay = time.step;
}

static void train(struct forecast_model *model, int n_mb, int n_rounds,
                  struct forecast_result *out)
{
    const struct vp_plan *plan = &out->plan.plan;
    bool stream = vp_generator_find(plan->schedule)->stream;
    struct lab_spec spec = { .size = model->size,
                             .schedule = plan->schedule,
                             .n_stages = plan->n_stages,
                             .n_mb = stream ? 1 : n_mb,
                             .backend = model->device.backend,
                             .plan = plan };
    struct lab *lab = lab_open(&spec);
    int ramp = stream ? 4 * plan->n_stages : N_WARM;
    int part = stream ? STREAM_PART : 1;
    struct watch watch = { .first = ramp,
                           .end = ramp + n_rounds * part,
                           .part = part,
                           .series = &out->seconds };
    struct vp_err err = { .text = "" };

    out->all_allocated = lab_allocated(lab);
    for (int s = 0; s < out->plan.n_stages; s++)
        out->allocated[s] = lab_prices(lab)[s].memory.total;
    if (vp_trainer_run(lab_trainer(lab), watch.end + (stream ? ramp : 1),
                       note_step, &watch, &err) != VP_OK)
        lab_die("training", &err);
    out->step = model->device.sleeps ? series_min(&out->seconds)
                                     : series_median(&out->seconds);
    out->idle = watch.waited / watch.all;
    forecast_costs(lab_trainer(lab),
                   stream ? n_rounds * STREAM_PART : n_rounds * n_mb,
                   out->measured);
    simulate_measured(model, lab, out);
    lab_close(lab);
}

bool forecast_case_run(struct forecast_model *model,
                       const struct forecast_case *run, int n_rounds,
                       struct forecast_result *out)
{
    int n_tries = model->device.sleeps ? N_TRIES : 1;

    memset(out, 0, sizeof(*out));
    if (!make_plan(model, run, out))
        return false;
    /* Repeated, as other programs on the machine can delay a rank that wakes
     * up. */
    for (int i = 0;
         i == 0 || (i < n_tries && out->step > 1.05 * out->plan.time.step); i++)
        train(model, run->n_mb, n_rounds, out);
    return true;
}

int forecast_wrong_bytes(const struct forecast_result *result)
{
    int64_t sum = 0;
    int n = 0;

    for (int s = 0; s < result->plan.n_stages; s++) {
        n += result->allocated[s] != result->plan.prices[s].memory.total;
        sum += result->plan.prices[s].memory.total;
    }
    return n + (sum != result->all_allocated);
}
