/* The world with NCCL: finds out which rank has which GPU, and if NCCL works
 * between them. Extends a world of MPI. */
#include "comm/nccl/group.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    POLL_NS = 50 * 1000, /* least time between two polls for heads */
    CHECK_EVERY = 2000,  /* polls between two checks for errors */
    /* Sizes of texts in bytes. */
    N_HOST = 128,
    N_ADDRESS = 32,
    N_WHY = 512,
};

/* ---- Errors ------------------------------------------------------------- */

void vp_nccl_check(struct vp_nccl_world *nccl, int result, const char *what)
{
    struct vp_err err;

    if (result == VP_NCCL_OK)
        return;
    vp_nccl_blame(nccl, what, result, &err);
    vp_world_abort(nccl->world, VP_ERR_IO, err.text);
}

void vp_nccl_check_device(struct vp_nccl_world *nccl, enum vp_status st,
                          const char *what)
{
    struct vp_err err;

    if (st == VP_OK)
        return;
    vp_err_set(&err, st, "NCCL, %s: %s", what,
               vp_device_last_error(nccl->device));
    vp_world_abort(nccl->world, st, err.text);
}

/* ---- Meeting ------------------------------------------------------------ */

/* Facts about a rank, for all other ranks. */
struct card {
    char host[N_HOST];       /* identifies the host, as NCCL does */
    char address[N_ADDRESS]; /* PCI address of its GPU; "": no GPU */
    bool loads;              /* NCCL can be loaded */
    char why[N_WHY];         /* cause, if it cannot */
};

/* The result of a rank's attempt to join a communicator. */
struct trial {
    struct vp_nccl_id id;
    bool failed;
    char why[N_WHY];
};

static void name_host(char host[N_HOST])
{
    const char *given = getenv("NCCL_HOSTID");
    FILE *file;
    size_t n;

    if (given) {
        snprintf(host, N_HOST, "%s", given);
        return;
    }
    gethostname(host, N_HOST / 2 - 1);
    file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return;
    n = strlen(host);
    if (!fgets(host + n, (int)(N_HOST - n), file))
        host[n] = '\0';
    fclose(file);
}

static enum vp_status exchange(struct vp_nccl_world *nccl,
                               struct vp_limit limit, const void *mine,
                               size_t n_bytes, void *all)
{
    return vp_group_exchange(nccl->everybody, nccl->rank, mine, n_bytes, all,
                             limit);
}

/* Sets gpu[]. Returns the first rank without a GPU, or -1. */
static int place_ranks(struct vp_nccl_world *nccl, const struct card *cards)
{
    int n = nccl->world->n_ranks, without = -1;

    for (int r = 0; r < n; r++) {
        int first = 0;

        while (strcmp(cards[first].host, cards[r].host) != 0 ||
               strcmp(cards[first].address, cards[r].address) != 0)
            first++;
        nccl->gpu[r] = first;
        if (without < 0 && !cards[r].address[0])
            without = r;
    }
    return without;
}

/* Finds two ranks that share a GPU. Returns false if each has its own. */
static bool find_sharers(const struct vp_nccl_world *nccl, int *a, int *b)
{
    for (int r = 0; r < nccl->world->n_ranks; r++)
        if (nccl->gpu[r] != r) {
            *a = nccl->gpu[r];
            *b = r;
            return true;
        }
    return false;
}

static int count_gpus(const struct vp_nccl_world *nccl, int end)
{
    int n = 0;

    for (int r = 0; r < end; r++)
        n += nccl->gpu[r] == r;
    return n;
}

/* Returns true if NCCL cannot work here, with the reason in nccl->why. */
static bool is_hopeless(struct vp_nccl_world *nccl, const struct card *cards)
{
    int without = place_ranks(nccl, cards), a, b;
    struct vp_err *why = &nccl->why;

    why->text[0] = '\0';
    if (without >= 0)
        vp_err_set(why, VP_OK, "rank %d computes on the CPU",
                   nccl->numbers[without]);
    for (int r = 0; !why->text[0] && r < nccl->world->n_ranks; r++)
        if (!cards[r].loads)
            vp_err_set(why, VP_OK, "rank %d: %s", nccl->numbers[r],
                       cards[r].why);
    if (!why->text[0] && find_sharers(nccl, &a, &b) &&
        count_gpus(nccl, nccl->world->n_ranks) == 1)
        vp_err_set(why, VP_OK, "ranks %d and %d are on one GPU",
                   nccl->numbers[a], nccl->numbers[b]);
    return why->text[0];
}

/* Creates and frees a communicator of one rank per GPU, to see if NCCL
 * works. */
static enum vp_status try_joining(struct vp_nccl_world *nccl,
                                  struct trial *trials, struct vp_limit limit)
{
    int n = nccl->world->n_ranks, n_gpus = count_gpus(nccl, n);
    struct trial *mine = calloc(1, sizeof(*mine));
    struct vp_nccl_clique *clique;
    struct vp_err err = { .text = "" };
    enum vp_status st = VP_OK;

    if (!mine)
        return VP_ERR_NOMEM;
    if (nccl->rank == 0)
        mine->failed = vp_nccl_make_id(nccl, &mine->id, &err) != VP_OK;
    st = exchange(nccl, limit, mine, sizeof(*mine), trials);
    if (st == VP_OK && !trials[0].failed && n_gpus > 1 &&
        nccl->gpu[nccl->rank] == nccl->rank)
        mine->failed = vp_nccl_clique_create(nccl, &trials[0].id, n_gpus,
                                             count_gpus(nccl, nccl->rank),
                                             &clique, &err) != VP_OK;
    snprintf(mine->why, sizeof(mine->why), "%.*s", N_WHY - 1, err.text);
    if (st == VP_OK)
        st = exchange(nccl, limit, mine, sizeof(*mine), trials);
    vp_nccl_cliques_free(nccl);
    free(mine);
    return st;
}

static void judge(struct vp_nccl_world *nccl, const struct trial *trials)
{
    nccl->serves = true;
    for (int r = 0; nccl->serves && r < nccl->world->n_ranks; r++)
        if (trials[r].failed) {
            nccl->serves = false;
            vp_err_set(&nccl->why, VP_OK, "rank %d: %s", nccl->numbers[r],
                       trials[r].why);
        }
}

static void explain(struct vp_nccl_world *nccl)
{
    int a, b;

    if (nccl->serves && find_sharers(nccl, &a, &b))
        vp_err_set(&nccl->why, VP_OK,
                   "distributed_backend nccl: ranks %d and %d are on one GPU; "
                   "messages within a GPU go by MPI, through memory of the "
                   "host",
                   nccl->numbers[a], nccl->numbers[b]);
    else if (!nccl->serves) {
        struct vp_err cause = nccl->why;

        vp_err_set(&nccl->why, VP_OK,
                   "distributed_backend nccl: %.3900s; messages go by MPI, "
                   "through memory of the host",
                   cause.text);
    }
}

static enum vp_status meet_all(struct vp_nccl_world *nccl, const char *address,
                               struct vp_limit limit, struct card *cards,
                               struct trial *trials)
{
    struct card mine = { .loads = nccl->api };

    name_host(mine.host);
    snprintf(mine.address, sizeof(mine.address), "%s", address);
    snprintf(mine.why, sizeof(mine.why), "%.*s", N_WHY - 1, nccl->why.text);
    VP_TRY(exchange(nccl, limit, &mine, sizeof(mine), cards));
    if (!is_hopeless(nccl, cards)) {
        VP_TRY(try_joining(nccl, trials, limit));
        judge(nccl, trials);
    }
    explain(nccl);
    return VP_OK;
}

/* Creates the group in which all ranks exchange facts and ids. */
static enum vp_status gather_everybody(struct vp_nccl_world *nccl)
{
    size_t n = (size_t)nccl->world->n_ranks, n_bytes = n * sizeof(struct trial);
    int *ranks = calloc(n, sizeof(*ranks));
    enum vp_status st;

    if (!ranks)
        return VP_ERR_NOMEM;
    for (size_t r = 0; r < n; r++)
        ranks[r] = (int)r;
    st = nccl->mpi->group_create(nccl->world, ranks, (int)n, n_bytes,
                                 &nccl->everybody);
    free(ranks);
    return st;
}

static enum vp_status meet(struct vp_world *world, const char *address,
                           struct vp_limit limit)
{
    struct vp_nccl_world *nccl = vp_nccl_world_of(world);
    size_t n = (size_t)world->n_ranks;
    struct card *cards = calloc(n, sizeof(*cards));
    struct trial *trials = calloc(n, sizeof(*trials));
    enum vp_status st = VP_ERR_NOMEM;

    if (cards && trials)
        st = gather_everybody(nccl);
    if (st == VP_OK)
        st = meet_all(nccl, address, limit, cards, trials);
    free(cards);
    free(trials);
    return st;
}

static bool is_direct(const struct vp_world *world, int a, int b)
{
    const struct vp_nccl_world *nccl = vp_nccl_world_of(world);

    return nccl->serves && nccl->gpu[a] != nccl->gpu[b];
}

static const char *indirect_reason(const struct vp_world *world)
{
    return vp_nccl_world_of(world)->why.text;
}

static void set_device(struct vp_world *world, struct vp_device *device)
{
    struct vp_nccl_world *nccl = vp_nccl_world_of(world);

    if (device) {
        nccl->device = device;
        return;
    }
    nccl->serves = false;
    nccl->channels = NULL; /* stops receiving */
    vp_nccl_cliques_free(nccl);
}

/* ---- Links -------------------------------------------------------------- */

static enum vp_status channel_create(struct vp_world *world,
                                     const struct vp_link *link,
                                     struct vp_channel **out)
{
    return link->direct
               ? vp_nccl_channel_create(world, link, out)
               : vp_nccl_world_of(world)->mpi->channel_create(world, link, out);
}

/* ---- Waiting ------------------------------------------------------------ */

static void poll_world(struct vp_world *world)
{
    struct vp_nccl_world *nccl = vp_nccl_world_of(world);
    int64_t now = vp_clock_ns();

    nccl->mpi->poll(world);
    if (!nccl->serves ||
        now - atomic_load_explicit(&nccl->polled_ns, memory_order_relaxed) <
            POLL_NS ||
        pthread_mutex_trylock(&nccl->lock) != 0)
        return;
    atomic_store_explicit(&nccl->polled_ns, now, memory_order_relaxed);
    vp_nccl_receive_all(nccl);
    if (++nccl->n_polls % CHECK_EVERY == 0)
        vp_nccl_cliques_check(nccl);
    pthread_mutex_unlock(&nccl->lock);
}

/* ---- Leaving ------------------------------------------------------------ */

static void leave(struct vp_world *world)
{
    struct vp_nccl_world *nccl = vp_nccl_world_of(world);

    if (world->status != VP_OK)
        vp_nccl_cliques_abort(nccl);
    nccl->mpi->leave(world);
}

static void nccl_free(struct vp_nccl_world *nccl)
{
    pthread_mutex_destroy(&nccl->lock);
    free(nccl->numbers);
    free(nccl->gpu);
    free(nccl);
}

static void world_free(struct vp_world *world)
{
    struct vp_nccl_world *nccl = vp_nccl_world_of(world);

    if (nccl->everybody)
        nccl->everybody->ops->free(nccl->everybody);
    world->ops = nccl->mpi;
    world->ops->free(world);
    nccl_free(nccl);
}

/* ---- Joining ------------------------------------------------------------ */

static void build_on(struct vp_nccl_world *nccl, struct vp_world *world)
{
    nccl->world = world;
    nccl->mpi = world->ops;
    while (!vp_world_is_mine(world, nccl->rank))
        nccl->rank++;
    nccl->ops = *world->ops;
    nccl->ops.name = "nccl";
    nccl->ops.leave = leave;
    nccl->ops.free = world_free;
    nccl->ops.poll = poll_world;
    nccl->ops.channel_create = channel_create;
    nccl->ops.meet = meet;
    nccl->ops.is_direct = is_direct;
    nccl->ops.indirect_reason = indirect_reason;
    nccl->ops.set_device = set_device;
    nccl->ops.direct_group_create = vp_nccl_group_create;
    nccl->ops.direct_gather_create = vp_nccl_gather_create;
    world->ops = &nccl->ops;
}

int vp_plugin_comm_version(void)
{
    return VP_COMM_ABI;
}

void vp_plugin_describe(char *text, size_t n_bytes)
{
    const struct vp_nccl_api *api;
    struct vp_err err = { .text = "" };
    int version = 0;

    if (vp_nccl_load(&api, &err) != VP_OK)
        snprintf(text, n_bytes, "%s", err.text);
    else if (api->version(&version) == VP_NCCL_OK)
        snprintf(text, n_bytes, "%d.%d.%d", version / 10000,
                 version / 100 % 100, version % 100);
}

enum vp_status vp_plugin_join(const struct vp_processes *self, int n_ranks,
                              const int *processes, struct vp_world **out,
                              struct vp_err *err)
{
    struct vp_nccl_world *nccl = calloc(1, sizeof(*nccl));
    struct vp_world *world;
    enum vp_status st;

    if (!nccl)
        return vp_err_set(err, VP_ERR_NOMEM, "NCCL: out of memory");
    pthread_mutex_init(&nccl->lock, NULL);
    nccl->gpu = calloc((size_t)n_ranks, sizeof(*nccl->gpu));
    nccl->numbers = calloc((size_t)n_ranks, sizeof(*nccl->numbers));
    if (!nccl->gpu || !nccl->numbers) {
        nccl_free(nccl);
        return vp_err_set(err, VP_ERR_NOMEM, "NCCL: out of memory");
    }
    memcpy(nccl->numbers, processes, (size_t)n_ranks * sizeof(*processes));
    if (vp_nccl_load(&nccl->api, &nccl->why) != VP_OK)
        nccl->api = NULL;
    st = vp_world_join("mpi", self, n_ranks, processes, &world, err);
    if (st != VP_OK) {
        nccl_free(nccl);
        return st;
    }
    build_on(nccl, world);
    *out = world;
    return VP_OK;
}
