/* Reads files of trace_chrome_write.c. Checks every value, so that drawings can
 * rely on order and ranges. */
#include "trace/trace.h"

#include "base/path.h"
#include "trace/chrome.h"
#include "trace/internal.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Limits far above any run, and low enough that sums do not overflow. */
#define MAX_NS ((json_int_t)1 << 52)
#define MAX_BYTES ((json_int_t)1 << 40)
#define MAX_EVENTS ((size_t)1 << 22)

struct reader {
    const char *path;
    struct vp_err *err;
    struct vp_trace *trace;
};

/* Reports that `key` must be `want`. `where` is "event 12" or "otherData". */
static enum vp_status refuse(const struct reader *in, const char *where,
                             const char *key, const char *want)
{
    vp_err_set(in->err, VP_ERR_INVALID,
               "%s: %s: '%s' must be %s; let vpipe train write the file again",
               in->path, where, key, want);
    return VP_ERR_INVALID;
}

static enum vp_status no_memory(const struct reader *in)
{
    vp_err_set(in->err, VP_ERR_NOMEM, "%s: out of memory; close other programs",
               in->path);
    return VP_ERR_NOMEM;
}

static enum vp_status read_int(const struct reader *in, const json_t *object,
                               const char *where, const char *key,
                               json_int_t most, json_int_t *out)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_integer_value(value);
    char want[64];

    if (!json_is_integer(value) || number < 0 || number > most) {
        snprintf(want, sizeof(want), "a whole number from 0 to %lld",
                 (long long)most);
        return refuse(in, where, key, want);
    }
    *out = number;
    return VP_OK;
}

/* ---- The run: otherData ------------------------------------------------- */

/* "host_bytes" is optional: stages without swapping do not have it. */
static enum vp_status read_stages(const struct reader *in, const json_t *list)
{
    for (int s = 0; s < in->trace->n_stages; s++) {
        const json_t *stage = json_array_get(list, (size_t)s);
        json_int_t base = 0, slot = 0, host = 0;
        char where[48];

        snprintf(where, sizeof(where), "otherData: stage %d", s);
        VP_TRY(read_int(in, stage, where, "base_bytes", MAX_BYTES, &base));
        VP_TRY(read_int(in, stage, where, "slot_bytes", MAX_BYTES, &slot));
        if (json_object_get(stage, "host_bytes"))
            VP_TRY(read_int(in, stage, where, "host_bytes", MAX_BYTES, &host));
        in->trace->stages[s] = (struct vp_trace_stage){ base, slot, host };
    }
    return VP_OK;
}

/* Files of older versions have no "rank_numbers": rank i has number i. */
static enum vp_status read_numbers(const struct reader *in, const json_t *list)
{
    static const char key[] = "rank_numbers";
    struct vp_trace *trace = in->trace;

    if (!list)
        return VP_OK;
    if (json_array_size(list) != (size_t)trace->n_ranks)
        return refuse(in, "otherData", key, "a list with a number per rank");
    for (int r = 0; r < trace->n_ranks; r++) {
        const json_t *value = json_array_get(list, (size_t)r);
        json_int_t number = json_integer_value(value);

        if (!json_is_integer(value) || number < 0 ||
            number >= VP_TRACE_MAX_RANKS)
            return refuse(in, "otherData", key,
                          "a list of whole numbers from 0 to 4095");
        trace->ranks[r].number = (int)number;
    }
    return VP_OK;
}

static enum vp_status read_other(const struct reader *in, const json_t *root)
{
    static const char where[] = "otherData";
    const json_t *other = json_object_get(root, where);
    const char *format = json_string_value(json_object_get(other, "format"));
    const char *name = json_string_value(json_object_get(other, "name"));
    const json_t *stages = json_object_get(other, "stages");
    json_int_t version = 0, n_ranks = 0, begin = 0, end = 0, plan = -1;

    if (!format || strcmp(format, VP_CHROME_FORMAT) != 0)
        return vp_err_set(in->err, VP_ERR_INVALID,
                          "%s: not a trace of vpipe; give a run folder or its "
                          "trace.json",
                          in->path);
    VP_TRY(read_int(in, other, where, "version", 1 << 20, &version));
    if (version != VP_CHROME_VERSION)
        return refuse(in, where, "version", "1");
    VP_TRY(read_int(in, other, where, "ranks", VP_TRACE_MAX_RANKS, &n_ranks));
    VP_TRY(read_int(in, other, where, "begin_ns", MAX_NS, &begin));
    VP_TRY(read_int(in, other, where, "end_ns", MAX_NS, &end));
    if (json_object_get(other, "plan_ns")) /* only if the run has moved */
        VP_TRY(read_int(in, other, where, "plan_ns", MAX_NS, &plan));
    if (n_ranks < 1)
        return refuse(in, where, "ranks", "at least 1");
    if (end < begin)
        return refuse(in, where, "end_ns", "no less than 'begin_ns'");
    if (json_array_size(stages) < 1 ||
        json_array_size(stages) > VP_TRACE_MAX_STAGES)
        return refuse(in, where, "stages", "a list of 1 to 4096 stages");
    if (vp_trace_init(in->trace, (int)n_ranks, (int)json_array_size(stages)))
        return no_memory(in);
    vp_trace_set_name(in->trace, name ? name : "run");
    in->trace->begin_ns = begin;
    in->trace->end_ns = end;
    in->trace->plan_ns = plan;
    VP_TRY(read_numbers(in, json_object_get(other, "rank_numbers")));
    return read_stages(in, stages);
}

/* ---- Events ------------------------------------------------------------- */

/* Writes whether `item` is an action. Names, arrows and counters are derived
 * from actions and ignored. */
static enum vp_status read_phase(const struct reader *in, const json_t *item,
                                 const char *where, bool *action_out)
{
    const char *ph = json_string_value(json_object_get(item, "ph"));

    if (!ph || strlen(ph) != 1 || !strchr("XMCIsf", ph[0]))
        return refuse(in, where, "ph", "one of X, M, C, I, s, f");
    *action_out = ph[0] == 'X';
    return VP_OK;
}

static enum vp_status read_rank(const struct reader *in, const json_t *item,
                                const char *where, int *rank_out)
{
    json_int_t tid = 0;

    VP_TRY(read_int(in, item, where, "tid",
                    in->trace->n_ranks - 1 + VP_CHROME_FIRST_TID, &tid));
    if (tid < VP_CHROME_FIRST_TID)
        return refuse(in, where, "tid", "at least 1");
    *rank_out = (int)tid - VP_CHROME_FIRST_TID;
    return VP_OK;
}

/* Reads microseconds with a fraction; exact up to MAX_NS. */
static enum vp_status read_us(const struct reader *in, const json_t *item,
                              const char *where, const char *key,
                              int64_t *ns_out)
{
    const json_t *value = json_object_get(item, key);
    double us = json_number_value(value);

    if (!json_is_number(value) || !(us >= 0.0) || us * 1e3 > (double)MAX_NS)
        return refuse(in, where, key, "a time in microseconds");
    *ns_out = llround(us * 1e3);
    return VP_OK;
}

static enum vp_status read_kind(const struct reader *in, const json_t *item,
                                const char *where, uint8_t *kind_out)
{
    const char *cat = json_string_value(json_object_get(item, "cat"));

    for (int k = 0; cat && k < VP_ACTION_KIND_COUNT; k++) {
        if (strcmp(cat, vp_action_kind_name((enum vp_action_kind)k)) == 0) {
            *kind_out = (uint8_t)k;
            return VP_OK;
        }
    }
    return refuse(in, where, "cat", "a kind of action such as F or B");
}

static enum vp_status read_event(const struct reader *in, const json_t *item,
                                 const char *where,
                                 struct vp_trace_event *event_out)
{
    const json_t *args = json_object_get(item, "args");
    struct vp_trace_event e = { 0 };
    json_int_t stage = 0, mb = 0, wait = 0;
    int64_t n_ns = 0;

    VP_TRY(read_us(in, item, where, "ts", &e.start_ns));
    VP_TRY(read_us(in, item, where, "dur", &n_ns));
    VP_TRY(read_kind(in, item, where, &e.kind));
    VP_TRY(read_int(in, args, where, "stage", in->trace->n_stages - 1, &stage));
    VP_TRY(read_int(in, args, where, "minibatch", INT32_MAX - 1, &mb));
    VP_TRY(read_int(in, args, where, "wait_ns", n_ns, &wait));
    e.end_ns = e.start_ns + n_ns;
    e.stage = (int16_t)stage;
    e.mb = (int32_t)mb;
    e.wait_ns = wait;
    e.eval = json_is_true(json_object_get(args, "eval"));
    *event_out = e;
    return VP_OK;
}

static enum vp_status append(const struct reader *in, const char *where,
                             int rank, struct vp_trace_event event)
{
    struct vp_trace_rank *events = &in->trace->ranks[rank];
    int64_t free_ns = in->trace->begin_ns;

    if (events->n_events > 0)
        free_ns = events->events[events->n_events - 1].end_ns;
    if (event.start_ns < free_ns)
        return refuse(in, where, "ts", "after the end of the action before it");
    if (event.end_ns > in->trace->end_ns)
        return refuse(in, where, "dur", "short enough to end by 'end_ns'");
    events->events[events->n_events++] = event;
    return VP_OK;
}

/* Allocates the events of each rank before they are read. */
static enum vp_status make_room(const struct reader *in, const json_t *list)
{
    size_t *n = calloc((size_t)in->trace->n_ranks, sizeof(*n));
    bool failed = !n;

    for (size_t i = 0; n && i < json_array_size(list); i++) {
        json_int_t tid = json_integer_value(
            json_object_get(json_array_get(list, i), "tid"));

        if (tid >= VP_CHROME_FIRST_TID &&
            tid < in->trace->n_ranks + VP_CHROME_FIRST_TID)
            n[tid - VP_CHROME_FIRST_TID]++;
    }
    for (int r = 0; !failed && r < in->trace->n_ranks; r++) {
        in->trace->ranks[r].events = calloc(
            n[r] + 1, sizeof(*in->trace->ranks[r].events));
        failed = !in->trace->ranks[r].events;
    }
    free(n);
    return failed ? no_memory(in) : VP_OK;
}

static enum vp_status read_events(const struct reader *in, const json_t *list)
{
    if (!json_is_array(list) || json_array_size(list) > MAX_EVENTS)
        return refuse(in, "the file", "traceEvents",
                      "a list of at most 4194304 events");
    VP_TRY(make_room(in, list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        struct vp_trace_event event;
        bool action = false;
        char where[48];
        int rank = 0;

        snprintf(where, sizeof(where), "event %zu", i + 1);
        VP_TRY(read_phase(in, item, where, &action));
        if (!action)
            continue;
        VP_TRY(read_rank(in, item, where, &rank));
        VP_TRY(read_event(in, item, where, &event));
        VP_TRY(append(in, where, rank, event));
    }
    return VP_OK;
}

/* ---- The file ----------------------------------------------------------- */

static enum vp_status load(const char *path, json_t **root_out,
                           struct vp_err *err)
{
    FILE *f;
    json_error_t json_err;

    if (vp_path_is_special(path))
        return vp_err_set(err, VP_ERR_IO,
                          "%s: is not a file; give a run folder or its "
                          "trace.json",
                          path);
    f = fopen(path, "re");
    if (!f)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be read (%s); give a run folder or its "
                          "trace.json",
                          path, strerror(errno));
    *root_out = json_loadf(f, JSON_REJECT_DUPLICATES, &json_err);
    fclose(f);
    if (!*root_out)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s:%d:%d: not JSON (%s); give a run folder or its "
                          "trace.json",
                          path, json_err.line, json_err.column, json_err.text);
    return VP_OK;
}

/* Replaces control characters: messages of jansson quote the file. */
static void make_one_line(struct vp_err *err)
{
    for (char *c = err->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            *c = '?';
}

enum vp_status vp_trace_read_chrome(const char *path, struct vp_trace *out,
                                    struct vp_err *err)
{
    struct vp_trace trace = { .n_ranks = 0 };
    struct vp_err local;
    struct reader in = { path, err ? err : &local, &trace };
    json_t *root = NULL;
    enum vp_status st = load(path, &root, in.err);

    if (st == VP_OK)
        st = read_other(&in, root);
    if (st == VP_OK)
        st = read_events(&in, json_object_get(root, "traceEvents"));
    json_decref(root);
    if (st != VP_OK) {
        make_one_line(in.err);
        vp_trace_release(&trace);
        return st;
    }
    *out = trace;
    return VP_OK;
}
