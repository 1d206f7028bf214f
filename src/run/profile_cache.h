/* Cache of profiles on disk, with a file per profile in a folder of the user,
 * so that a machine is measured once per workload. Files are written under
 * another name and renamed, so several processes may read and write at the same
 * time. */
#ifndef VP_RUN_PROFILE_CACHE_H
#define VP_RUN_PROFILE_CACHE_H

#include "plan/profile.h"

/* Writes $XDG_CACHE_HOME/vpipe/profiles, or ~/.cache/vpipe/profiles, to `out`.
 * Returns false if neither variable is set. */
bool vp_profile_cache_folder(char *out, size_t n_bytes);

/* Reads the profile `name`, which vp_profile_name() made from the blocks
 * `keys`. Returns false, with the reason in `why` ("" if there is no such
 * file), if the file is missing or damaged, lacks a block, or was measured with
 * other facts than `today`. Texts and blocks are allocated in `arena`. */
bool vp_profile_cache_read(const char *folder, const char *name,
                           const struct vp_profile_facts *today,
                           const struct vp_block_key *keys, int n_keys,
                           struct vp_arena *arena,
                           struct vp_device_profile *out, struct vp_err *why);
/* Writes the profile, replacing an older one. Creates the folder. */
enum vp_status vp_profile_cache_write(const char *folder, const char *name,
                                      const struct vp_device_profile *profile,
                                      struct vp_err *err);

#endif
