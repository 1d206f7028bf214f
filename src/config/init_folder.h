/* The folder that key `init` names: what it says about the model. */
#ifndef VP_CONFIG_INIT_FOLDER_H
#define VP_CONFIG_INIT_FOLDER_H

#include "config/keys.h"

/* Below a run, and a checkpoint that was imported: what the Hugging Face folder
 * of its first weights holds beside them. */
#define VP_HUGGINGFACE_FOLDER "huggingface"

/* Sets `init`. The sizes are those of the folder's config.json, if it has one and
 * no other key chooses them. */
enum vp_status vp_init_folder_read(const struct vp_entry *entry,
                                   struct vp_config *config,
                                   struct vp_err *err);

/* The model that the folder's config.json is for; NULL: it has none. Relative
 * paths start as those of the entry do. */
enum vp_status vp_init_folder_model(const struct vp_entry *entry,
                                    struct vp_config *config,
                                    const struct vp_model **out,
                                    struct vp_err *err);

#endif
