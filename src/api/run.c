/* struct vpipe_run: metrics of a run as arrays, its configuration and plan as
 * texts. */
#include "api/internal.h"

#include "base/file.h"
#include "run/metrics.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Columns of steps come before those of evaluations. */
enum { N_STEP_COLUMNS = 9, N_COLUMNS = 11 };

/* Names of columns and offsets of their values in a record; 0: its step. */
static const struct {
    const char *name;
    size_t offset;
} columns[N_COLUMNS] = {
#define FIELD(name) offsetof(struct vp_metrics_record, name)
    { "step", 0 },
    { "minibatch", FIELD(minibatch) },
    { "loss", FIELD(loss) },
    { "lr", FIELD(lr) },
    { "grad_norm", FIELD(grad_norm) },
    { "seconds", FIELD(seconds) },
    { "samples_per_second", FIELD(samples_per_second) },
    { "tokens_per_second", FIELD(tokens_per_second) },
    { "bubble", FIELD(bubble) },
    { "eval_step", 0 },
    { "eval_loss", FIELD(eval_loss) },
#undef FIELD
};

struct vpipe_run {
    double *column[N_COLUMNS];
    size_t n_steps, cap_steps, n_evals, cap_evals;
    char *config, *plan;
    bool failed; /* out of memory */
};

/* ---- Metrics ------------------------------------------------------------- */

/* Makes room for one more row in columns [first, last). Returns false if out of
 * memory. */
static bool grow(struct vpipe_run *run, int first, int last, size_t n,
                 size_t *cap)
{
    size_t wider = *cap > 0 ? 2 * *cap : 256;

    if (n < *cap)
        return true;
    for (int i = first; i < last; i++) {
        double *moved = realloc(run->column[i], wider * sizeof(*moved));

        if (!moved)
            return false;
        run->column[i] = moved;
    }
    *cap = wider;
    return true;
}

static double number_of(const struct vp_metrics_record *record, int i)
{
    double number;

    if (columns[i].offset == 0)
        return (double)record->step;
    memcpy(&number, (const char *)record + columns[i].offset, sizeof(number));
    return number;
}

static void take_record(void *ctx, const struct vp_metrics_record *record)
{
    struct vpipe_run *run = ctx;
    bool is_step = record->event[0] == '\0';
    int first = is_step ? 0 : N_STEP_COLUMNS;
    int last = is_step ? N_STEP_COLUMNS : N_COLUMNS;
    size_t *n = is_step ? &run->n_steps : &run->n_evals;
    size_t *cap = is_step ? &run->cap_steps : &run->cap_evals;

    if (!is_step && strcmp(record->event, "eval") != 0)
        return;
    if (run->failed || !grow(run, first, last, *n, cap)) {
        run->failed = true;
        return;
    }
    for (int i = first; i < last; i++)
        run->column[i][*n] = number_of(record, i);
    (*n)++;
}

/* ---- The handle ---------------------------------------------------------- */

/* Leaves *text_out as it is, NULL, if the file does not exist. */
static enum vp_status read_text(const char *folder, const char *name,
                                char **text_out, struct vp_err *err)
{
    char path[PATH_MAX];
    size_t n_bytes;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >=
        (int)sizeof(path))
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          folder);
    if (access(path, F_OK) != 0)
        return VP_OK;
    return vp_file_read(path, "text", text_out, &n_bytes, err);
}

static enum vp_status read_run(const char *folder, struct vpipe_run *run,
                               struct vp_err *err)
{
    struct vp_metrics_faults faults;

    VP_TRY(read_text(folder, "config.yml", &run->config, err));
    VP_TRY(read_text(folder, "plan.json", &run->plan, err));
    VP_TRY(vp_metrics_read(folder, take_record, run, &faults, err));
    if (run->failed)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
    if (!run->config && run->n_steps == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is no run: it holds neither config.yml nor "
                          "metrics.jsonl; name the folder of a run",
                          folder);
    return VP_OK;
}

enum vpipe_status vpipe_run_open(const char *folder, struct vpipe_run **run_out,
                                 struct vpipe_error *error)
{
    struct vp_err err = { .text = "" };
    struct vp_caller caller;
    struct vpipe_run *run;
    enum vp_status st;

    if (!folder || !run_out)
        return vp_api_null(error, "vpipe_run_open",
                           folder ? "run_out" : "folder");
    run = calloc(1, sizeof(*run));
    if (!run)
        return vp_api_report(error, VP_ERR_NOMEM, &err);
    vp_caller_enter(&caller);
    st = read_run(folder, run, &err);
    vp_caller_leave(&caller);
    if (st == VP_OK)
        *run_out = run;
    else
        vpipe_run_free(run);
    return vp_api_report(error, st, &err);
}

void vpipe_run_free(struct vpipe_run *run)
{
    if (!run)
        return;
    for (int i = 0; i < N_COLUMNS; i++)
        free(run->column[i]);
    free(run->config);
    free(run->plan);
    free(run);
}

/* ---- Questions ----------------------------------------------------------- */

const double *vpipe_run_metric(const struct vpipe_run *run, const char *name,
                               size_t *n_out)
{
    static const double none[1];

    for (int i = 0; run && name && n_out && i < N_COLUMNS; i++)
        if (strcmp(columns[i].name, name) == 0) {
            *n_out = i < N_STEP_COLUMNS ? run->n_steps : run->n_evals;
            return run->column[i] ? run->column[i] : none;
        }
    return NULL;
}

const char *vpipe_run_config(const struct vpipe_run *run)
{
    return run ? run->config : NULL;
}

const char *vpipe_run_plan(const struct vpipe_run *run)
{
    return run ? run->plan : NULL;
}
