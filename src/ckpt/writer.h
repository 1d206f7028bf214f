/* Saves checkpoints while training goes on. The state is copied into host
 * memory that was set aside at the start, laid out as the files will be; a
 * thread writes it to disk.
 *
 *   begin(step)  ranks put their tensors  commit(facts)  ...  begin(step) ...
 *                                         |-- thread writes --|
 */
#ifndef VP_CKPT_WRITER_H
#define VP_CKPT_WRITER_H

#include "base/status.h"
#include "ckpt/facts.h"
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_ckpt_writer;

/* A tensor and the block whose file it goes into. */
struct vp_ckpt_item {
    int block; /* 0 .. */
    const char *name;
    enum vp_st_type type;
    int n_dims;
    int64_t dims[VP_ST_MAX_DIMS]; /* in the file */
    /* A matrix of F32 that is put as [dims[1], dims[0]]; the writer's
     * thread transposes it before it writes. */
    bool transposed;
};

/* Prepares `folder` (see vp_ckpt_prepare) and allocates all memory. A `team`
 * (NULL: none; borrowed) shares it, and its lead has prepared it before. Names
 * are copied. `keep` newest checkpoints and the best are kept; 0 keeps all.
 * VP_ERR_INVALID for a name that is used twice or is not UTF-8. */
enum vp_status vp_ckpt_writer_create(const char *folder,
                                     const struct vp_ckpt_team *team, int keep,
                                     const struct vp_ckpt_item *items,
                                     int n_items, struct vp_ckpt_writer **out,
                                     struct vp_err *err);

/* See vp_ckpt_save.before_publish; the writer's thread calls it. To be set before
 * the first commit. */
void vp_ckpt_writer_before_publish(struct vp_ckpt_writer *writer,
                                   enum vp_status (*fn)(void *ctx,
                                                        struct vp_err *err),
                                   void *ctx);

/* Memory for a checkpoint is reserved by create, and present from its first use
 * on. This makes it present now, by the writer's thread, while others train. */
void vp_ckpt_writer_touch(struct vp_ckpt_writer *writer);

/* Ends a write under way after the call to the disk that it is in; call finish
 * first to have it completed. */
void vp_ckpt_writer_free(struct vp_ckpt_writer *writer);

/* Bytes of one checkpoint on disk without its manifest; the memory set aside
 * is that, at most a page per block, and the largest matrix to transpose. */
int64_t vp_ckpt_writer_bytes(const struct vp_ckpt_writer *writer);

/* Waits until the write before is done. If that failed, its error is returned
 * once and nothing has begun. VP_ERR_TIMEOUT after `timeout_ms`. Begun twice,
 * the first is forgotten. One thread calls begin, commit and finish. */
enum vp_status vp_ckpt_writer_begin(struct vp_ckpt_writer *writer, int64_t step,
                                    int timeout_ms, struct vp_err *err);

/* Copies item `item`; allocates nothing. Between begin and commit; threads may
 * put different items at once. The caller orders put before commit. */
void vp_ckpt_writer_put(struct vp_ckpt_writer *writer, int item,
                        const void *data);

/* Returns the item's memory in the snapshot, which the caller fills (from a
 * device) instead of calling vp_ckpt_writer_put(). */
void *vp_ckpt_writer_buffer(struct vp_ckpt_writer *writer, int item);

/* Hands the state over. `facts` (NULL = none) is copied; `score` is an
 * evaluation's loss, NAN if there was none. VP_ERR_INVALID, and nothing is
 * written, if an item was not put. */
enum vp_status vp_ckpt_writer_commit(struct vp_ckpt_writer *writer,
                                     const struct vp_facts *facts, double score,
                                     struct vp_err *err);

/* Waits for the write under way, if any, and returns its error once. */
enum vp_status vp_ckpt_writer_finish(struct vp_ckpt_writer *writer,
                                     int timeout_ms, struct vp_err *err);

/* The last step that is on disk, -1 if none yet. Any thread. */
int64_t vp_ckpt_writer_saved(struct vp_ckpt_writer *writer);

#endif
