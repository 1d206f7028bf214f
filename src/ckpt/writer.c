/* The background writer of checkpoints: snapshot, thread, and the calls of the
 * training loop. */
#include "ckpt/writer.h"

#include "base/clock.h"
#include "base/limit.h"
#include "base/memory.h"
#include "ckpt/ckpt.h"
#include "ckpt/io.h"
#include "ckpt/manifest.h"
#include "ckpt/store.h"
#include "ckpt/transpose.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    /* The thread wakes up at least this often to check its state. */
    WRITER_WAIT_MS = 1000,
    FACTS_BYTES = 64 << 10, /* initial buffer for facts */
};

enum state { STATE_IDLE, STATE_FILLING, STATE_WRITING };

struct item {
    const char *name;
    unsigned char *data; /* in the snapshot */
    size_t n_bytes;
    int64_t rows, cols; /* shape, as put, of a matrix to transpose; 0: none */
    atomic_bool there;  /* was put since begin */
};

struct vp_ckpt_writer {
    struct vp_arena arena;
    char *folder;
    const struct vp_ckpt_team *team;
    int keep;
    int n_items;
    struct item *items;
    int n_images;
    struct vp_ckpt_image *images;
    unsigned char *snapshot; /* content of the files, concatenated */
    size_t n_snapshot;
    float *transposed; /* buffer of the thread for one matrix */
    pthread_t thread;
    bool has_thread;
    atomic_bool give_up;
    enum vp_status (*before_publish)(void *ctx, struct vp_err *err);
    void *publish_ctx;

    /* In STATE_WRITING only the thread uses these, otherwise only the
     * caller. */
    int64_t step;
    double score;
    char *facts; /* a JSON object */
    size_t facts_room;

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    enum state state;
    bool stop, touch;
    int64_t saved;
    enum vp_status failed; /* not yet reported */
    struct vp_err err;
};

/* ---- The thread --------------------------------------------------------- */

/* Transposes in the snapshot, on the writer's thread, so that put is only a
 * copy. */
static void transpose_items(struct vp_ckpt_writer *w)
{
    for (int i = 0; i < w->n_items; i++) {
        struct item *item = &w->items[i];

        if (item->rows == 0)
            continue;
        vp_transpose(w->transposed, (const float *)item->data, item->rows,
                     item->cols);
        memcpy(item->data, w->transposed, item->n_bytes);
    }
}

/* Reads back the step that was just written. */
static enum vp_status read_back(const struct vp_ckpt_writer *w,
                                struct vp_err *err)
{
    char path[VP_IO_PATH_MAX], name[48];
    struct vp_ckpt *ckpt = NULL;

    snprintf(name, sizeof(name), "step-%lld", (long long)w->step);
    if (vp_io_join(path, w->folder, name) != 0)
        return vp_err_set(err, VP_ERR_IO, "%.80s...: path is too long",
                          w->folder);
    VP_TRY(vp_ckpt_open(path, &ckpt, err));
    vp_ckpt_close(ckpt);
    return VP_OK;
}

/* Removes the checkpoints that were set aside when the run started. They are
 * kept until this run has written a checkpoint that can be read. */
static enum vp_status remove_aside(const struct vp_ckpt_writer *w,
                                   struct vp_err *err)
{
    struct vp_ckpt_entry *list = NULL;
    int n = 0;

    VP_TRY(vp_ckpt_list_aside(w->folder, &list, &n, err));
    free(list);
    if (n == 0)
        return VP_OK;
    VP_TRY(read_back(w, err));
    return vp_ckpt_drop_aside(w->folder, err);
}

static enum vp_status write_step(struct vp_ckpt_writer *w, bool *saved_out,
                                 struct vp_err *err)
{
    const struct vp_ckpt_save save = {
        .step = w->step,
        .score = w->score,
        .facts = w->facts,
        .n_images = w->n_images,
        .images = w->images,
        .give_up = &w->give_up,
        .team = w->team,
        .before_publish = w->before_publish,
        .publish_ctx = w->publish_ctx,
    };

    transpose_items(w);
    VP_TRY(vp_ckpt_save(w->folder, &save, err));
    *saved_out = true;
    if (w->team && !w->team->is_lead)
        return VP_OK;
    VP_TRY(remove_aside(w, err));
    return vp_ckpt_prune(w->folder, w->step, w->keep, err);
}

/* Signals must be delivered to other threads of the program. */
static void block_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

/* Touches the pages of the snapshot in pieces; stops if a checkpoint is begun.
 * The caller holds `lock`, which is released while the kernel works. */
static void touch_snapshot(struct vp_ckpt_writer *w)
{
    enum { PIECE = 64 << 20 };

    for (size_t at = 0;
         at < w->n_snapshot && !w->stop && w->state == STATE_IDLE;
         at += PIECE) {
        size_t n = w->n_snapshot - at < PIECE ? w->n_snapshot - at : PIECE;

        pthread_mutex_unlock(&w->lock);
        vp_pages_touch(w->snapshot + at, n);
        pthread_mutex_lock(&w->lock);
    }
    w->touch = false;
}

static void *writer_main(void *arg)
{
    struct vp_ckpt_writer *w = arg;

    block_signals();
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct timespec at = vp_clock_after(WRITER_WAIT_MS);
        struct vp_err err = { .text = "" };
        bool saved = false;
        enum vp_status st;

        if (w->touch)
            touch_snapshot(w);
        if (w->stop)
            break;
        if (w->state != STATE_WRITING) {
            pthread_cond_timedwait(&w->changed, &w->lock, &at);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        st = write_step(w, &saved, &err);
        pthread_mutex_lock(&w->lock);
        if (saved)
            w->saved = w->step;
        w->failed = st;
        w->err = err;
        w->state = STATE_IDLE;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- Create ------------------------------------------------------------- */

static const struct vp_st_meta file_meta[] = { { "format", "pt" } };

/* Files start at multiples of this in the snapshot, for O_DIRECT. */
enum { IMAGE_ALIGN = 4096 };

/* Temporary data of vp_ckpt_writer_create(). */
struct plan {
    const struct vp_ckpt_item *items;
    int n_items;
    int *order;                   /* [n_items] items sorted by block */
    struct vp_st_tensor *tensors; /* [n_items] in the same order */
    struct vp_st_head *heads;     /* [n_images] */
};

static enum vp_status no_memory(const struct vp_ckpt_writer *w,
                                struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "%s: out of memory; the writer needs room for one copy "
                      "of weights and optimizer state",
                      w->folder ? w->folder : "checkpoints");
}

static int compare_block(const void *a, const void *b, void *ctx)
{
    const struct vp_ckpt_item *items = ctx;
    int x = *(const int *)a, y = *(const int *)b;

    if (items[x].block != items[y].block)
        return items[x].block < items[y].block ? -1 : 1;
    return (x > y) - (x < y);
}

static int compare_name(const void *a, const void *b, void *ctx)
{
    const struct vp_ckpt_item *items = ctx;

    return strcmp(items[*(const int *)a].name, items[*(const int *)b].name);
}

/* Names must be unique across all files. */
static enum vp_status check_names(const struct vp_ckpt_writer *w,
                                  struct plan *plan, struct vp_err *err)
{
    const struct vp_ckpt_item *items = plan->items;
    int *order = plan->order;

    qsort_r(order, (size_t)plan->n_items, sizeof(*order), compare_name,
            (void *)items);
    for (int i = 1; i < plan->n_items; i++) {
        if (strcmp(items[order[i]].name, items[order[i - 1]].name) == 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: tensor %.200s: the name is used twice",
                              w->folder, items[order[i]].name);
    }
    return VP_OK;
}

/* Groups the items by file and makes the head of each file. */
static enum vp_status plan_images(struct vp_ckpt_writer *w, struct plan *plan,
                                  struct vp_err *err)
{
    int *order = plan->order;
    int n = plan->n_items;

    qsort_r(order, (size_t)n, sizeof(*order), compare_block,
            (void *)plan->items);
    for (int i = 0; i < n; i++) {
        const struct vp_ckpt_item *item = &plan->items[order[i]];
        struct vp_st_tensor *tensor = &plan->tensors[i];

        tensor->name = item->name;
        tensor->type = item->type;
        tensor->n_dims = item->n_dims;
        memcpy(tensor->dims, item->dims, sizeof(tensor->dims));
    }
    for (int begin = 0, end; begin < n; begin = end) {
        struct vp_ckpt_image *image = &w->images[w->n_images];
        struct vp_st_head *head = &plan->heads[w->n_images];

        image->block = plan->items[order[begin]].block;
        VP_BUG_ON(image->block < 0);
        for (end = begin; end < n; end++)
            if (plan->items[order[end]].block != image->block)
                break;
        VP_TRY(vp_st_layout(&plan->tensors[begin], end - begin, file_meta,
                            (int)VP_COUNT_OF(file_meta), head, err));
        image->n_bytes = head->file_bytes;
        w->n_images++;
        w->n_snapshot += vp_align_up((size_t)head->file_bytes, IMAGE_ALIGN);
        if (w->n_snapshot > SIZE_MAX / 4)
            return no_memory(w, err);
    }
    return VP_OK;
}

/* Allocates the snapshot, writes the heads, which never change, and sets the
 * address of each item. */
static enum vp_status fill_snapshot(struct vp_ckpt_writer *w,
                                    const struct plan *plan, struct vp_err *err)
{
    unsigned char *at;
    void *pages = NULL;
    int k = 0;

    if (vp_pages_alloc(w->n_snapshot, &pages) != VP_OK) {
        w->n_snapshot = 0;
        return no_memory(w, err);
    }
    w->snapshot = at = pages;
    for (int i = 0; i < w->n_images; i++) {
        const struct vp_st_head *head = &plan->heads[i];

        VP_BUG_ON(!head->bytes);
        memcpy(at, head->bytes, head->n_bytes);
        w->images[i].bytes = at;
        while (k < plan->n_items &&
               plan->items[plan->order[k]].block == w->images[i].block) {
            struct item *item = &w->items[plan->order[k]];

            item->data = at + plan->tensors[k].offset;
            item->n_bytes = (size_t)plan->tensors[k].n_bytes;
            k++;
        }
        at += vp_align_up((size_t)head->file_bytes, IMAGE_ALIGN);
    }
    return VP_OK;
}

/* Marks the items to transpose and allocates the buffer for the largest. */
static enum vp_status plan_transposes(struct vp_ckpt_writer *w,
                                      const struct plan *plan,
                                      struct vp_err *err)
{
    size_t most = 0;

    for (int i = 0; i < plan->n_items; i++) {
        const struct vp_ckpt_item *from = &plan->items[i];
        struct item *item = &w->items[i];

        if (!from->transposed || item->n_bytes == 0)
            continue;
        VP_BUG_ON(from->n_dims != 2 || from->type != VP_ST_F32);
        item->rows = from->dims[1];
        item->cols = from->dims[0];
        most = item->n_bytes > most ? item->n_bytes : most;
    }
    if (most > 0) {
        w->transposed = malloc(most);
        if (!w->transposed)
            return no_memory(w, err);
    }
    return VP_OK;
}

static enum vp_status plan_all(struct vp_ckpt_writer *w, struct plan *plan,
                               struct vp_err *err)
{
    struct vp_arena *arena = &w->arena;
    size_t n = (size_t)plan->n_items;

    w->items = vp_arena_alloc(arena, n * sizeof(*w->items));
    w->images = vp_arena_alloc(arena, n * sizeof(*w->images));
    plan->order = calloc(n + 1, sizeof(*plan->order));
    plan->tensors = calloc(n + 1, sizeof(*plan->tensors));
    plan->heads = calloc(n + 1, sizeof(*plan->heads));
    if (!w->items || !w->images || !plan->order || !plan->tensors ||
        !plan->heads)
        return no_memory(w, err);
    w->n_items = plan->n_items;
    for (int i = 0; i < plan->n_items; i++) {
        plan->order[i] = i;
        w->items[i].name = vp_arena_strdup(arena, plan->items[i].name);
        if (!w->items[i].name)
            return no_memory(w, err);
    }
    VP_TRY(check_names(w, plan, err));
    VP_TRY(plan_images(w, plan, err));
    VP_TRY(fill_snapshot(w, plan, err));
    return plan_transposes(w, plan, err);
}

static enum vp_status lay_out(struct vp_ckpt_writer *w,
                              const struct vp_ckpt_item *items, int n_items,
                              struct vp_err *err)
{
    struct plan plan = { .items = items, .n_items = n_items };
    enum vp_status st = plan_all(w, &plan, err);

    for (int i = 0; plan.heads && i < n_items; i++)
        free(plan.heads[i].bytes);
    free(plan.heads);
    free(plan.tensors);
    free(plan.order);
    return st;
}

static enum vp_status init_sync(struct vp_ckpt_writer *w)
{
    if (vp_limit_cond_init(&w->changed) != 0)
        return VP_ERR_NOMEM;
    pthread_mutex_init(&w->lock, NULL);
    return VP_OK;
}

enum vp_status vp_ckpt_writer_create(const char *folder,
                                     const struct vp_ckpt_team *team, int keep,
                                     const struct vp_ckpt_item *items,
                                     int n_items, struct vp_ckpt_writer **out,
                                     struct vp_err *err)
{
    struct vp_ckpt_writer *w = calloc(1, sizeof(*w));
    enum vp_status st;

    if (!w || init_sync(w) != VP_OK) {
        free(w);
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", folder);
    }
    w->keep = keep;
    w->team = team;
    w->saved = -1;
    w->folder = vp_arena_strdup(&w->arena, folder);
    w->facts = malloc(FACTS_BYTES);
    w->facts_room = FACTS_BYTES;
    st = w->folder && w->facts ? VP_OK : no_memory(w, err);
    if (st == VP_OK && !team)
        st = vp_ckpt_prepare(folder, err);
    if (st == VP_OK)
        st = lay_out(w, items, n_items, err);
    if (st == VP_OK) {
        w->has_thread = pthread_create(&w->thread, NULL, writer_main, w) == 0;
        if (!w->has_thread)
            st = vp_err_set(err, VP_ERR_NOMEM, "%s: no thread for the writer",
                            folder);
    }
    if (st != VP_OK) {
        vp_ckpt_writer_free(w);
        return st;
    }
    *out = w;
    return VP_OK;
}

void vp_ckpt_writer_before_publish(struct vp_ckpt_writer *w,
                                   enum vp_status (*fn)(void *ctx,
                                                        struct vp_err *err),
                                   void *ctx)
{
    w->before_publish = fn;
    w->publish_ctx = ctx;
}

void vp_ckpt_writer_touch(struct vp_ckpt_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->touch = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void vp_ckpt_writer_free(struct vp_ckpt_writer *w)
{
    if (!w)
        return;
    if (w->has_thread) {
        atomic_store(&w->give_up, true);
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    vp_pages_free(w->snapshot, w->n_snapshot);
    free(w->transposed);
    free(w->facts);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    vp_arena_release(&w->arena);
    free(w);
}

int64_t vp_ckpt_writer_bytes(const struct vp_ckpt_writer *w)
{
    int64_t n = 0;

    for (int i = 0; i < w->n_images; i++)
        n += w->images[i].n_bytes;
    return n;
}

/* ---- Save --------------------------------------------------------------- */

/* Waits until the thread is not writing. Returns its error and clears it. The
 * caller holds `lock`. */
static enum vp_status wait_idle(struct vp_ckpt_writer *w, int timeout_ms,
                                struct vp_err *err)
{
    struct vp_limit limit = vp_limit_ms(timeout_ms);
    enum vp_status st;

    while (w->state == STATE_WRITING) {
        struct timespec at = vp_limit_next_look(&limit);

        if (vp_limit_is_over(&limit))
            return vp_err_set(err, VP_ERR_TIMEOUT,
                              "%s: step %lld is not written within %d ms; "
                              "check the disk or raise checkpoint_every",
                              w->folder, (long long)w->step, timeout_ms);
        pthread_cond_timedwait(&w->changed, &w->lock, &at);
    }
    st = w->failed;
    w->failed = VP_OK;
    if (st != VP_OK && err)
        *err = w->err;
    return st;
}

enum vp_status vp_ckpt_writer_begin(struct vp_ckpt_writer *w, int64_t step,
                                    int timeout_ms, struct vp_err *err)
{
    enum vp_status st;

    VP_BUG_ON(step < 0 || step > VP_CKPT_MAX_STEP);
    pthread_mutex_lock(&w->lock);
    st = wait_idle(w, timeout_ms, err);
    if (st == VP_OK) {
        for (int i = 0; i < w->n_items; i++)
            atomic_store_explicit(&w->items[i].there, false,
                                  memory_order_relaxed);
        w->step = step;
        w->state = STATE_FILLING;
    }
    pthread_mutex_unlock(&w->lock);
    return st;
}

void *vp_ckpt_writer_buffer(struct vp_ckpt_writer *w, int item)
{
    VP_BUG_ON(item < 0 || item >= w->n_items);
    VP_BUG_ON(w->state != STATE_FILLING);
    atomic_store_explicit(&w->items[item].there, true, memory_order_relaxed);
    return w->items[item].data;
}

void vp_ckpt_writer_put(struct vp_ckpt_writer *w, int item, const void *data)
{
    memcpy(vp_ckpt_writer_buffer(w, item), data, w->items[item].n_bytes);
}

/* Writes the facts as text to w->facts, which grows if needed. */
static enum vp_status copy_facts(struct vp_ckpt_writer *w,
                                 const struct vp_facts *facts,
                                 struct vp_err *err)
{
    size_t n;

    if (!facts) {
        snprintf(w->facts, w->facts_room, "{}");
        return VP_OK;
    }
    n = json_dumpb(vp_facts_object(facts), w->facts, w->facts_room - 1,
                   JSON_COMPACT);
    if (n >= w->facts_room) {
        char *more = realloc(w->facts, 2 * n);

        if (!more)
            return no_memory(w, err);
        w->facts = more;
        w->facts_room = 2 * n;
        n = json_dumpb(vp_facts_object(facts), w->facts, n, JSON_COMPACT);
    }
    if (n == 0)
        return no_memory(w, err);
    w->facts[n] = '\0';
    return VP_OK;
}

enum vp_status vp_ckpt_writer_commit(struct vp_ckpt_writer *w,
                                     const struct vp_facts *facts, double score,
                                     struct vp_err *err)
{
    VP_BUG_ON(w->state != STATE_FILLING);
    for (int i = 0; i < w->n_items; i++) {
        if (!atomic_load_explicit(&w->items[i].there, memory_order_relaxed))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: step %lld: tensor %.200s was not put",
                              w->folder, (long long)w->step, w->items[i].name);
    }
    VP_TRY(copy_facts(w, facts, err));
    w->score = score;
    pthread_mutex_lock(&w->lock);
    w->state = STATE_WRITING;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return VP_OK;
}

enum vp_status vp_ckpt_writer_finish(struct vp_ckpt_writer *w, int timeout_ms,
                                     struct vp_err *err)
{
    enum vp_status st;

    pthread_mutex_lock(&w->lock);
    st = wait_idle(w, timeout_ms, err);
    pthread_mutex_unlock(&w->lock);
    return st;
}

int64_t vp_ckpt_writer_saved(struct vp_ckpt_writer *w)
{
    int64_t step;

    pthread_mutex_lock(&w->lock);
    step = w->saved;
    pthread_mutex_unlock(&w->lock);
    return step;
}
