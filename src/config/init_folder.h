/* Reads model and sizes from the folder that key `init` names. */
#ifndef VP_CONFIG_INIT_FOLDER_H
#define VP_CONFIG_INIT_FOLDER_H

#include "config/keys.h"

/* Folder in a run, and in an imported checkpoint, with the files of the Hugging
 * Face folder that its first weights came from, without the weights. */
#define VP_HUGGINGFACE_FOLDER "huggingface"

/* Sets `init`, and the sizes from the folder's config.json, if it has one and
 * no other key chooses them. */
enum vp_status vp_init_folder_read(const struct vp_entry *entry,
                                   struct vp_config *config,
                                   struct vp_err *err);

/* Finds the model of the folder's config.json; *out is NULL if it has none. A
 * relative path is resolved as vp_entry_path() does. */
enum vp_status vp_init_folder_model(const struct vp_entry *entry,
                                    struct vp_config *config,
                                    const struct vp_model **out,
                                    struct vp_err *err);

#endif
