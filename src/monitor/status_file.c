/* Reading is tolerant: a missing or unknown value becomes NAN, -1 or "". */
#include "monitor/status_file.h"

#include "base/file.h"
#include "base/utf8.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INDEX = 1 << 20 };

/* ---- Writing ------------------------------------------------------------ */

/* Writes null for NAN and infinity, which JSON does not have. */
static void add_number(struct vp_strbuf *out, double value)
{
    if (isfinite(value))
        vp_strbuf_addf(out, "%.17g", value);
    else
        vp_strbuf_adds(out, "null");
}

/* Appends a string. Ill-formed UTF-8, quotes, backslashes and control
 * characters become '?': the texts are names and messages for people. */
static void add_text(struct vp_strbuf *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t left = strlen(text);

    vp_strbuf_adds(out, "\"");
    while (left > 0) {
        struct vp_utf8_fault fault = { .n_bytes = 0 };
        size_t n = vp_utf8_check(VP_UTF8_TEXT, at, left, &fault);

        for (size_t i = 0; i < n; i++) {
            bool plain = at[i] >= ' ' && at[i] != 127 && at[i] != '"' &&
                         at[i] != '\\';

            vp_strbuf_add(out, plain ? (const char *)at + i : "?", 1);
        }
        if (n < left) {
            vp_strbuf_adds(out, "?");
            n += fault.n_bytes;
        }
        at += n;
        left -= n;
    }
    vp_strbuf_adds(out, "\"");
}

static void add_values(struct vp_strbuf *out, const struct vp_metric *table,
                       const double *values, int n)
{
    for (int i = 0; i < n; i++) {
        vp_strbuf_addf(out, ", \"%s\": ", table[i].name);
        add_number(out, values[i]);
    }
}

static void add_rank(struct vp_strbuf *out, const struct vp_live_rank *rank)
{
    vp_strbuf_addf(out, "{\"rank\": %d, \"doing\": ", rank->number);
    add_text(out, rank->doing);
    vp_strbuf_addf(out,
                   ", \"stage\": %d, \"minibatch\": %lld, \"eval\": %s, "
                   "\"waits\": %s, \"seconds\": %.3f}",
                   rank->stage, (long long)rank->mb,
                   rank->eval ? "true" : "false",
                   rank->waits ? "true" : "false", rank->seconds);
}

static void add_named(struct vp_strbuf *out, const char *key, const char *text)
{
    vp_strbuf_addf(out, ", \"%s\": ", key);
    add_text(out, text);
}

void vp_status_print(const struct vp_live *live, struct vp_strbuf *out)
{
    const struct vp_metrics *metrics = &live->metrics;

    vp_strbuf_addf(out, "{\"number\": %lld, \"state\": \"%s\"",
                   (long long)live->number, vp_live_state_name(live->state));
    add_named(out, "line", live->line);
    add_named(out, "version", live->version);
    add_named(out, "host", live->host);
    vp_strbuf_addf(out, ", \"pid\": %lld", (long long)live->pid);
    add_named(out, "model", live->model);
    add_named(out, "schedule", live->schedule);
    add_named(out, "transport", live->transport);
    add_values(out, vp_run_metrics, metrics->run, VP_RUN_METRIC_COUNT);
    vp_strbuf_adds(out, ",\n \"stages\": [");
    for (int s = 0; s < metrics->n_stages; s++) {
        const struct vp_live_stage *stage = &live->stages[s];

        vp_strbuf_addf(out,
                       "%s{\"first_rank\": %d, \"ranks\": %d, "
                       "\"first_block\": %d, \"blocks\": %d",
                       s ? ",\n  " : "\n  ", stage->first_rank, stage->n_ranks,
                       stage->first_block, stage->n_blocks);
        add_values(out, vp_stage_metrics, metrics->stages[s],
                   VP_STAGE_METRIC_COUNT);
        vp_strbuf_adds(out, "}");
    }
    vp_strbuf_adds(out, "],\n \"ranks\": [");
    for (int r = 0; r < live->n_ranks; r++) {
        vp_strbuf_adds(out, r ? ",\n  " : "\n  ");
        add_rank(out, &live->ranks[r]);
    }
    vp_strbuf_addf(out, "],\n \"loss_every\": %lld, \"losses\": [",
                   (long long)live->losses.every);
    for (int i = 0; i < live->losses.n_points; i++)
        vp_strbuf_addf(out, "%s%.6g", i ? ", " : "", live->losses.points[i]);
    vp_strbuf_adds(out, "]}\n");
}

/* ---- Reading ------------------------------------------------------------ */

/* Returns a number, or NAN if the value is not one. */
static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static int64_t integer_of(const json_t *object, const char *key,
                          int64_t fallback)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

/* Returns the number of a rank, stage or block; -1 if it is missing or out of
 * range. */
static int index_of(const json_t *object, const char *key)
{
    int64_t value = integer_of(object, key, -1);

    return value >= -1 && value <= MAX_INDEX ? (int)value : -1;
}

/* Replaces ASCII and C1 control characters and the line separators of
 * Unicode. */
static void hide_controls(char *text)
{
    unsigned char *s = (unsigned char *)text;

    for (; *s; s++) {
        if (*s < ' ' || *s == 127)
            *s = '?';
        else if (*s == 0xC2 && s[1] >= 0x80 && s[1] <= 0x9F)
            s[0] = s[1] = '?';
        else if (*s == 0xE2 && s[1] == 0x80 && (s[2] == 0xA8 || s[2] == 0xA9))
            s[0] = s[1] = s[2] = '?';
    }
}

static void copy_text(const json_t *object, const char *key, char *out,
                      size_t n_bytes)
{
    const char *text = json_string_value(json_object_get(object, key));

    snprintf(out, n_bytes, "%s", text ? text : "");
    hide_controls(out);
}

static void read_values(const json_t *object, const struct vp_metric *table,
                        double *values, int n)
{
    for (int i = 0; i < n; i++)
        values[i] = number_of(object, table[i].name);
}

static void read_stage(const json_t *object, int s, struct vp_live *out)
{
    out->stages[s] = (struct vp_live_stage){
        .first_rank = index_of(object, "first_rank"),
        .n_ranks = index_of(object, "ranks"),
        .first_block = index_of(object, "first_block"),
        .n_blocks = index_of(object, "blocks"),
    };
    read_values(object, vp_stage_metrics, out->metrics.stages[s],
                VP_STAGE_METRIC_COUNT);
}

static void read_rank(const json_t *object, struct vp_live_rank *out)
{
    *out = (struct vp_live_rank){
        .number = index_of(object, "rank"),
        .stage = index_of(object, "stage"),
        .mb = integer_of(object, "minibatch", -1),
        .eval = json_is_true(json_object_get(object, "eval")),
        .waits = json_is_true(json_object_get(object, "waits")),
        .seconds = number_of(object, "seconds"),
    };
    copy_text(object, "doing", out->doing, sizeof(out->doing));
}

static void read_losses(const json_t *root, struct vp_loss_curve *out)
{
    const json_t *list = json_object_get(root, "losses");
    size_t n = json_array_size(list);

    out->every = integer_of(root, "loss_every", 1);
    for (size_t i = 0; i < n && i < VP_LOSS_CURVE_POINTS; i++) {
        const json_t *point = json_array_get(list, i);

        if (json_is_number(point))
            out->points[out->n_points++] = json_number_value(point);
    }
}

static bool read_state(const json_t *root, enum vp_live_state *out)
{
    const char *name = json_string_value(json_object_get(root, "state"));

    for (int i = 0; name && i < VP_LIVE_STATE_COUNT; i++)
        if (strcmp(name, vp_live_state_name((enum vp_live_state)i)) == 0) {
            *out = (enum vp_live_state)i;
            return true;
        }
    return false;
}

static bool read_lists(const json_t *root, struct vp_live *out)
{
    const json_t *stages = json_object_get(root, "stages");
    const json_t *ranks = json_object_get(root, "ranks");
    size_t n_stages = json_array_size(stages), n_ranks = json_array_size(ranks);

    if (n_stages > VP_MAX_STAGES || n_ranks > VP_LIVE_MAX_RANKS)
        return false;
    out->ranks = calloc(n_ranks + 1, sizeof(*out->ranks));
    if (!out->ranks)
        return false;
    out->n_ranks = (int)n_ranks;
    out->metrics.n_stages = (int)n_stages;
    for (size_t i = 0; i < n_stages; i++)
        read_stage(json_array_get(stages, i), (int)i, out);
    for (size_t i = 0; i < n_ranks; i++)
        read_rank(json_array_get(ranks, i), &out->ranks[i]);
    read_losses(root, &out->losses);
    return true;
}

static bool read_root(const json_t *root, struct vp_live *out)
{
    if (!json_is_object(root) || !read_state(root, &out->state))
        return false;
    copy_text(root, "line", out->line, sizeof(out->line));
    copy_text(root, "version", out->version, sizeof(out->version));
    copy_text(root, "host", out->host, sizeof(out->host));
    copy_text(root, "model", out->model, sizeof(out->model));
    copy_text(root, "schedule", out->schedule, sizeof(out->schedule));
    copy_text(root, "transport", out->transport, sizeof(out->transport));
    out->number = integer_of(root, "number", 0);
    out->pid = integer_of(root, "pid", 0);
    read_values(root, vp_run_metrics, out->metrics.run, VP_RUN_METRIC_COUNT);
    return read_lists(root, out);
}

enum vp_status vp_status_parse(const char *name, const char *bytes,
                               size_t n_bytes, struct vp_live *out,
                               struct vp_err *err)
{
    json_t *root = json_loadb(bytes, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    bool good;

    *out = (struct vp_live){ .ranks = NULL };
    vp_metrics_init(&out->metrics, 0);
    good = root && read_root(root, out);
    json_decref(root);
    if (good)
        return VP_OK;
    vp_status_release(out);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: is not a complete status of a run; wait until the "
                      "run writes it again, or look at metrics.jsonl",
                      name);
}

enum vp_status vp_status_read(const char *folder, struct vp_live *out,
                              struct vp_err *err)
{
    char path[PATH_MAX], *bytes;
    size_t n_bytes;
    enum vp_status st;

    if (snprintf(path, sizeof(path), "%s/" VP_STATUS_FILE, folder) >=
            (int)sizeof(path) ||
        access(path, F_OK) != 0)
        return vp_err_set(err, VP_ERR_IO,
                          "%.200s: there is no " VP_STATUS_FILE
                          "; give the folder of a run that has begun to train",
                          folder);
    VP_TRY(vp_file_read(path, "JSON", &bytes, &n_bytes, err));
    st = vp_status_parse(path, bytes, n_bytes, out, err);
    free(bytes);
    return st;
}

void vp_status_release(struct vp_live *live)
{
    free(live->ranks);
    live->ranks = NULL;
}
