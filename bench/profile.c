/* A thread that samples what each compute thread does. */
#include "profile.h"

#include "backend/cpu/fast.h"
#include "lab.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { PERIOD_NS = 500000 };

struct profile {
    const struct vp_pool *pool;
    pthread_t thread;
    atomic_bool stop;
    int64_t n[VP_CPU_PART_COUNT];
};

static void *look(void *arg)
{
    struct profile *profile = arg;
    const struct timespec period = { .tv_nsec = PERIOD_NS };

    while (!atomic_load(&profile->stop)) {
        for (int i = 0; i < vp_pool_threads(profile->pool); i++)
            profile->n[vp_pool_noted(profile->pool, i)]++;
        nanosleep(&period, NULL);
    }
    return NULL;
}

struct profile *profile_begin(const struct vp_backend *backend)
{
    struct profile *profile = calloc(1, sizeof(*profile));

    if (!profile)
        lab_die("profile", &(struct vp_err){ .text = "out of memory" });
    profile->pool = vp_cpu_pool(backend);
    if (pthread_create(&profile->thread, NULL, look, profile))
        lab_die("profile",
                &(struct vp_err){ .text = "starting a thread failed" });
    return profile;
}

void profile_end(struct profile *profile, double *share_out)
{
    int64_t total = 0;

    atomic_store(&profile->stop, true);
    pthread_join(profile->thread, NULL);
    for (int i = 0; i < VP_CPU_PART_COUNT; i++)
        total += profile->n[i];
    for (int i = 0; i < VP_CPU_PART_COUNT; i++)
        share_out[i] = (double)profile->n[i] / (double)(total ? total : 1);
    free(profile);
}
