/* A pool of compute threads; each rank has one. Work is split into tasks by
 * shape alone, so results do not depend on the number of threads or on the
 * order in which they take tasks. */
#ifndef VP_BASE_POOL_H
#define VP_BASE_POOL_H

#include "base/status.h"

struct vp_pool;

/* Runs task `task` of a job; `thread` (0 .. threads-1) selects scratch. */
typedef void (*vp_pool_fn)(void *ctx, int task, int thread);

/* Starts n_threads - 1 threads: the caller of vp_pool_run() is thread 0. Each
 * new thread first calls `setup(ctx, thread)`, which may be NULL. Returns
 * VP_ERR_UNSUPPORTED if a thread cannot be started; vp_err_thread() has a
 * message. */
enum vp_status vp_pool_create(int n_threads,
                              void (*setup)(void *ctx, int thread), void *ctx,
                              struct vp_pool **out);
void vp_pool_free(struct vp_pool *pool);

int vp_pool_threads(const struct vp_pool *pool);

/* Runs tasks 0 .. n_tasks-1 and returns when all are done. Only the thread
 * that owns the pool may call it; jobs do not nest. */
void vp_pool_run(struct vp_pool *pool, int n_tasks, vp_pool_fn fn, void *ctx);

/* Set and return a number for the current work of a thread, for profiles. At
 * the start of a job, workers take the number of thread 0. Any thread may read
 * it. */
enum { VP_POOL_IDLE = 0 };
void vp_pool_note(struct vp_pool *pool, int thread, int what);
int vp_pool_noted(const struct vp_pool *pool, int thread);

#endif
