/* Threads take tasks from a shared counter. Idle threads spin for a moment
 * before they sleep. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Spins of a worker before it sleeps: jobs of one step follow each other within
 * microseconds, and waking a thread costs tens of microseconds. */
enum { SPIN_ROUNDS = 2000 };

struct worker {
    pthread_t handle;
    struct vp_pool *pool;
    int index;
};

/* See vp_pool_note(). Aligned so that each thread writes its own cache line. */
struct note {
    _Alignas(64) atomic_int what;
};

/* The door is one word with the number of the current job, a flag that workers
 * may still join it, and the number of workers that have joined. vp_pool_run()
 * closes the door when no task is left: a worker that wakes up later cannot
 * join, and vp_pool_run() does not wait for it. */
#define DOOR_JOB(job) ((uint64_t)(job) << 32)
#define DOOR_OPEN (1ull << 31)
#define DOOR_JOINED(door) ((uint32_t)(door)&0x7fffffffu)

struct vp_pool {
    int n_threads;
    void (*setup)(void *ctx, int thread);
    void *setup_ctx;
    struct worker *workers; /* n_threads - 1; thread 0 is the caller */
    struct note *notes;     /* n_threads */
    int n_started;

    /* The current job; written while no thread runs it. */
    vp_pool_fn fn;
    void *ctx;
    int n_tasks;
    uint32_t job;
    atomic_int next_task;
    atomic_uint n_left; /* workers that have joined and finished */
    _Atomic uint64_t door;
    atomic_bool stop;

    pthread_mutex_t lock; /* protects sleeping on `wake` */
    pthread_cond_t wake;
    atomic_int n_sleeping;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void run_tasks(struct vp_pool *pool, int thread)
{
    int task;

    while ((task = atomic_fetch_add(&pool->next_task, 1)) < pool->n_tasks)
        pool->fn(pool->ctx, task, thread);
}

/* Waits for a job other than `seen` and returns its number. */
static uint32_t wait_for_job(struct vp_pool *pool, uint32_t seen)
{
    uint32_t job;

    for (int i = 0; i < SPIN_ROUNDS; i++) {
        job = (uint32_t)(atomic_load(&pool->door) >> 32);
        if (job != seen)
            return job;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while ((job = (uint32_t)(atomic_load(&pool->door) >> 32)) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
    return job;
}

/* Returns false if the door of `job` is closed already. */
static bool join(struct vp_pool *pool, uint32_t job)
{
    uint64_t door = atomic_load(&pool->door);

    while (door >> 32 == job && door & DOOR_OPEN)
        if (atomic_compare_exchange_weak(&pool->door, &door, door + 1))
            return true;
    return false;
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct vp_pool *pool = worker->pool;
    uint32_t seen = 0;

    if (pool->setup)
        pool->setup(pool->setup_ctx, worker->index);
    for (;;) {
        seen = wait_for_job(pool, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        if (!join(pool, seen))
            continue;
        vp_pool_note(pool, worker->index, vp_pool_noted(pool, 0));
        run_tasks(pool, worker->index);
        vp_pool_note(pool, worker->index, VP_POOL_IDLE);
        atomic_fetch_add(&pool->n_left, 1);
    }
}

static void open_door(struct vp_pool *pool)
{
    pool->job++;
    atomic_store(&pool->door, DOOR_JOB(pool->job) | DOOR_OPEN);
    if (atomic_load(&pool->n_sleeping) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

enum vp_status vp_pool_create(int n_threads,
                              void (*setup)(void *ctx, int thread), void *ctx,
                              struct vp_pool **out)
{
    enum vp_status st = VP_ERR_NOMEM;
    struct vp_pool *pool;

    VP_BUG_ON(n_threads < 1);
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return VP_ERR_NOMEM;
    pool->n_threads = n_threads;
    pool->setup = setup;
    pool->setup_ctx = ctx;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = calloc((size_t)n_threads, sizeof(*pool->workers));
    pool->notes = aligned_alloc(_Alignof(struct note),
                                (size_t)n_threads * sizeof(*pool->notes));
    if (!pool->workers || !pool->notes)
        goto err_free_pool;
    for (int i = 0; i < n_threads; i++)
        atomic_init(&pool->notes[i].what, VP_POOL_IDLE);
    for (int i = 0; i < n_threads - 1; i++) {
        struct worker *worker = &pool->workers[i];

        worker->pool = pool;
        worker->index = i + 1;
        if (pthread_create(&worker->handle, NULL, worker_main, worker) != 0) {
            st = VP_ERR_UNSUPPORTED;
            goto err_free_pool;
        }
        pool->n_started++;
    }
    *out = pool;
    return VP_OK;

err_free_pool:
    vp_pool_free(pool);
    return st;
}

void vp_pool_free(struct vp_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    open_door(pool);
    for (int i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].handle, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->notes);
    free(pool->workers);
    free(pool);
}

int vp_pool_threads(const struct vp_pool *pool)
{
    return pool->n_threads;
}

void vp_pool_run(struct vp_pool *pool, int n_tasks, vp_pool_fn fn, void *ctx)
{
    uint32_t n_joined;
    int note;

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
    open_door(pool);
    run_tasks(pool, 0);
    n_joined = DOOR_JOINED(atomic_fetch_and(&pool->door, ~DOOR_OPEN));
    note = vp_pool_noted(pool, 0);
    vp_pool_note(pool, 0, VP_POOL_IDLE);
    /* Tasks never block, so this wait lasts at most as long as the longest
     * task. Yielding lets workers run if there are more threads than cores. */
    for (int i = 0; atomic_load(&pool->n_left) < n_joined; i++) {
        if (i > SPIN_ROUNDS)
            sched_yield();
        relax();
    }
    vp_pool_note(pool, 0, note);
}

void vp_pool_note(struct vp_pool *pool, int thread, int what)
{
    atomic_store_explicit(&pool->notes[thread].what, what,
                          memory_order_relaxed);
}

int vp_pool_noted(const struct vp_pool *pool, int thread)
{
    return atomic_load_explicit(&pool->notes[thread].what,
                                memory_order_relaxed);
}
