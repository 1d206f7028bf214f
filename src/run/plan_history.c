/* Writes plan.json, and keeps the earlier plans of the run in it. */
#include "run/plan_history.h"

#include "base/file.h"
#include "base/strbuf.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char history_key[] = "history", moved_key[] = "moved_at";

/* Two plans are the same if they differ only in keys that readers of a plan
 * ignore. */
static bool is_same(const json_t *a, const json_t *b)
{
    static const char *const unread[] = { history_key, moved_key, "until_step",
                                          "forecast" };
    json_t *plans[] = { json_copy((json_t *)a), json_copy((json_t *)b) };
    bool same;

    for (size_t i = 0; i < VP_COUNT_OF(unread); i++)
        for (int k = 0; k < 2; k++)
            json_object_del(plans[k], unread[i]);
    same = json_equal(plans[0], plans[1]);
    json_decref(plans[0]);
    json_decref(plans[1]);
    return same;
}

/* Keys that plan.json has beside the current plan. */
struct past {
    json_t *history;
    int64_t moved_at; /* -1: the run was started with the plan */
};

static struct past take_past(json_t *plan, json_t *before,
                             const struct vp_plan_record *record)
{
    bool goes_on = !record->moved && is_same(plan, before);
    struct past past = { json_object_get(before, history_key), -1 };
    const json_t *moved = json_object_get(before, moved_key);

    past.history = json_is_array(past.history) ? json_incref(past.history)
                                               : json_array();
    if (goes_on && json_is_integer(moved))
        past.moved_at = json_integer_value(moved);
    if (record->moved)
        past.moved_at = record->step;
    if (!goes_on) {
        json_object_del(before, history_key);
        json_object_del(before, moved_key);
        json_object_set_new(before, "until_step", json_integer(record->step));
        json_array_append(past.history, before);
    }
    return past;
}

/* Prints one line per plan. */
static void print_past(const struct past *past, struct vp_strbuf *out)
{
    size_t n = json_array_size(past->history);

    if (past->moved_at >= 0)
        vp_strbuf_addf(out, ",\n    \"%s\": %lld", moved_key,
                       (long long)past->moved_at);
    for (size_t i = 0; i < n; i++) {
        char *line = json_dumps(json_array_get(past->history, i), 0);

        if (i == 0)
            vp_strbuf_addf(out, ",\n    \"%s\": [", history_key);
        vp_strbuf_addf(out, "%s\n        ", i ? "," : "");
        vp_strbuf_adds(out, line ? line : "{}");
        free(line);
    }
    if (n > 0)
        vp_strbuf_adds(out, "\n    ]");
}

/* Returns `text`, the plan alone, together with the past from the file at
 * `path`; the caller frees it. NULL: out of memory. */
static char *join(const char *path, const char *text,
                  const struct vp_plan_record *record)
{
    json_t *plan = json_loads(text, 0, NULL);
    json_t *before = json_load_file(path, 0, NULL); /* NULL: no such file */
    struct vp_strbuf out = VP_STRBUF_INIT;
    char *joined = NULL;

    if (plan && json_is_object(before)) {
        struct past past = take_past(plan, before, record);

        vp_strbuf_addf(&out, "%.*s", (int)(strrchr(text, '}') - text - 1),
                       text);
        print_past(&past, &out);
        vp_strbuf_adds(&out, "\n}\n");
        json_decref(past.history);
    } else {
        vp_strbuf_adds(&out, text);
    }
    if (vp_strbuf_detach(&out, &joined) != VP_OK)
        joined = NULL;
    vp_strbuf_release(&out);
    json_decref(before);
    json_decref(plan);
    return joined;
}

/* Replaces the file by a rename, so that a reader finds either the old or the
 * new plan. */
static enum vp_status replace(const char *folder, const char *path,
                              const char *text, struct vp_err *err)
{
    static const char part_name[] = ".plan.json.part";
    FILE *f = vp_file_open(folder, part_name, "we", err);
    char part[PATH_MAX];

    if (!f)
        return VP_ERR_IO;
    fputs(text, f);
    VP_TRY(vp_file_close(folder, part_name, f, err));
    snprintf(part, sizeof(part), "%s/%s", folder, part_name);
    return rename(part, path) == 0 ? VP_OK : vp_err_write(err, path, errno);
}

enum vp_status vp_plan_history_write(const char *folder,
                                     const struct vp_plan_record *record,
                                     struct vp_err *err)
{
    const struct vp_plan shared = vp_plan_portable(record->plan);
    char path[PATH_MAX], *text = NULL, *joined = NULL;
    enum vp_status st = vp_plan_print(&shared, record->n_blocks,
                                      record->forecast, &text);

    snprintf(path, sizeof(path), "%s/plan.json", folder);
    if (st == VP_OK)
        joined = join(path, text, record);
    if (!joined)
        st = vp_err_set(err, VP_ERR_NOMEM,
                        "%s: out of memory; close other programs", path);
    else
        st = replace(folder, path, joined, err);
    free(joined);
    free(text);
    return st;
}

bool vp_plan_history_moved(const char *text, int64_t *step_out)
{
    json_t *root = json_loads(text, 0, NULL);
    const json_t *moved = json_object_get(root, moved_key);
    bool is_moved = json_is_integer(moved);

    if (is_moved)
        *step_out = json_integer_value(moved);
    json_decref(root);
    return is_moved;
}
