/* Chooses the reader for the file that a key names. */
#include "config/key_file.h"

#include "config/init_folder.h"
#include "config/key.h"
#include "config/placement.h"
#include "config/schedule_file.h"

enum vp_status vp_key_read(const struct vp_key *key,
                           const struct vp_entry *entry,
                           struct vp_config *config, struct vp_err *err)
{
    VP_TRY(vp_key_set(key, entry, config, err));
    if (!vp_key_names_file(key, entry))
        return VP_OK;
    switch (key->type) {
    case VP_KEY_PLACEMENT:
        return vp_placement_read(entry, config, err);
    case VP_KEY_INIT:
        return vp_init_folder_read(entry, config, err);
    default:
        return vp_schedule_file_read(entry, config, err);
    }
}
