#include "run/planning.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "config/buckets.h"
#include "config/resolve.h"
#include "model/model.h"
#include "plan/plan_json.h"
#include "run/devices.h"
#include "run/machine_profile.h"
#include "run/samples.h"
#include "runtime/train_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1024 };

struct vp_planning {
    const struct vp_config *config;
    struct vp_dims dims[VP_MAX_BUCKETS];
    struct vp_graph graphs[VP_MAX_BUCKETS];
    int n_graphs;
    struct vp_missing missing;
    struct vp_samples samples;
    struct vp_train_config train;
    int *devices;
    struct vp_stage_config stage; /* its workload is planned */
    struct vp_device_profile profile, measured;
    char note[512];
    struct vp_plan base;
    enum vp_edge_kind edges[VP_MAX_STAGES];
    int shared[MAX_RANKS]; /* devices, where ranks share cores */
    int64_t limits[MAX_RANKS], memory;
    struct vp_search_input input;
    struct vp_search *search;
    struct vp_arena arena;
};

static bool is_word(const char *name, const char *word)
{
    return name && strcmp(name, word) == 0;
}

static void ignore(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

/* ---- The workload ------------------------------------------------------- */

static enum vp_status open_workload(struct vp_planning *p, bool measure,
                                    struct vp_err *err)
{
    const struct vp_config *config = p->config;
    const struct vp_samples_config samples = {
        .config = config,
        .dims = p->dims,
        .n_dims = p->n_graphs = vp_buckets_make(config, p->dims),
        .missing = &p->missing,
        .no_data = true,
        .notice = ignore,
    };
    const struct vp_devices_config devices = {
        .config = config,
        .dry_run = !measure,
        .missing = &p->missing,
        .notice = ignore,
    };

    VP_TRY(vp_buckets_build(config, p->dims, p->n_graphs, p->graphs, err));
    VP_TRY(vp_samples_open(&samples, &p->samples, err));
    p->train = (struct vp_train_config){
        .graphs = p->graphs,
        .n_graphs = p->n_graphs,
        .data = p->samples.train,
        .eval_data = p->samples.eval,
        .optim = config->optim,
        .scale = config->loss_scale,
        .init = vp_param_init_range,
        .seed = config->seed,
    };
    vp_resolve_train(config, &p->train);
    VP_TRY(vp_devices_choose(&devices, &p->train, &p->devices, err));
    p->stage = vp_train_stage_config(&p->train, &p->train.backend_config);
    return VP_OK;
}

/* ---- The profile -------------------------------------------------------- */

static enum vp_status read_profile(struct vp_planning *p, const char *path,
                                   struct vp_device_profile *out,
                                   struct vp_err *err)
{
    size_t n_bytes;
    char *text;
    enum vp_status st;

    VP_TRY(vp_file_read(path, "JSON", &text, &n_bytes, err));
    st = vp_profile_parse(text, n_bytes, path, &p->arena, out, err);
    free(text);
    return st;
}

/* Whether a profile was measured for every block of this model. */
static bool covers(const struct vp_planning *p,
                   const struct vp_device_profile *profile)
{
    const struct vp_graph *graph = &p->graphs[0];
    struct vp_block_key *keys = calloc((size_t)graph->n_blocks, sizeof(*keys));
    bool all = keys && vp_profile_keys(graph, keys) == VP_OK;

    for (int b = 0; b < graph->n_blocks && all; b++)
        all = vp_profile_find(profile, keys[b]) != NULL;
    free(keys);
    return all;
}

/* Ranks share a GPU, or the cores. */
static struct vp_machine_profile_config machine(const struct vp_planning *p)
{
    const double seconds = 30.0; /* ranks that wait for a plan wait a minute */

    return (struct vp_machine_profile_config){
        .train = &p->train,
        .n_ranks = p->train.plan.n_stages * p->graphs[0].n_members,
        .seconds = seconds,
        .measure = true,
    };
}

/* `begin_ns`: when measuring began; 0: the profile is of the cache. */
static void note_measured(struct vp_planning *p, int64_t begin_ns)
{
    int n = snprintf(p->note, sizeof(p->note), "profile: measured on %.300s",
                     p->profile.facts.device);

    if (begin_ns > 0)
        snprintf(p->note + n, sizeof(p->note) - (size_t)n, ", now, in %.1f s",
                 vp_clock_seconds(begin_ns, vp_clock_ns()));
}

static enum vp_status measure_profile(struct vp_planning *p, struct vp_err *err)
{
    struct vp_machine_profile_config here = machine(p);
    int64_t begin = vp_clock_ns();

    VP_TRY(vp_machine_profile_get(&here, &p->arena, &p->profile, err));
    note_measured(p, begin);
    return VP_OK;
}

static enum vp_status open_profile(struct vp_planning *p, const char *name,
                                   bool measure, struct vp_err *err)
{
    struct vp_machine_profile_config here = machine(p);
    struct vp_err why;

    if (is_word(name, VP_PROFILE_MEASURED))
        return measure_profile(p, err);
    if (name && !is_word(name, VP_PROFILE_SYNTHETIC)) {
        VP_TRY(read_profile(p, name, &p->profile, err));
        snprintf(p->note, sizeof(p->note), "profile: %.300s, %.100s%s", name,
                 p->profile.facts.device,
                 covers(p, &p->profile) ? ""
                                        : "; blocks are estimated from its "
                                          "rates");
        return VP_OK;
    }
    if (!name && vp_machine_profile_find(&here, &p->arena, &p->profile, &why)) {
        note_measured(p, 0);
        return VP_OK;
    }
    if (!name && measure)
        return measure_profile(p, err);
    vp_profile_synthetic(p->stage.work.device.host_memory, p->graphs[0].dtype,
                         &p->profile);
    snprintf(p->note, sizeof(p->note),
             "profile: synthetic (stated rates of %s); seconds order plans and "
             "are no forecast",
             p->stage.work.device.host_memory ? "one CPU core" : "a GPU");
    return VP_OK;
}

/* ---- The base plan ------------------------------------------------------ */

/* Ranks of this machine that share its cores; a profile of another machine
 * speaks for itself. */
static void share_cores(struct vp_planning *p, const char *profile)
{
    int n_threads = p->train.backend_config.n_threads;
    int n_ranks = p->base.n_stages * p->graphs[0].n_members;
    int n_cores = vp_devices_n_cores();

    if (!p->stage.work.device.host_memory || p->profile.n_blocks > 0 ||
        (profile && !is_word(profile, VP_PROFILE_SYNTHETIC)) ||
        p->base.replicas || n_ranks * n_threads <= n_cores)
        return;
    p->base.devices = p->shared;
    p->profile.capacity = (double)n_cores / n_threads;
}

static void set_base(struct vp_planning *p,
                     const struct vp_planning_options *options)
{
    p->base = p->train.plan;
    /* A GPU that is not here: one per rank. */
    if (p->missing.gpu && p->config->machines.n < vp_config_n_ranks(p->config))
        p->base.devices = NULL;
    if (options->n_stages > 0 && options->n_stages != p->base.n_stages) {
        enum vp_edge_kind kind = p->base.edges && vp_plan_n_stages(&p->base) > 1
                                     ? p->base.edges[0]
                                     : VP_EDGE_LOCAL;

        for (int s = 0; s < VP_MAX_STAGES; s++)
            p->edges[s] = kind;
        p->base.n_stages = options->n_stages;
        p->base.n_chunks = 1;
        p->base.edges = p->edges;
        p->base.partition = NULL;
        p->base.recompute_ratio = p->base.swap_ratio = NULL;
        p->base.recompute_sets = p->base.swap_sets = NULL;
        p->base.swap_buffers = NULL;
        p->base.slots = NULL;
        p->base.n_slots = 0;
        p->base.replicas = p->base.depth = NULL;
        p->base.ranks = p->base.devices = NULL;
        p->base.replica_edges = NULL;
        p->base.schedule_text = NULL;
    }
}

void vp_planning_set_memory(struct vp_planning *p, int64_t bytes)
{
    p->memory = bytes;
    for (int r = 0; r < MAX_RANKS; r++)
        p->limits[r] = bytes > 0 ? bytes : INT64_MAX;
}

static void set_input(struct vp_planning *p,
                      const struct vp_planning_options *options)
{
    bool asp = p->config->sync_mode == VP_SYNC_ASP;
    int64_t memory = options->memory;

    if (memory == 0)
        memory = (int64_t)p->config->memory_limit;
    if (memory == 0)
        memory = p->profile.memory_bytes;
    vp_planning_set_memory(p, memory);
    p->input = (struct vp_search_input){
        .base = &p->base,
        .limits = p->limits,
        .stream = asp,
        .free_schedule = !options->keep_schedule,
        .free_partition = !options->keep_partition,
        .free_recompute = !options->keep_recompute,
        .allow_swap = options->swap && p->profile.copy_out > 0.0,
    };
}

enum vp_status vp_planning_scale_links(struct vp_planning *p, double factor)
{
    p->profile = p->measured;
    p->profile.same_host.bytes_per_second *= factor;
    p->profile.between_hosts.bytes_per_second *= factor;
    p->profile.copy_out *= factor;
    p->profile.copy_in *= factor;
    p->profile.copy_out_both *= factor;
    p->profile.copy_in_both *= factor;
    vp_search_free(p->search);
    p->search = NULL;
    return vp_search_create(&p->stage.work, &p->profile, &p->search);
}

/* ---- All ---------------------------------------------------------------- */

static enum vp_status open_all(struct vp_planning *p,
                               const struct vp_planning_options *options,
                               struct vp_err *err)
{
    const char *profile = options->profile ? options->profile
                                           : p->config->profile;
    bool measure = is_word(profile, VP_PROFILE_MEASURED) ||
                   (!profile && options->measure);

    VP_TRY(open_workload(p, measure, err));
    VP_TRY(open_profile(p, profile, measure, err));
    set_base(p, options);
    share_cores(p, profile);
    p->measured = p->profile;
    set_input(p, options);
    if (vp_search_create(&p->stage.work, &p->profile, &p->search) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    return VP_OK;
}

enum vp_status vp_planning_open(const struct vp_config *config,
                                const struct vp_planning_options *options,
                                struct vp_planning **out, struct vp_err *err)
{
    struct vp_planning *p = calloc(1, sizeof(*p));
    enum vp_status st;

    if (!p)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    p->config = config;
    st = open_all(p, options, err);
    if (st != VP_OK) {
        vp_planning_close(p);
        return st;
    }
    *out = p;
    return VP_OK;
}

void vp_planning_close(struct vp_planning *p)
{
    if (!p)
        return;
    vp_search_free(p->search);
    vp_samples_close(&p->samples);
    free(p->devices);
    for (int i = 0; i < p->n_graphs; i++)
        vp_graph_release(&p->graphs[i]);
    vp_arena_release(&p->arena);
    free(p);
}

struct vp_search *vp_planning_search(const struct vp_planning *p)
{
    return p->search;
}

const struct vp_search_input *vp_planning_input(const struct vp_planning *p)
{
    return &p->input;
}

const struct vp_device_profile *vp_planning_profile(const struct vp_planning *p)
{
    return &p->profile;
}

const struct vp_graph *vp_planning_graph(const struct vp_planning *p)
{
    return &p->graphs[0];
}

const char *vp_planning_note(const struct vp_planning *p)
{
    return p->note;
}

int64_t vp_planning_memory(const struct vp_planning *p)
{
    return p->memory;
}

int64_t vp_planning_batch(const struct vp_planning *p)
{
    return p->graphs[0].batch;
}

enum vp_status vp_planning_print(const struct vp_planning *p,
                                 const struct vp_search_result *result,
                                 char **text_out)
{
    int64_t bytes[VP_MAX_STAGES];
    const struct vp_plan_forecast forecast = {
        .step_seconds = result->time.step,
        .bytes = bytes,
        .bubble = result->time.bubble,
    };
    struct vp_plan plan = result->plan;

    for (int s = 0; s < result->n_stages; s++)
        bytes[s] = result->prices[s].memory.total;
    plan.edges = plan.replica_edges = NULL;
    plan.tie_edge = VP_EDGE_LOCAL;
    plan.devices = plan.ranks = NULL;
    if (vp_generator_find(plan.schedule)->stream)
        plan.accumulation_steps = 0;
    return vp_plan_print(&plan, p->graphs[0].n_blocks, &forecast, text_out);
}
