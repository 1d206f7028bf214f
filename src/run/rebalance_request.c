/* Reads and writes the request and reply files of re-balancing. */
#include "run/rebalance_request.h"

#include "base/file.h"
#include "plan/plan_json.h"
#include "run/folder.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char ask_name[] = "rebalance.json";
static const char reply_name[] = "rebalance.reply.json";
static const char *const kind_names[] = { "plan", "auto", "undo" };

enum { LOOK_MS = 50 };

static void path_of(const char *folder, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", folder, name);
}

/* ---- Asking ------------------------------------------------------------- */

static enum vp_status check_live(const char *folder, struct vp_err *err)
{
    struct vp_err live;

    if (vp_folder_check_live(folder, &live) != VP_OK)
        return VP_OK; /* it is locked by a live run */
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: no run is under way there; resume it with 'vpipe "
                      "train --resume %s', where any partition may be set",
                      folder, folder);
}

/* Writes the request to a file of its own, and links that to the name that the
 * run checks: if two processes do this at once, one of them fails. */
static enum vp_status publish(const char *folder, const char *text,
                              const char *id, struct vp_err *err)
{
    char own[PATH_MAX], asked[PATH_MAX];
    enum vp_status st;
    int failed;

    snprintf(own, sizeof(own), "%s/.%s.%s", folder, ask_name, id);
    path_of(folder, ask_name, asked);
    VP_TRY(vp_folder_write_text(own, text, err));
    failed = link(own, asked) != 0 ? errno : 0;
    unlink(own);
    if (failed == EEXIST)
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%s: another request waits; try again when it is "
                        "answered",
                        asked);
    else
        st = failed ? vp_err_write(err, asked, failed) : VP_OK;
    return st;
}

enum vp_status vp_rebalance_ask(const char *folder, enum vp_rebalance_kind kind,
                                const char *plan, char id_out[VP_REBALANCE_ID],
                                struct vp_err *err)
{
    size_t room = (plan ? strlen(plan) : 0) + 256;
    char *text = malloc(room);
    struct timespec now;
    enum vp_status st;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(id_out, VP_REBALANCE_ID, "%ld-%lld%09ld", (long)getpid(),
             (long long)now.tv_sec, now.tv_nsec);
    if (!text)
        return vp_err_set(err, VP_ERR_NOMEM, "asking a run: out of memory");
    snprintf(text, room, "{\"id\": \"%s\", \"kind\": \"%s\"%s%s}\n", id_out,
             kind_names[kind], plan ? ", \"plan\": " : "", plan ? plan : "");
    st = check_live(folder, err);
    if (st == VP_OK)
        st = publish(folder, text, id_out, err);
    free(text);
    return st;
}

/* Returns true if there is a reply to request `id`. */
static bool read_reply(const char *folder, const char *id, bool *done_out,
                       char text_out[VP_REBALANCE_TEXT])
{
    char path[PATH_MAX];
    json_t *root;
    const char *of, *text;
    bool found;

    path_of(folder, reply_name, path);
    root = json_load_file(path, 0, NULL);
    of = json_string_value(json_object_get(root, "id"));
    text = json_string_value(json_object_get(root, "text"));
    found = of && text && strcmp(of, id) == 0;
    if (found) {
        *done_out = json_is_true(json_object_get(root, "done"));
        snprintf(text_out, VP_REBALANCE_TEXT, "%s", text);
    }
    json_decref(root);
    return found;
}

/* Removes request `id` unless the run has taken it. The file may by now hold
 * the request of another process, which stays. */
static void withdraw(const char *folder, const char *id)
{
    char path[PATH_MAX];
    const char *of;
    json_t *root;

    path_of(folder, ask_name, path);
    root = json_load_file(path, 0, NULL);
    of = json_string_value(json_object_get(root, "id"));
    if (of && strcmp(of, id) == 0)
        unlink(path);
    json_decref(root);
}

enum vp_status vp_rebalance_await(const char *folder, const char *id,
                                  struct vp_limit limit,
                                  char text_out[VP_REBALANCE_TEXT],
                                  struct vp_err *err)
{
    const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
    bool done = false, live = true;

    /* Check once more after the run has ended: it may have answered before. */
    while (!read_reply(folder, id, &done, text_out)) {
        if (!live) {
            withdraw(folder, id);
            return vp_err_set(err, VP_ERR_IO,
                              "%s: the run ended before it could answer",
                              folder);
        }
        if (vp_limit_is_over(&limit)) {
            withdraw(folder, id);
            return vp_err_set(err, VP_ERR_TIMEOUT,
                              "%s: the run does not answer; see its log",
                              folder);
        }
        live = check_live(folder, NULL) == VP_OK;
        nanosleep(&pause, NULL);
    }
    return done ? VP_OK : VP_ERR_INVALID;
}

/* ---- The run's side ----------------------------------------------------- */

static const char *text_of(const struct vp_yaml_node *root, const char *key)
{
    const struct vp_yaml_node *node = vp_json_find(root, key);

    return node && node->kind == VP_YAML_SCALAR ? node->text : "";
}

static enum vp_status read_request(const char *path,
                                   const struct vp_yaml_node *root,
                                   struct vp_arena *arena,
                                   struct vp_rebalance_request *out,
                                   struct vp_err *err)
{
    const struct vp_yaml_node *plan = vp_json_find(root, "plan");
    const char *kind = text_of(root, "kind");

    snprintf(out->id, sizeof(out->id), "%s", text_of(root, "id"));
    for (int k = 0; k <= VP_REBALANCE_UNDO; k++)
        if (strcmp(kind, kind_names[k]) == 0) {
            out->kind = (enum vp_rebalance_kind)k;
            if (k != VP_REBALANCE_PLAN)
                return VP_OK;
            if (!plan)
                return vp_err_set(err, VP_ERR_INVALID, "%s: has no plan", path);
            out->whole = vp_json_find(plan, "version") != NULL;
            return vp_plan_from_json(plan, path, arena, &out->plan, err);
        }
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: kind must be plan, auto or undo, not '%.40s'", path,
                      kind);
}

void vp_rebalance_clear(const char *folder)
{
    char path[PATH_MAX];

    path_of(folder, ask_name, path);
    unlink(path);
}

enum vp_status vp_rebalance_take(const char *folder, struct vp_arena *arena,
                                 struct vp_rebalance_request *out,
                                 struct vp_err *err)
{
    const struct vp_yaml_node *root;
    char path[PATH_MAX], *bytes;
    enum vp_status st;
    size_t n;

    *out = (struct vp_rebalance_request){ .id = "" };
    path_of(folder, ask_name, path);
    if (access(path, F_OK) != 0)
        return VP_ERR_END;
    st = vp_file_read(path, "JSON", &bytes, &n, err);
    unlink(path);
    VP_TRY(st);
    st = vp_json_parse(path, bytes, n, arena, &root, err);
    free(bytes);
    if (st == VP_OK)
        st = read_request(path, root, arena, out, err);
    return st == VP_ERR_END ? VP_ERR_INVALID : st;
}

/* JSON is UTF-8. A line with other bytes in a path, or truncated within a
 * character, is converted to ASCII. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    char ascii[VP_REBALANCE_TEXT];

    if (value)
        return value;
    snprintf(ascii, sizeof(ascii), "%s", text);
    for (char *at = ascii; *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    return json_string(ascii);
}

enum vp_status vp_rebalance_answer(const char *folder, const char *id,
                                   bool done, const char *text,
                                   struct vp_err *err)
{
    json_t *root = json_pack("{s:s, s:b, s:o}", "id", id, "done", done, "text",
                             text_value(text));
    char part[PATH_MAX], path[PATH_MAX], *printed;
    enum vp_status st = VP_ERR_NOMEM;

    path_of(folder, reply_name, path);
    snprintf(part, sizeof(part), "%s/.%s.part", folder, reply_name);
    printed = root ? json_dumps(root, 0) : NULL;
    if (printed)
        st = vp_folder_write_text(part, printed, err);
    else
        vp_err_set(err, st, "%s: out of memory", path);
    if (st == VP_OK && rename(part, path) != 0)
        st = vp_err_write(err, path, errno);
    free(printed);
    json_decref(root);
    return st;
}
