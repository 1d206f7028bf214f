/* Opens and verifies the files of a checkpoint and finds tensors by name. */
#include "ckpt/ckpt.h"

#include "ckpt/io.h"
#include "ckpt/manifest.h"
#include "ckpt/transpose.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct file {
    struct vp_st_file *st;
    const struct vp_st_seal *seal; /* in the manifest */
    atomic_bool verified;
};

struct place {
    const struct vp_st_tensor *tensor;
    struct file *file;
};

struct vp_ckpt {
    char path[VP_IO_PATH_MAX];
    struct vp_manifest manifest;
    struct file *files; /* [manifest.n_files] */
    int n_tensors;
    struct place *places; /* sorted by name */
};

/* ---- Open --------------------------------------------------------------- */

/* The files that are verified when the checkpoint is opened. */
struct wanted {
    bool all;
    const bool *blocks; /* [n_blocks], unless all */
    int n_blocks;
};

static bool is_wanted(const struct wanted *wanted, const char *name)
{
    int block = vp_manifest_block(name);

    return wanted->all || (block < wanted->n_blocks && wanted->blocks[block]);
}

static enum vp_status open_files(struct vp_ckpt *ckpt,
                                 const struct wanted *wanted,
                                 struct vp_err *err)
{
    char path[VP_IO_PATH_MAX];

    for (int i = 0; i < ckpt->manifest.n_files; i++) {
        const struct vp_manifest_file *want = &ckpt->manifest.files[i];
        struct file *file = &ckpt->files[i];

        if (vp_io_join(path, ckpt->path, want->name) != 0)
            return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                              ckpt->path);
        file->seal = &want->seal;
        atomic_init(&file->verified, is_wanted(wanted, want->name));
        VP_TRY(vp_st_open(path, file->verified ? file->seal : NULL, &file->st,
                          err));
        ckpt->n_tensors += vp_st_header(file->st)->n_tensors;
    }
    return VP_OK;
}

static int compare_name(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return strcmp(x->tensor->name, y->tensor->name);
}

static enum vp_status index_tensors(struct vp_ckpt *ckpt, struct vp_err *err)
{
    struct place *place;

    ckpt->places = calloc((size_t)ckpt->n_tensors + 1, sizeof(*place));
    if (!ckpt->places)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", ckpt->path);
    place = ckpt->places;
    for (int i = 0; i < ckpt->manifest.n_files; i++) {
        const struct vp_st_header *header = vp_st_header(ckpt->files[i].st);

        for (int k = 0; k < header->n_tensors; k++)
            *place++ = (struct place){ &header->tensors[k], &ckpt->files[i] };
    }
    qsort(ckpt->places, (size_t)ckpt->n_tensors, sizeof(*place), compare_name);
    for (int i = 1; i < ckpt->n_tensors; i++) {
        place = &ckpt->places[i];
        if (compare_name(place - 1, place) == 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: tensor %.200s: is in another file too",
                              vp_st_path(place->file->st), place->tensor->name);
    }
    return VP_OK;
}

static enum vp_status open_manifest(struct vp_ckpt *ckpt, struct vp_err *err)
{
    VP_TRY(vp_manifest_read(ckpt->path, &ckpt->manifest, err));
    ckpt->files = calloc((size_t)ckpt->manifest.n_files + 1,
                         sizeof(*ckpt->files));
    if (!ckpt->files)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", ckpt->path);
    return VP_OK;
}

static enum vp_status create(const char *path, struct vp_ckpt **out,
                             struct vp_err *err)
{
    struct vp_ckpt *ckpt = calloc(1, sizeof(*ckpt));
    int n;

    if (!ckpt)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    n = snprintf(ckpt->path, sizeof(ckpt->path), "%s", path);
    if (n < 0 || (size_t)n >= sizeof(ckpt->path)) {
        free(ckpt);
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          path);
    }
    *out = ckpt;
    return VP_OK;
}

enum vp_status vp_ckpt_open(const char *path, struct vp_ckpt **out,
                            struct vp_err *err)
{
    const struct wanted all = { .all = true };
    struct vp_ckpt *ckpt = NULL;
    enum vp_status st;

    VP_TRY(create(path, &ckpt, err));
    st = open_manifest(ckpt, err);
    if (st == VP_OK)
        st = open_files(ckpt, &all, err);
    if (st == VP_OK)
        st = index_tensors(ckpt, err);
    if (st != VP_OK) {
        vp_ckpt_close(ckpt);
        return st;
    }
    *out = ckpt;
    return VP_OK;
}

void vp_ckpt_close(struct vp_ckpt *ckpt)
{
    if (!ckpt)
        return;
    for (int i = 0; ckpt->files && i < ckpt->manifest.n_files; i++)
        vp_st_close(ckpt->files[i].st);
    free(ckpt->files);
    free(ckpt->places);
    vp_manifest_release(&ckpt->manifest);
    free(ckpt);
}

/* ---- The same as another process ---------------------------------------- */

enum vp_status vp_ckpt_read_facts(const char *path, struct vp_facts **out,
                                  struct vp_err *err)
{
    struct vp_manifest manifest;

    VP_TRY(vp_manifest_read(path, &manifest, err));
    *out = manifest.facts;
    manifest.facts = NULL;
    vp_manifest_release(&manifest);
    return VP_OK;
}

enum vp_status vp_ckpt_identify(const struct vp_ckpt *ckpt,
                                struct vp_ckpt_id *out, struct vp_err *err)
{
    int n = snprintf(out->path, sizeof(out->path), "%s", ckpt->path);

    if (n < 0 || (size_t)n >= sizeof(out->path))
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          ckpt->path);
    out->step = ckpt->manifest.step;
    out->checksum = ckpt->manifest.checksum;
    return VP_OK;
}

/* Returns true if a file of the checkpoint, or its folder, is missing. */
static bool lacks_file(const struct vp_ckpt *ckpt)
{
    char path[VP_IO_PATH_MAX];

    if (vp_io_join(path, ckpt->path, VP_MANIFEST_FILE) != 0 ||
        access(path, F_OK) != 0)
        return true;
    for (int i = 0; i < ckpt->manifest.n_files; i++)
        if (vp_io_join(path, ckpt->path, ckpt->manifest.files[i].name) != 0 ||
            access(path, F_OK) != 0)
            return true;
    return false;
}

static enum vp_status check_same(const struct vp_ckpt *ckpt,
                                 const struct vp_ckpt_id *id,
                                 struct vp_err *err)
{
    if (ckpt->manifest.step == id->step &&
        ckpt->manifest.checksum == id->checksum)
        return VP_OK;
    return vp_err_set(err, VP_ERR_IO,
                      "%s/%s: is not the file that the lead reads (step %lld, "
                      "checksum %016llx, there step %lld, %016llx)",
                      ckpt->path, VP_MANIFEST_FILE,
                      (long long)ckpt->manifest.step,
                      (unsigned long long)ckpt->manifest.checksum,
                      (long long)id->step, (unsigned long long)id->checksum);
}

enum vp_status vp_ckpt_open_same(const struct vp_ckpt_id *id,
                                 const bool *wanted, int n_blocks,
                                 struct vp_ckpt **out, struct vp_err *err)
{
    const struct wanted some = { .blocks = wanted, .n_blocks = n_blocks };
    struct vp_ckpt *ckpt = NULL;
    enum vp_status st;

    VP_TRY(create(id->path, &ckpt, err));
    st = open_manifest(ckpt, err);
    if (st == VP_OK)
        st = check_same(ckpt, id, err);
    if (st == VP_OK)
        st = open_files(ckpt, &some, err);
    if (st == VP_OK)
        st = index_tensors(ckpt, err);
    if (st == VP_ERR_INVALID && lacks_file(ckpt))
        st = VP_ERR_IO;
    if (st != VP_OK) {
        vp_ckpt_close(ckpt);
        return st;
    }
    *out = ckpt;
    return VP_OK;
}

/* ---- Use ---------------------------------------------------------------- */

const char *vp_ckpt_path(const struct vp_ckpt *ckpt)
{
    return ckpt->path;
}

int64_t vp_ckpt_step(const struct vp_ckpt *ckpt)
{
    return ckpt->manifest.step;
}

double vp_ckpt_score(const struct vp_ckpt *ckpt)
{
    return ckpt->manifest.score;
}

const struct vp_facts *vp_ckpt_facts(const struct vp_ckpt *ckpt)
{
    return ckpt->manifest.facts;
}

int vp_ckpt_n_tensors(const struct vp_ckpt *ckpt)
{
    return ckpt->n_tensors;
}

const struct vp_st_tensor *vp_ckpt_tensor(const struct vp_ckpt *ckpt, int i)
{
    VP_BUG_ON(i < 0 || i >= ckpt->n_tensors);
    return ckpt->places[i].tensor;
}

static const struct place *find(const struct vp_ckpt *ckpt, const char *name)
{
    const struct vp_st_tensor named = { .name = name };
    const struct place key = { .tensor = &named };

    return bsearch(&key, ckpt->places, (size_t)ckpt->n_tensors, sizeof(key),
                   compare_name);
}

const struct vp_st_tensor *vp_ckpt_find(const struct vp_ckpt *ckpt,
                                        const char *name)
{
    const struct place *place = find(ckpt, name);

    return place ? place->tensor : NULL;
}

static bool same_shape(const struct vp_st_tensor *a,
                       const struct vp_st_tensor *b)
{
    if (a->type != b->type || a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* Verifies the file first if needed. Two threads may verify it at the same
 * time, which is only a waste of time. */
static enum vp_status read_tensor(const struct place *place, void *buf,
                                  struct vp_err *err)
{
    struct file *file = place->file;

    if (!atomic_load(&file->verified)) {
        VP_TRY(vp_st_verify(file->st, file->seal, err));
        atomic_store(&file->verified, true);
    }
    return vp_st_read(file->st, place->tensor, buf, err);
}

enum vp_status vp_ckpt_read(const struct vp_ckpt *ckpt, const char *name,
                            const struct vp_st_tensor *want, void *buf,
                            struct vp_err *err)
{
    const struct place *place = find(ckpt, name);
    char has[256], wants[256];

    if (!place)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: has no tensor %.200s; resume with the model "
                          "that was saved",
                          ckpt->path, name);
    if (same_shape(place->tensor, want))
        return read_tensor(place, buf, err);
    vp_st_describe(place->tensor, has, sizeof(has));
    vp_st_describe(want, wants, sizeof(wants));
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: tensor %.200s: is %s, the model wants %s; resume "
                      "with the model that was saved",
                      vp_st_path(place->file->st), name, has, wants);
}

enum vp_status vp_ckpt_read_transposed(const struct vp_ckpt *ckpt,
                                       const char *name,
                                       const struct vp_st_tensor *want,
                                       float *out, struct vp_err *err)
{
    int64_t rows = want->dims[0], cols = want->dims[1];
    enum vp_status st;
    float *buf;

    VP_BUG_ON(want->n_dims != 2 || want->type != VP_ST_F32);
    buf = malloc((size_t)(rows * cols) * sizeof(*buf) + 1);
    if (!buf)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", ckpt->path);
    st = vp_ckpt_read(ckpt, name, want, buf, err);
    if (st == VP_OK)
        vp_transpose(out, buf, rows, cols);
    free(buf);
    return st;
}
