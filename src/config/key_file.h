/* Reads the files that keys may name and that set further fields. */
#ifndef VP_CONFIG_KEY_FILE_H
#define VP_CONFIG_KEY_FILE_H

#include "config/keys.h"

/* As vp_key_set(); then reads the file that the entry names, if it names one:
 * see placement.h, schedule_file.h and init_folder.h. */
enum vp_status vp_key_read(const struct vp_key *key,
                           const struct vp_entry *entry,
                           struct vp_config *config, struct vp_err *err);

#endif
