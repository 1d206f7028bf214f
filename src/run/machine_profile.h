/* The profile of this machine for a workload: from the cache, or measured. */
#ifndef VP_RUN_MACHINE_PROFILE_H
#define VP_RUN_MACHINE_PROFILE_H

#include "plan/profile.h"
#include "runtime/train_config.h"

struct vp_machine_profile_config {
    const struct vp_train_config *train; /* as vp_profile_request wants it */
    int n_ranks;        /* that will share the device or the cores */
    double seconds;     /* time limit of measuring; 0: none */
    int n_repeats;      /* of a measurement; 0: the default */
    bool measure;       /* also where the cache has a profile */
    const char *folder; /* of the cache; NULL: vp_profile_cache_folder() */
    /* A line for the user: why a profile of the cache was not used, or could not
     * be stored. May be NULL. */
    void (*notice)(void *ctx, const char *line);
    void *ctx;
};

/* Texts and blocks live in `arena`. A cache that cannot be written costs a
 * notice. */
enum vp_status vp_machine_profile_get(
    const struct vp_machine_profile_config *config, struct vp_arena *arena,
    struct vp_device_profile *out, struct vp_err *err);

/* The same from the cache alone; false: it has none that is good for today, and
 * `why` says for what reason, "" if there is none at all. */
bool vp_machine_profile_find(const struct vp_machine_profile_config *config,
                             struct vp_arena *arena,
                             struct vp_device_profile *out, struct vp_err *why);

/* What measurements depend on: the device and how many ranks and threads use it,
 * its driver, clocks as far as they are known (of a GPU they are not), this
 * build, versions of libraries. */
enum vp_status vp_machine_profile_facts(
    const struct vp_machine_profile_config *config, struct vp_arena *arena,
    struct vp_profile_facts *out);

#endif
