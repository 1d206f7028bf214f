/* bench_pipeline CASE... [OPTION]...: compares pipelines with the speed that
 * the simulator computes for their schedule. Contestants take turns in rounds
 * of one run; times are wall clock around whole calls of vp_trainer_run(),
 * after a warm-up. Prints a line of JSON per case (series are [median, least,
 * most]), and a table at the end; exit 1 if a target is missed. */
#include "bench.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(struct bench *bench);
    const char *meaning;
} cases[] = {
    { "asp", case_asp, "stages, an update per minibatch, against one" },
    { "bsp", case_bsp, "stages, 1f1b with 32 minibatches, against one" },
    { "zb", case_zb, "zb-h1 against 1f1b at 4 minibatches" },
    { "overhead", case_overhead, "CPU time per action, empty kernels" },
    { "memory", case_memory, "weight versions, slots, bytes moved" },
    { "saving", case_saving, "checkpoints, against copying the state" },
    { "worker", case_worker, "train when a line arrives on stdin" },
};

static const struct {
    const char *name;
    size_t offset;
    const char *meaning;
} numbers[] = {
    { "rounds", offsetof(struct bench, n_rounds), "turns of each contestant" },
    { "minibatches", offsetof(struct bench, n_mb), "per run [by case]" },
    { "stages", offsetof(struct bench, n_stages),
      "asp, bsp, zb [2], worker [1]" },
    { "threads", offsetof(struct bench, n_threads), "of a stage [1]" },
    { "copies", offsetof(struct bench, n_copies), "worker: runs at once" },
    { "dropout", offsetof(struct bench, dropout), "percent [0]" },
    { "batch", offsetof(struct bench, size.batch), "samples per minibatch" },
    { "labels", offsetof(struct bench, size.labels), "scored per sample" },
    { "seq", offsetof(struct bench, size.seq), "tokens per sample" },
    { "hidden", offsetof(struct bench, size.hidden), "width" },
    { "layers", offsetof(struct bench, size.layers), "layers" },
    { "heads", offsetof(struct bench, size.heads), "attention heads" },
    { "vocab", offsetof(struct bench, size.vocab), "entries" },
};
enum { N_NUMBERS = VP_COUNT_OF(numbers) };

static _Noreturn void usage(void)
{
    fputs("usage: bench_pipeline CASE... [--OPTION N]...\n\ncases\n", stderr);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        fprintf(stderr, "  %-14s %s\n", cases[i].name, cases[i].meaning);
    fputs("\noptions\n", stderr);
    for (size_t i = 0; i < N_NUMBERS; i++)
        fprintf(stderr, "  --%-12s %s\n", numbers[i].name, numbers[i].meaning);
    fputs("  --schedule NAME of the worker [1f1b]\n"
          "  --pinned       each stage stays on cores of its own\n"
          "  --bf16         instead of fp32\n",
          stderr);
    exit(2);
}

static int read_number(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end != '\0' || n < 1 || n > 1000000)
        usage();
    return (int)n;
}

static void read_options(int argc, char **argv, struct bench *bench)
{
    struct option options[N_NUMBERS + 4] = { { NULL, 0, NULL, 0 } };
    int which, at;

    for (int i = 0; i < N_NUMBERS; i++)
        options[i] = (struct option){ numbers[i].name, required_argument, NULL,
                                      'n' };
    options[N_NUMBERS] = (struct option){ "schedule", required_argument, NULL,
                                          's' };
    options[N_NUMBERS + 1] = (struct option){ "pinned", no_argument, NULL,
                                              'p' };
    options[N_NUMBERS + 2] = (struct option){ "bf16", no_argument, NULL, 'b' };
    while ((which = getopt_long(argc, argv, "", options, &at)) != -1) {
        if (which == 's')
            bench->schedule = optarg;
        else if (which == 'p')
            bench->pinned = true;
        else if (which == 'b')
            bench->size.dtype = VP_DTYPE_BF16;
        else if (which == 'n')
            *(int *)((char *)bench + numbers[at].offset) = read_number(optarg);
        else
            usage();
    }
}

static void run_case(struct bench *bench, const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        if (!strcmp(cases[i].name, name)) {
            cases[i].run(bench);
            fflush(stdout);
            return;
        }
    usage();
}

const char *bench_judge(struct bench *bench, bool met)
{
    bench->missed |= !met;
    return met ? "met" : "MISSED";
}

struct lab_spec bench_spec(const struct bench *bench, const char *schedule,
                           int n_stages, const int *partition, int n_mb)
{
    return (struct lab_spec){ .size = bench->size,
                              .schedule = schedule,
                              .n_stages = n_stages,
                              .n_threads = bench->n_threads,
                              .pinned = bench->pinned,
                              .partition = partition,
                              .n_mb = n_mb };
}

void bench_open_copies(const struct bench *bench, const char *schedule, int n,
                       int n_mb, struct lab **copies_out)
{
    struct lab_spec spec = bench_spec(bench, schedule, 1, NULL, n_mb);

    for (int i = 0; i < n; i++) {
        spec.first_device = i;
        copies_out[i] = lab_open(&spec);
    }
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .size = { .vocab = 8192,
                  .hidden = 512,
                  .layers = 8,
                  .heads = 8,
                  .seq = 128,
                  .batch = 4,
                  .labels = 20 },
        .n_rounds = 3,
        .schedule = "1f1b",
        .n_threads = 1,
    };
    char *text = NULL;
    size_t n_bytes = 0;

    read_options(argc, argv, &bench);
    bench.size.dropout = bench.dropout * 0.01;
    if (optind == argc)
        usage();
    bench.table = open_memstream(&text, &n_bytes);
    if (!bench.table)
        lab_die("table", &(struct vp_err){ .text = "out of memory" });
    for (int i = optind; i < argc; i++)
        run_case(&bench, argv[i]);
    fclose(bench.table);
    fputs(text, stdout);
    free(text);
    return bench.missed ? 1 : 0;
}
