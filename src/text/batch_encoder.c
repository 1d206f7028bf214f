/* Groups texts into tasks for a thread pool; each task has its own list of
 * ids. */
#include "text/batch_encoder.h"

#include "base/pool.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Consecutive texts of about this size form one task. */
enum { TASK_BYTES = 1 << 16 };

struct task {
    int first, end; /* texts */
    struct vp_ids ids;
};

struct result {
    int task;
    size_t start, n; /* range in the ids of the task */
};

struct vp_batch_encoder {
    struct vp_pool *pool;
    struct vp_encoder **encoders; /* one per thread */
    struct task *tasks;
    int n_tasks, tasks_capacity;
    struct result *results;
    int results_capacity;

    /* The current run */
    const struct vp_text_span *texts;
    bool ordinary;
    atomic_int status;
};

enum vp_status vp_batch_encoder_create(const struct vp_tokenizer *tokenizer,
                                       int n_threads,
                                       struct vp_batch_encoder **out)
{
    struct vp_batch_encoder *batch = calloc(1, sizeof(*batch));
    enum vp_status st;

    if (!batch)
        return VP_ERR_NOMEM;
    st = vp_pool_create(n_threads, NULL, NULL, &batch->pool);
    batch->encoders = calloc((size_t)n_threads, sizeof(struct vp_encoder *));
    if (st == VP_OK && !batch->encoders)
        st = VP_ERR_NOMEM;
    for (int i = 0; st == VP_OK && i < n_threads; i++)
        st = vp_encoder_create(tokenizer, &batch->encoders[i]);
    if (st == VP_OK)
        *out = batch;
    else
        vp_batch_encoder_free(batch);
    return st;
}

void vp_batch_encoder_free(struct vp_batch_encoder *batch)
{
    if (!batch)
        return;
    for (int i = 0;
         batch->pool && batch->encoders && i < vp_pool_threads(batch->pool);
         i++)
        vp_encoder_free(batch->encoders[i]);
    for (int i = 0; i < batch->tasks_capacity; i++)
        vp_ids_release(&batch->tasks[i].ids);
    vp_pool_free(batch->pool);
    free(batch->encoders);
    free(batch->tasks);
    free(batch->results);
    free(batch);
}

static enum vp_status add_task(struct vp_batch_encoder *batch, int first,
                               int end)
{
    int capacity = 2 * batch->n_tasks + 16;
    struct task *tasks;

    if (batch->n_tasks == batch->tasks_capacity) {
        tasks = realloc(batch->tasks, (size_t)capacity * sizeof(*tasks));
        if (!tasks)
            return VP_ERR_NOMEM;
        for (int i = batch->tasks_capacity; i < capacity; i++)
            tasks[i] = (struct task){ .first = 0 };
        batch->tasks = tasks;
        batch->tasks_capacity = capacity;
    }
    batch->tasks[batch->n_tasks].first = first;
    batch->tasks[batch->n_tasks].end = end;
    batch->n_tasks++;
    return VP_OK;
}

static enum vp_status cut_tasks(struct vp_batch_encoder *batch,
                                const struct vp_text_span *texts, int n)
{
    size_t n_bytes = 0;
    int first = 0;

    batch->n_tasks = 0;
    for (int i = 0; i < n; i++) {
        n_bytes += texts[i].n_bytes;
        if (n_bytes >= TASK_BYTES || i + 1 == n) {
            VP_TRY(add_task(batch, first, i + 1));
            first = i + 1;
            n_bytes = 0;
        }
    }
    return VP_OK;
}

static void run_task(void *ctx, int number, int thread)
{
    struct vp_batch_encoder *batch = ctx;
    struct task *task = &batch->tasks[number];

    task->ids.n = 0;
    for (int i = task->first; i < task->end; i++) {
        size_t start = task->ids.n;
        enum vp_status st = vp_encoder_add(
            batch->encoders[thread], batch->texts[i].bytes,
            batch->texts[i].n_bytes, batch->ordinary, &task->ids);

        if (st != VP_OK) {
            atomic_store(&batch->status, (int)st);
            return;
        }
        batch->results[i] = (struct result){ number, start,
                                             task->ids.n - start };
    }
}

enum vp_status vp_batch_encoder_run(struct vp_batch_encoder *batch,
                                    const struct vp_text_span *texts, int n,
                                    bool ordinary)
{
    struct result *results;

    if (n > batch->results_capacity) {
        results = realloc(batch->results, (size_t)n * sizeof(*results));
        if (!results)
            return VP_ERR_NOMEM;
        batch->results = results;
        batch->results_capacity = n;
    }
    VP_TRY(cut_tasks(batch, texts, n));
    batch->texts = texts;
    batch->ordinary = ordinary;
    atomic_store(&batch->status, VP_OK);
    vp_pool_run(batch->pool, batch->n_tasks, run_task, batch);
    return (enum vp_status)atomic_load(&batch->status);
}

const uint32_t *vp_batch_encoder_ids(const struct vp_batch_encoder *batch,
                                     int i, size_t *n_out)
{
    const struct result *result = &batch->results[i];

    *n_out = result->n;
    if (result->n == 0)
        return NULL;
    return batch->tasks[result->task].ids.at + result->start;
}
