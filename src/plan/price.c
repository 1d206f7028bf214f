/* Bytes of the stages of a plan, with a hash table of stages that were priced
 * before; and the simulated time of a schedule. */
#include "plan/price.h"

#include "plan/stage_key.h"

#include <stdlib.h>
#include <string.h>

/* ---- One stage ---------------------------------------------------------- */

/* Returns the host memory of a stage on a device with its own memory: buffers
 * for batches, messages of other processes and gradients that are added with
 * them; and for losses, logits and sums of squares, which the host reads. */
static int64_t staging_bytes(const struct vp_workload *work,
                             const struct vp_stage_sizes *sizes,
                             const struct vp_stage_shape *shape, bool first)
{
    const struct {
        enum vp_space space;
        int n;
    } rings[] = {
        { VP_SPACE_IN, shape->n_act_bufs },
        { VP_SPACE_DOUT, shape->n_grad_bufs },
        { VP_SPACE_OUT, shape->n_out_bufs },
        { VP_SPACE_DIN, shape->n_din_bufs },
    };
    int64_t sum = shape->tie_bytes + shape->n_slots * VP_STAGE_LOSS_BYTES +
                  sizes->n_tensors * VP_STAGE_SUM_BYTES +
                  shape->n_slots * sizes->logits_bytes + sizes->staging_bytes;

    if (work->device.host_memory)
        return 0;
    if (shape->mirrored)
        sum += sizes->n_bytes[VP_SPACE_GRAD];
    if (first)
        sum += shape->n_slots * sizes->n_bytes[VP_SPACE_IN];
    for (size_t i = 0; i < VP_COUNT_OF(rings); i++) {
        enum vp_space space = rings[i].space;
        int64_t each = sizes->n_bytes[space];

        if (vp_stage_edge(shape, space) != VP_EDGE_HOST)
            continue;
        if (vp_stage_compresses(sizes, shape, space))
            each += sizes->compressed[space];
        sum += rings[i].n * each;
    }
    return sum;
}

/* Returns the bytes of moments and master weights of all elements, as one
 * replica saves them. */
static int64_t whole_state(const struct vp_workload *work,
                           const struct vp_stage_sizes *sizes)
{
    int64_t each = vp_optim_n_moments(work->optim.kind) *
                       (int64_t)sizeof(float) +
                   vp_optim_master_bytes(work->graphs[0].dtype);

    return sizes->train_bytes / (int64_t)sizeof(float) * each;
}

struct vp_stage_price vp_stage_price_of(const struct vp_workload *work,
                                        const struct vp_stage_sizes *sizes,
                                        const struct vp_stage_shape *shape,
                                        bool first)
{
    struct vp_stage_price price = {
        .memory = vp_stage_memory(work, sizes, shape, first),
        .staging = staging_bytes(work, sizes, shape, first),
        .act_bytes = vp_stage_wire_bytes(sizes, shape, VP_SPACE_OUT),
        .grad_bytes = vp_stage_wire_bytes(sizes, shape, VP_SPACE_DIN),
    };

    price.swap_bytes = sizes->n_bytes[VP_SPACE_SWAPPED];
    price.swapped = price.swap_bytes * shape->n_slots;
    price.snapshot = (price.memory.weights + whole_state(work, sizes)) *
                     work->graphs[0].n_members;
    for (int list = 0; list < VP_LIST_COUNT; list++)
        price.flops[list] = (sizes->flops[VP_SLOT_REST][list] *
                                 (shape->n_slots - shape->n_first_slots) +
                             sizes->flops[VP_SLOT_FIRST][list] *
                                 shape->n_first_slots) /
                            shape->n_slots;
    return price;
}

/* ---- Remembering -------------------------------------------------------- */

struct entry {
    struct vp_stage_key key;
    struct vp_stage_sizes sizes;
};

/* Open-addressing hash table of stage sizes; an entry with key 0 is free. */
struct table {
    struct entry *at;
    size_t n, size; /* size is a power of two */
};

enum { FIRST_SIZE = 64 };

struct vp_pricer {
    struct vp_workload work;
    struct vp_stage_keys *keys;
    struct table by_place;   /* by range of blocks */
    struct table by_content; /* by content of the blocks, at any position */
    uint64_t *sets; /* scratch memory, two entries per block of a stage */
    int n_lowered;
};

static struct entry *find(const struct table *table, struct vp_stage_key key)
{
    size_t i = key.low & (table->size - 1);

    while (
        (table->at[i].key.low || table->at[i].key.high) &&
        (table->at[i].key.low != key.low || table->at[i].key.high != key.high))
        i = (i + 1) & (table->size - 1);
    return &table->at[i];
}

static bool is_filled(const struct entry *entry)
{
    return entry->key.low || entry->key.high;
}

static enum vp_status grow(struct table *table)
{
    struct table wider = { .n = table->n,
                           .size = table->size ? 2 * table->size : FIRST_SIZE };

    wider.at = calloc(wider.size, sizeof(*wider.at));
    if (!wider.at)
        return VP_ERR_NOMEM;
    for (size_t i = 0; i < table->size; i++)
        if (is_filled(&table->at[i]))
            *find(&wider, table->at[i].key) = table->at[i];
    free(table->at);
    *table = wider;
    return VP_OK;
}

static enum vp_status put(struct table *table, struct vp_stage_key key,
                          const struct vp_stage_sizes *sizes)
{
    if (2 * (table->n + 1) > table->size)
        VP_TRY(grow(table));
    *find(table, key) = (struct entry){ key, *sizes };
    table->n++;
    return VP_OK;
}

static bool get(const struct table *table, struct vp_stage_key key,
                struct vp_stage_sizes *out)
{
    const struct entry *entry;

    if (table->size == 0)
        return false;
    entry = find(table, key);
    if (is_filled(entry))
        *out = entry->sizes;
    return is_filled(entry);
}

/* ---- Pricing ------------------------------------------------------------ */

enum vp_status vp_pricer_create(const struct vp_workload *work,
                                struct vp_pricer **out)
{
    struct vp_pricer *pricer = calloc(1, sizeof(*pricer));

    if (!pricer)
        return VP_ERR_NOMEM;
    pricer->work = *work;
    pricer->sets = calloc(2 * (size_t)work->graphs[0].n_blocks,
                          sizeof(*pricer->sets));
    if (!pricer->sets || vp_stage_keys_create(work, &pricer->keys) != VP_OK) {
        vp_pricer_free(pricer);
        return VP_ERR_NOMEM;
    }
    *out = pricer;
    return VP_OK;
}

void vp_pricer_free(struct vp_pricer *pricer)
{
    if (!pricer)
        return;
    vp_stage_keys_free(pricer->keys);
    free(pricer->sets);
    free(pricer->by_place.at);
    free(pricer->by_content.at);
    free(pricer);
}

int vp_pricer_n_lowered(const struct vp_pricer *pricer)
{
    return pricer->n_lowered;
}

static enum vp_status lower(struct vp_pricer *pricer,
                            const struct vp_stage_choices *choices,
                            struct vp_stage_sizes *out, struct vp_err *err)
{
    const struct vp_stage_shape any = { .n_slots = 1, .n_versions = 1 };
    struct vp_stage_plan plan;

    VP_TRY(vp_stage_plan_make(&pricer->work, choices, &any, &plan, err));
    *out = plan.sizes;
    vp_stage_plan_release(&plan);
    pricer->n_lowered++;
    return VP_OK;
}

static enum vp_status remember(struct table *table, struct vp_stage_key key,
                               const struct vp_stage_sizes *sizes,
                               struct vp_err *err)
{
    if (put(table, key, sizes) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "pricing a plan: out of memory");
    return VP_OK;
}

enum vp_status vp_pricer_sizes(struct vp_pricer *pricer,
                               const struct vp_stage_choices *choices,
                               struct vp_stage_sizes *out, struct vp_err *err)
{
    struct vp_stage_key place = vp_stage_key_place(choices), content;

    if (get(&pricer->by_place, place, out))
        return VP_OK;
    content = vp_stage_key_content(pricer->keys, choices);
    if (!get(&pricer->by_content, content, out)) {
        VP_TRY(lower(pricer, choices, out, err));
        VP_TRY(remember(&pricer->by_content, content, out, err));
    }
    return remember(&pricer->by_place, place, out, err);
}

enum vp_status vp_plan_bytes(struct vp_pricer *pricer,
                             const struct vp_plan *plan,
                             const struct vp_schedule *schedule,
                             struct vp_stage_price *stages_out,
                             struct vp_err *err)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        struct vp_stage_choices choices = vp_plan_stage_choices(
            plan, &pricer->work, schedule, s, pricer->sets);
        struct vp_stage_shape shape = vp_plan_stage_shape(
            plan, &pricer->work.graphs[0], schedule, s);
        struct vp_stage_sizes sizes;

        VP_TRY(vp_pricer_sizes(pricer, &choices, &sizes, err));
        stages_out[s] = vp_stage_price_of(&pricer->work, &sizes, &shape,
                                          choices.spec.first_block == 0);
    }
    return VP_OK;
}

enum vp_status vp_plan_seconds(const struct vp_schedule *schedule,
                               const struct vp_sched_costs *costs,
                               struct vp_plan_time *out, struct vp_err *err)
{
    struct vp_timing timing;

    VP_TRY(vp_simulate(schedule, costs, &timing, err));
    *out = (struct vp_plan_time){ timing.makespan, timing.bubble };
    vp_timing_release(&timing);
    return VP_OK;
}
