/* The facts of a checkpoint (ckpt/facts.h) that vpipe writes and reads: names
 * of arrays, counts, and the configuration with which a run may be resumed. */
#ifndef VP_RUN_CHECKPOINT_FACTS_H
#define VP_RUN_CHECKPOINT_FACTS_H

#include "ckpt/ckpt.h"
#include "ckpt/facts.h"
#include "ckpt/safetensors.h"
#include "config/config.h"
#include "run/notice.h"
#include "runtime/trainer/trainer.h"

/* The name of an array in the files: a weight has the published name of its
 * parameter; moments and older versions have a prefix. NULL without memory. */
const char *vp_state_file_name(struct vp_arena *arena,
                               const struct vp_state_item *item);
/* Type and shape of the array in the files: that of the published files. */
struct vp_st_tensor vp_state_file_shape(const struct vp_state_item *item);

/* Reads an array of the state from a checkpoint. */
enum vp_status vp_checkpoint_load(const struct vp_ckpt *ckpt,
                                  const struct vp_state_item *item, float *out,
                                  struct vp_err *err);

/* Creates the facts of a run in its present state. VP_ERR_NOMEM. */
enum vp_status vp_checkpoint_facts_create(const struct vp_config *config,
                                          const struct vp_data *data,
                                          const struct vp_trainer *trainer,
                                          struct vp_facts **out);

/* Creates the facts of weights that no run has trained: `config` makes their
 * model, which has `n_blocks`. Any run whose model is the same may go on from
 * them. VP_ERR_NOMEM. */
enum vp_status vp_checkpoint_facts_import(const struct vp_config *config,
                                          int n_blocks, struct vp_facts **out);
/* Whether they are those of vp_checkpoint_facts_import(). */
bool vp_checkpoint_facts_imported(const struct vp_facts *facts);
/* The model of a checkpoint as lines of a configuration; the caller frees the
 * text. */
enum vp_status vp_checkpoint_facts_model(const struct vp_facts *facts,
                                         char **yaml_out, struct vp_err *err);

/* Refuses a configuration whose model has another shape than that of `other`,
 * or of the checkpoint with `facts` (one of them is NULL), by the first key that
 * differs. `place` is named in the message. Tied embeddings may be untied:
 * `*untied_out` is set to true then. */
enum vp_status vp_checkpoint_shape_check(const struct vp_config *config,
                                         const struct vp_config *other,
                                         const struct vp_facts *facts,
                                         const char *place, bool *untied_out,
                                         struct vp_err *err);

/* Refuses a configuration that differs from the checkpoint's in a key that must
 * not change. `place` is the checkpoint, for messages. */
enum vp_status vp_checkpoint_facts_check(const struct vp_facts *facts,
                                         const struct vp_config *config,
                                         const struct vp_data *data,
                                         const char *place, struct vp_err *err);

/* Returns the lists of auto that the run was saved with, if the keys that they
 * depend on are the same; NULL: make new ones. Borrowed from `facts`. */
const char *vp_checkpoint_facts_schedule(const struct vp_facts *facts,
                                         const struct vp_config *config);
/* The value of a key of the configuration that the run was saved with, as text;
 * NULL: it is not kept. Borrowed from `facts`. */
const char *vp_checkpoint_facts_value(const struct vp_facts *facts,
                                      const char *key);
/* The text of the schedule file that the run was trained with; NULL: none.
 * Borrowed from `facts`. */
const char *vp_checkpoint_facts_schedule_file(const struct vp_facts *facts);

/* Calls `notice` with one line if keys differ that may change and that alter
 * what is learnt. */
void vp_checkpoint_facts_compare(const struct vp_facts *facts,
                                 const struct vp_config *config,
                                 vp_notice_fn notice, void *ctx);

/* Reads where a run of `n_blocks` stood; `progress->step` is that of the
 * manifest, `progress->minibatch` is set. VP_ERR_INVALID for facts that no run
 * can have written, whatever their checksum. */
enum vp_status vp_checkpoint_facts_progress(const struct vp_facts *facts,
                                            const char *place, int n_blocks,
                                            struct vp_progress *progress,
                                            struct vp_block_state *blocks_out,
                                            struct vp_err *err);

#endif
