/* Two buffers: one receives records while the other is written. */
#include "monitor/event_file.h"

#include "base/machine.h"
#include "monitor/event_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A step takes about 500 bytes, and 35 more for each stage. */
enum { BUFFER_BYTES = 1 << 20 };

struct vp_event_file {
    char path[PATH_MAX];
    int fd;
    off_t n_written;           /* bytes of whole records in the file */
    unsigned char *buffers[2]; /* records are added to the first, the second is
                                  being written */
    size_t n_bytes[2];
    int64_t n_dropped;
};

static size_t room(const struct vp_event_file *file)
{
    return BUFFER_BYTES - file->n_bytes[0];
}

static unsigned char *at_end(struct vp_event_file *file)
{
    return file->buffers[0] + file->n_bytes[0];
}

/* Keeps a record of `n` bytes at the end of the buffer; 0: it did not fit. */
static void keep(struct vp_event_file *file, size_t n)
{
    file->n_bytes[0] += n;
    file->n_dropped += n == 0;
}

static enum vp_status open_file(struct vp_event_file *file, const char *folder,
                                double now, struct vp_err *err)
{
    char host[128];

    vp_machine_name(host, sizeof(host));
    if (snprintf(file->path, sizeof(file->path),
                 "%s/events.out.tfevents.%010lld.%s.%ld.0", folder,
                 (long long)now, host,
                 (long)getpid()) >= (int)sizeof(file->path))
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          folder);
    file->fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                    0666);
    return file->fd < 0 ? vp_err_write(err, file->path, errno) : VP_OK;
}

enum vp_status vp_event_file_open(const char *folder, int64_t resumed,
                                  struct vp_event_file **out,
                                  struct vp_err *err)
{
    struct vp_event_file *file = calloc(1, sizeof(*file));
    double now = (double)time(NULL);
    enum vp_status st = VP_ERR_NOMEM;

    if (file) {
        file->fd = -1;
        file->buffers[0] = malloc(BUFFER_BYTES);
        file->buffers[1] = malloc(BUFFER_BYTES);
    }
    if (!file || !file->buffers[0] || !file->buffers[1])
        vp_err_set(err, st, "tensorboard: out of memory; close other programs");
    else
        st = open_file(file, folder, now, err);
    if (st != VP_OK) {
        vp_event_file_close(file);
        return st;
    }
    keep(file, vp_event_version(now, at_end(file), room(file)));
    if (resumed > 0)
        keep(file,
             vp_event_restart(now, resumed + 1, at_end(file), room(file)));
    *out = file;
    return VP_OK;
}

void vp_event_file_close(struct vp_event_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file->buffers[0]);
    free(file->buffers[1]);
    free(file);
}

bool vp_event_file_step(struct vp_event_file *file,
                        const struct vp_metrics *metrics, double wall_time)
{
    int64_t step = (int64_t)metrics->run[VP_RUN_METRIC_STEPS];
    struct vp_event_record record;

    vp_event_begin(&record, at_end(file), room(file), wall_time, step);
    for (int i = 0; i < VP_RUN_METRIC_COUNT; i++)
        if (vp_run_metrics[i].tag && i != VP_RUN_METRIC_EVAL_LOSS)
            vp_event_scalar(&record, vp_run_metrics[i].tag, -1,
                            metrics->run[i]);
    for (int i = 0; i < VP_STAGE_METRIC_COUNT; i++)
        for (int s = 0; vp_stage_metrics[i].tag && s < metrics->n_stages; s++)
            vp_event_scalar(&record, vp_stage_metrics[i].tag, s,
                            metrics->stages[s][i]);
    keep(file, vp_event_end(&record));
    return file->n_bytes[0] > BUFFER_BYTES / 2;
}

void vp_event_file_eval(struct vp_event_file *file, int64_t step, double loss,
                        double wall_time)
{
    struct vp_event_record record;

    vp_event_begin(&record, at_end(file), room(file), wall_time, step);
    vp_event_scalar(&record, vp_run_metrics[VP_RUN_METRIC_EVAL_LOSS].tag, -1,
                    loss);
    if (isfinite(loss))
        keep(file, vp_event_end(&record));
}

void vp_event_file_take(struct vp_event_file *file)
{
    unsigned char *taken = file->buffers[0];

    if (file->n_bytes[1] > 0)
        return; /* not written yet */
    file->buffers[0] = file->buffers[1];
    file->buffers[1] = taken;
    file->n_bytes[1] = file->n_bytes[0];
    file->n_bytes[0] = 0;
}

/* After a failure the file is cut back to whole records, because readers stop
 * at an incomplete one. */
enum vp_status vp_event_file_write(struct vp_event_file *file,
                                   struct vp_err *err)
{
    size_t n_done = 0, n_bytes = file->n_bytes[1];
    enum vp_status st = VP_OK;

    while (n_done < n_bytes && st == VP_OK) {
        ssize_t n = write(file->fd, file->buffers[1] + n_done,
                          n_bytes - n_done);

        if (n > 0)
            n_done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            st = vp_err_write(err, file->path, n < 0 ? errno : EIO);
    }
    if (st == VP_OK)
        file->n_written += (off_t)n_bytes;
    else
        (void)!ftruncate(file->fd, file->n_written);
    file->n_bytes[1] = 0;
    return st;
}

int64_t vp_event_file_n_dropped(const struct vp_event_file *file)
{
    return file->n_dropped;
}
