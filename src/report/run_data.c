/* Reads metrics.jsonl, plan.json, config.yml and trace.json of a run folder. */
#include "report/run_data.h"

#include "base/file.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/value.h"
#include "plan/plan_json.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const vp_memory_kinds[VP_N_MEMORY_KINDS] = {
    "weights", "gradients", "moments", "activations", "boundary", "work",
};

/* Reading a trace needs about 14 times its size in memory. */
enum { MOST_TRACE_BYTES = 128 << 20 };

/* ---- Events and notes --------------------------------------------------- */

void vp_run_data_add_event(struct vp_run_data *run, enum vp_event_kind kind,
                           int64_t step, const char *text)
{
    struct vp_run_event *event =
        &run->events[run->n_events++ % VP_RUN_DATA_EVENTS];

    free(event->text);
    *event = (struct vp_run_event){ .kind = kind,
                                    .step = step,
                                    .text = strdup(text) };
}

int vp_run_data_n_kept(const struct vp_run_data *run)
{
    return run->n_events < VP_RUN_DATA_EVENTS ? (int)run->n_events
                                              : VP_RUN_DATA_EVENTS;
}

const struct vp_run_event *vp_run_data_event(const struct vp_run_data *run,
                                             int i)
{
    int64_t first = run->n_events - vp_run_data_n_kept(run);

    return &run->events[(first + i) % VP_RUN_DATA_EVENTS];
}

void vp_run_data_note(struct vp_run_data *run, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    if (run->n_notes == VP_RUN_DATA_NOTES)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    run->notes[run->n_notes] = strdup(text);
    run->n_notes += run->notes[run->n_notes] != NULL;
}

/* ---- metrics.jsonl ------------------------------------------------------ */

static double sum_of(const struct vp_metrics_list *list)
{
    double sum = list->n > 0 ? 0.0 : (double)NAN;

    for (int i = 0; i < list->n; i++)
        sum += list->at[i];
    return sum;
}

static void note_skipped(struct vp_run_data *run,
                         const struct vp_metrics_record *record)
{
    double before = isfinite(run->last.skipped) ? run->last.skipped : 0.0;
    char text[96];

    if (!(record->skipped > before) || run->last.step < 0)
        return;
    snprintf(text, sizeof(text),
             "update skipped: a gradient was not finite (loss scale %.6g)",
             record->loss_scale);
    vp_run_data_add_event(run, VP_EVENT_SKIPPED, record->step, text);
}

static void add_step(struct vp_run_data *run,
                     const struct vp_metrics_record *record)
{
    const double values[VP_CURVE_COUNT] = {
        [VP_CURVE_LOSS] = record->loss,
        [VP_CURVE_RATE] = record->tokens_per_second,
        [VP_CURVE_BUBBLE] = record->bubble,
        [VP_CURVE_NORM] = record->grad_norm,
        [VP_CURVE_LR] = record->lr,
        [VP_CURVE_SECONDS] = record->seconds,
        [VP_CURVE_MEMORY] = sum_of(&record->memory),
    };

    run->end.step = (double)record->step;
    if (isfinite(record->seconds)) {
        run->end.seconds += record->seconds;
        if (isfinite(record->tokens_per_second))
            run->end.tokens += record->seconds * record->tokens_per_second;
    }
    vp_series_add(&run->steps, &run->end, values);
    note_skipped(run, record);
    run->last = *record;
    run->n_steps++;
}

static void add_move(struct vp_run_data *run,
                     const struct vp_metrics_record *record)
{
    char text[VP_METRICS_TEXT + 128];

    snprintf(text, sizeof(text), "new plan (%s): %.0f blocks moved in %.3g s",
             record->why, record->blocks_moved, record->move_seconds);
    vp_run_data_add_event(run, VP_EVENT_PLAN, record->step, text);
    if (run->n_moves < VP_RUN_DATA_MOVES)
        run->moves[run->n_moves++] = *record;
}

static void add_record(void *ctx, const struct vp_metrics_record *record)
{
    struct vp_run_data *run = ctx;

    if (!record->event[0]) {
        add_step(run, record);
    } else if (strcmp(record->event, "eval") == 0) {
        struct vp_series_x x = run->end;

        x.step = (double)record->step;
        vp_series_add(&run->evals, &x, &record->eval_loss);
        run->last_eval = record->eval_loss;
    } else if (strcmp(record->event, "forecast") == 0) {
        run->forecast = *record;
    } else if (strcmp(record->event, "rebalance") == 0) {
        add_move(run, record);
    }
}

static enum vp_status read_metrics(struct vp_run_data *run, const char *folder,
                                   struct vp_err *err)
{
    struct vp_metrics_faults faults;

    VP_TRY(vp_metrics_read(folder, add_record, run, &faults, err));
    if (faults.n_bad > 0)
        vp_run_data_note(run,
                         "metrics.jsonl: %lld line%s left out, not JSON of a "
                         "step or event; the first is line %lld",
                         (long long)faults.n_bad,
                         faults.n_bad == 1 ? " was" : "s were",
                         (long long)faults.first_bad);
    return VP_OK;
}

/* ---- plan.json ---------------------------------------------------------- */

static void read_kinds(struct vp_run_data *run)
{
    const struct vp_yaml_node *forecast = vp_json_find(run->plan_root,
                                                       "forecast");
    const struct vp_yaml_node *kinds = NULL;

    if (forecast && forecast->kind == VP_YAML_MAP)
        kinds = vp_json_find(forecast, "memory_kinds");
    for (int k = 0;
         kinds && kinds->kind == VP_YAML_MAP && k < VP_N_MEMORY_KINDS; k++) {
        const struct vp_yaml_node *list = vp_json_find(kinds,
                                                       vp_memory_kinds[k]);
        const struct vp_yaml_node *at = list && list->kind == VP_YAML_LIST
                                            ? list->child
                                            : NULL;

        for (int s = 0; at && s < VP_MAX_STAGES; s++, at = at->next)
            if (at->kind == VP_YAML_SCALAR &&
                vp_text_to_i64(at->text, &run->memory[k][s]) &&
                run->memory[k][s] >= 0)
                run->has_memory = true;
            else
                run->memory[k][s] = 0;
    }
}

static void read_plan(struct vp_run_data *run, const char *folder)
{
    char path[PATH_MAX], *bytes = NULL;
    struct vp_err err = { .text = "" };
    size_t n = 0;
    enum vp_status st;

    snprintf(path, sizeof(path), "%s/plan.json", folder);
    if (access(path, F_OK) != 0)
        return;
    st = vp_file_read(path, "JSON", &bytes, &n, &err);
    if (st == VP_OK)
        st = vp_json_parse("plan.json", bytes, n, &run->arena, &run->plan_root,
                           &err);
    if (st == VP_OK)
        st = vp_plan_from_json(run->plan_root, "plan.json", &run->arena,
                               &run->plan, &err);
    free(bytes);
    run->has_plan = st == VP_OK && run->plan.partition;
    if (run->has_plan) {
        read_kinds(run);
        return;
    }
    run->plan_root = NULL;
    vp_run_data_note(run, "plan.json was left out: %s", err.text);
}

/* ---- config.yml --------------------------------------------------------- */

static void add_node(struct vp_strbuf *out, const struct vp_yaml_node *node)
{
    bool map = node->kind == VP_YAML_MAP;

    if (node->kind == VP_YAML_SCALAR) {
        vp_strbuf_adds(out, node->text);
        return;
    }
    vp_strbuf_adds(out, map ? "{" : "[");
    for (const struct vp_yaml_node *at = node->child; at; at = at->next) {
        if (map)
            vp_strbuf_addf(out, "%s: ", at->key);
        add_node(out, at);
        vp_strbuf_adds(out, at->next ? ", " : "");
    }
    vp_strbuf_adds(out, map ? "}" : "]");
}

const char *vp_node_text(struct vp_arena *arena,
                         const struct vp_yaml_node *node)
{
    struct vp_strbuf text = VP_STRBUF_INIT;
    const char *copy;

    if (node->kind == VP_YAML_SCALAR)
        return node->text;
    add_node(&text, node);
    copy = vp_arena_strdup(arena, vp_strbuf_text(&text));
    vp_strbuf_release(&text);
    return copy ? copy : "";
}

const char *vp_run_data_config(const struct vp_run_data *run, const char *key)
{
    const struct vp_yaml_node *at = run->config ? run->config->child : NULL;

    while (at && strcmp(at->key, key) != 0)
        at = at->next;
    return at && at->kind == VP_YAML_SCALAR ? at->text : NULL;
}

static void read_config(struct vp_run_data *run, const char *folder)
{
    char path[PATH_MAX], *bytes = NULL;
    struct vp_err err = { .text = "" };
    const struct vp_yaml_node *root = NULL;
    size_t n = 0;
    enum vp_status st;

    snprintf(path, sizeof(path), "%s/config.yml", folder);
    st = vp_file_read(path, "YAML", &bytes, &n, &err);
    if (st == VP_OK)
        st = vp_yaml_parse("config.yml", bytes, n, &run->arena, &root, &err);
    free(bytes);
    if (st == VP_OK && root && root->kind == VP_YAML_MAP)
        run->config = root;
    else if (access(path, F_OK) == 0)
        vp_run_data_note(run, "config.yml was left out: %s", err.text);
}

/* ---- trace.json --------------------------------------------------------- */

/* Drops the first quarter of the minibatches, which in a short run are those of
 * its start. */
static void read_trace(struct vp_run_data *run, const char *folder)
{
    char path[PATH_MAX];
    struct vp_err err = { .text = "" };
    struct stat info;
    int n;

    snprintf(path, sizeof(path), "%s/trace.json", folder);
    if (stat(path, &info) != 0)
        return;
    if (info.st_size > MOST_TRACE_BYTES) {
        vp_run_data_note(run, "trace.json was left out: it is larger than 128 "
                              "MiB");
        return;
    }
    if (vp_trace_read_chrome(path, &run->trace, &err) != VP_OK) {
        vp_run_data_note(run, "trace.json was left out: %s", err.text);
        return;
    }
    run->has_trace = true;
    n = vp_trace_n_minibatches(&run->trace);
    if (n > 4)
        vp_trace_keep_last(&run->trace, n - n / 4);
}

/* ---- The folder --------------------------------------------------------- */

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/%s", folder, name) <
               (int)sizeof(path) &&
           access(path, F_OK) == 0;
}

/* Returns the last component of the path, which the caller frees. Resolves "."
 * and "..". */
static char *name_of(const char *folder)
{
    char *real = realpath(folder, NULL);
    const char *path = real ? real : folder;
    const char *slash = strrchr(path, '/');
    char *name = strdup(slash && slash[1] ? slash + 1 : path);

    free(real);
    return name;
}

static enum vp_status check_folder(const char *folder, struct vp_err *err)
{
    if (access(folder, F_OK) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.256s: %s; give the folder that 'vpipe train' "
                          "wrote",
                          folder, strerror(errno));
    if (!is_there(folder, "config.yml") && !is_there(folder, "metrics.jsonl"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.256s is not the folder of a run; give the folder "
                          "that 'vpipe train' wrote",
                          folder);
    return VP_OK;
}

enum vp_status vp_run_data_read(const char *folder, int n_buckets,
                                struct vp_run_data *out, struct vp_err *err)
{
    enum vp_status st;

    *out = (struct vp_run_data){ .last_eval = NAN,
                                 .last = { .step = -1, .skipped = NAN },
                                 .forecast = { .step = -1 } };
    VP_TRY(check_folder(folder, err));
    out->name = name_of(folder);
    st = vp_series_init(&out->steps, VP_CURVE_COUNT, n_buckets);
    if (st == VP_OK)
        st = vp_series_init(&out->evals, 1, n_buckets);
    if (st != VP_OK || !out->name) {
        vp_run_data_release(out);
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%.256s: out of memory; close other programs",
                          folder);
    }
    st = read_metrics(out, folder, err);
    if (st != VP_OK) {
        vp_run_data_release(out);
        return st;
    }
    vp_run_data_read_log(out, folder);
    read_plan(out, folder);
    read_config(out, folder);
    read_trace(out, folder);
    return VP_OK;
}

void vp_run_data_release(struct vp_run_data *run)
{
    for (int i = 0; i < VP_RUN_DATA_EVENTS; i++)
        free(run->events[i].text);
    for (int i = 0; i < run->n_notes; i++)
        free(run->notes[i]);
    if (run->has_trace)
        vp_trace_release(&run->trace);
    vp_series_release(&run->steps);
    vp_series_release(&run->evals);
    vp_arena_release(&run->arena);
    free(run->name);
    *run = (struct vp_run_data){ .name = NULL };
}
