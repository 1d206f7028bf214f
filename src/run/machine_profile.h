/* Returns the profile of this machine for a workload, from the cache or by
 * measuring. */
#ifndef VP_RUN_MACHINE_PROFILE_H
#define VP_RUN_MACHINE_PROFILE_H

#include "plan/profile.h"
#include "runtime/train_config.h"

struct vp_machine_profile_config {
    const struct vp_train_config *train; /* as in vp_profile_request */
    int n_ranks;        /* ranks that will share the device or the cores */
    double seconds;     /* time limit of measuring; 0: none */
    int n_repeats;      /* repeats of a measurement; 0: the default */
    bool measure;       /* measure even if the cache has a profile */
    const char *folder; /* cache folder; NULL: vp_profile_cache_folder() */
    /* Called with the reason why a stored profile was not used, or could not be
     * stored. May be NULL. */
    void (*notice)(void *ctx, const char *line);
    void *ctx;
};

/* Reads the profile from the cache or, if it has none that is valid, measures
 * and stores it. Texts and blocks are allocated in `arena`. A cache that cannot
 * be written leads to a notice, not to an error. */
enum vp_status vp_machine_profile_get(
    const struct vp_machine_profile_config *config, struct vp_arena *arena,
    struct vp_device_profile *out, struct vp_err *err);

/* Reads the profile from the cache only. Returns false if there is no valid
 * profile; `why` then has the reason, or "" if no profile is stored. */
bool vp_machine_profile_find(const struct vp_machine_profile_config *config,
                             struct vp_arena *arena,
                             struct vp_device_profile *out, struct vp_err *why);

/* Collects the facts that measurements depend on: the device and the number of
 * ranks and threads that use it, its driver, clocks if known (not those of a
 * GPU), this build, versions of libraries. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_machine_profile_facts(
    const struct vp_machine_profile_config *config, struct vp_arena *arena,
    struct vp_profile_facts *out);

#endif
