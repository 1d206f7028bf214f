/* Checks a plan and reports every mistake as one line. */
#include "plan/plan.h"

#include "graph/recompute.h"

#include <string.h>

enum { MAX_RANKS = 1024 };

struct check {
    const struct vp_plan *plan;
    const struct vp_graph *graph;
    vp_plan_mistake_fn report;
    void *ctx;
    int n;              /* mistakes so far */
    struct vp_err line; /* buffer of vp_err_refuse() for the next mistake */
};

static void add(struct check *c)
{
    c->n++;
    c->report(c->ctx, &c->line);
}

/* Writes the mistake with vp_err_refuse() and reports it. */
#define REFUSE(c, ...)                          \
    do {                                        \
        vp_err_refuse(&(c)->line, __VA_ARGS__); \
        add(c);                                 \
    } while (0)

static const struct vp_generator *generator_of(const struct vp_plan *plan)
{
    return vp_generator_find(plan->schedule ? plan->schedule : "1f1b");
}

static int n_pipeline(const struct vp_plan *plan)
{
    return plan->n_stages > 0 ? plan->n_stages : 1;
}

/* ---- The schedule and the cut ------------------------------------------- */

static void check_schedule(struct check *c)
{
    const struct vp_generator *generator = generator_of(c->plan);

    if (!generator)
        REFUSE(c, "schedule",
               "schedule: unknown schedule '%.48s'; 'vpipe schedule --help' "
               "lists them",
               c->plan->schedule);
    else if (generator->forward_only && !c->plan->forward_only)
        REFUSE(c, "schedule",
               "schedule: %s has no backwards and trains nothing; use another "
               "one",
               generator->name);
    if (vp_plan_n_stages(c->plan) > VP_MAX_STAGES)
        REFUSE(c, "stages", "stages: %d stages; use at most %d",
               vp_plan_n_stages(c->plan), VP_MAX_STAGES);
}

static void check_partition(struct check *c)
{
    const struct vp_plan *plan = c->plan;
    int n_stages = vp_plan_n_stages(plan), sum = 0, n_bad = 0;

    if (!plan->partition && n_stages == 1)
        return;
    if (!plan->partition) {
        REFUSE(c, "stages partition",
               "%d stages need a partition of the %d blocks; add one", n_stages,
               c->graph->n_blocks);
        return;
    }
    for (int s = 0; s < n_stages; s++) {
        sum += plan->partition[s];
        if (plan->partition[s] >= 1)
            continue;
        n_bad++;
        REFUSE(c, "partition",
               "partition: stage %d has %d blocks; give every stage at least 1",
               s, plan->partition[s]);
    }
    if (n_bad == 0 && sum != c->graph->n_blocks)
        REFUSE(c, "partition",
               "partition: the stages have %d blocks, the model has %d; make "
               "them equal",
               sum, c->graph->n_blocks);
}

/* ---- Recomputation and swap --------------------------------------------- */

static void check_recomputed(struct check *c)
{
    const struct vp_plan *plan = c->plan;

    for (int b = 0; plan->recompute_sets && b < c->graph->n_blocks; b++)
        if (vp_recompute_check(c->graph, b, 1, plan->recompute_sets + b,
                               &c->line) != VP_OK) {
            c->line.fields = "partition";
            add(c);
        }
    for (int s = 0; plan->recompute_ratio && s < vp_plan_n_stages(plan); s++)
        if (!(plan->recompute_ratio[s] >= 0.0 &&
              plan->recompute_ratio[s] <= 1.0))
            REFUSE(c, "recompute_ratio",
                   "recompute_ratio %g of stage %d is outside 0..1; write a "
                   "number from 0 to 1",
                   plan->recompute_ratio[s], s);
}

static void check_swapped(struct check *c)
{
    const struct vp_plan *plan = c->plan;

    for (int b = 0; plan->swap_sets && b < c->graph->n_blocks; b++) {
        int n_ops = c->graph->blocks[b].n_ops;

        if (n_ops < 64 && plan->swap_sets[b] >> n_ops)
            REFUSE(c, "partition",
                   "swap of block %d: the set %#llx has bits above %d; the "
                   "block has %d operators",
                   b, (unsigned long long)plan->swap_sets[b], n_ops - 1, n_ops);
    }
    for (int s = 0; plan->swap_ratio && s < vp_plan_n_stages(plan); s++)
        if (!(plan->swap_ratio[s] >= 0.0 && plan->swap_ratio[s] <= 1.0))
            REFUSE(c, "swap_ratio",
                   "swap_ratio %g of stage %d is outside 0..1; write a number "
                   "from 0 to 1",
                   plan->swap_ratio[s], s);
    for (int s = 0; plan->swap_buffers && s < vp_plan_n_stages(plan); s++)
        if (plan->swap_buffers[s] < 0)
            REFUSE(c, "partition",
                   "swap_buffers %d of stage %d; write 0 or more",
                   plan->swap_buffers[s], s);
}

static bool is_same(const uint64_t *a, const uint64_t *b, int first, int n)
{
    return a == b ||
           (a && b &&
            memcmp(a + first, b + first, (size_t)n * sizeof(*a)) == 0);
}

/* Slots that differ from the plan must be equal and come first. */
static void check_slots(struct check *c)
{
    const struct vp_plan *plan = c->plan;
    int first = 0;

    for (int s = 0; plan->n_slots > 0 && s < vp_plan_n_stages(plan); s++) {
        int n = plan->partition ? plan->partition[s] : c->graph->n_blocks;
        int k = vp_plan_n_first_slots(plan, first, n, plan->n_slots);

        for (int i = 1; i < k; i++)
            if (!is_same(plan->slots[i].recompute_sets,
                         plan->slots[0].recompute_sets, first, n) ||
                !is_same(plan->slots[i].swap_sets, plan->slots[0].swap_sets,
                         first, n)) {
                REFUSE(c, "partition",
                       "slots: entries 0 and %d differ in stage %d; make all "
                       "entries that differ from the plan equal",
                       i, s);
                return;
            }
        /* The plan uses only the leading entries that differ. */
        for (int i = k + 1; i < plan->n_slots; i++)
            if (vp_plan_slot_differs(plan, i, first, n)) {
                REFUSE(c, "partition",
                       "slots: entry %d differs from the plan in stage %d, but "
                       "entry %d before it does not; put those that differ "
                       "first",
                       i, s, k);
                return;
            }
        first += n;
    }
}

/* The model was built for a fixed number of members. */
static void check_members(struct check *c)
{
    int n = c->plan->tensor_parallel > 0 ? c->plan->tensor_parallel : 1;

    if (n != c->graph->n_members)
        REFUSE(c, "mp_size",
               "tensor_parallel is %d, but the model is cut for groups of %d; "
               "set mp_size to %d",
               n, c->graph->n_members, n);
    else if (c->plan->sequence_parallel != c->graph->sequence_parallel)
        REFUSE(c, "sequence_parallel",
               "sequence_parallel is %s, but the model is built %s slices of "
               "rows; set sequence_parallel: %s",
               c->plan->sequence_parallel ? "true" : "false",
               c->graph->sequence_parallel ? "with" : "without",
               c->graph->sequence_parallel ? "true" : "false");
}

/* ---- Ranks -------------------------------------------------------------- */

static void check_replicas(struct check *c)
{
    const struct vp_plan *plan = c->plan;
    int64_t n_ranks = 0;

    for (int s = 0; plan->replicas && s < n_pipeline(plan); s++) {
        n_ranks += plan->replicas[s];
        if (plan->replicas[s] < 1)
            REFUSE(c, "replicas",
                   "replicas: stage %d has %d ranks; give every stage at least "
                   "1",
                   s, plan->replicas[s]);
        else if (plan->n_chunks > 1 && plan->replicas[s] != plan->replicas[0])
            REFUSE(c, "replicas",
                   "replicas: stage %d has %d ranks, stage 0 has %d; with %d "
                   "chunks make them equal",
                   s, plan->replicas[s], plan->replicas[0], plan->n_chunks);
    }
    n_ranks *= plan->tensor_parallel > 0 ? plan->tensor_parallel : 1;
    if (n_ranks > MAX_RANKS)
        REFUSE(c, "replicas", "replicas: %lld ranks; use at most %d",
               (long long)n_ranks, MAX_RANKS);
    for (int s = 0; plan->depth && s < n_pipeline(plan); s++)
        if (plan->depth[s] < 0)
            REFUSE(c, "warmup_depths",
                   "warmup_depths: stage %d has %d; write 0 or more", s,
                   plan->depth[s]);
}

/* Every rank number from 0 to n - 1 must appear once. */
static void check_ranks(struct check *c)
{
    const struct vp_plan *plan = c->plan;
    bool seen[MAX_RANKS] = { false };
    int n = 0;

    for (int s = 0; s < n_pipeline(plan); s++) {
        int more = plan->replicas ? plan->replicas[s] : 1;

        if (more < 1 || more > MAX_RANKS - n)
            return; /* already reported */
        n += more;
    }
    for (int i = 0; plan->ranks && i < n; i++) {
        int rank = plan->ranks[i];

        if (rank < 0 || rank >= n || seen[rank])
            REFUSE(c, "ranks",
                   "ranks: entry %d is %d, which is %s; name every rank from 0 "
                   "to %d once",
                   i + 1, rank,
                   rank >= 0 && rank < n ? "there already" : "no rank", n - 1);
        else
            seen[rank] = true;
    }
    n *= plan->tensor_parallel > 0 ? plan->tensor_parallel : 1;
    for (int i = 0; plan->devices && i < n; i++)
        if (plan->devices[i] < 0)
            REFUSE(c, "machines",
                   "devices: entry %d is %d; write the number of a device",
                   i + 1, plan->devices[i]);
}

static void check_ties(struct check *c)
{
    const struct vp_graph *graph = c->graph;
    const struct vp_generator *generator = generator_of(c->plan);
    bool tied = false;

    for (vp_par par = 0; par < graph->n_params; par++)
        tied |= graph->params[par].tied_to != VP_NONE;
    if (tied && generator && generator->stream && vp_plan_n_stages(c->plan) > 1)
        REFUSE(c, "sync_mode tie_embeddings",
               "tied embeddings in different stages need sync_mode bsp; set "
               "tie_embeddings: false");
}

int vp_plan_check(const struct vp_plan *plan, const struct vp_graph *graph,
                  vp_plan_mistake_fn report, void *ctx)
{
    struct check c = {
        .plan = plan, .graph = graph, .report = report, .ctx = ctx
    };

    check_schedule(&c);
    check_partition(&c);
    check_recomputed(&c);
    check_swapped(&c);
    if (c.n == 0)
        check_slots(&c);
    check_members(&c);
    check_replicas(&c);
    check_ranks(&c);
    check_ties(&c);
    return c.n;
}
