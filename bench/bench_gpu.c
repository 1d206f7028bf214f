/* bench_gpu CASE... [--steps N]: training steps on a GPU in bf16 (forward,
 * backward, AdamW), fed by the ordinary reader; time per step in rounds of ten,
 * median (least..most), memory, rate, share of the measured matrix rate. A line
 * of JSON per case, a table at the end.
 *
 * bench_gpu profile CASE: where the time of a step goes, by kind of call.
 *
 * bench_gpu worker CASE: trains ten steps for every line on stdin, for a script
 * that lets several programs take turns. */
#include "backend/plugin.h"
#include "backend/profile.h"
#include "lab.h"
#include "series.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND = 10, WARM_UP = 12, MAX_STEPS = 1000, MAX_STAGES = 4 };

/* Stages share the GPU. */
static const struct {
    const char *name;
    struct lab_size size;
    const char *schedule;
    int n_stages, n_mb;
} cases[] = {
    { "bert-large-b64-s128",
      { "bert", 30528, 1024, 24, 16, 128, 64, 128, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "bert-large-b16-s128",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "bert-large-b32-s512",
      { "bert", 30528, 1024, 24, 16, 512, 32, 512, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "bert-large-b64-s128-labelled",
      { "bert", 30528, 1024, 24, 16, 128, 64, 20, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "bert-large-b16-s128-labelled",
      { "bert", 30528, 1024, 24, 16, 128, 16, 20, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "bert-large-b32-s512-labelled",
      { "bert", 30528, 1024, 24, 16, 512, 32, 80, 0.1, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "gpt2-124m-b32-s1024",
      { "gpt2", 50304, 768, 12, 12, 1024, 32, 0, 0.0, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "gpt2-345m-b16-s1024",
      { "gpt2", 50304, 1024, 24, 16, 1024, 16, 0, 0.0, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "gpt2-1.5b-b8-s1024",
      { "gpt2", 50304, 1600, 48, 25, 1024, 8, 0, 0.0, true, VP_DTYPE_BF16 },
      "1f1b",
      1,
      1 },
    { "bert-large-b16-one-stage",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      1,
      16 },
    { "bert-large-b16-bsp4",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      4,
      16 },
    { "bert-large-b16-one-stage-asp",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "pipedream",
      1,
      16 },
    { "bert-large-b16-asp4",
      { "bert", 30528, 1024, 24, 16, 128, 16, 128, 0.1, false, VP_DTYPE_BF16 },
      "pipedream",
      4,
      16 },
    /* Layers of the models in docs/scaling.md, as many as are soon set up. */
    { "bert-48-part",
      { "bert", 30528, 1024, 12, 16, 128, 16, 20, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      1,
      16 },
    { "cpm-large-part",
      { "cpm", 30000, 2560, 4, 32, 696, 4, 0, 0.1, false, VP_DTYPE_BF16 },
      "1f1b",
      1,
      16 },
};
enum { N_CASES = VP_COUNT_OF(cases) };

static _Noreturn void usage(void)
{
    fputs("usage: bench_gpu CASE... [--steps N]\n"
          "       bench_gpu profile CASE\n"
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
    struct vp_err err = { "" };

    if (vp_backend_load("cuda", &cuda, &err) != VP_OK)
        lab_die("backend", &err);
    return cuda;
}

static struct lab *open_case(int i)
{
    struct lab_spec spec = { .size = cases[i].size,
                             .schedule = cases[i].schedule,
                             .n_stages = cases[i].n_stages,
                             .n_mb = cases[i].n_mb,
                             .backend = load() };
    int partition[MAX_STAGES];

    lab_cut_evenly(&spec.size, spec.n_stages, partition);
    spec.partition = spec.n_stages > 1 ? partition : NULL;
    return lab_open(&spec);
}

/* Minibatches of a round; a stream updates after each. */
static int round_of(int i)
{
    return ROUND * cases[i].n_mb;
}

static double gib_of(struct lab *lab, int i)
{
    const struct vp_memory *memory = vp_trainer_memory(lab_trainer(lab));
    double n_bytes = 0.0;

    for (int s = 0; s < cases[i].n_stages; s++)
        n_bytes += (double)memory[s].total;
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

static void profile(int i)
{
    enum { STEPS = 5 };
    enum vp_status (*begin)(struct vp_backend *);
    int (*end)(struct vp_backend *, struct vp_profile_row *);
    struct vp_profile_row rows[VP_PROFILE_ROWS];
    struct lab *lab = open_case(i);
    int n;

    *(void **)&begin = vp_backend_symbol("cuda", "vp_cuda_profile_begin");
    *(void **)&end = vp_backend_symbol("cuda", "vp_cuda_profile_end");
    lab_run(lab, 2 * cases[i].n_mb);
    begin(lab_backend(lab));
    lab_run(lab, STEPS * cases[i].n_mb);
    n = end(lab_backend(lab), rows);
    qsort(rows, (size_t)n, sizeof(*rows), longer_first);
    print_profile(rows, n, STEPS);
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

int main(int argc, char **argv)
{
    struct result results[N_CASES];
    struct vp_device_info info;
    struct vp_err err = { "" };
    int n = 0, n_steps = 50;

    if (argc == 3 && strcmp(argv[1], "profile") == 0) {
        profile(find(argv[2]));
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "worker") == 0) {
        worker(find(argv[2]));
        return 0;
    }
    if (argc > 3 && strcmp(argv[argc - 2], "--steps") == 0) {
        n_steps = (int)strtol(argv[argc - 1], NULL, 10);
        argc -= 2;
    }
    if (argc < 2 || argc > N_CASES + 1 || n_steps < 1 || n_steps > MAX_STEPS)
        usage();
    if (load()->info(0, true, &info, &err) != VP_OK)
        lab_die("device", &err);
    printf("%s: copy %.2f TB/s, bf16 products %.0f TFLOP/s\n", info.name,
           info.copy_rate / 1e12, info.bf16_rate / 1e12);
    for (int i = 1; i < argc; i++)
        results[n++] = measure(find(argv[i]), n_steps, info.bf16_rate);
    print_table(results, n);
    return 0;
}
