/* bench_scaling study [RANKS]...: simulates BERT with 48 layers and CPM-large
 * on many ranks; a row of JSON for every model, link, schedule and mix of
 * stages and replicas.
 *
 * bench_scaling calibrate [RANKS]...: compares the simulator with real
 * pipelines on this machine. */
#include "scaling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1024 };

/* docs/scaling.md describes how the rates were measured. */
static const struct scaling_model models[] = {
    { "bert-48",
      { "bert", 30528, 1024, 48, 16, 128, 16, 20, 0.1, false, VP_DTYPE_BF16 },
      380e12,
      140e9 },
    { "cpm-large",
      { "cpm", 30000, 2560, 32, 32, 696, 4, 0, 0.1, false, VP_DTYPE_BF16 },
      513e12,
      140e9 },
};

static _Noreturn void usage(void)
{
    fputs("usage: bench_scaling study [RANKS]...      [8 16 32 64 128]\n"
          "       bench_scaling calibrate [RANKS]...  [2 4]\n",
          stderr);
    exit(2);
}

static int read_ranks(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end != '\0' || n < 2 || n > MAX_RANKS)
        usage();
    return (int)n;
}

static void study(int n_ranks)
{
    for (size_t i = 0; i < VP_COUNT_OF(models); i++)
        scaling_study(&models[i], n_ranks);
}

int main(int argc, char **argv)
{
    static const int many[] = { 8, 16, 32, 64, 128 }, few[] = { 2, 4 };
    bool big = argc > 1 && strcmp(argv[1], "study") == 0;
    const int *ranks = big ? many : few;
    int n = big ? (int)VP_COUNT_OF(many) : (int)VP_COUNT_OF(few);
    void (*run)(int) = big ? study : scaling_calibrate;

    if (!big && (argc < 2 || strcmp(argv[1], "calibrate") != 0))
        usage();
    for (int i = 0; argc == 2 && i < n; i++)
        run(ranks[i]);
    for (int i = 2; i < argc; i++)
        run(read_ranks(argv[i]));
    return 0;
}
