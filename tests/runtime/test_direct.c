/* Processes whose devices send to each other directly train with the same bits
 * as threads of one process. The device is simulated in host memory, and
 * fake_nccl.c replaces NCCL; VPIPE_LIBRARIES names the folder of its library.
 *
 *   mpirun -n 2 test_direct bsp
 *
 * With the further argument `mpi`, messages pass through host memory instead;
 * the test checks that this memory has the priced size. */
#include "backend/planned.h"
#include "lib/joinlib.h"
#include "lib/trainlib.h"
#include "runtime/fit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ---- A device that is simulated in host memory -------------------------- */

static struct vp_processes self;

static bool own_address(int device, char *text, size_t n_bytes)
{
    (void)device;
    snprintf(text, n_bytes, "%d", self.index);
    return true;
}

static void *own_handle(struct vp_stream *stream)
{
    return stream;
}

static atomic_llong n_host_bytes;

static enum vp_status counting_host_alloc(struct vp_device *device, size_t n,
                                          void **out)
{
    atomic_fetch_add(&n_host_bytes, (long long)n);
    return vp_backend_cpu.device->host_alloc(device, n, out);
}

static bool direct;
static int n_gathers; /* number of gathers that were tried */

/* Checks that members of a group can gather if their devices are connected
 * directly, and that `gather` is NULL otherwise. */
static void try_gather(const struct vp_members *members,
                       struct vp_stream *stream)
{
    int mine = 100 + members->me, all[8] = { 0 };

    assert_true(direct == (members->gather != NULL));
    if (!direct)
        return;
    assert_int_equal(members->gather(members->ctx, NULL, &mine, sizeof(mine),
                                     all, vp_stream_handle(stream)),
                     VP_OK);
    for (int k = 0; k < 8; k++)
        assert_int_equal(all[k], k < members->n ? 100 + k : 0);
    n_gathers++;
}

static enum vp_status gathering_launch(struct vp_exe *exe, enum vp_list list,
                                       const struct vp_launch *launch,
                                       struct vp_stream *stream)
{
    if (launch->members)
        try_gather(launch->members, stream);
    return vp_backend_cpu.launch(exe, list, launch, stream);
}

static struct vp_backend_ops reaching(void)
{
    static struct vp_device_ops device;
    struct vp_backend_ops ops = vp_backend_cpu;

    device = *ops.device;
    device.host_memory = false;
    device.stream_handle = own_handle;
    device.host_alloc = counting_host_alloc;
    ops.device = &device;
    ops.address = own_address;
    ops.staging_bytes = vp_backend_planned("cuda")->staging_bytes;
    ops.launch = gathering_launch;
    return ops;
}

/* Returns the number of bytes that fake_nccl.c has sent from this process. */
static long bytes_sent(void)
{
    long (*count)(void);

    *(void **)&count = dlsym(RTLD_DEFAULT, "fake_nccl_bytes");
    assert_non_null(*(void **)&count);
    return count();
}

/* ---- Pipelines to compare ----------------------------------------------- */

static const int two[] = { 2, 3 }, three[] = { 2, 1, 2 };
static const int four[] = { 1, 1, 1, 2 };
static const int pair[] = { 2 }, first[] = { 2, 1 }, both[] = { 2, 2 };

static const struct example {
    const char *name, *schedule;
    int n_ranks, n_stages, n_chunks;
    const int *partition, *replicas;
    bool tied, compress;
    int n_mb, n_members;
} examples[] = {
    { "bsp", "1f1b", 2, 2, 1, two, NULL, true, false, 4, 1 },
    { "interleaved", "interleaved", 2, 2, 2, four, NULL, true, false, 4, 1 },
    { "asp", "pipedream", 3, 3, 1, three, NULL, false, true, 1, 1 },
    { "replicas", "1f1b", 2, 1, 1, NULL, pair, true, false, 3, 1 },
    { "first", "pipedream", 3, 2, 1, two, first, false, false, 1, 1 },
    { "both", "1f1b", 4, 2, 1, two, both, true, false, 1, 1 },
    { "group", "1f1b", 4, 2, 1, two, NULL, true, false, 4, 2 },
    { "groups", "1f1b", 4, 1, 1, NULL, pair, false, false, 2, 2 },
};

static const struct example *example;
static struct vp_world *world;

static struct setup setup_of(const struct vp_backend_ops *device)
{
    struct setup setup = usual;

    setup.schedule = example->schedule;
    setup.n_stages = example->n_stages;
    setup.n_chunks = example->n_chunks;
    setup.partition = example->partition;
    setup.replicas = example->replicas;
    setup.tied = example->tied;
    setup.compress = example->compress;
    setup.accumulation = example->n_mb;
    setup.members = example->n_members;
    setup.threads = 1;
    setup.n_steps = 12;
    setup.bundle_bytes = 4096;
    setup.device = device;
    setup.world = world;
    setup.timeout_ms = 60000;
    return setup;
}

/* The allocated memory of the device and of the host is the priced one. The
 * price is computed without world and device, from a plan that names the
 * transport of each edge. */
static void check_price(const struct run *run)
{
    enum vp_edge_kind kind = direct ? VP_EDGE_DEVICE : VP_EDGE_HOST;
    enum vp_edge_kind edges[] = { kind, kind, kind, kind };
    struct vp_train_config config = run->config;
    struct vp_priced_plan priced;
    struct vp_err err = { .text = "" };
    int64_t device = 0, host = 0;
    int group = self.index / example->n_members;

    config.world = NULL;
    config.plan.edges = config.plan.replica_edges = edges;
    config.plan.tie_edge = kind;
    config.backend_config.plan_only = true;
    if (vp_priced_plan_make(&config, &priced, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int s = 0; s < priced.schedule.n_stages; s++) {
        const struct vp_schedule_stage *stage = &priced.schedule.stages[s];

        assert_int_equal(priced.stages[s].staging,
                         vp_trainer_prices(run->trainer)[s].staging);
        if (group < stage->first_rank ||
            group >= stage->first_rank + stage->n_replicas)
            continue;
        device += priced.stages[s].memory.total;
        host += priced.stages[s].staging;
    }
    if (!direct) /* NCCL allocates and frees memory of its own */
        assert_int_equal(atomic_load(&n_device_bytes), device);
    assert_int_equal(atomic_load(&n_host_bytes), host);
    vp_priced_plan_release(&priced);
}

static void processes_give_the_bits_of_threads(void **state)
{
    struct vp_backend_ops device = reaching();
    struct vp_world *joined = world;
    struct run threads, processes;
    struct vp_err err = { .text = "" };
    struct setup setup;
    long before;
    enum vp_followed what;

    (void)state;
    world = NULL;
    setup = setup_of(NULL);
    train(&threads, &setup);
    world = joined;
    setup = setup_of(&device);
    atomic_store(&n_host_bytes, 0);
    if (run_create(&processes, &setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_string_equal(vp_world_indirect_reason(world), "");
    assert_true(vp_world_is_direct(world, 0, 1) == direct);
    check_price(&processes);
    before = direct ? bytes_sent() : 0;
    if (vp_trainer_is_lead(processes.trainer)) {
        assert_int_equal(vp_trainer_run(processes.trainer, setup.n_steps,
                                        keep_step, &processes, &err),
                         VP_OK);
        for (int i = 0; i < setup.n_steps; i++) {
            assert_memory_equal(&threads.losses[i], &processes.losses[i],
                                sizeof(double));
            assert_memory_equal(&threads.norms[i], &processes.norms[i],
                                sizeof(double));
        }
    } else {
        assert_int_equal(
            vp_trainer_follow(processes.trainer, NULL, &what, &err), VP_OK);
        assert_int_equal(what, VP_FOLLOWED_END);
    }
    /* Every stage and replica sends more than 4000 bytes per step. */
    if (direct)
        assert_true(bytes_sent() - before > 4000L * setup.n_steps);
    assert_true((n_gathers > 0) == (direct && example->n_members > 1));
    run_free(&processes);
}

/* ---- Start as one of several processes ---------------------------------- */

static bool join(const char *name, const char *transport)
{
    self = join_processes();
    for (size_t i = 0; i < VP_COUNT_OF(examples); i++)
        if (strcmp(examples[i].name, name) == 0)
            example = &examples[i];
    if (!example || self.n != example->n_ranks) {
        fputs("start with as many processes as the example has ranks\n",
              stderr);
        return false;
    }
    world = join_world(transport, &self);
    return world;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_give_the_bits_of_threads),
    };
    int n_failed;

    if (argc < 2)
        return 0; /* without arguments there is nothing to test */
    direct = argc < 3;
    if (!join(argv[1], direct ? "nccl" : argv[2]))
        return 1;
    n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    vp_world_free(world);
    return n_failed;
}
