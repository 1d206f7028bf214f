/* Derives and checks the pipeline keys of a configuration; vp_resolve_train()
 * copies them into the plan of a trainer. */
#include "config/resolve.h"

#include "config/edges.h"
#include "config/keys.h"
#include "config/placement.h"
#include "config/plan_file.h"
#include "config/resolve_balance.h"
#include "config/schedule_auto.h"
#include "config/schedule_file.h"
#include "runtime/trainer/trainer.h"

#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_ACCUMULATION = 32, /* default of accumulation_steps, as in vPipe */
    MAX_RANKS = 1024,
    MAX_THREADS = 1024, /* over all ranks */
};

static const struct vp_generator *generator_of(const struct vp_config *config)
{
    return vp_generator_at(config->schedule);
}

static enum vp_status no_memory(const struct vp_config *config,
                                struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs", config->path);
}

/* "4 stages", "2 chunks of 4 stages". */
struct count_text {
    char text[64];
};

static struct count_text count_stages(const struct vp_config *config)
{
    struct count_text count;
    const char *plural = config->stages == 1 ? "" : "s";

    if (config->chunks == 1)
        snprintf(count.text, sizeof(count.text), "%d stage%s", config->stages,
                 plural);
    else
        snprintf(count.text, sizeof(count.text), "%d chunks of %d stage%s",
                 config->chunks, config->stages, plural);
    return count;
}

/* ---- Schedule ----------------------------------------------------------- */

static enum vp_status resolve_schedule(struct vp_config *config,
                                       struct vp_err *err)
{
    const struct vp_generator *generator = generator_of(config);
    bool asp = config->sync_mode == VP_SYNC_ASP;

    if (generator->stream && !asp)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'schedule' is %s, which needs sync_mode "
                          "asp; set that, or use 1f1b",
                          vp_config_place(config, "schedule"), generator->name);
    if (asp && config->schedule_file)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'schedule' names %s: a schedule from a file "
                          "needs sync_mode bsp; set that, or use pipedream",
                          vp_config_place(config, "schedule"),
                          config->schedule_file->path);
    if (!generator->stream && asp)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'schedule' is %s, which needs sync_mode "
                          "bsp; set that, or use pipedream",
                          vp_config_place(config, "schedule"), generator->name);
    if (generator->two_versions != config->macrobatch &&
        vp_config_given(config, "macrobatch") &&
        vp_config_given(config, "schedule"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'schedule' is %s, but macrobatch at %s is "
                          "%s; remove one",
                          vp_config_place(config, "schedule"), generator->name,
                          vp_config_place(config, "macrobatch"),
                          config->macrobatch ? "true" : "false");
    config->macrobatch = generator->two_versions;
    if (generator->v_shape && config->chunks != 2)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'chunks' is %d, but schedule %s has 2; "
                          "remove it, or use interleaved",
                          vp_config_place(config, "chunks"), config->chunks,
                          generator->name);
    return VP_OK;
}

/* ---- Stages and blocks -------------------------------------------------- */

/* Returns the key that decides the number of stages. */
static const char *stages_key(const struct vp_config *config)
{
    static const char *const keys[] = { "stages", "partition", "config_file",
                                        "chunks", "schedule" };

    for (size_t i = 0; i < VP_COUNT_OF(keys); i++)
        if (vp_config_given(config, keys[i]))
            return keys[i];
    return "model_type";
}

static const char *stages_place(const struct vp_config *config)
{
    return vp_config_place(config, stages_key(config));
}

static enum vp_status resolve_stages(struct vp_config *config,
                                     struct vp_err *err)
{
    int64_t n_blocks = config->model->n_blocks(&config->sizes);
    int n_given = config->partition.n;

    if (config->stages == 0 && n_given % config->chunks != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'partition' has %d entries, which do not "
                          "divide into %d chunks; give chunks x stages of "
                          "them",
                          vp_config_place(config, "partition"), n_given,
                          config->chunks);
    if (config->stages == 0 && n_given > 0) {
        config->stages = n_given / config->chunks;
        vp_origin_derive(config, "stages", "entries of partition");
    } else if (config->stages == 0 && config->placement) {
        config->stages = config->placement->n_stages;
        vp_origin_derive(config, "stages", "stages of config_file");
    } else if (config->stages == 0) {
        config->stages = 1;
    }
    vp_schedule_auto_chunks(config);
    if ((generator_of(config)->memory || generator_of(config)->planned) &&
        config->schedule_memory == 0) {
        config->schedule_memory = 2 * config->stages;
        vp_origin_derive(config, "schedule_memory", "as much as 1f1b");
    }
    if (vp_config_n_stages(config) > VP_MAX_STAGES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'stages': %s are too many; use at most %d "
                          "in all",
                          stages_place(config), count_stages(config).text,
                          VP_MAX_STAGES);
    if (vp_config_n_stages(config) > n_blocks)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'stages': the model has %lld blocks, too "
                          "few for %s; use fewer, or more layers",
                          stages_place(config), (long long)n_blocks,
                          count_stages(config).text);
    return VP_OK;
}

static enum vp_status check_length(const struct vp_config *config,
                                   const char *key, int n, int want,
                                   struct vp_err *err)
{
    if (n == 0 || n == want)
        return VP_OK;
    return vp_err_set(
        err, VP_ERR_INVALID, "%s: key '%s' has %d %s for %s; give one each",
        vp_config_place(config, key), vp_config_written(config, key), n,
        n == 1 ? "entry" : "entries", count_stages(config).text);
}

/* Returns true if `module` decides the number of blocks. */
static bool as_module(const struct vp_config *config)
{
    return config->module && !vp_config_given(config, "layers") &&
           !vp_config_given(config, "decoder_layers");
}

static enum vp_status check_partition(const struct vp_config *config,
                                      struct vp_err *err)
{
    int64_t n_blocks = config->model->n_blocks(&config->sizes), sum = 0;

    VP_TRY(check_length(config, "partition", config->partition.n,
                        vp_config_n_stages(config), err));
    for (int s = 0; s < config->partition.n; s++)
        sum += config->partition.at[s];
    if (config->partition.n > 0 && sum != n_blocks)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'partition' has %lld blocks, but %s%s has "
                          "%lld; make them equal, or leave partition out",
                          vp_config_place(config, "partition"), (long long)sum,
                          as_module(config) ? "module " : "the model",
                          as_module(config) ? config->module : "",
                          (long long)n_blocks);
    return VP_OK;
}

/* ---- Placement ---------------------------------------------------------- */

/* Returns true if module_to_stage_map has an entry per stage and one for the
 * loss. */
static bool is_by_stage(const struct vp_placement *placement)
{
    int n = placement->modules.n;

    return n == placement->n_stages + 1 &&
           placement->modules.at[n - 2] == placement->n_stages - 1;
}

/* For a module_to_stage_map with an entry per block: sets the partition, or
 * compares with it. */
static enum vp_status count_modules(struct vp_config *config, int n_blocks,
                                    struct vp_err *err)
{
    const struct vp_placement *placement = config->placement;
    int *counts = vp_arena_alloc(&config->arena,
                                 (size_t)config->stages * sizeof(*counts));

    if (!counts)
        return no_memory(config, err);
    for (int i = 0; i < n_blocks; i++)
        counts[placement->modules.at[i]]++;
    if (counts[config->stages - 1] == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'module_to_stage_map' has no block but only "
                          "the loss on stage %d; move a block there",
                          placement->modules_place, config->stages - 1);
    for (int s = 0; s < config->partition.n; s++)
        if (config->partition.at[s] != counts[s])
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key 'module_to_stage_map' has %d blocks on "
                              "stage %d, but partition at %s has %d; make them "
                              "agree",
                              placement->modules_place, counts[s], s,
                              vp_config_place(config, "partition"),
                              config->partition.at[s]);
    if (config->partition.n == 0) {
        config->partition = (struct vp_int_list){ counts, config->stages };
        vp_origin_derive(config, "partition",
                         "module_to_stage_map of config_file");
    }
    return VP_OK;
}

static enum vp_status check_modules(struct vp_config *config,
                                    struct vp_err *err)
{
    const struct vp_placement *placement = config->placement;
    int64_t n_blocks = config->model->n_blocks(&config->sizes);
    int n = placement->modules.n;

    if (n == 0)
        return VP_OK;
    if (placement->modules.at[n - 1] != placement->n_stages - 1)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'module_to_stage_map' ends with stage %d, "
                          "but the last one in stage_to_rank_map is %d; make "
                          "them agree",
                          placement->modules_place,
                          placement->modules.at[n - 1],
                          placement->n_stages - 1);
    if (is_by_stage(placement))
        return VP_OK;
    if ((n == n_blocks || n == n_blocks + 1) && config->chunks == 1)
        return count_modules(config, (int)n_blocks, err);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'module_to_stage_map' does not fit %d "
                      "stage%s; give each once, and the last one twice, for "
                      "the loss",
                      placement->modules_place, placement->n_stages,
                      placement->n_stages == 1 ? "" : "s");
}

/* Compares config_file with the number of stages. If key `replicas` has
 * replaced its replicas, its list of ranks is dropped. */
static enum vp_status check_placement(struct vp_config *config,
                                      struct vp_err *err)
{
    const struct vp_placement *placement = config->placement;

    if (!placement)
        return VP_OK;
    if (config->replicas.at != placement->replicas.at) {
        if (config->ranks.at == placement->ranks.at)
            config->ranks = (struct vp_int_list){ .n = 0 };
        return VP_OK;
    }
    if (placement->n_stages != config->stages)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'stage_to_rank_map' has %d stage%s, but by "
                          "%s at %s there %s %d; make them agree",
                          placement->place, placement->n_stages,
                          placement->n_stages == 1 ? "" : "s",
                          stages_key(config), stages_place(config),
                          config->stages == 1 ? "is" : "are", config->stages);
    return check_modules(config, err);
}

/* Key `ranks` must have every number from 0 once, `machines` an entry per
 * rank. */
static enum vp_status check_ranks(const struct vp_config *config,
                                  struct vp_err *err)
{
    int n = vp_config_n_groups(config), n_ranks = vp_config_n_ranks(config);
    bool seen[MAX_RANKS] = { false };

    if (config->ranks.n > 0 && config->ranks.n != n)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'ranks' has %d %s for %d rank%s; give one "
                          "each",
                          vp_config_place(config, "ranks"), config->ranks.n,
                          config->ranks.n == 1 ? "entry" : "entries", n,
                          n == 1 ? "" : "s");
    for (int i = 0; i < config->ranks.n; i++) {
        int rank = config->ranks.at[i];

        if (rank >= n || seen[rank])
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key 'ranks' has %d as entry %d, which is "
                              "%s; name every rank from 0 to %d once",
                              vp_config_place(config, "ranks"), rank, i + 1,
                              rank >= n ? "too large" : "there already", n - 1);
        seen[rank] = true;
    }
    if (config->machines.n > 0 && config->machines.n != n_ranks)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'machines' has %d %s for %d rank%s; give "
                          "one each",
                          vp_config_place(config, "machines"),
                          config->machines.n,
                          config->machines.n == 1 ? "entry" : "entries",
                          n_ranks, n_ranks == 1 ? "" : "s");
    return VP_OK;
}

/* ---- Lists with an entry per stage -------------------------------------- */

static enum vp_status resolve_ratios(struct vp_config *config,
                                     struct vp_err *err)
{
    struct vp_real_list *list = &config->recompute_ratio;
    int n = vp_config_n_stages(config);
    double *all;

    if (!list->for_all)
        VP_TRY(check_length(config, "recompute_ratio", list->n, n, err));
    if (list->n == 0 || (config->recompute && !list->for_all))
        return VP_OK;
    all = vp_arena_alloc(&config->arena, (size_t)n * sizeof(*all));
    if (!all)
        return no_memory(config, err);
    for (int s = 0; s < n; s++)
        all[s] = config->recompute ? list->at[0] : 0.0;
    *list = (struct vp_real_list){ .at = all,
                                   .n = n,
                                   .for_all = list->for_all };
    if (!config->recompute)
        vp_origin_derive(config, "recompute_ratio", "recompute is false");
    return VP_OK;
}

static enum vp_status resolve_swap(struct vp_config *config, struct vp_err *err)
{
    struct vp_real_list *list = &config->swap_ratio;
    int n = vp_config_n_stages(config);
    double *all;

    if (!list->for_all)
        return check_length(config, "swap_ratio", list->n, n, err);
    all = vp_arena_alloc(&config->arena, (size_t)n * sizeof(*all));
    if (!all)
        return no_memory(config, err);
    for (int s = 0; s < n; s++)
        all[s] = list->at[0];
    *list = (struct vp_real_list){ .at = all, .n = n, .for_all = true };
    return VP_OK;
}

/* Takes the sets of the plan file, unless recompute is false. */
static void resolve_sets(struct vp_config *config)
{
    config->recompute_sets = config->recompute && config->plan_file
                                 ? config->plan_file->plan.recompute_sets
                                 : NULL;
}

static enum vp_status check_replicas(const struct vp_config *config,
                                     struct vp_err *err)
{
    int n_ranks;

    VP_TRY(check_length(config, "replicas", config->replicas.n, config->stages,
                        err));
    for (int s = 1; config->chunks > 1 && s < config->replicas.n; s++)
        if (config->replicas.at[s] != config->replicas.at[0])
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: key '%s': ranks of schedule %s own several "
                              "stages and need the same number of replicas "
                              "everywhere; give that, or use 1f1b",
                              vp_config_place(config, "replicas"),
                              vp_config_written(config, "replicas"),
                              generator_of(config)->name);
    n_ranks = vp_config_n_ranks(config);
    if (n_ranks > MAX_RANKS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key '%s': %d ranks are too many; use at most "
                          "%d in all",
                          vp_config_place(config, "replicas"),
                          vp_config_written(config, "replicas"), n_ranks,
                          MAX_RANKS);
    if (n_ranks * config->threads_per_stage > MAX_THREADS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'threads_per_stage': %d ranks with %d "
                          "threads each are %d; use at most %d in all",
                          vp_config_place(config, "threads_per_stage"), n_ranks,
                          config->threads_per_stage,
                          n_ranks * config->threads_per_stage, MAX_THREADS);
    return VP_OK;
}

/* Validates the schedule with the user's depths, which may cause a deadlock. */
static enum vp_status check_depths(const struct vp_config *config,
                                   struct vp_err *err)
{
    bool asp = config->sync_mode == VP_SYNC_ASP;
    struct vp_sched_config sched = {
        .name = generator_of(config)->name,
        .n_stages = config->stages,
        .n_chunks = config->chunks,
        .n_mb = config->accumulation_steps,
        .replicas = config->replicas.at,
        .depth = config->warmup_depths.at,
        .global_norm = !asp,
    };
    struct vp_schedule schedule = { .actions = NULL };
    enum vp_status st;
    int64_t n_proof;

    if (config->warmup_depths.n == 0)
        return VP_OK;
    VP_TRY(check_length(config, "warmup_depths", config->warmup_depths.n,
                        config->stages, err));
    n_proof = vp_schedule_proof_mb(sched.replicas, sched.depth, sched.n_stages);
    if (asp || sched.n_mb > n_proof)
        sched.n_mb = (int)n_proof; /* at most 1024 ranks of depth 1000 */
    st = vp_schedule_make(&sched, &schedule, err);
    if (st == VP_OK)
        st = vp_schedule_validate(&schedule, err);
    vp_schedule_release(&schedule);
    if (st != VP_OK)
        vp_err_prefix(err, "%s: key '%s'",
                      vp_config_place(config, "warmup_depths"),
                      vp_config_written(config, "warmup_depths"));
    return st;
}

/* ---- Balance ------------------------------------------------------------ */

static enum vp_status set_balanced(struct vp_config *config,
                                   const struct vp_graph *graph,
                                   struct vp_err *err)
{
    int n = vp_config_n_stages(config);
    int *partition = vp_arena_alloc(&config->arena,
                                    (size_t)n * sizeof(*partition));

    if (!partition)
        return no_memory(config, err);
    VP_TRY(vp_resolve_balance(config, graph, partition, err));
    config->partition = (struct vp_int_list){ partition, n };
    vp_origin_derive(config, "partition", "equal work by FLOPs");
    return VP_OK;
}

/* Derives from the FLOPs of the model: the lists of schedule auto, or a
 * partition. */
static enum vp_status plan_by_flops(struct vp_config *config,
                                    const struct vp_dims *dims,
                                    struct vp_err *err)
{
    bool planned = generator_of(config)->planned;
    struct vp_graph graph;
    enum vp_status st;

    if (planned && config->schedule_text)
        return VP_OK; /* the plan file has the lists */
    if (!planned &&
        (config->partition.n > 0 || vp_config_n_stages(config) == 1))
        return VP_OK;
    VP_TRY(vp_model_build(config->model, &config->sizes, dims, &graph, err));
    st = planned ? vp_schedule_auto_make(config, &graph, err)
                 : set_balanced(config, &graph, err);
    vp_graph_release(&graph);
    return st;
}

/* ---- All of it ---------------------------------------------------------- */

/* Refuses rebalance with shard_optimizer: shards of the optimizer's state cannot
 * move. */
static enum vp_status check_shards(const struct vp_config *config,
                                   struct vp_err *err)
{
    if (!config->shard_optimizer || !config->rebalance)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'rebalance' moves blocks with their whole "
                      "state, but shard_optimizer gives each replica a shard; "
                      "remove one of them",
                      vp_config_place(config, "rebalance"));
}

/* Refuses clipping by stage with tied embeddings: copies of tied weights on
 * stages with different norms would get different updates. */
static enum vp_status check_clipped_ties(const struct vp_config *config,
                                         struct vp_err *err)
{
    if (!config->clip_per_stage || !(config->optim.grad_clip > 0.0f) ||
        !config->sizes.tie_embeddings)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'grad_clip_scope': stages that share the tied "
                      "embeddings must clip them alike; set tie_embeddings to "
                      "false, or grad_clip_scope to all",
                      vp_config_place(config, "grad_clip_scope"));
}

/* Tied weights need stages that update together: in asp they are untied, or
 * refused if the user asked for them. */
static enum vp_status resolve_ties(struct vp_config *config, struct vp_err *err)
{
    if (vp_config_n_stages(config) == 1)
        return VP_OK;
    if (config->sync_mode == VP_SYNC_BSP)
        return check_clipped_ties(config, err);
    if (config->sizes.tie_embeddings &&
        vp_config_given(config, "tie_embeddings"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'tie_embeddings' is true, but several "
                          "stages cannot share weights in sync_mode asp; set "
                          "it to false, or use bsp",
                          vp_config_place(config, "tie_embeddings"));
    if (config->sizes.tie_embeddings)
        vp_origin_derive(config, "tie_embeddings",
                         "stages cannot share weights in sync_mode asp");
    config->sizes.tie_embeddings = false;
    return VP_OK;
}

static enum vp_status refuse_members(const struct vp_config *config,
                                     const char *key, const char *why,
                                     struct vp_err *err)
{
    return vp_err_set(
        err, VP_ERR_UNSUPPORTED, "%s: key 'mp_size' is %d, but %s (key '%s')",
        vp_config_place(config, "mp_size"), config->mp_size, why, key);
}

/* Refuses keys that tensor-parallel groups do not support. */
static enum vp_status check_members(const struct vp_config *config,
                                    struct vp_err *err)
{
    if (config->mp_size == 1 && config->sequence_parallel)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'sequence_parallel' is true, but mp_size is "
                          "1: there is no group whose ranks could share rows; "
                          "set mp_size, or sequence_parallel: false",
                          vp_config_place(config, "sequence_parallel"));
    if (config->mp_size == 1)
        return VP_OK;
    if (config->sequence_parallel && config->device == VP_DEVICE_KIND_CUDA)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: key 'sequence_parallel' is true, but slices of "
                          "rows are on CPU cores alone; set device: cpu, or "
                          "sequence_parallel: false",
                          vp_config_place(config, "sequence_parallel"));
    if (config->optim.kind == VP_OPTIM_LAMB &&
        config->device == VP_DEVICE_KIND_CUDA)
        return refuse_members(config, "optimizer",
                              "groups on GPUs cannot train with lamb; use "
                              "adamw, or device: cpu",
                              err);
    if (config->rebalance)
        return refuse_members(config, "rebalance",
                              "tensor-parallel ranks cannot be re-balanced; "
                              "set rebalance: false",
                              err);
    return VP_OK;
}

/* Adds the place of the key to the model's message "key: cause; remedy". */
enum vp_status vp_resolve_check_model(const struct vp_config *config,
                                      const struct vp_dims *dims,
                                      struct vp_err *err)
{
    struct vp_model_config sizes = config->sizes;
    struct vp_err model_err = { .text = "" };
    enum vp_status st;
    size_t n_key;

    sizes.n_members = config->mp_size;
    sizes.sequence_parallel = config->sequence_parallel;
    st = vp_model_check(config->model, &sizes, dims, &model_err);
    if (st == VP_OK)
        return VP_OK;
    n_key = strcspn(model_err.fields, " ");
    return vp_err_set(err, st, "%s: key '%.*s'%s",
                      vp_config_blame(config, model_err.fields), (int)n_key,
                      model_err.fields, model_err.text + n_key);
}

static void resolve_accumulation(struct vp_config *config)
{
    if (config->sync_mode == VP_SYNC_ASP) {
        config->accumulation_steps = 1;
    } else if (!vp_config_given(config, "accumulation_steps") &&
               !config->schedule_file) {
        config->accumulation_steps = vp_config_n_stages(config) > 1
                                         ? DEFAULT_ACCUMULATION
                                         : 1;
        vp_origin_derive(config, "accumulation_steps",
                         vp_config_n_stages(config) > 1 ? "several stages"
                                                        : "one stage");
    }
}

enum vp_status vp_resolve_pipeline(struct vp_config *config,
                                   const struct vp_dims *dims,
                                   struct vp_err *err)
{
    VP_TRY(check_members(config, err));
    VP_TRY(vp_schedule_file_resolve(config, err));
    VP_TRY(resolve_schedule(config, err));
    VP_TRY(resolve_stages(config, err));
    resolve_accumulation(config);
    VP_TRY(check_partition(config, err));
    VP_TRY(check_placement(config, err));
    VP_TRY(resolve_ratios(config, err));
    VP_TRY(resolve_swap(config, err));
    resolve_sets(config);
    VP_TRY(check_replicas(config, err));
    VP_TRY(check_shards(config, err));
    VP_TRY(check_ranks(config, err));
    VP_TRY(check_depths(config, err));
    VP_TRY(resolve_ties(config, err));
    VP_TRY(plan_by_flops(config, dims, err));
    return vp_edges_resolve(config, err);
}

/* Copies the values of a plan file for which there are no keys. */
static void take_plan(const struct vp_plan *file, struct vp_plan *plan)
{
    plan->swap_sets = file->swap_sets;
    plan->swap_buffers = file->swap_buffers;
    plan->w_recomputed = file->w_recomputed;
    plan->keep_gathered = file->keep_gathered;
    plan->slots = file->slots;
    plan->n_slots = file->n_slots;
    plan->bundle_bytes = file->bundle_bytes;
}

void vp_resolve_train(const struct vp_config *config,
                      struct vp_train_config *train)
{
    train->plan.schedule = vp_generator_at(config->schedule)->name;
    if (!generator_of(config)->planned) /* the lists of auto include it */
        train->plan.schedule_memory = config->schedule_memory;
    train->plan.schedule_text = config->schedule_text;
    train->plan.schedule_v = config->schedule_v;
    train->plan.n_stages = config->stages;
    train->plan.n_chunks = config->chunks;
    train->plan.partition = config->partition.at;
    train->plan.recompute_ratio = config->recompute_ratio.at;
    train->plan.recompute_sets = config->recompute_sets;
    if (config->swap_ratio.n > 0)
        train->plan.swap_ratio = config->swap_ratio.at;
    train->plan.keep_all = !config->recompute;
    train->plan.replicas = config->replicas.at;
    train->plan.depth = config->warmup_depths.at;
    train->plan.early_recompute = config->early_recompute;
    train->plan.recompute_in_b = config->recompute_in_backward;
    train->clip_per_stage = config->clip_per_stage;
    train->fast_sums = config->fast_reduce;
    train->plan.compress = config->compress_activations;
    train->plan.shard_optimizer = config->shard_optimizer;
    train->plan.edges = config->edges;
    train->plan.replica_edges = config->replica_edges;
    train->plan.tie_edge = config->tie_edge;
    train->plan.accumulation_steps = config->accumulation_steps;
    train->plan.ranks = config->ranks.at;
    train->plan.tensor_parallel = config->mp_size;
    train->plan.sequence_parallel = config->sequence_parallel;
    if (config->plan_file)
        take_plan(&config->plan_file->plan, &train->plan);
    train->timeout_ms = config->watchdog_seconds * 1000;
}
