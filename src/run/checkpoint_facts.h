/* Facts of a checkpoint (ckpt/facts.h) as vpipe writes and reads them: names of
 * arrays, counters, and the configuration that a resumed run must match. */
#ifndef VP_RUN_CHECKPOINT_FACTS_H
#define VP_RUN_CHECKPOINT_FACTS_H

#include "ckpt/ckpt.h"
#include "ckpt/facts.h"
#include "ckpt/safetensors.h"
#include "config/config.h"
#include "run/notice.h"
#include "runtime/trainer/trainer.h"

/* Returns the name of an array in the files: a weight has the published name of
 * its parameter; moments and older versions have a prefix. NULL: out of
 * memory. */
const char *vp_state_file_name(struct vp_arena *arena,
                               const struct vp_state_item *item);
/* Returns type and shape of an array in the files, which are those of published
 * files. */
struct vp_st_tensor vp_state_file_shape(const struct vp_state_item *item);

/* Reads an array of the state from a checkpoint into `out`. */
enum vp_status vp_checkpoint_load(const struct vp_ckpt *ckpt,
                                  const struct vp_state_item *item, float *out,
                                  struct vp_err *err);

/* Creates the facts of a run in its current state. Returns VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_checkpoint_facts_create(const struct vp_config *config,
                                          const struct vp_data *data,
                                          const struct vp_trainer *trainer,
                                          struct vp_facts **out);

/* Creates the facts of imported weights, which no run has trained. `config`
 * describes their model, which has `n_blocks`. Any run with the same model may
 * start from them. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_checkpoint_facts_import(const struct vp_config *config,
                                          int n_blocks, struct vp_facts **out);
/* Returns true if vp_checkpoint_facts_import() made the facts. */
bool vp_checkpoint_facts_imported(const struct vp_facts *facts);
/* Returns the model of a checkpoint as lines of a configuration; the caller
 * frees the text. */
enum vp_status vp_checkpoint_facts_model(const struct vp_facts *facts,
                                         char **yaml_out, struct vp_err *err);

/* Refuses a configuration whose model has another shape than the model of
 * `other`, or of the checkpoint with `facts` (one of the two is NULL). The
 * message names the first key that differs, and `place`. Tied embeddings may be
 * untied: `*untied_out` is then set to true, and is otherwise unchanged. */
enum vp_status vp_checkpoint_shape_check(const struct vp_config *config,
                                         const struct vp_config *other,
                                         const struct vp_facts *facts,
                                         const char *place, bool *untied_out,
                                         struct vp_err *err);

/* Refuses a configuration that differs from the checkpoint's in a key that must
 * not change. `place` names the checkpoint in messages. */
enum vp_status vp_checkpoint_facts_check(const struct vp_facts *facts,
                                         const struct vp_config *config,
                                         const struct vp_data *data,
                                         const char *place, struct vp_err *err);

/* Returns the action lists of schedule auto that the run was saved with, if the
 * keys that they depend on are unchanged; NULL: make new ones. Borrowed from
 * `facts`. */
const char *vp_checkpoint_facts_schedule(const struct vp_facts *facts,
                                         const struct vp_config *config);
/* Returns the value that `key` had in the configuration of the saved run, as
 * text; NULL: it is not stored. Borrowed from `facts`. */
const char *vp_checkpoint_facts_value(const struct vp_facts *facts,
                                      const char *key);
/* Returns the text of the schedule file that the run was trained with; NULL:
 * none. Borrowed from `facts`. */
const char *vp_checkpoint_facts_schedule_file(const struct vp_facts *facts);

/* Calls `notice` with one line that lists the keys that differ, may differ, and
 * change what the model learns. */
void vp_checkpoint_facts_compare(const struct vp_facts *facts,
                                 const struct vp_config *config,
                                 vp_notice_fn notice, void *ctx);

/* Reads the counters of a run with `n_blocks` blocks. `progress->step` comes
 * from the manifest; sets `progress->minibatch` and `blocks_out`.
 * VP_ERR_INVALID for facts that no run can have written, even if the checksum
 * is right. */
enum vp_status vp_checkpoint_facts_progress(const struct vp_facts *facts,
                                            const char *place, int n_blocks,
                                            struct vp_progress *progress,
                                            struct vp_block_state *blocks_out,
                                            struct vp_err *err);

#endif
