/* bench_forecast [OPTION]...: compares the planner's forecasts with training
 * steps. For every case (model, stages, schedule, memory limit) the search
 * makes a plan from a profile that was measured in this process. The plan is
 * trained for a few steps, and its forecast compared with them: seconds of a
 * step, and bytes of every stage.
 *
 * On the CPU cases are sampled, and each rank is pinned to its own core. On a
 * GPU four stages share it, and the cases are all of 2 models x 3 limits x 3
 * schedules. With --sleep kernels sleep instead of computing: that needs no
 * cores, and leaves only the errors of profile, planner, simulator and runtime.
 * Prints a line of JSON per case with the seconds of every stage, then a table
 * and a summary. With --targets, exit 1 if one is missed.
 *
 *   /meas.   forecast / measured seconds of a step
 *   replay   simulated with the mean times of actions in these same steps /
 *            measured: its distance from 1 is the error of the simulator; the
 *            rest of the error in /meas. comes from the costs
 *   idle     waiting share of all ranks, forecast and measured
 *   F R B W U   time in the pipeline / time by the plan, over all stages; B
 *            includes W if the schedule does not split them; "-": none */
#include "backend/plugin.h"
#include "base/clock.h"
#include "base/rng.h"
#include "forecast_case.h"
#include "sleeper.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MAX_CASES = 512, GPU_STAGES = 4, SLEEP_STAGES = 6, MAX_STAGES = 16 };

struct settings {
    bool gpu, sleep, targets;
    int n_cases, seed, n_rounds;
    int n_stages; /* most stages of a case; 0: the number of cores */
    const struct lab_size *models;
    int n_models;
};

/* ---- Cases -------------------------------------------------------------- */

/* 33 to 35 blocks: 16 ranks can have two chunks each. Embeddings are not tied:
 * asynchronous training refuses ties between stages. */
static const struct lab_size cpu_models[] = {
    { "bert", 4096, 256, 16, 4, 64, 2, 10, 0.1, false, VP_DTYPE_F32 },
    { "gpt2", 4096, 256, 16, 4, 64, 2, 0, 0.1, false, VP_DTYPE_F32 },
    { "translation", 4096, 256, 6, 4, 64, 2, 0, 0.1, false, VP_DTYPE_F32 },
};

/* BERT-large and GPT-2 medium. */
static const struct lab_size gpu_models[] = {
    { "bert", 30528, 1024, 24, 16, 128, 32, 20, 0.1, false, VP_DTYPE_BF16 },
    { "gpt2", 50304, 1024, 24, 16, 1024, 4, 0, 0.0, false, VP_DTYPE_BF16 },
};

/* With these rates the kernels of a block sleep for milliseconds. */
static const struct lab_size sleep_models[] = {
    { "bert", 64, 16, 6, 2, 32, 4, 4, 0.0, false, VP_DTYPE_F32 },
};
static const double sleep_us_per_gflop = 4e6, sleep_ns_per_weight = 100.0;

static const struct kind {
    const char *schedule;
    int n_chunks;
} kinds[] = {
    { "1f1b", 1 }, { "gpipe", 1 },     { "zb-h1", 1 },  { "interleaved", 2 },
    { "zb-v", 2 }, { "pipedream", 1 }, { "search", 1 },
};
enum { N_KINDS = VP_COUNT_OF(kinds) };

/* A case, its model, and its result. */
struct entry {
    int model;
    struct forecast_case of;
    struct forecast_result result;
    bool run;
};

static int sample_below(const struct settings *settings, int i, int what, int n)
{
    return (int)vp_rng_below(vp_rng((uint64_t)settings->seed, VP_RNG_TEST, 0,
                                    (uint32_t)i, (uint32_t)what, 0)
                                 .v[0],
                             (uint32_t)n);
}

/* Kinds and models take turns, so that all have the same number of cases;
 * stages, minibatches and memory are sampled. */
static void sample_cases(const struct settings *settings, struct entry *entries)
{
    static const int mbs[] = { 4, 8, 12, 16 };

    for (int i = 0; i < settings->n_cases; i++) {
        const struct kind *kind = &kinds[i % N_KINDS];

        entries[i].model = i / N_KINDS % settings->n_models;
        entries[i].of = (struct forecast_case){
            .schedule = kind->schedule,
            .n_chunks = kind->n_chunks,
            .n_stages = 2 +
                        sample_below(settings, i, 0, settings->n_stages - 1),
            .n_mb = mbs[sample_below(settings, i, 1, VP_COUNT_OF(mbs))],
            .room = 0.25 * sample_below(settings, i, 2, 5),
        };
        /* interleaved needs a multiple of the number of ranks. */
        if (strcmp(kind->schedule, "interleaved") == 0)
            entries[i].of.n_mb = entries[i].of.n_stages *
                                 (entries[i].of.n_stages < 8 ? 2 : 1);
    }
}

static int list_gpu_cases(struct entry *entries)
{
    static const struct kind gpu_kinds[] = { { "1f1b", 1 },
                                             { "zb-v", 2 },
                                             { "pipedream", 1 } };
    static const double rooms[] = { 0.1, 0.5, 1.0 };
    int n = 0;

    for (int m = 0; m < (int)VP_COUNT_OF(gpu_models); m++)
        for (size_t k = 0; k < VP_COUNT_OF(gpu_kinds); k++)
            for (size_t r = 0; r < VP_COUNT_OF(rooms); r++)
                entries[n++] = (struct entry){
                    .model = m,
                    .of = { .schedule = gpu_kinds[k].schedule,
                            .n_chunks = gpu_kinds[k].n_chunks,
                            .n_stages = GPU_STAGES,
                            .n_mb = 8,
                            .room = rooms[r],
                            .swap = true },
                };
    return n;
}

/* ---- One case ----------------------------------------------------------- */

static double over(const struct entry *e)
{
    return e->result.plan.time.step / e->result.step;
}

/* Returns the seconds of one action of a kind, summed over the stages. Forecast
 * and run have the same number of such actions, so these sums can be
 * compared. */
static double sum_costs(const struct vp_stage_costs *costs, int n_stages,
                        enum vp_action_kind kind)
{
    struct vp_stage_costs copy;
    double sum = 0.0;

    for (int s = 0; s < n_stages; s++) {
        copy = costs[s];
        sum += *vp_costs_field(&copy, kind);
    }
    return sum;
}

/* Returns measured / planned seconds; 0 if the plan has no such action. */
static double kind_ratio(const struct forecast_result *result,
                         enum vp_action_kind kind)
{
    int n = result->plan.n_stages;
    double planned = sum_costs(result->plan.costs, n, kind);
    double measured = sum_costs(result->measured, n, kind);

    if (kind == VP_ACTION_B &&
        !vp_generator_find(result->plan.plan.schedule)->split)
        planned += sum_costs(result->plan.costs, n, VP_ACTION_W);
    return planned > 0.0 && measured > 0.0 ? measured / planned : 0.0;
}

static void print_stages(const struct forecast_result *result)
{
    const struct vp_plan *plan = &result->plan.plan;

    for (int s = 0; s < result->plan.n_stages; s++) {
        const struct vp_stage_costs *a = &result->plan.costs[s];
        const struct vp_stage_costs *b = &result->measured[s];

        printf(
            "%s{\"rank\": %d, \"blocks\": %d, \"slots\": %d, \"bytes\": "
            "[%lld, %lld], \"f_ms\": [%.4f, %.4f], \"r_ms\": [%.4f, %.4f], "
            "\"b_ms\": [%.4f, %.4f], \"w_ms\": [%.4f, %.4f], "
            "\"reduce_ms\": [%.4f, %.4f], \"update_ms\": [%.4f, %.4f]}",
            s ? ", " : "", result->plan.rank[s],
            plan->partition ? plan->partition[s] : 0, result->plan.n_slots[s],
            (long long)result->plan.prices[s].memory.total,
            (long long)result->allocated[s], 1e3 * a->f, 1e3 * b->f, 1e3 * a->r,
            1e3 * b->r, 1e3 * a->b, 1e3 * b->b, 1e3 * a->w, 1e3 * b->w,
            1e3 * a->reduce, 1e3 * b->reduce, 1e3 * a->update, 1e3 * b->update);
    }
}

static void print_case(const struct entry *e, const char *model)
{
    const struct forecast_result *result = &e->result;
    const struct vp_plan *plan = &result->plan.plan;
    char text[64];

    printf("{\"model\": \"%s\", \"asked\": \"%s\", \"schedule\": \"%s\", "
           "\"chunks\": %d, \"ranks\": %d, \"minibatches\": %d, \"room\": "
           "%.2f, \"limit\": %lld, \"in_b\": %s, \"forecast_s\": %.6g, "
           "\"measured_s\": %s, \"forecast_over_measured\": %.4f, "
           "\"replay_over_measured\": %.4f, \"idle\": [%.4f, %.4f], "
           "\"wrong_bytes\": %d, \"stages\": [",
           model, e->of.schedule, plan->schedule,
           plan->n_chunks > 0 ? plan->n_chunks : 1, plan->n_stages, e->of.n_mb,
           e->of.room, (long long)result->limit,
           plan->recompute_in_b ? "true" : "false", result->plan.time.step,
           series_json(&result->seconds, text), over(e),
           result->replay / result->step, result->plan.time.bubble,
           result->idle, forecast_wrong_bytes(result));
    print_stages(result);
    puts("]}");
    fflush(stdout);
}

/* ---- Report ------------------------------------------------------------- */

static bool is_swapping(const struct forecast_result *result)
{
    for (int s = 0; s < result->plan.n_stages; s++)
        if (result->plan.prices[s].swap_bytes > 0)
            return true;
    return false;
}

static void print_ratio(double ratio)
{
    if (ratio > 0.0)
        printf(" %5.2f", ratio);
    else
        fputs("     -", stdout);
}

static void print_row(const struct entry *e, const char *model)
{
    static const enum vp_action_kind shown[] = { VP_ACTION_F, VP_ACTION_R,
                                                 VP_ACTION_B, VP_ACTION_W,
                                                 VP_ACTION_UPDATE };
    const struct forecast_result *result = &e->result;
    const struct vp_plan *plan = &result->plan.plan;
    const struct series *seconds = &result->seconds;
    char name[32];

    snprintf(name, sizeof(name), "%s%s%s",
             strcmp(e->of.schedule, "search") == 0 ? "*" : "", plan->schedule,
             is_swapping(result) ? "+swap" : "");
    printf("%-11s %-15s %2d %3d %3.0f%% %5.1f%% %8.2f %8.2f (%7.2f..%7.2f) "
           "%6.3f %6.3f %3.0f%% %3.0f%%",
           model, name, plan->n_stages, e->of.n_mb, 100.0 * e->of.room,
           100.0 * vp_search_recomputed(&result->plan),
           1e3 * result->plan.time.step, 1e3 * result->step,
           1e3 * series_min(seconds), 1e3 * series_max(seconds), over(e),
           result->replay / result->step, 100.0 * result->plan.time.bubble,
           100.0 * result->idle);
    for (size_t i = 0; i < VP_COUNT_OF(shown); i++)
        print_ratio(kind_ratio(result, shown[i]));
    printf(" %s\n", forecast_wrong_bytes(result) ? "WRONG" : "equal");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *at, int n)
{
    qsort(at, (size_t)n, sizeof(*at), ascending);
    return n > 0 ? 0.5 * (at[(n - 1) / 2] + at[n / 2]) : 0.0;
}

static void print_distribution(const struct entry *entries, int n)
{
    static const double edges[] = { 0.0,  0.90, 0.95, 0.98,
                                    1.02, 1.05, 1.10, INFINITY };

    puts("forecast / measured");
    for (size_t k = 0; k + 1 < VP_COUNT_OF(edges); k++) {
        int m = 0;

        for (int i = 0; i < n; i++)
            m += entries[i].run && over(&entries[i]) >= edges[k] &&
                 over(&entries[i]) < edges[k + 1];
        printf("  %.2f .. %-4.2f  %3d%s", edges[k], edges[k + 1], m,
               m > 0 ? "  " : "");
        for (int i = 0; i < m; i++)
            putchar('#');
        putchar('\n');
    }
}

/* Prints the median ratios for each schedule, which show systematic errors. */
static void print_kinds(const struct entry *entries, int n)
{
    for (int k = 0; k < N_KINDS; k++) {
        double ratios[MAX_CASES], replays[MAX_CASES], ratio;
        int m = 0;

        for (int i = 0; i < n; i++)
            if (entries[i].run &&
                strcmp(entries[i].of.schedule, kinds[k].schedule) == 0) {
                ratios[m] = over(&entries[i]);
                replays[m++] = entries[i].result.replay /
                               entries[i].result.step;
            }
        if (m == 0)
            continue;
        ratio = median(ratios, m); /* sorts them */
        printf("%-12s %2d cases, forecast / measured %.3f (%.3f..%.3f), "
               "replay %.3f\n",
               kinds[k].schedule, m, ratio, ratios[0], ratios[m - 1],
               median(replays, m));
    }
}

static bool print_summary(const struct entry *entries, int n)
{
    double errors[MAX_CASES] = { 0.0 }, middle;
    int m = 0, n_5 = 0, n_10 = 0, wrong = 0;
    bool met;

    for (int i = 0; i < n; i++) {
        if (!entries[i].run)
            continue;
        errors[m] = fabs(over(&entries[i]) - 1.0);
        n_5 += errors[m] <= 0.05;
        n_10 += errors[m] <= 0.10;
        wrong += forecast_wrong_bytes(&entries[i].result);
        m++;
    }
    if (m == 0)
        return false;
    middle = median(errors, m); /* sorts them */
    met = middle <= 0.05 && errors[m - 1] <= 0.10 && wrong == 0;
    printf("%d cases: error of a step, median %.1f %% (<= 5 %%), worst %.1f %% "
           "(<= 10 %%); within 5 %% %d, within 10 %% %d; bytes wrong %d  %s\n",
           m, 100.0 * middle, 100.0 * errors[m - 1], n_5, n_10, wrong,
           met ? "met" : "MISSED");
    return met;
}

static bool report(const struct settings *settings, const struct entry *entries,
                   int n)
{
    puts("model       schedule       ranks mb room  again forecast measured, "
         "ms              /meas. replay  idle meas.    F     R     B     W     "
         "U bytes");
    for (int i = 0; i < n; i++)
        if (entries[i].run)
            print_row(&entries[i], settings->models[entries[i].model].model);
    print_distribution(entries, n);
    print_kinds(entries, n);
    return print_summary(entries, n);
}

/* ---- The program -------------------------------------------------------- */

static const struct vp_backend_ops *load_gpu(void)
{
    const struct vp_backend_ops *cuda;
    struct vp_err err = { .text = "" };

    if (vp_backend_load("cuda", &cuda, &err) != VP_OK)
        lab_die("backend", &err);
    if (cuda->n_devices(&err) == 0)
        lab_die("no GPU", &err);
    return cuda;
}

static bool has_cases(const struct entry *entries, int n, int model)
{
    for (int i = 0; i < n; i++)
        if (entries[i].model == model)
            return true;
    return false;
}

static struct forecast_device device_of(const struct settings *settings)
{
    struct forecast_device device = { .n_ranks = settings->n_stages };

    if (settings->gpu) {
        device.backend = load_gpu();
        device.shared = true;
    } else if (settings->sleep) {
        device.backend = sleeper_open(sleep_us_per_gflop, sleep_ns_per_weight);
        device.sleeps = true;
        device.n_repeats = 7;
        prctl(PR_SET_TIMERSLACK, 1000); /* nanoseconds; threads inherit it */
    } else {
        device.pinned = true;
    }
    return device;
}

static void print_profile(const char *model,
                          const struct vp_device_profile *profile)
{
    printf("{\"profile\": \"%s\", \"capacity\": %.4f, \"handover_us\": %.2f, "
           "\"under_load\": [",
           model, profile->capacity, 1e6 * profile->same_host.seconds);
    for (int i = 0; i < profile->n_loads; i++)
        printf("%s[%d, %.4f, %.4f, %.4f]", i ? ", " : "",
               profile->loads[i].n_ranks, profile->loads[i].f,
               profile->loads[i].b, profile->loads[i].update);
    puts("]}");
}

static void run_model(const struct settings *settings, int model,
                      struct entry *entries, int n)
{
    const struct lab_size *size = &settings->models[model];
    struct forecast_device device = device_of(settings);
    struct forecast_model *opened;
    double seconds;

    opened = forecast_model_open(size, &device, &seconds);
    fprintf(stderr, "bench_forecast: profile of %s in %.1f s\n", size->model,
            seconds);
    print_profile(size->model, forecast_model_profile(opened));
    for (int i = 0; i < n; i++) {
        int64_t start = vp_clock_ns();

        if (entries[i].model != model)
            continue;
        entries[i].run = forecast_case_run(
            opened, &entries[i].of, settings->n_rounds, &entries[i].result);
        fprintf(stderr, "bench_forecast: case %d of %d in %.1f s%s\n", i + 1, n,
                vp_clock_seconds(start, vp_clock_ns()),
                entries[i].run ? "" : ": no plan");
        if (entries[i].run)
            print_case(&entries[i], size->model);
    }
    forecast_model_close(opened);
}

static _Noreturn void usage(void)
{
    fputs("usage: bench_forecast [--device cpu|cuda] [--cases N] [--seed S] "
          "[--rounds R]\n"
          "                      [--stages MOST] [--sleep] [--targets]\n",
          stderr);
    exit(2);
}

static int number(const char *text, long least, long most)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end != '\0' || n < least || n > most)
        usage();
    return (int)n;
}

static void read_options(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        { "device", required_argument, NULL, 'd' },
        { "cases", required_argument, NULL, 'c' },
        { "seed", required_argument, NULL, 's' },
        { "rounds", required_argument, NULL, 'r' },
        { "stages", required_argument, NULL, 'n' },
        { "sleep", no_argument, NULL, 'z' },
        { "targets", no_argument, NULL, 't' },
        { NULL, 0, NULL, 0 },
    };
    int which;

    while ((which = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (which == 'd' && strcmp(optarg, "cuda") == 0)
            settings->gpu = true;
        else if (which == 'd' && strcmp(optarg, "cpu") == 0)
            settings->gpu = false;
        else if (which == 'c')
            settings->n_cases = number(optarg, 1, MAX_CASES);
        else if (which == 's')
            settings->seed = number(optarg, 0, 1000000);
        else if (which == 'r')
            settings->n_rounds = number(optarg, 1, 32);
        else if (which == 'n')
            settings->n_stages = number(optarg, 2, MAX_STAGES);
        else if (which == 'z')
            settings->sleep = true;
        else if (which == 't')
            settings->targets = true;
        else
            usage();
    }
    if (optind < argc)
        usage();
}

/* Sets models and number of stages for the device. */
static void set_models(struct settings *settings, int n_cores)
{
    int most = n_cores < 2 ? 2 : n_cores > MAX_STAGES ? MAX_STAGES : n_cores;

    settings->models = cpu_models;
    settings->n_models = VP_COUNT_OF(cpu_models);
    if (settings->sleep) {
        settings->models = sleep_models;
        settings->n_models = VP_COUNT_OF(sleep_models);
        most = SLEEP_STAGES;
    }
    if (settings->gpu) {
        settings->models = gpu_models;
        settings->n_models = VP_COUNT_OF(gpu_models);
        settings->n_stages = GPU_STAGES;
    }
    if (settings->n_stages == 0 || settings->n_stages > most)
        settings->n_stages = settings->gpu ? GPU_STAGES : most;
}

static void print_settings(const struct settings *settings, int n_cores)
{
    printf("%d ranks on %d cores, %s, seed %d, %d rounds\n", settings->n_stages,
           n_cores,
           settings->gpu     ? "all on one GPU"
           : settings->sleep ? "kernels sleep"
                             : "up to a core each",
           settings->seed, settings->n_rounds);
}

int main(int argc, char **argv)
{
    static struct entry entries[MAX_CASES];
    struct settings settings = { .n_cases = 60, .seed = 1, .n_rounds = 7 };
    int n_cores = (int)sysconf(_SC_NPROCESSORS_ONLN), n;
    bool met;

    read_options(argc, argv, &settings);
    set_models(&settings, n_cores);
    n = settings.n_cases;
    if (settings.gpu) {
        int all = list_gpu_cases(entries);

        n = n < all ? n : all;
    } else {
        sample_cases(&settings, entries);
    }
    for (int m = 0; m < settings.n_models; m++)
        if (has_cases(entries, n, m))
            run_model(&settings, m, entries, n);
    print_settings(&settings, n_cores);
    met = report(&settings, entries, n);
    for (int i = 0; i < n; i++)
        if (entries[i].run)
            vp_search_result_release(&entries[i].result.plan);
    return settings.targets && !met ? 1 : 0;
}
