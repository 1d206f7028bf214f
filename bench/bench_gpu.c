/* bench_gpu CASE... [--steps N]: measures training steps on a GPU in bf16
 * (forward, backward, AdamW) with the usual data reader: time per step in
 * rounds of ten, median (least..most), memory, FLOP rate, share of the measured
 * matrix rate. Prints a line of JSON per case, and a table at the end.
 *
 * bench_gpu profile CASE: prints the time of a step by kind of call.
 *
 * bench_gpu limit CASE...: compares a step with the limits of its products,
 * memory traffic and launches; exit 1 if a target is missed.
 *
 * bench_gpu trace CASE FILE: writes the actions of five steps, by the GPU's
 * clock, to FILE for Chrome or Perfetto, and prints the idle time; exit 1 if a
 * target is missed.
 *
 * bench_gpu worker CASE: trains ten steps for every line on stdin, for a script
 * that lets several programs take turns. */
#include "backend/plugin.h"
#include "gaps.h"
#include "gpu_profile.h"
#include "lab.h"
#include "limit.h"
#include "series.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND = 10, WARM_UP = 12, MAX_STEPS = 1000, MAX_STAGES = 4 };

/* All stages of a case share one GPU. */
static const struct {
    const char *name;
    struct lab_size size;
    const char *schedule;
    int n_stages, n_mb;
    bool keep_all; /* `recompute: false` */
} cases[] = {
    { "bert-large-b64-s128",
      { "bert", 30528, 1024, 24, 16, 128, 64, 128, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "bert-large-b16-s128",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "bert-large-b32-s512",
      { "bert", 30528, 1024, 24, 16, 512, 32, 512, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "bert-large-b64-s128-labelled",
      { "bert", 30528, 1024, 24, 16, 128, 64, 20, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "bert-large-b16-s128-labelled",
      { "bert", 30528, 1024, 24, 16, 128, 16, 20, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "bert-large-b32-s512-labelled",
      { "bert", 30528, 1024, 24, 16, 512, 32, 80, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "bert-large-b64-s128-labelled-kept",
      { "bert", 30528, 1024, 24, 16, 128, 64, 20, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      true },
    { "bert-large-b32-s512-labelled-kept",
      { "bert", 30528, 1024, 24, 16, 512, 32, 80, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      true },
    { "gpt2-124m-b32-s1024",
      { "gpt2", 50304, 768, 12, 12, 1024, 32, 0, 0.0, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "gpt2-345m-b16-s1024",
      { "gpt2", 50304, 1024, 24, 16, 1024, 16, 0, 0.0, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "gpt2-1.5b-b8-s1024",
      { "gpt2", 50304, 1600, 48, 25, 1024, 8, 0, 0.0, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1,
      false },
    { "bert-large-b16-one-stage",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      1,
      16,
      false },
    { "bert-large-b16-bsp4",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      4,
      16,
      false },
    { "bert-large-b16-one-stage-asp",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "pipedream",
      1,
      16,
      false },
    { "bert-large-b16-asp4",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "pipedream",
      4,
      16,
      false },
    /* The models of docs/scaling.md with fewer layers, so that they start
     * soon. */
    { "bert-48-part",
      { "bert", 30528, 1024, 12, 16, 128, 16, 20, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      1,
      16,
      false },
    { "cpm-large-part",
      { "cpm", 30000, 2560, 4, 32, 696, 4, 0, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      1,
      16,
      false },
};
enum { N_CASES = VP_COUNT_OF(cases) };

static _Noreturn void usage(void)
{
    fputs("usage: bench_gpu CASE... [--steps N]\n"
          "       bench_gpu profile CASE\n"
          "       bench_gpu limit CASE...\n"
          "       bench_gpu trace CASE FILE\n"
          "       bench_gpu worker CASE\n\ncases\n",
          stderr);
    for (int i = 0; i < N_CASES; i++)
        fprintf(stderr, "  %s\n", cases[i].name);
    exit(2);
}

static int find(const char *name)
{
    for (int i = 0; i < N_CASES; i++)
        if (strcmp(cases[i].name, name) == 0)
            return i;
    usage();
}

static const struct vp_backend_ops *load(void)
{
    const struct vp_backend_ops *cuda;
    struct vp_err err = { .text = "" };

    if (vp_backend_load("cuda", &cuda, &err) != VP_OK)
        lab_die("backend", &err);
    if (cuda->n_devices(&err) == 0)
        lab_die("no GPU", &err);
    return cuda;
}

static struct lab *open_case(int i)
{
    struct lab_spec spec = { .size = cases[i].size,
                             .schedule = cases[i].schedule,
                             .n_stages = cases[i].n_stages,
                             .n_mb = cases[i].n_mb,
                             .keep_all = cases[i].keep_all,
                             .backend = load() };
    int partition[MAX_STAGES];

    lab_cut_evenly(&spec.size, spec.n_stages, partition);
    spec.partition = spec.n_stages > 1 ? partition : NULL;
    return lab_open(&spec);
}

/* Returns the minibatches of a round; pipedream updates after each. */
static int round_of(int i)
{
    return ROUND * cases[i].n_mb;
}

static double gib_of(struct lab *lab, int i)
{
    const struct vp_stage_price *prices = lab_prices(lab);
    double n_bytes = 0.0;

    for (int s = 0; s < cases[i].n_stages; s++)
        n_bytes += (double)prices[s].memory.total;
    return n_bytes / 0x1p30;
}

static void worker(int i)
{
    struct lab *lab = open_case(i);
    char line[8];

    lab_run(lab, 2 * round_of(i));
    printf("{\"ready\": \"vpipe\", \"gib\": %.3f}\n", gib_of(lab, i));
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("{\"seconds\": %.6f}\n", lab_run(lab, round_of(i)) / ROUND);
        fflush(stdout);
    }
    lab_close(lab);
}

/* ---- Profile ------------------------------------------------------------ */

static int longer_first(const void *a, const void *b)
{
    const struct vp_profile_row *x = a, *y = b;

    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void print_profile(const struct vp_profile_row *rows, int n, int n_steps)
{
    double total = 0.0;

    for (int i = 0; i < n; i++)
        total += rows[i].seconds;
    printf("%9s %6s %6s %9s %8s  what\n", "ms", "%", "calls", "TFLOP/s",
           "TB/s");
    for (int i = 0; i < n; i++)
        printf("%9.4f %6.2f %6d %9.1f %8.2f  %s\n",
               1e3 * rows[i].seconds / n_steps, 100.0 * rows[i].seconds / total,
               rows[i].count / n_steps, rows[i].flops / rows[i].seconds / 1e12,
               rows[i].bytes / rows[i].seconds / 1e12, rows[i].name);
    printf("%9.4f in all\n", 1e3 * total / n_steps);
}

static struct vp_profile take_profile(struct lab *lab, int i, int n_steps,
                                      bool by_call)
{
    gpu_profile_begin(lab_backend(lab), by_call);
    lab_run(lab, n_steps * cases[i].n_mb);
    return gpu_profile_end(lab_backend(lab));
}

static void profile(int i)
{
    enum { STEPS = 5 };
    struct lab *lab = open_case(i);
    struct vp_profile profile;

    lab_run(lab, 3 * cases[i].n_mb);
    profile = take_profile(lab, i, STEPS, true);
    qsort(profile.rows, (size_t)profile.n_rows, sizeof(*profile.rows),
          longer_first);
    print_profile(profile.rows, profile.n_rows, STEPS);
    lab_close(lab);
}

/* ---- Steps -------------------------------------------------------------- */

struct result {
    const char *name;
    struct series ms;
    double gb, tflops, share;
};

static struct result measure(int i, int n_steps, double peak)
{
    struct result result = { .name = cases[i].name };
    struct lab *lab = open_case(i);
    double flops;

    result.gb = gib_of(lab, i);
    lab_run(lab, (WARM_UP - 1) * cases[i].n_mb);
    flops = lab_flops(lab);
    for (int done = 0; done < n_steps; done += ROUND)
        series_add(&result.ms, 1e3 * lab_run(lab, round_of(i)) / ROUND);
    result.tflops = flops / series_median(&result.ms) / 1e9;
    result.share = result.tflops * 1e12 / peak;
    printf("{\"case\": \"gpu\", \"model\": \"%s\", \"ms\": %.4f, \"least\": "
           "%.4f, \"most\": %.4f, \"tflops\": %.1f, \"gib\": %.2f}\n",
           result.name, series_median(&result.ms), series_min(&result.ms),
           series_max(&result.ms), result.tflops, result.gb);
    fflush(stdout);
    lab_close(lab);
    return result;
}

static void print_table(const struct result *results, int n)
{
    printf("\n%-30s %-28s %8s %9s %8s\n", "case", "ms per step", "TFLOP/s",
           "of peak", "GiB");
    for (int i = 0; i < n; i++)
        printf("%-30s %8.3f (%8.3f..%8.3f) %8.1f %8.1f%% %8.2f\n",
               results[i].name, series_median(&results[i].ms),
               series_min(&results[i].ms), series_max(&results[i].ms),
               results[i].tflops, 100.0 * results[i].share, results[i].gb);
}

/* ---- Limits ------------------------------------------------------------- */

/* Returns the allowed idle share: with a small batch the GPU waits for
 * launches. */
static double most_idle(int i)
{
    return cases[i].size.batch > 16 ? 0.02 : 0.04;
}

static void add_round(struct limit *limit, struct lab *lab, int i)
{
    struct vp_profile *replays = &limit->replays;

    series_add(&limit->ms, 1e3 * lab_run(lab, round_of(i)) / ROUND);
    *replays = take_profile(lab, i, ROUND, false);
    series_add(&limit->recorded, 1e3 * replays->window / ROUND);
    series_add(&limit->busy, 1e3 * replays->busy / ROUND);
}

static bool judge_limit(int i, int n_steps, double copy_rate)
{
    enum { STEPS = 5 };
    struct limit limit = { .name = cases[i].name,
                           .n_replays = ROUND,
                           .n_calls = STEPS,
                           .copy_rate = copy_rate,
                           .most_idle = most_idle(i) };
    struct lab *lab = open_case(i);

    lab_run(lab, WARM_UP * cases[i].n_mb);
    for (int done = 0; done < n_steps; done += ROUND)
        add_round(&limit, lab, i);
    if (cases[i].n_stages == 1) {
        limit.calls = take_profile(lab, i, STEPS, true);
        gpu_profile_alone(lab_backend(lab), &limit.calls);
    }
    lab_close(lab);
    return limit_print(&limit);
}

/* ---- Traces ------------------------------------------------------------- */

static void print_rank(const struct vp_trace *trace, int r,
                       const struct vp_trace_times *times)
{
    double work[VP_ACTION_KIND_COUNT] = { 0.0 };

    for (int i = 0; i < trace->ranks[r].n_events; i++) {
        const struct vp_trace_event *e = &trace->ranks[r].events[i];

        work[e->kind] += 1e-6 * (double)(e->end_ns - e->start_ns - e->wait_ns);
    }
    printf("  rank %d: bubble %.3f, ms in F %.3f, B %.3f, UPDATE %.3f\n", r,
           times[r].bubble, work[VP_ACTION_F], work[VP_ACTION_B],
           work[VP_ACTION_UPDATE]);
}

static bool trace(int i, const char *path)
{
    enum { STEPS = 5 };
    const double most_us = 10.0;
    struct vp_trace_times times[MAX_STAGES];
    struct lab *lab = open_case(i);
    struct vp_err err = { .text = "" };
    struct vp_trace trace;
    bool met;

    lab_run(lab, round_of(i));
    if (vp_trainer_trace(lab_trainer(lab), cases[i].name, &trace, &err) !=
        VP_OK)
        lab_die("trace", &err);
    vp_trace_keep_last(&trace, STEPS * cases[i].n_mb);
    printf("%s: bubble %.3f\n", cases[i].name, vp_trace_sum(&trace, times));
    for (int r = 0; r < trace.n_ranks; r++)
        print_rank(&trace, r, times);
    met = gaps_print(&trace, most_us);
    if (vp_trace_write_chrome(&trace, path, &err) != VP_OK)
        lab_die("trace", &err);
    vp_trace_release(&trace);
    lab_close(lab);
    return met;
}

/* ---- The program -------------------------------------------------------- */

static struct vp_device_info print_device(void)
{
    struct vp_device_info info;
    struct vp_err err = { .text = "" };

    if (load()->info(0, true, &info, &err) != VP_OK)
        lab_die("device", &err);
    printf("%s: copy %.2f TB/s, bf16 products %.0f TFLOP/s\n", info.name,
           info.copy_rate / 1e12, info.bf16_rate / 1e12);
    return info;
}

int main(int argc, char **argv)
{
    struct result results[N_CASES];
    struct vp_device_info info;
    int n = 0, n_steps = 50, first = 1;
    bool limits, met = true;

    if (argc == 3 && strcmp(argv[1], "profile") == 0) {
        profile(find(argv[2]));
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "trace") == 0)
        return trace(find(argv[2]), argv[3]) ? 0 : 1;
    if (argc == 3 && strcmp(argv[1], "worker") == 0) {
        worker(find(argv[2]));
        return 0;
    }
    if (argc > 3 && strcmp(argv[argc - 2], "--steps") == 0) {
        n_steps = (int)strtol(argv[argc - 1], NULL, 10);
        argc -= 2;
    }
    limits = argc > 2 && strcmp(argv[1], "limit") == 0;
    first += limits;
    if (argc <= first || argc > N_CASES + first || n_steps < 1 ||
        n_steps > MAX_STEPS)
        usage();
    info = print_device();
    for (int i = first; i < argc; i++)
        if (limits)
            met &= judge_limit(find(argv[i]), n_steps, info.copy_rate);
        else
            results[n++] = measure(find(argv[i]), n_steps, info.bf16_rate);
    if (!limits)
        print_table(results, n);
    return met ? 0 : 1;
}
