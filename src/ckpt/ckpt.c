#include "ckpt/ckpt.h"

#include "base/memory.h"
#include "ckpt/io.h"
#include "ckpt/manifest.h"
#include "ckpt/transpose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
    const struct vp_st_tensor *tensor;
    const struct vp_st_file *file;
};

struct vp_ckpt {
    char path[VP_IO_PATH_MAX];
    struct vp_manifest manifest;
    struct vp_st_file **files; /* [manifest.n_files] */
    int n_tensors;
    struct place *places; /* sorted by name */
};

/* ---- Open --------------------------------------------------------------- */

static enum vp_status open_files(struct vp_ckpt *ckpt, struct vp_err *err)
{
    char path[VP_IO_PATH_MAX];

    for (int i = 0; i < ckpt->manifest.n_files; i++) {
        const struct vp_manifest_file *want = &ckpt->manifest.files[i];

        if (vp_io_join(path, ckpt->path, want->name) != 0)
            return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                              ckpt->path);
        VP_TRY(vp_st_open(path, &want->seal, &ckpt->files[i], err));
        ckpt->n_tensors += vp_st_header(ckpt->files[i])->n_tensors;
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
        const struct vp_st_header *header = vp_st_header(ckpt->files[i]);

        for (int k = 0; k < header->n_tensors; k++)
            *place++ = (struct place){ &header->tensors[k], ckpt->files[i] };
    }
    qsort(ckpt->places, (size_t)ckpt->n_tensors, sizeof(*place), compare_name);
    for (int i = 1; i < ckpt->n_tensors; i++) {
        place = &ckpt->places[i];
        if (compare_name(place - 1, place) == 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: tensor %.200s: is in another file too",
                              vp_st_path(place->file), place->tensor->name);
    }
    return VP_OK;
}

static enum vp_status open_at(struct vp_ckpt *ckpt, struct vp_err *err)
{
    VP_TRY(vp_manifest_read(ckpt->path, &ckpt->manifest, err));
    ckpt->files = calloc((size_t)ckpt->manifest.n_files + 1,
                         sizeof(struct vp_st_file *));
    if (!ckpt->files)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", ckpt->path);
    VP_TRY(open_files(ckpt, err));
    return index_tensors(ckpt, err);
}

enum vp_status vp_ckpt_open(const char *path, struct vp_ckpt **out,
                            struct vp_err *err)
{
    struct vp_ckpt *ckpt = calloc(1, sizeof(*ckpt));
    enum vp_status st;
    int n;

    if (!ckpt)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    n = snprintf(ckpt->path, sizeof(ckpt->path), "%s", path);
    if (n < 0 || (size_t)n >= sizeof(ckpt->path))
        st = vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                        path);
    else
        st = open_at(ckpt, err);
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
        vp_st_close(ckpt->files[i]);
    free(ckpt->files);
    free(ckpt->places);
    vp_manifest_release(&ckpt->manifest);
    free(ckpt);
}

/* ---- The newest valid one ----------------------------------------------- */

/* Lines about broken ones wait here until it is known what is used instead. */
struct search {
    const char *folder;
    struct vp_arena arena;
    int n_broken;
    const char **reasons; /* [entries] */
    enum vp_status first; /* the status of reasons[0] */
};

static enum vp_status try_entry(struct search *search,
                                const struct vp_ckpt_entry *entry,
                                struct vp_ckpt **out, struct vp_err *err)
{
    char path[VP_IO_PATH_MAX];
    struct vp_ckpt *ckpt = NULL;
    enum vp_status st;

    if (vp_io_join(path, search->folder, entry->name) != 0)
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          search->folder);
    st = vp_ckpt_open(path, &ckpt, err);
    if (ckpt && ckpt->manifest.step != entry->step) {
        st = vp_err_set(err, VP_ERR_INVALID, "%s/%s: belongs to step %lld",
                        path, VP_MANIFEST_FILE, (long long)ckpt->manifest.step);
        vp_ckpt_close(ckpt);
        ckpt = NULL;
    }
    if (ckpt)
        *out = ckpt;
    return st;
}

/* VP_OK and `*out`, VP_OK and NULL if all are broken, or out of memory. */
static enum vp_status try_all(struct search *search,
                              const struct vp_ckpt_entry *list, int n,
                              struct vp_ckpt **out, struct vp_err *err)
{
    struct vp_err reason;

    for (int i = 0; i < n && !*out; i++) {
        enum vp_status st = try_entry(search, &list[i], out, &reason);
        char *text;

        if (st == VP_OK)
            return VP_OK;
        text = vp_arena_strdup(&search->arena, reason.text);
        if (st == VP_ERR_NOMEM || !text)
            return vp_err_set(err, VP_ERR_NOMEM, "%s", reason.text);
        if (search->n_broken == 0)
            search->first = st;
        search->reasons[search->n_broken++] = text;
    }
    return VP_OK;
}

static void tell(const struct search *search, int64_t step,
                 vp_ckpt_note_fn note, void *ctx)
{
    struct vp_err line;

    for (int i = 0; note && i < search->n_broken; i++) {
        vp_err_set(&line, VP_OK, "%.4000s; using step %lld", search->reasons[i],
                   (long long)step);
        note(ctx, line.text);
    }
}

static enum vp_status find_newest(struct search *search,
                                  const struct vp_ckpt_entry *list, int n,
                                  struct vp_ckpt **out, struct vp_err *err)
{
    if (n == 0)
        return vp_err_set(err, VP_ERR_END, "%s: holds no checkpoint",
                          search->folder);
    search->reasons = vp_arena_alloc(&search->arena,
                                     (size_t)n * sizeof(*search->reasons));
    if (!search->reasons)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory",
                          search->folder);
    VP_TRY(try_all(search, list, n, out, err));
    if (*out)
        return VP_OK;
    return vp_err_set(err, search->first,
                      "%.3800s; no checkpoint of %d can be used; repair it or "
                      "start a new run",
                      search->reasons[0], n);
}

enum vp_status vp_ckpt_open_newest(const char *folder, vp_ckpt_note_fn note,
                                   void *ctx, struct vp_ckpt **out,
                                   struct vp_err *err)
{
    struct search search = { .folder = folder };
    struct vp_ckpt_entry *list = NULL;
    struct vp_ckpt *ckpt = NULL;
    enum vp_status st;
    int n = 0;

    VP_TRY(vp_ckpt_list(folder, &list, &n, err));
    st = find_newest(&search, list, n, &ckpt, err);
    if (ckpt) {
        tell(&search, ckpt->manifest.step, note, ctx);
        *out = ckpt;
    }
    vp_arena_release(&search.arena);
    free(list);
    return st;
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
        return vp_st_read(place->file, place->tensor, buf, err);
    vp_st_describe(place->tensor, has, sizeof(has));
    vp_st_describe(want, wants, sizeof(wants));
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: tensor %.200s: is %s, the model wants %s; resume "
                      "with the model that was saved",
                      vp_st_path(place->file), name, has, wants);
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
