/* bench_step CASE... [--rounds N]: measures a training step on one stage
 * (forward, backward, AdamW), with one thread and with two, and compares it
 * with the model's matrix products alone: by oneDNN, or in bf16 by our own
 * kernels. All take turns in rounds of one run; figures are median
 * (least..most), ratios are taken round by round. Prints a line of JSON per
 * case, and a table at the end; exit 1 if a target is missed.
 *
 * bench_step worker CASE THREADS: trains a step for every line on
 * stdin, for a script that lets several programs take turns. */
#include "backend/cpu/fast.h"
#include "lab.h"
#include "profile.h"
#include "series.h"
#include "yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_COUNT = 64,   /* most rounds, most threads */
    SMALL_STEPS = 50, /* steps per turn of a small model: they are short */
};

static const struct {
    const char *name;
    struct lab_size size;
    const char *meaning;
} models[] = {
    { "bert",
      { "bert", 30528, 768, 12, 12, 128, 16, 128, 0.1, true, VP_DTYPE_F32 },
      "hidden 768, 12 layers, 128 tokens, batch 16, all logits" },
    { "bert-labelled",
      { "bert", 30528, 768, 12, 12, 128, 16, 20, 0.1, true, VP_DTYPE_F32 },
      "the same, logits of the 20 labelled tokens of a sequence" },
    { "bert-wide",
      { "bert", 30528, 1024, 6, 16, 128, 8, 128, 0.1, true, VP_DTYPE_F32 },
      "hidden 1024, 6 layers, 128 tokens, batch 8, all logits" },
    { "gpt2",
      { "gpt2", 50257, 768, 12, 12, 512, 4, 0, 0.0, true, VP_DTYPE_F32 },
      "124M, 512 tokens, batch 4" },
    { "translation",
      { "translation", 32768, 512, 6, 8, 64, 32, 0, 0.1, true, VP_DTYPE_F32 },
      "6 + 6 layers, hidden 512, 64 tokens, batch 32" },
    { "small",
      { "bert", 1024, 128, 4, 4, 64, 8, 64, 0.1, true, VP_DTYPE_F32 },
      "hidden 128, 4 layers, 64 tokens, batch 8" },
};

static _Noreturn void usage(void)
{
    fputs("usage: bench_step CASE... [--rounds N]\n"
          "       bench_step worker CASE THREADS\n\n"
          "cases, and with -bf16 behind the name in that precision\n",
          stderr);
    for (size_t i = 0; i < VP_COUNT_OF(models); i++)
        fprintf(stderr, "  %-14s %s\n", models[i].name, models[i].meaning);
    exit(2);
}

static int read_count(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end != '\0' || n < 1 || n > MAX_COUNT)
        usage();
    return (int)n;
}

/* Returns the case "bert", or with "bert-bf16" the same in bf16. */
static struct lab_size find(const char *name)
{
    static const char suffix[] = "-bf16";
    size_t n = strlen(name), n_suffix = sizeof(suffix) - 1;
    bool bf16 = n > n_suffix && !strcmp(name + n - n_suffix, suffix);

    n -= bf16 ? n_suffix : 0;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        struct lab_size size = models[i].size;

        if (strlen(models[i].name) != n || strncmp(models[i].name, name, n))
            continue;
        size.dtype = bf16 ? VP_DTYPE_BF16 : VP_DTYPE_F32;
        return size;
    }
    usage();
}

static struct lab *open_lab(const struct lab_size *size, int n_threads)
{
    struct lab_spec spec = { .size = *size,
                             .schedule = "1f1b",
                             .n_stages = 1,
                             .n_mb = 1,
                             .n_threads = n_threads };

    return lab_open(&spec);
}

/* ---- Worker ------------------------------------------------------------- */

static void worker(const char *name, int n_threads)
{
    struct lab_size size = find(name);
    struct lab *lab = open_lab(&size, n_threads);
    char line[8];

    lab_run(lab, 2);
    puts("{\"ready\": \"vpipe\"}");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("{\"seconds\": %.6f}\n", lab_run(lab, 1));
        fflush(stdout);
    }
    lab_close(lab);
}

/* ---- Cases -------------------------------------------------------------- */

struct result {
    double flops;
    struct series seconds[2]; /* per step: with one thread, with two */
    struct series copies;     /* per step: two at once, a thread each */
    struct series rate[2];    /* products alone, in FLOP/s */
    /* Shares of the threads' time, with one thread and with two. */
    double part[2][VP_CPU_PART_COUNT];
};

static void profile_steps(struct lab *lab, int n_steps, double *part_out)
{
    struct profile *profile = profile_begin(lab_backend(lab));

    lab_run(lab, n_steps);
    profile_end(profile, part_out);
}

static void measure(const struct lab_size *size, int n_rounds, int n_steps,
                    struct result *out)
{
    struct lab *labs[2] = { open_lab(size, 1), open_lab(size, 2) };
    struct lab *copy = open_lab(size, 1);
    struct yardstick *yardstick = yardstick_open(lab_graph(labs[0]));

    lab_run(copy, 1);
    lab_run(labs[1], 1);
    out->flops = lab_flops(labs[0]);
    for (int i = 0; i < n_rounds; i++) {
        for (int t = 0; t < 2; t++) {
            series_add(&out->seconds[t], lab_run(labs[t], n_steps) / n_steps);
            series_add(&out->rate[t], yardstick_rate(yardstick, t + 1));
        }
        series_add(
            &out->copies,
            lab_run_together((struct lab *[]){ labs[0], copy }, 2, n_steps) /
                n_steps);
    }
    for (int t = 0; t < 2; t++)
        profile_steps(labs[t], n_steps, out->part[t]);
    yardstick_close(yardstick);
    lab_close(copy);
    lab_close(labs[1]);
    lab_close(labs[0]);
}

static struct series scaled(const struct series *s, double by)
{
    struct series r = *s;

    for (int i = 0; i < r.n; i++)
        r.at[i] *= by;
    return r;
}

static struct series inverse(const struct series *s, double by)
{
    struct series r = *s;

    for (int i = 0; i < r.n; i++)
        r.at[i] = by / r.at[i];
    return r;
}

static bool judge(FILE *table, bool met)
{
    fputs(met ? " met\n" : " MISSED\n", table);
    return met;
}

/* Compares the FLOP rate of the step with that of its products. */
static bool report_rate(const struct result *r, int t, bool judged, FILE *table)
{
    struct series rate = inverse(&r->seconds[t], r->flops);
    struct series share = series_ratio(&rate, &r->rate[t]);
    struct series own = scaled(&rate, 1e-9);
    struct series products = scaled(&r->rate[t], 1e-9);
    char text[4][64];

    printf(", \"threads_%d\": {\"seconds\": %s, \"gflops\": %s, "
           "\"products_gflops\": %s, \"share\": %s}",
           t + 1, series_json(&r->seconds[t], text[0]),
           series_json(&own, text[1]), series_json(&products, text[2]),
           series_json(&share, text[3]));
    fprintf(table,
            "  %d thread%s s %s, GFLOP/s %s\n"
            "    products alone, GFLOP/s   %s\n"
            "    step / products %s %s",
            t + 1, t ? "s," : ", ", series_text(&r->seconds[t], text[0]),
            series_text(&own, text[1]), series_text(&products, text[2]),
            judged ? "(>= 0.80)" : "         ", series_text(&share, text[3]));
    if (judged)
        return judge(table, series_median(&share) >= 0.80);
    fputs("\n", table);
    return true;
}

/* Targets: each part other than products and attention takes at most 8 % of the
 * time; with a small model, time outside of kernels is at most 3 %. */
static bool report_parts(const struct result *r, int t, bool small, FILE *table)
{
    static const char *const names[VP_CPU_PART_COUNT] = {
        [VP_CPU_IDLE] = "idle",           [VP_CPU_PRODUCTS] = "products",
        [VP_CPU_ATTENTION] = "attention", [VP_CPU_ELEMENTWISE] = "elementwise",
        [VP_CPU_OPTIMIZER] = "optimizer",
    };
    bool met = true;

    printf(", \"profile_%d\": {", t + 1);
    fprintf(table, "    time:");
    for (int i = 0; i < VP_CPU_PART_COUNT; i++) {
        int part = (i + 1) % VP_CPU_PART_COUNT; /* idle comes last */
        double share = r->part[t][part];

        if (!small)
            met &= part == VP_CPU_PRODUCTS || part == VP_CPU_ATTENTION ||
                   share <= 0.08;
        else if (part == VP_CPU_IDLE && t == 0)
            met &= share <= 0.03;
        printf("%s\"%s\": %.4f", i ? ", " : "", names[part], share);
        fprintf(table, "%s %s %.1f %%", i ? "," : "", names[part],
                100.0 * share);
    }
    printf("}");
    fprintf(table, "%s",
            !small ? " (others <= 8 %)"
            : t    ? ""
                   : " (idle <= 3 %)");
    if (small && t)
        fputs("\n", table);
    else
        judge(table, met);
    return met;
}

static bool report_scaling(const struct result *r, bool judged, FILE *table)
{
    struct series threads = series_ratio(&r->seconds[0], &r->seconds[1]);
    struct series one = scaled(&r->seconds[0], 2.0);
    struct series copies = series_ratio(&one, &r->copies);
    struct series of_copies = series_ratio(&threads, &copies);
    char text[3][64];

    printf(", \"two_threads\": %s, \"two_copies\": %s",
           series_json(&threads, text[0]), series_json(&copies, text[1]));
    fprintf(table, "  two threads / one %s, two copies %s, of that %s",
            series_text(&threads, text[0]), series_text(&copies, text[1]),
            series_text(&of_copies, text[2]));
    if (!judged) {
        fputs("\n", table);
        return true;
    }
    fputs("\n    (>= 1.85, or >= 0.95 of two copies)", table);
    return judge(table, series_median(&threads) >= 1.85 ||
                            series_median(&of_copies) >= 0.95);
}

static bool run_case(const char *name, int n_rounds, FILE *table)
{
    bool small = !strncmp(name, "small", 5), met = true;
    struct lab_size size = find(name);
    struct result r = { 0 };

    measure(&size, n_rounds, small ? SMALL_STEPS : 1, &r);
    printf("{\"case\": \"step\", \"model\": \"%s\", \"gflop\": %.3f", name,
           r.flops * 1e-9);
    fprintf(table, "%s, %.1f GFLOP per step\n", name, r.flops * 1e-9);
    for (int t = 0; t < 2; t++) {
        met &= report_rate(&r, t, !small, table);
        met &= report_parts(&r, t, small, table);
    }
    met &= report_scaling(&r, !small, table);
    puts("}");
    fflush(stdout);
    return met;
}

int main(int argc, char **argv)
{
    int n_rounds = 5, n_cases = argc - 1;
    char *text = NULL;
    size_t n_bytes = 0;
    bool met = true;
    FILE *table;

    if (argc == 4 && !strcmp(argv[1], "worker")) {
        worker(argv[2], read_count(argv[3]));
        return 0;
    }
    if (argc > 3 && !strcmp(argv[argc - 2], "--rounds")) {
        n_rounds = read_count(argv[argc - 1]);
        n_cases -= 2;
    }
    if (n_cases < 1)
        usage();
    table = open_memstream(&text, &n_bytes);
    for (int i = 1; i <= n_cases; i++)
        met &= run_case(argv[i], n_rounds, table);
    fclose(table);
    fputs(text, stdout);
    free(text);
    return met ? 0 : 1;
}
