/* One pool of compute threads per rank. Work is cut into tasks by shape alone;
 * threads take tasks in any order, so results never depend on their number. */
#ifndef VP_BASE_POOL_H
#define VP_BASE_POOL_H

#include "base/status.h"

struct vp_pool;

/* Runs task `task` of a job; `thread` (0 .. threads-1) selects scratch. */
typedef void (*vp_pool_fn)(void *ctx, int task, int thread);

/* `n_threads` includes the caller, so 1 starts no thread. Each thread that is
 * started calls `setup(ctx, thread)` first (may be NULL). VP_ERR_UNSUPPORTED if
 * the system refuses to start one (vp_err_thread()). */
enum vp_status vp_pool_create(int n_threads,
                              void (*setup)(void *ctx, int thread), void *ctx,
                              struct vp_pool **out);
void vp_pool_free(struct vp_pool *pool);

int vp_pool_threads(const struct vp_pool *pool);

/* Runs tasks 0 .. n_tasks-1 and returns when all are done. Only the thread
 * that owns the pool may call it; jobs do not nest. */
void vp_pool_run(struct vp_pool *pool, int n_tasks, vp_pool_fn fn, void *ctx);

/* What a thread is at, for profiles: any number. Workers begin a job with the
 * caller's; any thread may look. */
enum { VP_POOL_IDLE = 0 };
void vp_pool_note(struct vp_pool *pool, int thread, int what);
int vp_pool_noted(const struct vp_pool *pool, int thread);

#endif
