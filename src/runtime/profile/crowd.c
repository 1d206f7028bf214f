/* Times one rank while other ranks compute on threads of their own. */
#include "runtime/profile/crowd.h"

#include "runtime/profile/median.h"
#include "runtime/profile/probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Minibatches before the timed ones; between two updates; in flight. */
enum { N_WARM = 9, N_BETWEEN = 4, N_SLOTS = 8 };

struct crowd {
    const struct vp_crowd_config *config;
    struct vp_probe *probes;
    pthread_t *threads;
    int n_threads;
    atomic_bool stop;
    atomic_int n_ready, failed; /* failed: the last bad status */
};

/* A rank other than the first: runs minibatches until crowd->stop. */
struct member {
    struct crowd *crowd;
    struct vp_probe *probe;
};

/* Runs a minibatch, and after every N_BETWEEN of them an update, which finds
 * weights, gradients and moments outside of the caches, as in a pipeline.
 * out->update is 0 without an update. */
static enum vp_status run_once(struct vp_probe *probe,
                               struct vp_probe_times *out)
{
    out->update = 0.0;
    VP_TRY(vp_probe_run(probe, false, out));
    return probe->n_run % N_BETWEEN == 0 ? vp_probe_update(probe, out) : VP_OK;
}

static void *work(void *arg)
{
    struct member member = *(struct member *)arg;
    struct vp_probe_times times;
    enum vp_status st = VP_OK;

    free(arg);
    vp_device_attach(member.probe->stage.device);
    for (int i = 0; st == VP_OK && !atomic_load(&member.crowd->stop); i++) {
        st = run_once(member.probe, &times);
        if (i == N_WARM)
            atomic_fetch_add(&member.crowd->n_ready, 1);
    }
    if (st != VP_OK) {
        atomic_store(&member.crowd->failed, st);
        atomic_fetch_add(&member.crowd->n_ready, 1);
    }
    return NULL;
}

static enum vp_status start(struct crowd *crowd)
{
    for (int r = 1; r < crowd->config->n_ranks; r++) {
        struct member *member = malloc(sizeof(*member));

        if (!member)
            return VP_ERR_NOMEM;
        *member = (struct member){ crowd, &crowd->probes[r] };
        if (pthread_create(&crowd->threads[r], NULL, work, member) != 0) {
            free(member);
            return VP_ERR_NOMEM;
        }
        crowd->n_threads = r;
    }
    return VP_OK;
}

static void stop(struct crowd *crowd)
{
    atomic_store(&crowd->stop, true);
    for (int r = 1; r <= crowd->n_threads; r++)
        pthread_join(crowd->threads[r], NULL);
    atomic_store(&crowd->stop, false);
    atomic_store(&crowd->n_ready, 0);
    crowd->n_threads = 0;
}

/* Measures medians on the first rank. It also runs, without counting, while the
 * others warm up. */
static enum vp_status time_first(struct crowd *crowd,
                                 struct vp_crowd_times *out)
{
    int n = crowd->config->n_repeats * N_BETWEEN, n_updates = 0;
    double *f = calloc(3 * (size_t)n, sizeof(*f)), *b = f + n, *update = b + n;
    enum vp_status st = f ? VP_OK : VP_ERR_NOMEM;

    for (int i = -N_WARM; st == VP_OK && i < n;
         i += atomic_load(&crowd->n_ready) >= crowd->n_threads || i < -1) {
        struct vp_probe_times times;

        st = run_once(&crowd->probes[0], &times);
        if (i < 0)
            continue;
        f[i] = times.list[VP_LIST_F];
        b[i] = times.list[VP_LIST_B];
        if (times.update > 0.0)
            update[n_updates++] = times.update;
    }
    if (st == VP_OK)
        *out = (struct vp_crowd_times){ vp_median(f, n), vp_median(b, n),
                                        vp_median(update, n_updates) };
    free(f);
    return st;
}

static enum vp_status measure(struct crowd *crowd,
                              struct vp_crowd_times *alone_out,
                              struct vp_crowd_times *together_out)
{
    enum vp_status st;

    vp_device_attach(crowd->probes[0].stage.device);
    VP_TRY(time_first(crowd, alone_out));
    st = start(crowd);
    if (st == VP_OK)
        st = time_first(crowd, together_out);
    stop(crowd);
    return st == VP_OK ? (enum vp_status)atomic_load(&crowd->failed) : st;
}

enum vp_status vp_crowd_measure(const struct vp_crowd_config *config,
                                struct vp_crowd_times *alone_out,
                                struct vp_crowd_times *together_out,
                                struct vp_err *err)
{
    struct crowd crowd = { .config = config };
    size_t n = (size_t)config->n_ranks;
    enum vp_status st = VP_OK;

    crowd.probes = calloc(n, sizeof(*crowd.probes));
    crowd.threads = calloc(n, sizeof(*crowd.threads));
    if (!crowd.probes || !crowd.threads)
        st = vp_err_set(err, VP_ERR_NOMEM, "measuring: out of memory");
    for (int r = 0; st == VP_OK && r < config->n_ranks; r++)
        st = vp_probe_init(&crowd.probes[r], config->config, r, config->spec,
                           N_SLOTS, err);
    if (st == VP_OK) {
        st = measure(&crowd, alone_out, together_out);
        if (st != VP_OK)
            vp_err_set(err, st, "measuring %d ranks at work: %s",
                       config->n_ranks, vp_status_name(st));
    }
    for (int r = 0; crowd.probes && r < config->n_ranks; r++)
        vp_probe_release(&crowd.probes[r]);
    free(crowd.probes);
    free(crowd.threads);
    return st;
}
