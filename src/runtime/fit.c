/* Prices a plan without a device and compares it with the memory of this host
 * and the user's limits. */
#include "runtime/fit.h"

#include "base/host.h"
#include "comm/comm.h"

#include <pthread.h>

/* ---- Pricing ------------------------------------------------------------ */

enum vp_status vp_fit_check_optimizer(const struct vp_train_config *config,
                                   struct vp_err *err)
{
    const struct vp_plan *plan = &config->plan;
    bool replicated = false;

    for (int s = 0; plan->replicas && s < plan->n_stages; s++)
        replicated |= plan->replicas[s] > 1;
    if (plan->forward_only || config->backend->device->host_memory)
        return VP_OK;
    if (plan->tensor_parallel > 1 && config->optim.kind == VP_OPTIM_LAMB)
        return vp_err_refuse(err, "optimizer",
                             "tensor-parallel groups on GPUs cannot train with "
                             "lamb; use adamw, or device: cpu");
    if (!plan->shard_optimizer || !replicated)
        return VP_OK;
    return vp_err_refuse(err, "shard_optimizer",
                         "shards of the optimizer's state are for 'device: "
                         "cpu'; remove shard_optimizer");
}

enum vp_status vp_priced_plan_make(const struct vp_train_config *config,
                                   struct vp_priced_plan *out,
                                   struct vp_err *err)
{
    const struct vp_stage_config stage = vp_train_stage_config(
        config, &config->backend_config);
    struct vp_pricer *pricer = NULL;
    struct vp_priced_plan priced;
    enum vp_status st;

    VP_TRY(vp_fit_check_optimizer(config, err));
    VP_TRY(vp_plan_make_schedule(&config->plan, &config->graphs[0],
                                 &priced.schedule, err));
    st = vp_pricer_create(&stage.work, &pricer);
    if (st == VP_OK)
        st = vp_plan_bytes(pricer, &config->plan, &priced.schedule,
                           priced.stages, err);
    else
        vp_err_set(err, st, "planning: out of memory");
    vp_pricer_free(pricer);
    if (st != VP_OK) {
        vp_schedule_release(&priced.schedule);
        return st;
    }
    *out = priced;
    return VP_OK;
}

void vp_priced_plan_release(struct vp_priced_plan *priced)
{
    vp_schedule_release(&priced->schedule);
}

/* ---- Limits ------------------------------------------------------------- */

static bool fits_limit(size_t limit, const struct vp_schedule *schedule,
                       const struct vp_stage_price *stages, struct vp_err *err)
{
    for (int s = 0; limit > 0 && s < schedule->n_stages; s++) {
        const struct vp_memory *m = &stages[s].memory;
        char needs[VP_BYTES_TEXT], has[VP_BYTES_TEXT], parts[VP_MEMORY_TEXT];

        if ((size_t)m->total <= limit)
            continue;
        vp_bytes_texts(m->total, (int64_t)limit, needs, has, sizeof(needs));
        vp_memory_text(m, parts);
        vp_err_refuse(err, "memory_limit",
                      "stage %d needs %s (%s), memory_limit is %s", s, needs,
                      parts, has);
        return false;
    }
    return true;
}

/* ---- The host ----------------------------------------------------------- */

static bool is_here(const struct vp_train_config *config, int rank)
{
    return !config->world || vp_world_is_mine(config->world, rank);
}

/* Bytes of host memory for the swapped activations of a rank's stages. */
static size_t swapped_bytes(const struct vp_schedule *schedule,
                            const struct vp_stage_price *stages, int rank)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    int64_t sum = 0;

    for (int i = 0; i < list->n_stages; i++)
        sum += stages[list->stages[i]].swapped;
    return (size_t)sum;
}

/* Bytes of host memory that a rank needs: its stages, their copies for
 * checkpoints, and swapped activations. Replicas are equal, and only the first
 * one is saved. For a device with its own memory: swapped activations only. */
static size_t rank_bytes(const struct vp_train_config *config,
                         const struct vp_schedule *schedule,
                         const struct vp_stage_price *stages, int rank)
{
    int n_members = config->graphs[0].n_members, group = rank / n_members;
    const struct vp_rank_list *list = &schedule->ranks[group];
    bool saves = config->saver || config->backend_config.plan_only;
    bool on_host = config->backend->device->host_memory;
    int64_t sum = (int64_t)swapped_bytes(schedule, stages, group);

    for (int i = 0; i < list->n_stages && on_host; i++) {
        int s = list->stages[i];

        sum += stages[s].memory.total;
        if (saves && rank == schedule->stages[s].first_rank * n_members)
            sum += stages[s].snapshot;
    }
    return (size_t)sum;
}

/* Address space beyond the planned memory: stacks of threads that have not
 * started yet (ranks, readers, the writer, copiers), two arenas of malloc(),
 * and what oneDNN allocates at its first products: code, and packed tiles per
 * thread. */
enum { EXTRA_THREADS = 2 };
#define LIBRARY_BYTES ((size_t)64 << 20)
#define TILES_BYTES ((size_t)4 << 20)

static size_t unplanned_bytes(size_t n_ranks, size_t n_threads,
                              size_t n_copiers)
{
    size_t stack = 0;
    pthread_attr_t attr;

    if (pthread_attr_init(&attr) == 0) {
        pthread_attr_getstacksize(&attr, &stack);
        pthread_attr_destroy(&attr);
    }
    return (2 * n_ranks + EXTRA_THREADS + n_copiers) * stack +
           n_ranks * n_threads * TILES_BYTES +
           VP_HOST_ARENAS * VP_HOST_ARENA_BYTES + LIBRARY_BYTES;
}

/* Counts the copier threads of a rank: two for each stage that swaps. */
static size_t count_copiers(const struct vp_schedule *schedule,
                            const struct vp_stage_price *stages, int rank)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    size_t n = 0;

    for (int i = 0; i < list->n_stages; i++)
        n += stages[list->stages[i]].swapped > 0 ? 2 : 0;
    return n;
}

struct vp_host_need vp_fit_host_need(const struct vp_train_config *config,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_price *stages)
{
    struct vp_host_need need = {
        .memory_left = vp_host_memory(""),
        .space_left = vp_host_address_space(""),
    };
    size_t n_here = 0, n_copiers = 0;
    int n_members = config->graphs[0].n_members;

    for (int r = 0; r < schedule->n_ranks * n_members; r++)
        if (is_here(config, r)) {
            need.memory += rank_bytes(config, schedule, stages, r);
            need.swapped += swapped_bytes(schedule, stages, r / n_members);
            n_copiers += count_copiers(schedule, stages, r / n_members);
            n_here++;
        }
    if (!config->backend->device->host_memory)
        return need;
    need.space = need.memory +
                 unplanned_bytes(n_here,
                                 (size_t)config->backend_config.n_threads,
                                 n_copiers);
    return need;
}

/* Refuses early. A device refuses an allocation that does not fit, but the host
 * hands out pages until it has to kill a process, and oneDNN crashes if it
 * cannot map memory. */
static enum vp_lack host_lacks(const struct vp_host_need *need,
                               struct vp_err *err)
{
    char needs[VP_BYTES_TEXT], has[VP_BYTES_TEXT];

    if (need->memory > need->memory_left) {
        bool swaps = need->swapped > 0, only = need->swapped == need->memory;

        vp_bytes_texts((int64_t)need->memory, (int64_t)need->memory_left, needs,
                       has, sizeof(needs));
        vp_err_refuse(err,
                      swaps ? "swap_ratio batch_size recompute_ratio stages"
                            : "batch_size recompute_ratio stages",
                      "%s %s, this machine has %s left",
                      only ? "swapped activations of the stages here need"
                      : swaps
                          ? "the stages here, their swapped activations and "
                            "the copies to save them need"
                          : "the stages here and the copies to save them "
                            "need",
                      needs, has);
        return VP_LACK_MEMORY;
    }
    if (need->space > need->space_left) {
        vp_bytes_texts((int64_t)need->space, (int64_t)need->space_left, needs,
                       has, sizeof(needs));
        vp_err_refuse(err, "batch_size threads_per_stage",
                      "the stages here, their threads and libraries need %s of "
                      "address space, ulimit -v or -d leaves %s",
                      needs, has);
        return VP_LACK_ADDRESSES;
    }
    return VP_LACK_NONE;
}

enum vp_lack vp_fit_lacks(const struct vp_train_config *config,
                          const struct vp_schedule *schedule,
                          const struct vp_stage_price *stages,
                          struct vp_err *err)
{
    struct vp_host_need need;

    if (!fits_limit(config->memory_limit, schedule, stages, err))
        return VP_LACK_LIMIT;
    if (config->spread)
        return VP_LACK_NONE;
    need = vp_fit_host_need(config, schedule, stages);
    return host_lacks(&need, err);
}
