/* Profiles on disk: a file per profile in a folder of the user, so that a machine
 * is measured once per workload. Files are published by renaming: several
 * processes may read and write at the same time. */
#ifndef VP_RUN_PROFILE_CACHE_H
#define VP_RUN_PROFILE_CACHE_H

#include "plan/profile.h"

/* $XDG_CACHE_HOME/vpipe/profiles, or ~/.cache/vpipe/profiles. False if neither is known. */
bool vp_profile_cache_folder(char *out, size_t n_bytes);

/* Reads the profile of this name, which vp_profile_name() gave to the blocks
 * `keys`. Returns false, with the reason in `why` ("" if there is no such file),
 * if it is not there, is damaged, lacks a block, or was measured with something
 * else than `today` says. Texts and blocks live in `arena`. */
bool vp_profile_cache_read(const char *folder, const char *name,
                           const struct vp_profile_facts *today,
                           const struct vp_block_key *keys, int n_keys,
                           struct vp_arena *arena,
                           struct vp_device_profile *out, struct vp_err *why);
/* Writes it, in place of an older one. Makes the folder. */
enum vp_status vp_profile_cache_write(const char *folder, const char *name,
                                      const struct vp_device_profile *profile,
                                      struct vp_err *err);

#endif
