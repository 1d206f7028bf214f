#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* A worker spins this often before it sleeps: jobs of one step follow each
 * other within microseconds, and waking a sleeper costs tens of them. */
enum { SPIN_ROUNDS = 2000 };

struct worker {
    pthread_t handle;
    struct vp_pool *pool;
    int index;
};

struct vp_pool {
    int n_threads;
    void (*setup)(int thread);
    struct worker *workers; /* n_threads - 1; thread 0 is the caller */
    int n_started;

    /* The current job. `ticket` is odd-free: it counts jobs. A worker joins a
     * job by seeing a new ticket, and leaves it by adding to `n_left`. */
    vp_pool_fn fn;
    void *ctx;
    int n_tasks;
    atomic_int next_task;
    atomic_int n_left;
    atomic_uint ticket;
    atomic_bool stop;

    pthread_mutex_t lock; /* protects sleeping on `wake` */
    pthread_cond_t wake;
    atomic_int n_sleeping;
};

static void run_tasks(struct vp_pool *pool, int thread)
{
    int task;

    while ((task = atomic_fetch_add(&pool->next_task, 1)) < pool->n_tasks)
        pool->fn(pool->ctx, task, thread);
}

static unsigned wait_for_job(struct vp_pool *pool, unsigned seen)
{
    unsigned ticket;

    for (int i = 0; i < SPIN_ROUNDS; i++) {
        ticket = atomic_load(&pool->ticket);
        if (ticket != seen)
            return ticket;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while ((ticket = atomic_load(&pool->ticket)) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
    return ticket;
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct vp_pool *pool = worker->pool;
    unsigned seen = 0;

    if (pool->setup)
        pool->setup(worker->index);
    for (;;) {
        seen = wait_for_job(pool, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        run_tasks(pool, worker->index);
        atomic_fetch_add(&pool->n_left, 1);
    }
}

static void post_job(struct vp_pool *pool)
{
    atomic_fetch_add(&pool->ticket, 1);
    if (atomic_load(&pool->n_sleeping) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

enum vp_status vp_pool_create(int n_threads, void (*setup)(int thread),
                              struct vp_pool **out)
{
    struct vp_pool *pool;

    VP_BUG_ON(n_threads < 1);
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return VP_ERR_NOMEM;
    pool->n_threads = n_threads;
    pool->setup = setup;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = calloc((size_t)n_threads, sizeof(*pool->workers));
    if (!pool->workers)
        goto err_free_pool;
    for (int i = 0; i < n_threads - 1; i++) {
        struct worker *worker = &pool->workers[i];

        worker->pool = pool;
        worker->index = i + 1;
        if (pthread_create(&worker->handle, NULL, worker_main, worker) != 0)
            goto err_free_pool;
        pool->n_started++;
    }
    if (setup)
        setup(0);
    *out = pool;
    return VP_OK;

err_free_pool:
    vp_pool_free(pool);
    return VP_ERR_NOMEM;
}

void vp_pool_free(struct vp_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    post_job(pool);
    for (int i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].handle, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

int vp_pool_threads(const struct vp_pool *pool)
{
    return pool->n_threads;
}

void vp_pool_run(struct vp_pool *pool, int n_tasks, vp_pool_fn fn, void *ctx)
{
    if (n_tasks <= 0)
        return;
    if (pool->n_threads == 1 || n_tasks == 1) {
        for (int task = 0; task < n_tasks; task++)
            fn(ctx, task, 0);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    pool->n_tasks = n_tasks;
    atomic_store(&pool->next_task, 0);
    atomic_store(&pool->n_left, 0);
    post_job(pool);
    run_tasks(pool, 0);
    /* Workers never block inside a task, so this wait is as long as the
     * longest task; yielding keeps an oversubscribed machine moving. */
    for (int i = 0; atomic_load(&pool->n_left) < pool->n_threads - 1; i++) {
        if (i > SPIN_ROUNDS)
            sched_yield();
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}
