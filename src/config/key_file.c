#include "config/key_file.h"

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
    return key->type == VP_KEY_PLACEMENT
               ? vp_placement_read(entry, config, err)
               : vp_schedule_file_read(entry, config, err);
}
