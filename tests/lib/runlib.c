#include "lib/runlib.h"

#include "config/load.h"
#include "lib/removelib.h"
#include "run/run.h"

#include <math.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

char run_root[64];

/* ---- Files -------------------------------------------------------------- */

const char *path_in_run_root(const char *folder, const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s/%s", run_root, folder,
             name);
    return path[turn];
}

char *read_run_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    if (!f)
        fail_msg("%s is missing", path);
    assert_true(fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
    fclose(f);
    return text;
}

void assert_file(const char *path, const char *want)
{
    char *text = read_run_text(path);

    assert_string_equal(text, want);
    free(text);
}

int count_lines(const char *text, const char *pattern)
{
    char *copy = strdup(text), *save = NULL;
    regex_t regex;
    int n = 0;

    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    for (char *line = strtok_r(copy, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        n += regexec(&regex, line, 0, NULL, 0) == 0;
    regfree(&regex);
    free(copy);
    return n;
}

/* ---- Runs --------------------------------------------------------------- */

struct heard heard;

static void hear_detail(void *ctx, int rank, const char *line)
{
    (void)ctx;
    assert_true(heard.n_lines < MAX_LINES);
    heard.rank[heard.n_lines] = rank;
    snprintf(heard.line[heard.n_lines++], sizeof(heard.line[0]), "%s", line);
}

static void hear_start(void *ctx, const struct vp_run_summary *summary)
{
    (void)ctx;
    for (int r = 0; r < summary->n_ranks && r < 3; r++)
        heard.ranks[r] = summary->rank_numbers ? summary->rank_numbers[r] : -1;
    for (int s = 0; s < summary->n_stages; s++)
        heard.n_bytes += summary->stages[s].memory->total *
                         summary->stages[s].n_ranks;
}

static void hear_step(void *ctx, const struct vp_step_report *report)
{
    (void)ctx;
    if (report->step <= 64) {
        heard.epochs[report->step - 1] = report->epoch;
        heard.losses[report->step - 1] = report->loss;
    }
    heard.n_steps++;
}

static void hear_eval(void *ctx, int64_t step, int64_t n_batches, double loss)
{
    (void)ctx;
    heard.n_batches = n_batches;
    heard.eval_step = step;
    heard.eval_loss = loss;
    heard.n_evals++;
}

static void hear_notice(void *ctx, const char *line)
{
    size_t used = strlen(heard.notices);

    (void)ctx;
    snprintf(heard.notices + used, sizeof(heard.notices) - used, "%s\n", line);
}

enum vp_status run_small(const char *output, const char *resume,
                         const char *const *sets)
{
    static const char text[] =
        "model_type: bert\nvocab: 64\nhidden: 16\nlayers: 4\nheads: 2\n"
        "ffn: 32\npositions: 16\ndropout: 0.0\ntie_embeddings: false\n"
        "synthetic_data: true\nseq_length: 8\nbatch_size: 4\n"
        "learning_rate: 0.01\nthreads_per_stage: 1\nprint_frequency: 2\n";
    static char arguments[3][16] = { "train", "a b", "c" };
    char *argv[] = { arguments[0], arguments[1], arguments[2] };
    struct vp_run_options options = {
        .output = output, .resume = resume, .argv = argv, .argc = 3
    };
    struct vp_run_events events = { .on_start = hear_start,
                                    .on_detail = hear_detail,
                                    .on_step = hear_step,
                                    .on_eval = hear_eval,
                                    .on_notice = hear_notice };
    struct vp_config config;
    struct vp_err err = { .text = "" };
    enum vp_status st;
    int n_sets = 0;

    memset(&heard, 0, sizeof(heard));
    while (sets[n_sets])
        n_sets++;
    st = vp_config_parse("test.yml", text, sizeof(text) - 1, sets, n_sets,
                         &config, &err);
    if (st == VP_OK)
        st = vp_run_train(&config, &options, &events, &err);
    vp_config_release(&config);
    snprintf(heard.error, sizeof(heard.error), "%.500s", err.text);
    return st;
}

void must_run_small(const char *output, const char *resume,
                    const char *const *sets)
{
    if (run_small(output, resume, sets) != VP_OK)
        fail_msg("%s", heard.error);
}

const char *folder_of(const char *name)
{
    static char path[2][160];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", run_root, name);
    return path[turn];
}

/* ---- Logs in the original's format -------------------------------------- */

void make_fake(struct fake *fake, int accumulation, int64_t every)
{
    *fake = (struct fake){
        .config = { .print_frequency = every,
                    .accumulation_steps = accumulation },
        .memory = { { .total = 1234000000 },
                    { .total = 2000000000 },
                    { .total = 500000 } },
        .stages = { { .n_params = 10, .first_rank = 0, .n_ranks = 1 },
                    { .n_params = 25, .first_rank = 1, .n_ranks = 2 },
                    { .n_params = 10, .first_rank = 3, .n_ranks = 1 } },
    };
    for (int s = 0; s < 3; s++)
        fake->stages[s].memory = &fake->memory[s];
    fake->summary = (struct vp_run_summary){
        .stages = fake->stages,
        .n_stages = 3,
        .n_ranks = 4,
        .steps_per_epoch = 12,
        .transport = "gloo",
    };
}

void open_log(struct vp_log *log, const struct fake *fake, const char *name)
{
    struct vp_err err = { .text = "" };
    char command[128];

    snprintf(command, sizeof(command), "%s/%s", run_root, name);
    mkdir(command, 0777);
    if (vp_log_open(log, &fake->config, &fake->summary, folder_of(name),
                    &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* ---- The test's folder --------------------------------------------------- */

int make_run_root(void **state)
{
    (void)state;
    snprintf(run_root, sizeof(run_root), "/tmp/vp_run_XXXXXX");
    return mkdtemp(run_root) ? 0 : -1;
}

int remove_run_root(void **state)
{
    (void)state;
    return remove_tree(run_root);
}
