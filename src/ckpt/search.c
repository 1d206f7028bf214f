/* The search for the newest checkpoint that is not damaged. */
#include "ckpt/search.h"

#include "base/memory.h"
#include "ckpt/io.h"
#include "ckpt/manifest.h"

#include <stdio.h>
#include <stdlib.h>

struct vp_ckpt_search {
    const char *folder;
    struct vp_ckpt_entry *list; /* newest first */
    int n_entries;
    int at; /* next entry to try */
    struct vp_arena arena;
    const char **reasons; /* [n_damaged], capacity n_entries */
    int n_damaged;
};

enum vp_status vp_ckpt_search_create(const char *folder,
                                     struct vp_ckpt_search **out,
                                     struct vp_err *err)
{
    struct vp_ckpt_search *search = calloc(1, sizeof(*search));
    enum vp_status st;

    if (!search)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
    search->folder = folder;
    st = vp_ckpt_list(folder, &search->list, &search->n_entries, err);
    if (st == VP_OK) {
        search->reasons = calloc((size_t)search->n_entries + 1,
                                 sizeof(*search->reasons));
        if (!search->reasons)
            st = vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
    }
    if (st != VP_OK) {
        vp_ckpt_search_free(search);
        return st;
    }
    *out = search;
    return VP_OK;
}

void vp_ckpt_search_free(struct vp_ckpt_search *search)
{
    if (!search)
        return;
    vp_arena_release(&search->arena);
    free(search->reasons);
    free(search->list);
    free(search);
}

/* Opens one entry and checks that its name matches its step. */
static enum vp_status open_entry(const char *folder,
                                 const struct vp_ckpt_entry *entry,
                                 struct vp_ckpt **out, struct vp_err *err)
{
    char path[VP_IO_PATH_MAX];
    struct vp_ckpt *ckpt = NULL;

    if (vp_io_join(path, folder, entry->name) != 0)
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          folder);
    VP_TRY(vp_ckpt_open(path, &ckpt, err));
    if (vp_ckpt_step(ckpt) != entry->step) {
        vp_err_set(err, VP_ERR_INVALID, "%s/%s: belongs to step %lld", path,
                   VP_MANIFEST_FILE, (long long)vp_ckpt_step(ckpt));
        vp_ckpt_close(ckpt);
        return VP_ERR_INVALID;
    }
    *out = ckpt;
    return VP_OK;
}

enum vp_status vp_ckpt_search_reject(struct vp_ckpt_search *search,
                                     const char *reason, struct vp_err *err)
{
    char *text = vp_arena_strdup(&search->arena, reason);

    VP_BUG_ON(search->n_damaged == search->n_entries);
    if (!text)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory",
                          search->folder);
    search->reasons[search->n_damaged++] = text;
    return VP_OK;
}

void vp_ckpt_search_hint(const struct vp_ckpt_search *search, char *out,
                         size_t n)
{
    if (search->at < search->n_entries)
        snprintf(out, n, "; to go on from an older checkpoint: --resume %s/%s",
                 search->folder, search->list[search->at].name);
    else
        snprintf(out, n, "; there is no older checkpoint");
}

static enum vp_status nothing_left(const struct vp_ckpt_search *search,
                                   struct vp_err *err)
{
    if (search->n_entries == 0)
        return vp_err_set(err, VP_ERR_END, "%s: holds no checkpoint",
                          search->folder);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%.3800s; none of %d checkpoints can be used; repair it "
                      "or start a new run",
                      search->reasons[0], search->n_entries);
}

enum vp_status vp_ckpt_search_next(struct vp_ckpt_search *search,
                                   struct vp_ckpt **out, struct vp_err *err)
{
    struct vp_err reason = { .text = "" };
    char hint[1024 + 64];

    while (search->at < search->n_entries) {
        const struct vp_ckpt_entry *entry = &search->list[search->at++];
        enum vp_status st = open_entry(search->folder, entry, out, &reason);

        if (st == VP_OK)
            return VP_OK;
        if (st == VP_ERR_INVALID) {
            VP_TRY(vp_ckpt_search_reject(search, reason.text, err));
            continue;
        }
        vp_ckpt_search_hint(search, hint, sizeof(hint));
        return vp_err_set(err, st, "%.2800s%s", reason.text, hint);
    }
    return nothing_left(search, err);
}

void vp_ckpt_search_tell(const struct vp_ckpt_search *search, int64_t step,
                         vp_ckpt_note_fn note, void *ctx)
{
    struct vp_err line;

    for (int i = 0; i < search->n_damaged; i++) {
        vp_err_set(&line, VP_OK, "%.3800s; using step %lld", search->reasons[i],
                   (long long)step);
        note(ctx, line.text);
    }
}

enum vp_status vp_ckpt_open_newest(const char *folder, vp_ckpt_note_fn note,
                                   void *ctx, struct vp_ckpt **out,
                                   struct vp_err *err)
{
    struct vp_ckpt_search *search = NULL;
    enum vp_status st;

    VP_TRY(vp_ckpt_search_create(folder, &search, err));
    st = vp_ckpt_search_next(search, out, err);
    if (st == VP_OK && note)
        vp_ckpt_search_tell(search, vp_ckpt_step(*out), note, ctx);
    vp_ckpt_search_free(search);
    return st;
}
