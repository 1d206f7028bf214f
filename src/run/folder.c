/* Creates, locks, checks and resumes run folders, and writes plan.json and
 * metrics.jsonl. */
#include "run/folder.h"

#include "base/blocking.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/path.h"
#include "ckpt/store.h"
#include "config/hosts.h"
#include "config/resolve.h"
#include "plan/plan_json.h"
#include "run/command.h"
#include "run/forecast_check.h"
#include "run/plan_history.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static enum vp_status cannot_create(const char *path, int error,
                                    struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: cannot create the folder (%s); choose another "
                      "--output or log_directory",
                      path, strerror(error));
}

static enum vp_status not_a_folder(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s is a file, not a folder; choose another --output or "
                      "log_directory",
                      path);
}

/* Removes the last component of `path`; a path with one component becomes
 * empty. */
static void leave_folder(char *path)
{
    size_t n = strlen(path);

    while (n > 0 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    path[n] = '\0';
}

enum vp_status vp_folder_check_place(const char *path, struct vp_err *err)
{
    char above[1024];
    struct stat info = { .st_mode = S_IFDIR };

    snprintf(above, sizeof(above), "%s", path);
    while (above[0] && stat(above, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return cannot_create(path, errno, err);
        leave_folder(above);
    }
    if (above[0] && !S_ISDIR(info.st_mode))
        return not_a_folder(above, err);
    if (access(above[0] ? above : ".", W_OK | X_OK) != 0)
        return cannot_create(path, errno, err);
    return VP_OK;
}

enum vp_status vp_folder_make(const char *path, struct vp_err *err)
{
    char part[1024];
    size_t n = strlen(path);

    if (n >= sizeof(part))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.80s...: path is too long; choose another --output "
                          "or log_directory",
                          path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return cannot_create(part, errno, err);
    }
    return VP_OK;
}

/* Names sort by time and have no colons, because scp, rsync and containers
 * split paths there. A number is added if the name is taken. */
void vp_folder_choose(const struct vp_config *config, const char *what,
                      char *path, size_t n)
{
    char when[32];
    time_t now = time(NULL);
    struct tm tm;

    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y-%m-%dT%H-%M-%S", &tm);
    snprintf(path, n, "%s/%s%s", config->log_directory, what, when);
    for (int i = 2; access(path, F_OK) == 0; i++)
        snprintf(path, n, "%s/%s%s.%d", config->log_directory, what, when, i);
}

/* ---- Opening ------------------------------------------------------------ */

bool vp_folder_has_metrics(const char *path)
{
    char file[PATH_MAX];
    struct stat info;

    snprintf(file, sizeof(file), "%s/metrics.jsonl", path);
    return stat(file, &info) == 0 && info.st_size > 0;
}

static enum vp_status count_checkpoints(const char *path, int *n_out,
                                        struct vp_err *err)
{
    char folder[PATH_MAX];
    struct vp_ckpt_entry *list = NULL;

    snprintf(folder, sizeof(folder), "%s/checkpoints", path);
    VP_TRY(vp_ckpt_list(folder, &list, n_out, err));
    free(list);
    return VP_OK;
}

static enum vp_status cannot_write(const char *path, int error,
                                   struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: cannot be written (%s); choose another --output or "
                      "log_directory",
                      path, strerror(error));
}

/* Returns true for the files that every run folder has: the launcher writes
 * command_history.log first, a run writes lock. */
static bool is_of_a_run(const char *name)
{
    return strcmp(name, "lock") == 0 ||
           strcmp(name, "command_history.log") == 0;
}

/* Returns VP_ERR_INVALID for a folder whose files are not from a run (hidden
 * files are ignored): a run would mix its files with them, or replace a
 * config.yml. */
static enum vp_status check_own(const char *path, struct vp_err *err)
{
    char first[NAME_MAX + 1] = "";
    const struct dirent *entry;
    size_t n = strlen(path);
    bool own = false;
    DIR *dir = opendir(path);

    if (!dir)
        return cannot_write(path, errno, err);
    while ((entry = readdir(dir))) {
        own = own || is_of_a_run(entry->d_name);
        if (entry->d_name[0] != '.' &&
            (!first[0] || strcmp(entry->d_name, first) < 0))
            snprintf(first, sizeof(first), "%s", entry->d_name);
    }
    closedir(dir);
    if (own || !first[0])
        return VP_OK;
    while (n > 0 && path[n - 1] == '/')
        n--;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s holds files that are not of a run ('%.80s'); choose "
                      "a new or empty folder, for example --output %.*s/run",
                      path, first, (int)n, path);
}

/* Refuses a folder that holds a run with a checkpoint or a step. The caller has
 * made sure that no live run uses it. */
static enum vp_status check_unused(const char *path, struct vp_err *err)
{
    int n = 0;

    VP_TRY(count_checkpoints(path, &n, err));
    if (n > 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s holds a run already; choose another --output, or "
                          "go on with it: --resume %s",
                          path, path);
    if (vp_folder_has_metrics(path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s holds a run already, without a checkpoint; "
                          "choose another --output, or remove it",
                          path);
    return VP_OK;
}

/* ---- The lock ----------------------------------------------------------- */

static void lock_path(const char *folder, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "%s/lock", folder);
}

/* Writes process and host into the lock file, for messages of other processes.
 * A failure is ignored: the lock works without it. */
static void sign_lock(int fd)
{
    char host[256], text[300];
    int n;

    vp_machine_name(host, sizeof(host));
    n = snprintf(text, sizeof(text), "%ld %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, text, (size_t)n, 0);
}

/* Refuses a folder whose lock another process holds; `fd` is the lock file. */
static enum vp_status refuse_live(const char *path, int fd, struct vp_err *err)
{
    char text[300] = "", host[256] = "", owner[300] = "";
    long pid = 0;

    (void)!pread(fd, text, sizeof(text) - 1, 0);
    if (sscanf(text, "%ld %255s", &pid, host) == 2)
        snprintf(owner, sizeof(owner), " (process %ld on host %s)", pid, host);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: a run is live there%s; choose another --output, or "
                      "wait for its end",
                      path, owner);
}

enum vp_status vp_folder_check_live(const char *path, struct vp_err *err)
{
    char file[PATH_MAX];
    enum vp_status st = VP_OK;
    int fd;

    lock_path(path, file, sizeof(file));
    fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return VP_OK;
    if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        st = refuse_live(path, fd, err);
    close(fd);
    return st;
}

enum vp_status vp_folder_check(const char *path, struct vp_err *err)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return VP_OK; /* does not exist; vp_folder_make() reports errors */
    if (!S_ISDIR(info.st_mode))
        return not_a_folder(path, err);
    if (access(path, W_OK | X_OK) != 0)
        return cannot_write(path, errno, err);
    VP_TRY(check_own(path, err));
    VP_TRY(vp_folder_check_live(path, err));
    return check_unused(path, err);
}

/* Returns VP_ERR_IO unless `path` names the open file `fd`. */
static enum vp_status check_same(int fd, const char *path, struct vp_err *err)
{
    struct stat ours, named;

    if (fstat(fd, &ours) == 0 && stat(path, &named) == 0 &&
        ours.st_dev == named.st_dev && ours.st_ino == named.st_ino)
        return VP_OK;
    return vp_err_set(err, VP_ERR_IO,
                      "%s: was removed or replaced while the run used it; what "
                      "was written since may be lost",
                      path);
}

/* The kernel releases the lock when the process ends, in whatever way. */
static enum vp_status lock_folder(struct vp_folder *folder, struct vp_err *err)
{
    char file[sizeof(folder->path) + 16];
    bool locked;

    lock_path(folder->path, file, sizeof(file));
    folder->lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (folder->lock < 0)
        return cannot_write(file, errno, err);
    locked = flock(folder->lock, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK)
        return refuse_live(folder->path, folder->lock, err);
    if (!locked)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: cannot be locked (%s); choose another --output "
                          "or log_directory",
                          file, strerror(errno));
    sign_lock(folder->lock);
    return check_same(folder->lock, file, err);
}

static enum vp_status open_metrics(struct vp_folder *folder, struct vp_err *err)
{
    char file[sizeof(folder->path) + 16];
    int fd;

    snprintf(file, sizeof(file), "%s/metrics.jsonl", folder->path);
    fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
    if (fd < 0)
        return cannot_write(file, errno, err);
    folder->metrics = fdopen(fd, "a");
    if (!folder->metrics) {
        close(fd);
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", file);
    }
    return VP_OK;
}

enum vp_status vp_folder_create(const struct vp_config *config,
                                const char *path, struct vp_folder *out,
                                struct vp_err *err)
{
    char file[sizeof(out->path) + 16];

    *out = (struct vp_folder){ .lock = -1 };
    if (path)
        snprintf(out->path, sizeof(out->path), "%s", path);
    else
        vp_folder_choose(config, "", out->path, sizeof(out->path));
    VP_TRY(vp_folder_make(out->path, err));
    VP_TRY(check_own(out->path, err));
    VP_TRY(lock_folder(out, err));
    VP_TRY(check_unused(out->path, err));
    VP_TRY(open_metrics(out, err));
    snprintf(file, sizeof(file), "%s/config.yml", out->path);
    return vp_config_write(config, file, err);
}

/* Returns true for a complete line about a step up to `step`. An evaluation at
 * `step` itself is dropped, because it will be made again. */
static bool keep_line(const char *line, int64_t step)
{
    static const char start[] = "{\"step\": ";
    size_t n = strlen(line);
    char *end;
    long long at;

    if (strncmp(line, start, sizeof(start) - 1) != 0 || n < 3 ||
        strcmp(line + n - 2, "}\n") != 0)
        return false;
    at = strtoll(line + sizeof(start) - 1, &end, 10);
    return at < step || (at == step && !strstr(end, "\"eval_loss\""));
}

/* Removes lines after `step`: their minibatches will be trained on again. */
static enum vp_status cut_metrics(const struct vp_folder *folder, int64_t step,
                                  struct vp_err *err)
{
    char old[sizeof(folder->path) + 24], new[sizeof(folder->path) + 24];
    FILE *in, *out;
    char *line = NULL;
    size_t n_bytes = 0;
    bool failed;

    snprintf(old, sizeof(old), "%s/metrics.jsonl", folder->path);
    snprintf(new, sizeof(new), "%s/metrics.jsonl.tmp", folder->path);
    in = vp_path_is_special(old) ? NULL : fopen(old, "r");
    if (!in)
        return VP_OK; /* nothing to cut */
    out = fopen(new, "w");
    if (!out) {
        fclose(in);
        return vp_err_write(err, new, errno);
    }
    while (getline(&line, &n_bytes, in) >= 0)
        if (keep_line(line, step))
            fputs(line, out);
    free(line);
    fclose(in);
    failed = fflush(out) != 0 || fsync(fileno(out)) != 0;
    failed |= fclose(out) != 0;
    if (failed || rename(new, old) != 0)
        return vp_err_write(err, old, errno);
    return VP_OK;
}

enum vp_status vp_folder_lock(const char *path, struct vp_folder *out,
                              struct vp_err *err)
{
    *out = (struct vp_folder){ .lock = -1 };
    snprintf(out->path, sizeof(out->path), "%s", path);
    return lock_folder(out, err);
}

enum vp_status vp_folder_resume(struct vp_folder *folder,
                                const struct vp_config *config, int64_t step,
                                struct vp_err *err)
{
    char file[sizeof(folder->path) + 16];

    VP_TRY(cut_metrics(folder, step, err));
    VP_TRY(open_metrics(folder, err));
    snprintf(file, sizeof(file), "%s/config.yml", folder->path);
    return vp_config_write(config, file, err);
}

/* ---- Several processes -------------------------------------------------- */

/* Checks that this process sees the lead's file. `token` is unique to this run,
 * so that a file left by another run does not count. */
static enum vp_status see_token(const struct vp_folder *folder, long long token,
                                struct vp_err *err)
{
    char file[sizeof(folder->path) + 64];
    char host[64] = "this host";

    snprintf(file, sizeof(file), "%s/shared.%lld", folder->path, token);
    if (access(file, F_OK) == 0)
        return VP_OK;
    gethostname(host, sizeof(host) - 1);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: %s does not see the run folder of the lead; give "
                      "--output or log_directory a folder that all machines "
                      "share",
                      folder->path, host);
}

static enum vp_status write_token(const struct vp_folder *folder,
                                  long long token, struct vp_err *err)
{
    char file[sizeof(folder->path) + 64];

    snprintf(file, sizeof(file), "%s/shared.%lld", folder->path, token);
    return vp_folder_write_text(file, "", err);
}

static void remove_token(const struct vp_folder *folder, long long token)
{
    char file[sizeof(folder->path) + 64];

    snprintf(file, sizeof(file), "%s/shared.%lld", folder->path, token);
    unlink(file);
}

static enum vp_status check_shared(const struct vp_folder *folder,
                                   struct vp_world *world,
                                   struct vp_limit limit, struct vp_err *err)
{
    bool lead = vp_world_is_mine(world, vp_world_lead(world));
    long long token = (long long)time(NULL) * 100000 + getpid() % 100000;
    enum vp_status st = lead ? write_token(folder, token, err) : VP_OK;

    VP_TRY(vp_world_agree(world, st, limit, err));
    VP_TRY(vp_world_share(world, &token, sizeof(token), limit));
    st = see_token(folder, token, err);
    st = vp_world_agree(world, st, limit, err);
    if (lead)
        remove_token(folder, token);
    return st;
}

enum vp_status vp_folder_share(struct vp_folder *folder, struct vp_world *world,
                               struct vp_limit limit, struct vp_err *err)
{
    enum vp_status st = vp_world_share(world, folder->path,
                                       sizeof(folder->path), limit);

    if (st == VP_ERR_ABORTED)
        return vp_world_status(world, err);
    if (st != VP_OK)
        return vp_err_set(err, st,
                          "run folder: the other processes do not answer; see "
                          "their messages");
    return folder->path[0] ? check_shared(folder, world, limit, err) : VP_OK;
}

void vp_folder_close(struct vp_folder *folder)
{
    if (folder->metrics)
        fclose(folder->metrics);
    if (folder->path[0] && folder->lock >= 0)
        close(folder->lock);
    folder->metrics = NULL;
    folder->path[0] = '\0';
}

static enum vp_status metrics_failed(const struct vp_folder *folder, int error,
                                     struct vp_err *err)
{
    char file[sizeof(folder->path) + 16];

    snprintf(file, sizeof(file), "%s/metrics.jsonl", folder->path);
    return vp_err_write(err, file, error);
}

enum vp_status vp_folder_sync(const struct vp_folder *folder,
                              struct vp_err *err)
{
    if (fsync(fileno(folder->metrics)) != 0)
        return metrics_failed(folder, errno, err);
    return VP_OK;
}

enum vp_status vp_folder_check_kept(const struct vp_folder *folder,
                                    struct vp_err *err)
{
    char file[sizeof(folder->path) + 16];

    lock_path(folder->path, file, sizeof(file));
    VP_TRY(check_same(folder->lock, file, err));
    snprintf(file, sizeof(file), "%s/metrics.jsonl", folder->path);
    return check_same(fileno(folder->metrics), file, err);
}

void vp_folder_add_resume(const struct vp_folder *folder, struct vp_err *err)
{
    if (folder->metrics && vp_folder_check_kept(folder, NULL) == VP_OK)
        vp_err_suffix(err, ", then go on with --resume %s", folder->path);
}

void vp_folder_unread(const char *path, struct vp_err *line)
{
    vp_err_set(line, VP_OK,
               "vpipe: the output is not read any more (closed pipe): the run "
               "was saved and stopped; go on with --resume %s, or send the "
               "output to a file",
               path);
}

/* ---- Describing --------------------------------------------------------- */

/* Writes plan.json. Devices and edges are those of this machine; a run that
 * reads the plan again chooses its own. */
static enum vp_status write_plan(const struct vp_folder *folder,
                                 const struct vp_config *config,
                                 const struct vp_plan *plan,
                                 const struct vp_run_summary *summary,
                                 struct vp_err *err)
{
    int64_t bytes[VP_MAX_STAGES];
    const struct vp_memory *memory[VP_MAX_STAGES];
    struct vp_plan_forecast forecast = { .bytes = bytes,
                                         .memory = memory,
                                         .bubble = summary->bubble_simulated };
    const struct vp_plan_record record = { .plan = plan,
                                           .n_blocks = (int)summary->n_blocks,
                                           .forecast = &forecast,
                                           .step = summary->resumed };
    struct vp_planned_forecast planned;

    if (vp_resolve_forecast(config, &planned)) {
        forecast.step_seconds = planned.step_seconds;
        forecast.bubble = planned.bubble;
    }
    for (int s = 0; s < summary->n_stages; s++) {
        memory[s] = summary->stages[s].memory;
        bytes[s] = memory[s]->total;
    }
    return vp_plan_history_write(folder->path, &record, err);
}

enum vp_status vp_folder_describe(const struct vp_folder *folder,
                                  const struct vp_config *config,
                                  const struct vp_plan *plan,
                                  const struct vp_run_summary *summary,
                                  char *const *argv, int argc,
                                  struct vp_err *err)
{
    VP_TRY(vp_hosts_write(config, folder->path, err));
    VP_TRY(write_plan(folder, config, plan, summary, err));
    if (argc == 0)
        return VP_OK;
    return vp_command_record(folder->path, "vpipe", argv, argc, err);
}

/* ---- Writing ------------------------------------------------------------ */

/* Flushes after every line, so that a killed run loses none. */
static enum vp_status flush(struct vp_folder *folder, struct vp_err *err)
{
    int call = vp_blocking_begin(VP_BLOCKING_FILE, "writing", NULL,
                                 fileno(folder->metrics));
    bool failed = fflush(folder->metrics) != 0;

    vp_blocking_end(call);
    return failed ? metrics_failed(folder, errno, err) : VP_OK;
}

/* Writes all digits; null for NAN and infinities, which JSON does not have. */
static void write_exact(FILE *f, double value)
{
    if (isfinite(value))
        fprintf(f, "%.17g", value);
    else
        fputs("null", f);
}

static void write_norms(FILE *f, const struct vp_step_report *report)
{
    fputs(report->stage_norms ? "\"grad_norm\": [" : "\"grad_norm\": ", f);
    if (!report->stage_norms)
        write_exact(f, report->grad_norm);
    for (int s = 0; report->stage_norms && s < report->n_stages; s++) {
        fputs(s ? ", " : "", f);
        write_exact(f, report->stage_norms[s]);
    }
    fputs(report->stage_norms ? "], " : ", ", f);
    if (report->loss_scale > 0.0f)
        fprintf(f, "\"loss_scale\": %.9g, \"skipped\": %lld, ",
                (double)report->loss_scale, (long long)report->n_skipped);
}

/* Returns `n` per second; 0 if no time was measured. */
static double rate_of(double n, const struct vp_step_report *report)
{
    return report->seconds > 0.0 ? n / report->seconds : 0.0;
}

enum vp_status vp_folder_write_step(struct vp_folder *folder,
                                    const struct vp_step_report *report,
                                    struct vp_err *err)
{
    FILE *f = folder->metrics;

    fprintf(f,
            "{\"step\": %lld, \"epoch\": %lld, \"minibatch\": %lld, "
            "\"loss\": ",
            (long long)report->step, (long long)report->epoch,
            (long long)report->minibatch);
    write_exact(f, report->loss);
    fprintf(f, ", \"lr\": %.9g, ", report->lr);
    write_norms(f, report);
    fprintf(f,
            "\"samples_per_second\": %.6g, \"tokens_per_second\": %.6g, "
            "\"tflops\": %.6g, \"seconds\": %.6g, \"bubble\": %.6g, "
            "\"memory\": [",
            rate_of((double)report->n_samples, report),
            rate_of((double)report->n_tokens, report),
            rate_of(report->flops, report) * 1e-12, report->seconds,
            report->bubble);
    for (int i = 0; i < report->n_stages; i++)
        fprintf(f, "%s%lld", i ? ", " : "",
                (long long)report->prices[i].memory.total);
    fprintf(f, "]}\n");
    return flush(folder, err);
}

enum vp_status vp_folder_write_eval(struct vp_folder *folder, int64_t step,
                                    double loss, struct vp_err *err)
{
    fprintf(folder->metrics,
            "{\"step\": %lld, \"eval_loss\": ", (long long)step);
    write_exact(folder->metrics, loss);
    fputs(", \"event\": \"eval\"}\n", folder->metrics);
    return flush(folder, err);
}

static void write_numbers(FILE *f, const char *kind,
                          const struct vp_forecast_numbers *numbers,
                          int n_stages)
{
    fprintf(f,
            ", \"step_seconds_%s\": %.6g, \"bubble_%s\": %.6g, "
            "\"memory_%s\": [",
            kind, numbers->step_seconds, kind, numbers->bubble, kind);
    for (int s = 0; s < n_stages; s++)
        fprintf(f, "%s%lld", s ? ", " : "", (long long)numbers->memory[s]);
    fputs("]", f);
}

enum vp_status vp_folder_write_forecast(struct vp_folder *folder, int64_t step,
                                        const struct vp_forecast_check *check,
                                        struct vp_err *err)
{
    FILE *f = folder->metrics;

    fprintf(f,
            "{\"step\": %lld, \"event\": \"forecast\", "
            "\"forecast_by\": \"%s\"",
            (long long)step, check->planned ? "plan" : "first_steps");
    write_numbers(f, "forecast", &check->forecast, check->n_stages);
    write_numbers(f, "measured", &check->measured, check->n_stages);
    fputs("}\n", f);
    return flush(folder, err);
}

enum vp_status vp_folder_write_event(struct vp_folder *folder, int64_t step,
                                     const char *event, const char *fields,
                                     struct vp_err *err)
{
    fprintf(folder->metrics, "{\"step\": %lld, \"event\": \"%s\", %s}\n",
            (long long)step, event, fields);
    return flush(folder, err);
}

enum vp_status vp_folder_write_text(const char *path, const char *text,
                                    struct vp_err *err)
{
    FILE *f = fopen(path, "w");
    bool failed;

    if (!f)
        return vp_err_write(err, path, errno);
    failed = fputs(text, f) == EOF;
    failed |= fclose(f) != 0;
    if (failed)
        return vp_err_write(err, path, errno);
    return VP_OK;
}
