/* Saves checkpoints: ranks copy their state into the snapshot right after an
 * update, the thread that runs the trainer commits it, a background thread
 * writes it. */
#include "run/checkpoint.h"

#include "base/limit.h"
#include "ckpt/store.h"
#include "ckpt/writer.h"
#include "run/checkpoint_facts.h"
#include "run/team.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Time limit for writing the last checkpoint: disks can be slow. */
enum { WRITE_MS = 30 * 60 * 1000 };

struct vp_checkpoints {
    const struct vp_config *config;
    const struct vp_data *data;
    struct vp_trainer *trainer;
    struct vp_world *world; /* NULL: one process */
    struct vp_team *team;   /* NULL: one process */
    struct vp_ckpt_writer *writer;
    struct vp_saver saver;
    char folder[1024 + 16];
    enum vp_status (*before_publish)(void *ctx, struct vp_err *err);
    void *publish_ctx;

    pthread_mutex_t lock;
    pthread_cond_t committed;
    int64_t open;  /* step being copied; -1: none */
    int64_t last;  /* step committed last; -1: none */
    int64_t saved; /* last step on disk by earlier writers; -1: none */
};

/* ---- Functions of struct vp_saver --------------------------------------- */

static enum vp_status create_writer(struct vp_checkpoints *c,
                                    struct vp_err *err);

/* Every rank calls this; the first call opens the step. */
static enum vp_status begin(void *ctx, int64_t step, int timeout_ms,
                            struct vp_err *err)
{
    struct vp_checkpoints *c = ctx;
    struct vp_limit limit = vp_limit_ms(timeout_ms);
    enum vp_status st = VP_OK;

    pthread_mutex_lock(&c->lock);
    while (c->open >= 0 && c->open != step && st == VP_OK) {
        struct timespec at = vp_limit_next_look(&limit);

        if (vp_limit_is_over(&limit))
            st = vp_err_set(err, VP_ERR_TIMEOUT,
                            "checkpoint of step %lld: that of step %lld is not "
                            "complete after %d s",
                            (long long)step, (long long)c->open,
                            timeout_ms / 1000);
        else
            pthread_cond_timedwait(&c->committed, &c->lock, &at);
    }
    if (st == VP_OK && !c->writer)
        st = create_writer(c, err);
    if (st == VP_OK && c->open < 0) {
        st = vp_ckpt_writer_begin(c->writer, step, timeout_ms, err);
        if (st == VP_OK)
            c->open = step;
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

static float *buffer(void *ctx, int item)
{
    struct vp_checkpoints *c = ctx;

    return vp_ckpt_writer_buffer(c->writer, item);
}

/* Marks the open step as handed over to the writer. */
static void close_step(struct vp_checkpoints *c)
{
    c->last = c->open;
    c->open = -1;
    pthread_cond_broadcast(&c->committed);
}

/* In processes other than the lead: commits without facts, which the lead adds
 * when it publishes the checkpoint. */
static enum vp_status filled(void *ctx, struct vp_err *err)
{
    struct vp_checkpoints *c = ctx;
    enum vp_status st;

    pthread_mutex_lock(&c->lock);
    st = vp_ckpt_writer_commit(c->writer, NULL, (double)NAN, err);
    close_step(c);
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* ---- Creating ----------------------------------------------------------- */

static bool is_lead(const struct vp_checkpoints *c)
{
    return !c->world || vp_world_is_mine(c->world, vp_world_lead(c->world));
}

int64_t vp_checkpoint_steps(const struct vp_config *config,
                            int64_t steps_per_epoch)
{
    return config->checkpoint_every == VP_EVERY_EPOCH
               ? steps_per_epoch
               : config->checkpoint_every;
}

enum vp_status vp_checkpoints_create(const struct vp_config *config,
                                     int64_t every, struct vp_world *world,
                                     struct vp_checkpoints **out,
                                     struct vp_err *err)
{
    struct vp_checkpoints *c = calloc(1, sizeof(*c));

    if (!c)
        return vp_err_set(err, VP_ERR_NOMEM, "checkpoints: out of memory");
    c->config = config;
    c->world = world;
    c->saver = (struct vp_saver){ c, every, begin, buffer,
                                  is_lead(c) ? NULL : filled };
    c->open = c->last = c->saved = -1;
    if (vp_limit_cond_init(&c->committed) != 0) {
        free(c);
        return vp_err_set(err, VP_ERR_NOMEM, "checkpoints: out of memory");
    }
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return VP_OK;
}

const struct vp_saver *vp_checkpoints_saver(struct vp_checkpoints *c)
{
    return &c->saver;
}

/* The writer copies the names, so they are needed only during the call. */
static enum vp_status create_writer(struct vp_checkpoints *c,
                                    struct vp_err *err)
{
    struct vp_state_item *items = NULL;
    int n = vp_trainer_state(c->trainer, &items);
    struct vp_ckpt_item *files = n < 0 ? NULL
                                       : calloc((size_t)n + 1, sizeof(*files));
    struct vp_arena arena = { NULL };
    enum vp_status st = VP_OK;

    if (!files)
        st = vp_err_set(err, VP_ERR_NOMEM, "checkpoints: out of memory");
    for (int i = 0; files && i < n && st == VP_OK; i++) {
        const struct vp_st_tensor shape = vp_state_file_shape(&items[i]);

        files[i] = (struct vp_ckpt_item){
            .block = items[i].block,
            .name = vp_state_file_name(&arena, &items[i]),
            .type = shape.type,
            .n_dims = shape.n_dims,
            .dims = { shape.dims[0], shape.dims[1] },
            .transposed = items[i].transposed,
        };
        if (!files[i].name)
            st = vp_err_set(err, VP_ERR_NOMEM, "checkpoints: out of memory");
    }
    if (st == VP_OK)
        st = vp_ckpt_writer_create(c->folder, vp_team_ckpt(c->team),
                                   c->config->keep_checkpoints, files, n,
                                   &c->writer, err);
    if (st == VP_OK)
        vp_ckpt_writer_before_publish(c->writer, c->before_publish,
                                      c->publish_ctx);
    if (st == VP_OK && c->saver.every > 0)
        vp_ckpt_writer_touch(c->writer);
    vp_arena_release(&arena);
    free(files);
    free(items);
    return st;
}

void vp_checkpoints_before_publish(struct vp_checkpoints *c,
                                   enum vp_status (*fn)(void *ctx,
                                                        struct vp_err *err),
                                   void *ctx)
{
    c->before_publish = fn;
    c->publish_ctx = ctx;
}

enum vp_status vp_checkpoints_link(struct vp_checkpoints *c, int n_blocks,
                                   struct vp_err *err)
{
    return c->world ? vp_team_create(c->world, n_blocks, &c->team, err) : VP_OK;
}

enum vp_status vp_checkpoints_arm(struct vp_checkpoints *c,
                                  struct vp_trainer *trainer,
                                  const struct vp_data *data,
                                  const char *folder,
                                  const struct vp_ckpt_entry *from,
                                  struct vp_err *err)
{
    c->trainer = trainer;
    c->data = data;
    c->last = from ? from->step : -1;
    snprintf(c->folder, sizeof(c->folder), "%s/checkpoints", folder);
    if (is_lead(c)) {
        VP_TRY(vp_ckpt_set_aside(c->folder, from ? from->name : NULL, err));
        VP_TRY(vp_ckpt_prepare(c->folder, err));
    }
    /* Created now, so that a run whose state cannot be saved is refused. */
    return create_writer(c, err);
}

/* Returns true if both trainers save the same arrays in the same order. */
static bool same_items(const struct vp_trainer *a, const struct vp_trainer *b)
{
    struct vp_state_item *of_a = NULL, *of_b = NULL;
    int n = vp_trainer_state(a, &of_a);
    bool same = n >= 0 && vp_trainer_state(b, &of_b) == n;

    for (int i = 0; same && i < n; i++)
        same = strcmp(of_a[i].name, of_b[i].name) == 0 &&
               of_a[i].kind == of_b[i].kind && of_a[i].age == of_b[i].age;
    free(of_a);
    free(of_b);
    return same;
}

enum vp_status vp_checkpoints_follow(struct vp_checkpoints *c,
                                     struct vp_trainer *trainer,
                                     struct vp_err *err)
{
    bool same = same_items(c->trainer, trainer);

    c->trainer = trainer;
    if (same || !c->writer)
        return VP_OK;
    VP_TRY(vp_ckpt_writer_finish(c->writer, WRITE_MS, err));
    c->saved = vp_checkpoints_saved(c);
    vp_ckpt_writer_free(c->writer);
    c->writer = NULL;
    return create_writer(c, err);
}

void vp_checkpoints_free(struct vp_checkpoints *c)
{
    if (!c)
        return;
    vp_ckpt_writer_free(c->writer);
    vp_team_free(c->team);
    pthread_cond_destroy(&c->committed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- Writing ------------------------------------------------------------ */

enum vp_status vp_checkpoints_commit(struct vp_checkpoints *c, double score,
                                     struct vp_err *err)
{
    struct vp_facts *facts = NULL;
    enum vp_status st = vp_checkpoint_facts_create(c->config, c->data,
                                                   c->trainer, &facts);

    if (st != VP_OK)
        return vp_err_set(err, st, "checkpoint: out of memory");
    /* begin() was not called yet if the lead's rank has nothing to save. */
    st = begin(c, vp_trainer_progress(c->trainer).step, WRITE_MS, err);
    if (st == VP_OK) {
        pthread_mutex_lock(&c->lock);
        st = vp_ckpt_writer_commit(c->writer, facts, score, err);
        close_step(c);
        pthread_mutex_unlock(&c->lock);
    }
    vp_facts_free(facts);
    return st;
}

enum vp_status vp_checkpoints_finish(struct vp_checkpoints *c, double score,
                                     struct vp_err *err)
{
    if (!is_lead(c))
        return c->writer ? vp_ckpt_writer_finish(c->writer, WRITE_MS, err)
                         : VP_OK;
    if (!c->writer)
        VP_TRY(create_writer(c, err));
    if (vp_trainer_progress(c->trainer).step != c->last) {
        VP_TRY(vp_trainer_save(c->trainer, &c->saver, err));
        VP_TRY(vp_checkpoints_commit(c, score, err));
    }
    return vp_ckpt_writer_finish(c->writer, WRITE_MS, err);
}

int64_t vp_checkpoints_saved(struct vp_checkpoints *c)
{
    int64_t step = c->writer ? vp_ckpt_writer_saved(c->writer) : -1;

    return step > c->saved ? step : c->saved;
}

enum vp_status vp_checkpoints_warn_aside(const char *run, vp_notice_fn warn,
                                         void *ctx, struct vp_err *err)
{
    char folder[1024 + 16];
    struct vp_ckpt_entry *list = NULL;
    struct vp_err line;
    int n = 0;

    snprintf(folder, sizeof(folder), "%s/checkpoints", run);
    VP_TRY(vp_ckpt_list_aside(folder, &list, &n, err));
    for (int i = 0; i < n; i++) {
        vp_err_set(&line, VP_OK,
                   "%s/%s: was not used, and will be removed when this run has "
                   "written a checkpoint and read it back",
                   folder, list[i].name);
        warn(ctx, line.text);
    }
    free(list);
    return VP_OK;
}
