/* Makes the schedule `auto`: tries each placement of the stages on ranks and
 * keeps the fastest schedule. */
#include "config/schedule_auto.h"

#include "config/keys.h"
#include "config/resolve_balance.h"
#include "graph/program.h"
#include "plan/stage_plan.h"
#include "runtime/state.h"
#include "sched/schedule.h"

#include <stdio.h>
#include <stdlib.h>

/* Placements: one stage per rank, chunks in turn, two chunks in a V. */
enum { N_PLACES = 3 };

/* One placement of the stages on ranks, with its costs and memory limits. */
struct place {
    int partition[VP_MAX_STAGES];
    struct vp_plan_stages marks;
    struct vp_stage_costs stages[VP_MAX_STAGES];
    double limits[VP_MAX_STAGES]; /* per rank, in half stages */
    double sizes[VP_MAX_STAGES];  /* per stage: its slot, in half stages */
    struct vp_sched_costs costs;
    struct vp_sched_limits memory;
};

static const struct vp_generator *generator_of(const struct vp_config *config)
{
    return vp_generator_at(config->schedule);
}

/* ---- Chunks ------------------------------------------------------------- */

/* Returns the length of the lists with an entry per stage; 0 if there are
 * none. */
static int n_listed(const struct vp_config *config)
{
    const struct vp_real_list *ratios = &config->recompute_ratio;

    if (config->partition.n > 0)
        return config->partition.n;
    if (ratios->n == 0 || ratios->for_all)
        ratios = &config->swap_ratio;
    return ratios->for_all ? 0 : ratios->n;
}

/* Returns true if no key decides the number of chunks. */
static bool is_open(const struct vp_config *config)
{
    return !vp_config_given(config, "chunks") && n_listed(config) == 0;
}

void vp_schedule_auto_chunks(struct vp_config *config)
{
    int n = n_listed(config), most = VP_MAX_STAGES;
    int64_t n_blocks = config->model->n_blocks(&config->sizes);

    if (!generator_of(config)->planned || vp_config_given(config, "chunks"))
        return;
    most = n_blocks < most ? (int)n_blocks : most;
    config->chunks = 1;
    if (n > 0 && n % config->stages == 0)
        config->chunks = n / config->stages;
    else if (n == 0 && config->stages > 1 && 2 * config->stages <= most)
        config->chunks = 2;
}

/* ---- Costs -------------------------------------------------------------- */

/* Cost per FLOP of each phase, in any unit of time. */
struct rates {
    double f, b, w;
};

/* Returns 1e-9 per FLOP, or with schedule_costs the rates with which all chunks
 * of an average rank together take these times. */
static struct rates rates_of(const struct vp_config *config,
                             const struct vp_graph *graph)
{
    const struct vp_real_list *given = &config->schedule_costs;
    double flops[3];

    for (int i = 0; i < 3; i++)
        flops[i] = vp_graph_phase_flops(graph, 0, graph->n_blocks,
                                        i == 0   ? VP_PHASE_F
                                        : i == 1 ? VP_PHASE_B
                                                 : VP_PHASE_W) /
                   config->stages;
    if (given->n == 0 || !(flops[0] > 0.0 && flops[1] > 0.0 && flops[2] > 0.0))
        return (struct rates){ 1e-9, 1e-9, 1e-9 };
    return (struct rates){ given->at[0] / flops[0], given->at[1] / flops[1],
                           given->at[2] / flops[2] };
}

/* Computes the costs of a stage. Weight gradients of recomputed operators run
 * in B, at the rate of W. */
static enum vp_status stage_costs(const struct vp_graph *graph,
                                  const struct vp_stage_spec *spec,
                                  const struct rates *rates,
                                  struct vp_stage_costs *out,
                                  struct vp_err *err)
{
    double b = vp_graph_phase_flops(graph, spec->first_block, spec->n_blocks,
                                    VP_PHASE_B);
    struct vp_program program;

    VP_TRY(vp_program_lower(graph, spec, NULL, NULL, &program, err));
    *out = (struct vp_stage_costs){
        .f = rates->f * program.flops[VP_LIST_F],
        .r = rates->f * program.flops[VP_LIST_R],
        .b = rates->b * b + rates->w * (program.flops[VP_LIST_B] - b),
        .w = rates->w * program.flops[VP_LIST_W],
    };
    vp_program_release(&program);
    return VP_OK;
}

static enum vp_status fill_costs(const struct vp_config *config,
                                 const struct vp_graph *graph,
                                 struct place *place, struct vp_err *err)
{
    const struct vp_plan plan = {
        .n_stages = config->stages,
        .n_chunks = config->chunks,
        .partition = place->partition,
        .recompute_ratio = config->recompute_ratio.at,
        .recompute_sets = config->recompute_sets,
        .recompute_in_b = config->recompute_in_backward,
    };
    int n = vp_config_n_stages(config), first = 0;
    struct rates rates = rates_of(config, graph);
    uint64_t *sets = calloc((size_t)graph->n_blocks, sizeof(*sets));
    enum vp_status st = sets ? VP_OK : VP_ERR_NOMEM;

    if (!sets)
        vp_err_set(err, st, "schedule auto: out of memory");
    vp_plan_mark_stages(&plan, graph->n_blocks, &place->marks);
    for (int s = 0; s < n && st == VP_OK; s++) {
        struct vp_stage_spec spec = {
            .first_block = first,
            .n_blocks = place->partition[s],
            .recompute = vp_plan_stage_sets(&plan, graph, s, sets),
            .recompute_in_b = config->recompute_in_backward,
            .keep_all = !config->recompute,
            .split_w = true,
        };

        st = stage_costs(graph, &spec, &rates, &place->stages[s], err);
        first += spec.n_blocks;
    }
    free(sets);
    return st;
}

/* ---- Places ------------------------------------------------------------- */

/* Fills in a placement, for the chunks and schedule_v of `config`. Memory is
 * counted in slots as a run allocates them: a stage keeps its slots even while
 * another stage of the rank could use the memory. */
static enum vp_status fill_place(const struct vp_config *config,
                                 const struct vp_graph *graph,
                                 struct place *place,
                                 struct vp_sched_config *out,
                                 struct vp_err *err)
{
    int n = vp_config_n_stages(config);

    for (int s = 0; s < config->partition.n; s++)
        place->partition[s] = config->partition.at[s];
    if (config->partition.n == 0)
        VP_TRY(vp_resolve_balance(config, graph, place->partition, err));
    VP_TRY(fill_costs(config, graph, place, err));
    for (int s = 0; s < n; s++) {
        place->limits[s] = config->schedule_memory;
        place->sizes[s] = 2.0 / config->chunks;
    }
    place->costs = (struct vp_sched_costs){ .stages = place->stages };
    place->memory = (struct vp_sched_limits){ .rank = place->limits,
                                              .stage = place->sizes };
    *out = (struct vp_sched_config){
        .name = generator_of(config)->name,
        .n_stages = config->stages,
        .n_chunks = config->chunks,
        .v_shape = config->schedule_v,
        .n_mb = config->accumulation_steps,
        .replicas = config->replicas.n > 0 ? config->replicas.at : NULL,
        .depth = config->warmup_depths.n > 0 ? config->warmup_depths.at : NULL,
        .recompute = place->marks.recompute,
        .global_norm = true,
        .costs = &place->costs,
        .limits = &place->memory,
    };
    return VP_OK;
}

/* Fills in all placements that the configuration allows. */
static enum vp_status fill_places(const struct vp_config *config,
                                  const struct vp_graph *graph,
                                  struct place *places,
                                  struct vp_sched_config *scheds, int *n_out,
                                  struct vp_err *err)
{
    bool open = is_open(config);

    *n_out = 0;
    for (int i = 0; i < N_PLACES; i++) {
        struct vp_config one = *config;
        int n = *n_out;

        if (open && config->chunks > 1)
            one.chunks = i == 0 ? 1 : 2;
        if ((one.chunks == 1) != (i == 0) || (i == 2 && one.chunks != 2))
            continue;
        one.schedule_v = i == 2;
        VP_TRY(fill_place(&one, graph, &places[n], &scheds[n], err));
        ++*n_out;
    }
    return VP_OK;
}

/* ---- Making ------------------------------------------------------------- */

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "out of memory; close other programs");
}

/* Sets the fields of the configuration to those of the best schedule. */
static enum vp_status keep(struct vp_config *config,
                           const struct vp_sched_config *sched,
                           const struct place *place, const char *text,
                           struct vp_err *err)
{
    int n = sched->n_stages * sched->n_chunks;
    int *partition = vp_arena_alloc(&config->arena,
                                    (size_t)n * sizeof(*partition));
    char *copy = vp_arena_strdup(&config->arena, text);

    if (!partition || !copy)
        return no_memory(err);
    for (int s = 0; s < n; s++)
        partition[s] = place->partition[s];
    if (!vp_config_given(config, "chunks"))
        vp_origin_derive(config, "chunks", "what schedule auto found best");
    if (config->partition.n == 0)
        vp_origin_derive(config, "partition", "equal work by FLOPs");
    config->chunks = sched->n_chunks;
    config->partition = (struct vp_int_list){ partition, n };
    if (config->recompute_ratio.n > n)
        config->recompute_ratio.n = n; /* all entries are equal */
    if (config->swap_ratio.n > n)
        config->swap_ratio.n = n; /* all entries are equal */
    config->schedule_v = sched->v_shape;
    config->schedule_text = copy;
    return VP_OK;
}

static enum vp_status choose(struct vp_config *config,
                             const struct vp_graph *graph,
                             struct place places[N_PLACES], struct vp_err *err)
{
    struct vp_sched_config scheds[N_PLACES];
    struct vp_schedule schedule;
    enum vp_status st;
    char *text = NULL;
    int n, best = 0;

    st = fill_places(config, graph, places, scheds, &n, err);
    if (st == VP_ERR_INVALID) /* sets of a plan that do not fit the model */
        vp_err_prefix(err, "%s", vp_config_place(config, "partition"));
    VP_TRY(st);
    st = vp_schedule_make_best(scheds, n, &schedule, &best, err);
    if (st != VP_OK) {
        vp_err_prefix(err, "%s", vp_config_place(config, "schedule"));
        return st;
    }
    st = vp_schedule_print(&schedule, 0, &text);
    vp_schedule_release(&schedule);
    st = st == VP_OK ? keep(config, &scheds[best], &places[best], text, err)
                     : no_memory(err);
    free(text);
    return st;
}

static enum vp_status check_costs(const struct vp_config *config,
                                  struct vp_err *err)
{
    int n = config->schedule_costs.n;

    if (n == 0 || n == 3)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'schedule_costs' has %d %s; give three, the "
                      "times of a forward, a backward and a weight gradient, "
                      "for example [1, 1.4, 0.6]",
                      vp_config_place(config, "schedule_costs"), n,
                      n == 1 ? "number" : "numbers");
}

enum vp_status vp_schedule_auto_make(struct vp_config *config,
                                     const struct vp_graph *graph,
                                     struct vp_err *err)
{
    struct place *places;
    enum vp_status st;

    VP_TRY(check_costs(config, err));
    places = calloc(N_PLACES, sizeof(*places));
    if (!places)
        return no_memory(err);
    st = choose(config, graph, places, err);
    free(places);
    return st;
}

void vp_schedule_auto_describe(const struct vp_config *config, bool saved,
                               char *text, size_t n_bytes)
{
    const char *place = config->schedule_v   ? " in a V"
                        : config->chunks > 1 ? " in turn"
                                             : "";

    if (generator_of(config)->planned)
        snprintf(text, n_bytes,
                 "made for %s and %d half stages per rank: %d chunk%s%s%s",
                 config->schedule_costs.n > 0 ? "schedule_costs" : "FLOPs",
                 config->schedule_memory, config->chunks,
                 config->chunks > 1 ? "s" : "", place,
                 saved ? ", as it was saved" : "");
}
