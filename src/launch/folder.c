#include "launch/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static enum vp_status make_folder(const char *path, struct vp_err *err)
{
    char part[1024];
    size_t n = strlen(path);

    if (n >= sizeof(part))
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return vp_err_set(err, VP_ERR_IO,
                              "%s: cannot create the folder (%s); choose "
                              "another --output or log_directory",
                              part, strerror(errno));
    }
    return VP_OK;
}

/* A name that sorts by time; a number is added if the second is taken. */
static void default_path(const struct vp_config *config, char *path, size_t n)
{
    char when[32];
    time_t now = time(NULL);
    struct tm tm;

    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(path, n, "%s/%s", config->log_directory, when);
    for (int i = 2; access(path, F_OK) == 0; i++)
        snprintf(path, n, "%s/%s.%d", config->log_directory, when, i);
}

enum vp_status vp_folder_create(const struct vp_config *config,
                                const char *path, struct vp_folder *out,
                                struct vp_err *err)
{
    struct vp_folder folder = { .metrics = NULL };
    char file[sizeof(folder.path) + 16];
    int fd;

    if (path)
        snprintf(folder.path, sizeof(folder.path), "%s", path);
    else
        default_path(config, folder.path, sizeof(folder.path));
    VP_TRY(make_folder(folder.path, err));
    snprintf(file, sizeof(file), "%s/metrics.jsonl", folder.path);
    fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s holds a run already; choose another --output",
                          folder.path);
    if (fd < 0)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s)", file,
                          strerror(errno));
    folder.metrics = fdopen(fd, "w");
    if (!folder.metrics) {
        close(fd);
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", file);
    }
    snprintf(file, sizeof(file), "%s/config.yml", folder.path);
    *out = folder;
    return vp_config_write(config, file, err);
}

void vp_folder_close(struct vp_folder *folder)
{
    if (folder->metrics)
        fclose(folder->metrics);
    folder->metrics = NULL;
}

/* Every line reaches the file at once: a killed run loses none. */
static enum vp_status flush(struct vp_folder *folder, struct vp_err *err)
{
    if (fflush(folder->metrics) != 0)
        return vp_err_set(err, VP_ERR_IO,
                          "%s/metrics.jsonl: cannot be written (%s)",
                          folder->path, strerror(errno));
    return VP_OK;
}

static void write_norms(FILE *f, const struct vp_step_report *report)
{
    if (!report->stage_norms) {
        fprintf(f, "\"grad_norm\": %.17g, ", report->grad_norm);
        return;
    }
    fprintf(f, "\"grad_norm\": [");
    for (int s = 0; s < report->n_stages; s++)
        fprintf(f, "%s%.17g", s ? ", " : "", report->stage_norms[s]);
    fprintf(f, "], ");
}

enum vp_status vp_folder_write_step(struct vp_folder *folder,
                                    const struct vp_step_report *report,
                                    struct vp_err *err)
{
    FILE *f = folder->metrics;

    fprintf(f,
            "{\"step\": %lld, \"epoch\": %lld, \"minibatch\": %lld, "
            "\"loss\": %.17g, \"lr\": %.9g, ",
            (long long)report->step, (long long)report->epoch,
            (long long)report->minibatch, report->loss, report->lr);
    write_norms(f, report);
    fprintf(f,
            "\"samples_per_second\": %.6g, \"tokens_per_second\": %.6g, "
            "\"seconds\": %.6g, \"bubble\": %.6g, \"memory\": [",
            (double)report->n_samples / report->seconds,
            (double)report->n_tokens / report->seconds, report->seconds,
            report->bubble);
    for (int i = 0; i < report->n_stages; i++)
        fprintf(f, "%s%lld", i ? ", " : "", (long long)report->memory[i].total);
    fprintf(f, "]}\n");
    return flush(folder, err);
}

enum vp_status vp_folder_write_eval(struct vp_folder *folder, int64_t step,
                                    double loss, struct vp_err *err)
{
    fprintf(folder->metrics, "{\"step\": %lld, \"eval_loss\": %.17g}\n",
            (long long)step, loss);
    return flush(folder, err);
}

enum vp_status vp_folder_write_text(const char *path, const char *text,
                                    struct vp_err *err)
{
    FILE *f = fopen(path, "w");
    bool failed;

    if (!f)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s)", path,
                          strerror(errno));
    failed = fputs(text, f) == EOF;
    failed |= fclose(f) != 0;
    if (failed)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s)", path,
                          strerror(errno));
    return VP_OK;
}
