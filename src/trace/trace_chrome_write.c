/* Writes the trace event format of Chrome: times in microseconds, one line per
 * event. "otherData" has what the format has no field for. */
#include "trace/trace.h"

#include "base/path.h"
#include "trace/chrome.h"
#include "trace/internal.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Prints nanoseconds as microseconds with three decimals. */
#define US "%lld.%03d"
#define US_OF(ns) (long long)((ns) / 1000), (int)((ns) % 1000)

static void write_other(FILE *f, const struct vp_trace *trace, const char *name)
{
    fprintf(f,
            "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"format\":\"%s\","
            "\"version\":%d,\"name\":%s,\"ranks\":%d,\"begin_ns\":%lld,"
            "\"end_ns\":%lld,",
            VP_CHROME_FORMAT, VP_CHROME_VERSION, name, trace->n_ranks,
            (long long)trace->begin_ns, (long long)trace->end_ns);
    if (trace->plan_ns >= 0)
        fprintf(f, "\"plan_ns\":%lld,", (long long)trace->plan_ns);
    fputs("\n\"rank_numbers\":[", f);
    for (int r = 0; r < trace->n_ranks; r++)
        fprintf(f, "%s%d", r > 0 ? "," : "", trace->ranks[r].number);
    fputs("],\n\"stages\":[", f);
    for (int s = 0; s < trace->n_stages; s++) {
        const struct vp_trace_stage *stage = &trace->stages[s];

        fprintf(f, "%s{\"base_bytes\":%lld,\"slot_bytes\":%lld",
                s > 0 ? "," : "", (long long)stage->base_bytes,
                (long long)stage->slot_bytes);
        if (stage->host_bytes > 0)
            fprintf(f, ",\"host_bytes\":%lld", (long long)stage->host_bytes);
        fputs("}", f);
    }
    fputs("]},\n", f);
}

static void write_names(FILE *f, const struct vp_trace *trace, const char *name)
{
    char stages[64];

    fprintf(f,
            "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\","
            "\"args\":{\"name\":%s}}",
            VP_CHROME_PID, name);
    for (int r = 0; r < trace->n_ranks; r++) {
        vp_trace_list_stages(trace, r, stages, sizeof(stages));
        fprintf(f,
                ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                "\"name\":\"thread_name\",\"args\":{\"name\":\"rank %d%s%s\"}}",
                VP_CHROME_PID, r + VP_CHROME_FIRST_TID, trace->ranks[r].number,
                stages[0] ? ", " : "", stages);
        fprintf(f,
                ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                "\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}",
                VP_CHROME_PID, r + VP_CHROME_FIRST_TID, r);
    }
}

/* Writes one end of an arrow, which leads from the start of a SEND to the end
 * of its RECV. */
static void write_arrow(FILE *f, int rank, const struct vp_trace_event *e)
{
    bool act = e->kind == VP_ACTION_SEND_ACT || e->kind == VP_ACTION_RECV_ACT;
    bool send = e->kind == VP_ACTION_SEND_ACT || e->kind == VP_ACTION_SEND_GRAD;
    int to = !send ? e->stage : act ? e->stage + 1 : e->stage - 1;
    /* The point must lie inside the box of the event: Chrome searches for
     * it. */
    int64_t at = send || e->end_ns == e->start_ns ? e->start_ns : e->end_ns - 1;

    fprintf(f,
            ",\n{\"ph\":\"%c\",%s\"pid\":%d,\"tid\":%d,\"ts\":" US
            ",\"cat\":\"message\",\"name\":\"%s\",\"id\":\"%s%d.%d\"}",
            send ? 's' : 'f', send ? "" : "\"bp\":\"e\",", VP_CHROME_PID,
            rank + VP_CHROME_FIRST_TID, US_OF(at),
            act ? "activation" : "gradient", act ? "a" : "g", to, e->mb);
}

static bool is_message(const struct vp_trace_event *e)
{
    return e->kind >= VP_ACTION_SEND_ACT && e->kind <= VP_ACTION_RECV_GRAD;
}

static void write_rank(FILE *f, const struct vp_trace *trace, int rank)
{
    const struct vp_trace_rank *events = &trace->ranks[rank];

    for (int i = 0; i < events->n_events; i++) {
        const struct vp_trace_event *e = &events->events[i];

        fprintf(f,
                ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":" US
                ",\"dur\":" US ",\"cat\":\"%s\",\"name\":\"%s%d\",\"args\":"
                "{\"stage\":%d,\"minibatch\":%d,\"wait_ns\":%lld%s}}",
                VP_CHROME_PID, rank + VP_CHROME_FIRST_TID, US_OF(e->start_ns),
                US_OF(e->end_ns - e->start_ns), vp_action_kind_name(e->kind),
                vp_event_word(e), e->mb, e->stage, e->mb, (long long)e->wait_ns,
                e->eval ? ",\"eval\":true" : "");
        if (is_message(e) && !e->eval)
            write_arrow(f, rank, e);
    }
}

static enum vp_status write_memory(FILE *f, const struct vp_trace *trace,
                                   int rank, int stage)
{
    struct vp_trace_point *points;
    int n;

    if (!vp_trace_has_stage(trace, rank, stage))
        return VP_OK;
    VP_TRY(vp_trace_memory(trace, rank, stage, &points, &n));
    for (int i = 0; i < n; i++)
        fprintf(f,
                ",\n{\"ph\":\"C\",\"pid\":%d,\"ts\":" US
                ",\"name\":\"memory of stage %d on rank %d\","
                "\"args\":{\"bytes\":%lld}}",
                VP_CHROME_PID, US_OF(points[i].ns), stage,
                trace->ranks[rank].number, (long long)points[i].bytes);
    free(points);
    return VP_OK;
}

static enum vp_status write_all(FILE *f, const struct vp_trace *trace)
{
    json_t *string = json_string(trace->name);
    char *name = json_dumps(string ? string : json_null(), JSON_ENCODE_ANY);
    enum vp_status st = name ? VP_OK : VP_ERR_NOMEM;

    json_decref(string);
    if (st != VP_OK)
        return st;
    write_other(f, trace, name);
    fputs("\"traceEvents\":[\n", f);
    write_names(f, trace, name);
    if (trace->plan_ns >= 0)
        fprintf(f,
                ",\n{\"ph\":\"I\",\"s\":\"g\",\"pid\":%d,\"tid\":%d,\"ts\":" US
                ",\"name\":\"new plan\"}",
                VP_CHROME_PID, VP_CHROME_FIRST_TID, US_OF(trace->plan_ns));
    for (int r = 0; r < trace->n_ranks; r++) {
        write_rank(f, trace, r);
        for (int s = 0; st == VP_OK && s < trace->n_stages; s++)
            st = write_memory(f, trace, r, s);
    }
    if (st == VP_OK)
        fputs("\n]}\n", f);
    free(name);
    return st;
}

/* A failed write leaves incomplete JSON, which readers refuse. The file is not
 * removed, because the path may be a device. */
enum vp_status vp_trace_write_chrome(const struct vp_trace *trace,
                                     const char *path, struct vp_err *err)
{
    FILE *f = vp_path_create(path, false);
    enum vp_status st;
    bool bad;

    if (!f)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be written (%s); choose another place",
                          path, strerror(errno));
    st = write_all(f, trace);
    if (st != VP_OK) {
        fclose(f);
        return vp_err_set(err, st, "%s: out of memory; close other programs",
                          path);
    }
    errno = 0;
    bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s); %s",
                          path, errno ? strerror(errno) : "write error",
                          vp_write_remedy(errno ? errno : ENOSPC));
    return VP_OK;
}
