/* Writes one checkpoint: all files to step-<n>.tmp, synced, then a rename to
 * step-<n>. */
#include "ckpt/io.h"
#include "ckpt/manifest.h"
#include "ckpt/store.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <xxhash.h>

struct job {
    const struct vp_ckpt_save *save;
    const char *folder;
    char path[VP_IO_PATH_MAX]; /* step-<n> */
    char tmp[VP_IO_PATH_MAX];
    char old[VP_IO_PATH_MAX];
    char trash[VP_IO_PATH_MAX];
    int64_t n_bytes; /* needed on disk */
    struct vp_manifest manifest;
    struct vp_ckpt_part *parts; /* own parts, then those of the other members */
    int n_parts;
    bool
        collected; /* team->collect_files() was called: the others have ended */
    XXH3_state_t *hash;
};

/* Sets the error for a failed write. If the disk is full, the message has the
 * needed and the free bytes. */
static enum vp_status write_fail(const struct job *job, const char *path,
                                 int rc, struct vp_err *err)
{
    if (rc == ECANCELED)
        return vp_err_set(err, VP_ERR_ABORTED,
                          "%s: cancelled while it was written", job->path);
    if ((rc == ENOSPC || rc == EDQUOT) && err) {
        struct vp_err space = { .text = "" };

        if (vp_ckpt_space(job->folder, job->n_bytes, &space) == VP_OK)
            vp_err_set(&space, VP_ERR_IO,
                       "%lld bytes are needed for the checkpoint; a quota or "
                       "another program limits the space; free some",
                       (long long)job->n_bytes);
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s): %.2000s",
                          path, vp_io_reason(rc), space.text);
    }
    return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s); %s", path,
                      vp_io_reason(rc), vp_write_remedy(rc));
}

/* ---- One file ----------------------------------------------------------- */

static int write_bytes(struct job *job, int fd, const unsigned char *bytes,
                       int64_t n_bytes)
{
    XXH3_64bits_reset(job->hash);
    for (int64_t at = 0; at < n_bytes; at += VP_IO_CHUNK) {
        int64_t rest = n_bytes - at;
        size_t n = rest < VP_IO_CHUNK ? (size_t)rest : VP_IO_CHUNK;
        int rc;

        if (job->save->give_up && atomic_load(job->save->give_up))
            return ECANCELED;
        XXH3_64bits_update(job->hash, bytes + at, n);
        rc = vp_io_write(fd, bytes + at, n);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int write_file(struct job *job, const char *path,
                      const unsigned char *bytes, int64_t n_bytes)
{
    int fd = -1;
    int rc = vp_io_open(path, O_WRONLY | O_CREAT | O_EXCL, &fd);
    int rc_close;

    if (rc != 0)
        return rc;
    if (n_bytes >= VP_IO_CHUNK)
        vp_io_direct(fd);
    rc = write_bytes(job, fd, bytes, n_bytes);
    if (rc == 0)
        rc = vp_io_sync(fd);
    rc_close = vp_io_close(fd);
    return rc != 0 ? rc : rc_close;
}

/* ---- All files ---------------------------------------------------------- */

static enum vp_status write_images(struct job *job, struct vp_err *err)
{
    const struct vp_ckpt_save *save = job->save;

    for (int i = 0; i < save->n_images; i++) {
        const struct vp_ckpt_image *image = &save->images[i];
        struct vp_ckpt_part *part = &job->parts[i];
        struct vp_manifest_file file;
        char path[VP_IO_PATH_MAX];
        int rc;

        VP_BUG_ON(i > 0 && image[-1].block >= image->block);
        vp_manifest_name(image->block, &file);
        rc = vp_io_join(path, job->tmp, file.name);
        if (rc == 0)
            rc = write_file(job, path, image->bytes, image->n_bytes);
        if (rc != 0)
            return write_fail(job, path, rc, err);
        part->block = image->block;
        part->seal.n_bytes = image->n_bytes;
        part->seal.checksum = XXH3_64bits_digest(job->hash);
    }
    job->n_parts = save->n_images;
    return VP_OK;
}

/* ---- A team ------------------------------------------------------------- */

static int compare_parts(const void *a, const void *b)
{
    const struct vp_ckpt_part *x = a, *y = b;

    return (x->block > y->block) - (x->block < y->block);
}

/* Lead of a team: waits for the files of the others and adds them to
 * `parts`. */
static enum vp_status collect_parts(struct job *job, struct vp_err *err)
{
    const struct vp_ckpt_save *save = job->save;
    int n = 0;

    if (!save->team)
        return VP_OK;
    job->collected = true;
    VP_TRY(save->team->collect_files(save->team->ctx, save->step,
                                     job->parts + job->n_parts, &n,
                                     save->give_up, err));
    job->n_parts += n;
    qsort(job->parts, (size_t)job->n_parts, sizeof(*job->parts), compare_parts);
    for (int i = 1; i < job->n_parts; i++)
        if (job->parts[i].block == job->parts[i - 1].block)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: two processes wrote block %d", job->path,
                              job->parts[i].block);
    return VP_OK;
}

static void list_parts(struct job *job)
{
    job->manifest.n_files = job->n_parts;
    for (int i = 0; i < job->n_parts; i++) {
        vp_manifest_name(job->parts[i].block, &job->manifest.files[i]);
        job->manifest.files[i].seal = job->parts[i].seal;
    }
}

static enum vp_status write_manifest(struct job *job, struct vp_err *err)
{
    char path[VP_IO_PATH_MAX];
    char *text = NULL;
    size_t n = 0;
    int rc;

    VP_TRY(vp_manifest_format(&job->manifest, &text, &n, err));
    rc = vp_io_join(path, job->tmp, VP_MANIFEST_FILE);
    if (rc == 0)
        rc = write_file(job, path, (const unsigned char *)text, (int64_t)n);
    free(text);
    return rc == 0 ? VP_OK : write_fail(job, path, rc, err);
}

/* ---- Renaming ----------------------------------------------------------- */

static int discard_old(const struct job *job)
{
    struct stat info;

    if (lstat(job->old, &info) != 0)
        return 0;
    return vp_io_discard(job->folder, job->old, job->trash);
}

/* Renames .tmp to the final name. An existing checkpoint of the step is renamed
 * to .old meanwhile, and renamed back if that fails. */
static int publish(const struct job *job)
{
    struct stat info;
    bool again = lstat(job->path, &info) == 0;
    int rc = 0;

    if (again)
        rc = discard_old(job);
    if (again && rc == 0)
        rc = vp_io_rename(job->path, job->old);
    if (rc != 0)
        return rc;
    rc = vp_io_rename(job->tmp, job->path);
    if (rc != 0 && again)
        vp_io_rename(job->old, job->path);
    if (rc == 0)
        rc = vp_io_sync_folder(job->folder);
    if (rc == 0)
        rc = discard_old(job);
    return rc;
}

/* Creates the .tmp folder and removes leftovers of an earlier attempt. In a
 * team vp_ckpt_prepare() has removed them, because others may already be
 * writing. */
static enum vp_status begin_tmp(struct job *job, struct vp_err *err)
{
    int rc = job->save->team ? 0 : vp_io_remove(job->tmp);

    if (rc == 0)
        rc = vp_io_mkdir(job->tmp);
    /* ENOENT: the folder of checkpoints was removed during the run. */
    if (rc == ENOENT) {
        rc = vp_io_mkdir(job->folder);
        if (rc == 0)
            rc = vp_io_sync_parent(job->folder);
        if (rc == 0 || rc == EEXIST)
            rc = vp_io_mkdir(job->tmp);
    }
    if (rc == EEXIST && job->save->team)
        rc = 0; /* another process of the team created it first */
    return rc == 0 ? VP_OK : write_fail(job, job->tmp, rc, err);
}

/* Removes the .tmp folder after a failure. In a team, waits for the others
 * first: files that they write during the removal would be left. */
static void remove_tmp(struct job *job)
{
    if (job->parts && !job->collected)
        collect_parts(job, NULL);
    vp_io_remove(job->tmp);
}

static enum vp_status write_own(struct job *job, struct vp_err *err)
{
    const struct vp_ckpt_save *save = job->save;
    int rc;

    VP_TRY(begin_tmp(job, err));
    VP_TRY(write_images(job, err));
    rc = vp_io_sync_folder(job->tmp);
    if (rc != 0)
        return write_fail(job, job->tmp, rc, err);
    return save->team->report_files(save->team->ctx, save->step, job->parts,
                                    job->n_parts, save->give_up, err);
}

static enum vp_status write_all(struct job *job, struct vp_err *err)
{
    int rc;

    VP_TRY(begin_tmp(job, err));
    VP_TRY(write_images(job, err));
    VP_TRY(collect_parts(job, err));
    list_parts(job);
    VP_TRY(write_manifest(job, err));
    rc = vp_io_sync_folder(job->tmp);
    if (rc == 0 && job->save->before_publish)
        VP_TRY(job->save->before_publish(job->save->publish_ctx, err));
    if (rc == 0)
        rc = publish(job);
    return rc == 0 ? VP_OK : write_fail(job, job->path, rc, err);
}

static int append(char out[VP_IO_PATH_MAX], const char *path,
                  const char *suffix)
{
    int n = snprintf(out, VP_IO_PATH_MAX, "%s%s", path, suffix);

    return n >= 0 && n < VP_IO_PATH_MAX ? 0 : ENAMETOOLONG;
}

static enum vp_status plan_manifest(struct job *job, struct vp_err *err)
{
    const struct vp_ckpt_save *save = job->save;
    struct vp_manifest *m = &job->manifest;
    json_t *facts = json_loads(save->facts, JSON_REJECT_DUPLICATES, NULL);
    enum vp_status st = VP_ERR_INVALID;
    size_t n = 1;

    if (json_is_object(facts))
        st = vp_facts_wrap(facts, &m->facts);
    json_decref(facts);
    if (st == VP_ERR_INVALID)
        return vp_err_set(err, st, "%s: its facts are not a JSON object",
                          job->folder);
    n += (size_t)save->n_images +
         (save->team ? (size_t)save->team->max_parts : 0);
    m->step = save->step;
    m->score = save->score;
    m->files = calloc(n, sizeof(*m->files));
    job->parts = calloc(n, sizeof(*job->parts));
    job->hash = XXH3_createState();
    if (st != VP_OK || !m->files || !job->parts || !job->hash)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", job->folder);
    return VP_OK;
}

static enum vp_status plan(struct job *job, struct vp_err *err)
{
    const struct vp_ckpt_save *save = job->save;
    char name[32];

    VP_BUG_ON(save->step < 0 || save->step > VP_CKPT_MAX_STEP);
    VP_TRY(plan_manifest(job, err));
    for (int i = 0; i < save->n_images; i++)
        job->n_bytes += save->images[i].n_bytes;
    job->n_bytes = vp_ckpt_disk_bytes(job->n_bytes, save->n_images);
    snprintf(name, sizeof(name), "step-%lld", (long long)save->step);
    if (vp_io_join(job->path, job->folder, name) != 0 ||
        append(job->tmp, job->path, ".tmp") != 0 ||
        append(job->old, job->path, ".old") != 0 ||
        append(job->trash, job->path, ".trash") != 0)
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          job->folder);
    return vp_ckpt_space(job->folder, job->n_bytes, err);
}

enum vp_status vp_ckpt_save(const char *folder, const struct vp_ckpt_save *save,
                            struct vp_err *err)
{
    struct job *job = calloc(1, sizeof(*job));
    enum vp_status st;

    if (!job)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
    job->save = save;
    job->folder = folder;
    st = plan(job, err);
    if (save->team && !save->team->is_lead) {
        if (st == VP_OK)
            st = write_own(job, err);
        if (st != VP_OK)
            save->team->report_files(save->team->ctx, save->step, NULL, -1,
                                     save->give_up, NULL);
    } else {
        if (st == VP_OK)
            st = write_all(job, err);
        if (st != VP_OK && job->tmp[0])
            remove_tmp(job);
    }
    free(job->parts);
    vp_manifest_release(&job->manifest);
    XXH3_freeState(job->hash);
    free(job);
    return st;
}
