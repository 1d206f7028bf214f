/* Saves checkpoints in the background. The state is copied to a snapshot: host
 * memory that is allocated at the start and has the layout of the files. A
 * thread writes the snapshot to disk while training continues.
 *
 *   begin(step)  ranks put their tensors  commit(facts)  ...  begin(step) ...
 *                                         |-- thread writes --| */
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
    int block; /* from 0 */
    const char *name;
    enum vp_st_type type;
    int n_dims;
    int64_t dims[VP_ST_MAX_DIMS]; /* in the file */
    /* The caller puts a matrix of F32 as [dims[1], dims[0]]; the writer's
     * thread transposes it before writing. */
    bool transposed;
};

/* Allocates all memory and starts the thread. Prepares `folder` (see
 * vp_ckpt_prepare()) unless there is a `team`, whose lead has prepared it.
 * `team` is borrowed and may be NULL. Copies names. Keeps the `keep` newest
 * checkpoints and the best; 0 keeps all. Returns VP_ERR_INVALID if a name is
 * used twice or is not UTF-8. */
enum vp_status vp_ckpt_writer_create(const char *folder,
                                     const struct vp_ckpt_team *team, int keep,
                                     const struct vp_ckpt_item *items,
                                     int n_items, struct vp_ckpt_writer **out,
                                     struct vp_err *err);

/* Sets vp_ckpt_save.before_publish, which the writer's thread calls. Must be
 * called before the first commit. */
void vp_ckpt_writer_before_publish(struct vp_ckpt_writer *writer,
                                   enum vp_status (*fn)(void *ctx,
                                                        struct vp_err *err),
                                   void *ctx);

/* Makes the writer's thread touch the pages of the snapshot now. Otherwise the
 * kernel provides them at the first use, which delays training. */
void vp_ckpt_writer_touch(struct vp_ckpt_writer *writer);

/* Frees the writer. Cancels a write in progress after its current disk call;
 * call vp_ckpt_writer_finish() first to complete it. */
void vp_ckpt_writer_free(struct vp_ckpt_writer *writer);

/* Returns the bytes of one checkpoint on disk without its manifest. The
 * writer's memory is that plus at most a page per block and the largest matrix
 * to transpose. */
int64_t vp_ckpt_writer_bytes(const struct vp_ckpt_writer *writer);

/* Begins a checkpoint of `step`. Waits up to `timeout_ms` for the previous
 * write; returns VP_ERR_TIMEOUT after that. If the previous write failed, its
 * error is returned once and no checkpoint is begun. A second begin without a
 * commit replaces the first. Begin, commit and finish must be called by one
 * thread. */
enum vp_status vp_ckpt_writer_begin(struct vp_ckpt_writer *writer, int64_t step,
                                    int timeout_ms, struct vp_err *err);

/* Copies item `item` to the snapshot; allocates nothing. Allowed between begin
 * and commit. Threads may put different items at the same time; the caller must
 * synchronise them with commit. */
void vp_ckpt_writer_put(struct vp_ckpt_writer *writer, int item,
                        const void *data);

/* Returns the memory of an item in the snapshot. The caller fills it, for
 * example from a device, instead of calling vp_ckpt_writer_put(). */
void *vp_ckpt_writer_buffer(struct vp_ckpt_writer *writer, int item);

/* Gives the snapshot to the thread, which writes it. Copies `facts`, which may
 * be NULL. `score`: loss of an evaluation, NAN = none. Returns VP_ERR_INVALID
 * and writes nothing if an item was not put. */
enum vp_status vp_ckpt_writer_commit(struct vp_ckpt_writer *writer,
                                     const struct vp_facts *facts, double score,
                                     struct vp_err *err);

/* Waits up to `timeout_ms` for a write in progress, if any. Returns its error,
 * once. */
enum vp_status vp_ckpt_writer_finish(struct vp_ckpt_writer *writer,
                                     int timeout_ms, struct vp_err *err);

/* Returns the last step that is on disk, -1 if none. Thread-safe. */
int64_t vp_ckpt_writer_saved(struct vp_ckpt_writer *writer);

#endif
