/* Compares planned memory with the memory that the schedule needs by theory:
 * weight versions, slots, bytes of a slot with recomputation; and counts the
 * bytes that a step of asynchronous training copies. */
#include "bench.h"

#include <stdatomic.h>

enum { MAX_STAGES = 8 };

static const struct lab_size small = { .vocab = 512,
                                       .hidden = 64,
                                       .layers = 4,
                                       .heads = 4,
                                       .seq = 32,
                                       .batch = 4,
                                       .labels = 5 };

static struct lab *plan(const char *schedule, int n_stages, int n_mb,
                        double recompute, int *partition)
{
    struct lab_spec spec = { .size = small,
                             .schedule = schedule,
                             .n_stages = n_stages,
                             .partition = partition,
                             .n_mb = n_mb,
                             .recompute = recompute,
                             .dry = true };

    lab_cut_evenly(&small, n_stages, partition);
    return lab_open(&spec);
}

/* ---- Versions ----------------------------------------------------------- */

/* Compares the weights of pipedream with those of 1f1b with the same
 * partition. */
static bool check_versions(struct bench *bench, int n_stages)
{
    int partition[MAX_STAGES];
    struct lab *sync = plan("1f1b", n_stages, n_stages, 0.0, partition);
    struct lab *async = plan("pipedream", n_stages, n_stages, 0.0, partition);
    const struct vp_stage_price *one = lab_prices(sync);
    const struct vp_stage_price *all = lab_prices(async);
    bool exact = true;

    for (int s = 0; s < n_stages; s++) {
        int warmup = n_stages - 1 - s;

        exact &= all[s].memory.weights == (warmup + 1) * one[s].memory.weights;
        fprintf(bench->table,
                "  pipedream %d stages, stage %d: %8lld bytes of weights = "
                "%.3f x %lld, W + 1 = %d\n",
                n_stages, s, (long long)all[s].memory.weights,
                (double)all[s].memory.weights / (double)one[s].memory.weights,
                (long long)one[s].memory.weights, warmup + 1);
    }
    lab_close(sync);
    lab_close(async);
    return exact;
}

/* ---- Slots -------------------------------------------------------------- */

static int min(int a, int b)
{
    return a < b ? a : b;
}

static bool check_slots(struct bench *bench, const char *schedule, int n_stages,
                        int n_mb)
{
    bool all = vp_generator_find(schedule) == vp_generator_find("gpipe");
    int partition[MAX_STAGES];
    struct lab *lab = plan(schedule, n_stages, n_mb, 0.0, partition);
    const struct vp_schedule *made = lab_schedule(lab);
    bool exact = true;

    fprintf(bench->table, "  %-6s %d stages, %2d minibatches: slots", schedule,
            n_stages, n_mb);
    for (int s = 0; s < n_stages; s++) {
        exact &= made->stages[s].n_slots ==
                 (all ? n_mb : min(n_mb, n_stages - s));
        fprintf(bench->table, " %d", made->stages[s].n_slots);
    }
    fputc('\n', bench->table);
    lab_close(lab);
    return exact;
}

/* ---- Recomputation ------------------------------------------------------ */

/* Returns the bytes that one more minibatch in flight needs on the middle
 * stage. */
static int64_t slot_bytes(double recompute)
{
    enum { STAGES = 3, FEW = 4, MANY = 12 };
    int partition[MAX_STAGES];
    struct lab *few = plan("gpipe", STAGES, FEW, recompute, partition);
    struct lab *many = plan("gpipe", STAGES, MANY, recompute, partition);
    int64_t bytes = (lab_prices(many)[1].memory.activations -
                     lab_prices(few)[1].memory.activations) /
                    (MANY - FEW);

    lab_close(few);
    lab_close(many);
    return bytes;
}

/* ---- Bytes moved -------------------------------------------------------- */

enum { LOSS_BYTES = VP_LOSS_COLS * sizeof(float) };

static atomic_llong n_copied;

static enum vp_status counting_copy(struct vp_stream *stream, void *dst,
                                    const void *src, size_t n_bytes)
{
    atomic_fetch_add(&n_copied, (long long)n_bytes);
    return vp_backend_cpu.device->copy(stream, dst, src, n_bytes);
}

/* Returns the bytes copied per minibatch. Only the loss has to be copied: the
 * host writes a batch directly where the first stage reads it. */
static int64_t bytes_copied(void)
{
    enum { STAGES = 4, MINIBATCHES = 8 };
    struct vp_backend_ops counting = vp_backend_cpu;
    struct vp_device_ops device = *counting.device;
    int partition[MAX_STAGES];
    struct lab_spec spec = { .size = small,
                             .schedule = "pipedream",
                             .n_stages = STAGES,
                             .partition = partition,
                             .n_mb = 1,
                             .backend = &counting };
    struct lab *lab;

    device.copy = counting_copy;
    counting.device = &device;
    lab_cut_evenly(&small, STAGES, partition);
    lab = lab_open(&spec);
    lab_run(lab, MINIBATCHES);
    atomic_store(&n_copied, 0);
    lab_run(lab, MINIBATCHES);
    lab_close(lab);
    return atomic_load(&n_copied) / MINIBATCHES;
}

void case_memory(struct bench *bench)
{
    bool versions = true, slots = true;
    int64_t kept, left, copied;

    fputs("memory\n", bench->table);
    for (int n = 2; n <= MAX_STAGES; n *= 2)
        versions &= check_versions(bench, n);
    for (int n_mb = 2; n_mb <= 32; n_mb *= 4) {
        slots &= check_slots(bench, "1f1b", 4, n_mb);
        slots &= check_slots(bench, "gpipe", 4, n_mb);
    }
    kept = slot_bytes(0.0);
    left = slot_bytes(1.0);
    copied = bytes_copied();
    fprintf(bench->table,
            "  a minibatch in flight: %lld bytes of activations, %lld when "
            "all is recomputed\n  copied per minibatch: %lld bytes, a loss "
            "is %d\n  versions %s, slots %s, copies %s\n",
            (long long)kept, (long long)left, (long long)copied,
            (int)LOSS_BYTES, bench_judge(bench, versions),
            bench_judge(bench, slots),
            bench_judge(bench, copied <= LOSS_BYTES));
    printf("{\"case\": \"memory\", \"versions_exact\": %s, "
           "\"slots_exact\": %s, \"slot_bytes\": %lld, "
           "\"slot_bytes_recomputed\": %lld, \"copied_bytes\": %lld}\n",
           versions ? "true" : "false", slots ? "true" : "false",
           (long long)kept, (long long)left, (long long)copied);
}
