/* The table of generators, and the passes that turn their lists into a schedule.
 * docs/extend/add-a-schedule.md shows how to add one. */
#include "sched/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_STAGES = 4096,
    MAX_REPLICAS = 4096,
    MAX_DEPTH = 1 << 20,
    MAX_MB = 1 << 29,
    MAX_WORK = 1 << 24, /* stages x minibatches: gigabytes of actions */
    MAX_BLOCK = 1024,   /* ranks of a schedule made from a building block */
    MAX_SEARCH = 64,    /* the same if the block is searched for */
};

typedef void (*generator_fn)(const struct vp_schedule *schedule,
                             const struct vp_node *node,
                             struct vp_sched_list *out);

/* ---- The table ---------------------------------------------------------- */

/* The keeps_*() functions return the number of slots that a rank needs for the
 * generator's own lists; the greedy rule gets the same number. */
static int keeps_zb_h2(const struct vp_sched_config *config)
{
    return 2 * config->n_stages - 1;
}

static int keeps_zb_v(const struct vp_sched_config *config)
{
    return 2 * config->n_stages;
}

/* At most the memory of 1f1b: more does not make the lists shorter. */
static int keeps_v_auto(const struct vp_sched_config *config)
{
    int most = 2 * config->n_stages;

    return config->memory > 0 && config->memory < most ? config->memory : most;
}

static int keeps_dualpipe_v(const struct vp_sched_config *config)
{
    return 2 * config->n_stages + 1;
}

static int keeps_v_half(const struct vp_sched_config *config)
{
    return vp_v_half_keeps(config->n_stages);
}

static int keeps_v_min(const struct vp_sched_config *config)
{
    return vp_v_min_keeps(config->n_stages);
}

/* Either `node` writes the list of one node or `ranks` those of all ranks. If
 * both are NULL, auto.c writes them. */
static const struct generator {
    struct vp_generator about;
    int depth;   /* factor on the default warm-up depth; 0: no depths */
    bool single; /* writes one pipeline; replicas are copies of it */
    generator_fn node;
    void (*ranks)(const struct vp_schedule *schedule,
                  struct vp_sched_list *lists);
    int most_ranks; /* limit, because of the time to make lists; 0: none */
    /* With fewer than least[0] P + least[1] minibatches on P ranks, greedy.c
     * writes the lists, and a rank has `keeps` slots. */
    int least[2];
    int (*keeps)(const struct vp_sched_config *config);
} generators[] = {
    { .about = { .name = "1f1b",
                 .meaning = "one forward, one backward, with flush (bsp)" },
      .depth = 1,
      .node = vp_generate_1f1b },
    { .about = { .name = "gpipe",
                 .meaning = "all forwards, then all backwards (bsp)" },
      .node = vp_generate_gpipe },
    { .about = { .name = "pipedream",
                 .meaning = "1f1b without flush, an update per round (asp)",
                 .stream = true },
      .depth = 1,
      .node = vp_generate_1f1b },
    { .about = { .name = "macrobatch",
                 .meaning = "1f1b without flush, two weight versions (2BW)",
                 .stream = true,
                 .two_versions = true },
      .depth = 1,
      .node = vp_generate_1f1b },
    { .about = { .name = "interleaved",
                 .meaning = "1f1b with several chunks per rank (bsp)",
                 .chunks = true },
      .single = true,
      .ranks = vp_generate_interleaved },
    { .about = { .name = "zb-h1",
                 .meaning = "1f1b with deferred weight gradients (bsp)",
                 .split = true },
      .depth = 1,
      .node = vp_generate_zb_h },
    { .about = { .name = "zb-h2",
                 .meaning = "zb-h1 with twice the warm-up (bsp)",
                 .split = true },
      .depth = 2,
      .node = vp_generate_zb_h,
      .least = { 2, -1 },
      .keeps = keeps_zb_h2 },
    { .about = { .name = "zb-v",
                 .meaning = "zero bubble, two chunks in a V (bsp)",
                 .split = true,
                 .chunks = true,
                 .v_shape = true },
      .single = true,
      .ranks = vp_generate_zb_v,
      .least = { 2, -1 },
      .keeps = keeps_zb_v },
    { .about = { .name = "v-half",
                 .meaning = "half the memory of 1f1b, two chunks in a V (bsp)",
                 .split = true,
                 .chunks = true,
                 .v_shape = true },
      .single = true,
      .ranks = vp_generate_v_half,
      .most_ranks = MAX_BLOCK,
      .least = { 1, 0 },
      .keeps = keeps_v_half },
    { .about = { .name = "v-min",
                 .meaning = "a third of the memory of 1f1b, in a V (bsp)",
                 .split = true,
                 .chunks = true,
                 .v_shape = true },
      .single = true,
      .ranks = vp_generate_v_min,
      .most_ranks = MAX_BLOCK,
      .least = { 1, 0 },
      .keeps = keeps_v_min },
    { .about = { .name = "v-auto",
                 .meaning = "the shortest in a V for a given memory (bsp)",
                 .split = true,
                 .chunks = true,
                 .v_shape = true,
                 .memory = true },
      .single = true,
      .ranks = vp_generate_v_auto,
      .most_ranks = MAX_SEARCH,
      .least = { 1, 0 },
      .keeps = keeps_v_auto },
    { .about = { .name = "dualpipe-v",
                 .meaning = "DualPipe in a V, pairs one after the other (bsp)",
                 .split = true,
                 .chunks = true,
                 .v_shape = true },
      .single = true,
      .ranks = vp_generate_dualpipe_v,
      .least = { 2, 0 },
      .keeps = keeps_dualpipe_v },
    { .about = { .name = "eval",
                 .meaning = "forwards only",
                 .chunks = true,
                 .forward_only = true },
      .depth = 1,
      .ranks = vp_generate_eval },
    { .about = { .name = "auto",
                 .meaning = "made to measure: costs and memory decide (bsp)",
                 .split = true,
                 .chunks = true,
                 .planned = true },
      .single = true },
};

const struct vp_generator *vp_generator_at(int i)
{
    bool inside = i >= 0 && (size_t)i < VP_COUNT_OF(generators);

    return inside ? &generators[i].about : NULL;
}

int vp_generator_index(const char *name)
{
    for (size_t i = 0; name && i < VP_COUNT_OF(generators); i++)
        if (strcmp(generators[i].about.name, name) == 0)
            return (int)i;
    return -1;
}

const struct vp_generator *vp_generator_find(const char *name)
{
    return vp_generator_at(vp_generator_index(name));
}

/* ---- Checking the configuration ----------------------------------------- */

bool vp_sched_is_v_shape(const struct vp_sched_config *config)
{
    const struct vp_generator *generator = vp_generator_find(config->name);

    return generator && (generator->v_shape ||
                         ((generator->forward_only || generator->planned) &&
                          config->v_shape));
}

int vp_sched_n_chunks(const struct vp_sched_config *config)
{
    const struct vp_generator *generator = vp_generator_find(config->name);

    if (vp_sched_is_v_shape(config))
        return 2;
    if (config->n_chunks == 0)
        return generator && generator->chunks && !generator->forward_only ? 2
                                                                          : 1;
    return config->n_chunks;
}

int vp_sched_keeps(const struct vp_sched_config *config)
{
    int index = vp_generator_index(config->name);

    return index >= 0 && generators[index].keeps
               ? generators[index].keeps(config)
               : 0;
}

static enum vp_status unknown_name(const char *name, struct vp_err *err)
{
    char names[256] = "";
    size_t n = 0;

    for (size_t i = 0; i < VP_COUNT_OF(generators); i++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
                              i > 0 ? ", " : "", generators[i].about.name);
    return vp_err_set(err, VP_ERR_INVALID,
                      "schedule '%.48s' is unknown; choose one of %s",
                      name ? name : "", names);
}

static enum vp_status check_counts(const struct vp_sched_config *config,
                                   const struct generator *generator,
                                   struct vp_err *err)
{
    const char *name = config->name;
    bool stream = generator->about.stream;
    int least = stream && config->first_mb > config->segment_begin ? 0 : 1;
    int n_chunks = vp_sched_n_chunks(config);

    if (config->n_stages < 1 || config->n_stages > MAX_STAGES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: %d stages; give 1 to %d", name,
                          config->n_stages, MAX_STAGES);
    if (config->n_mb < least || config->n_mb > MAX_MB)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: %d minibatches; give %d to %d", name,
                          config->n_mb, least, MAX_MB);
    if (n_chunks < 1 || n_chunks > MAX_STAGES / config->n_stages)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: %d chunks of %d stages; give at most "
                          "%d stages in all",
                          name, n_chunks, config->n_stages, MAX_STAGES);
    if ((int64_t)config->n_stages * n_chunks * config->n_mb > MAX_WORK)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: %d minibatches on %d stages are too "
                          "many for one list; give fewer minibatches, or make "
                          "it in pieces",
                          name, config->n_mb, config->n_stages * n_chunks);
    if (generator->most_ranks > 0 && config->n_stages > generator->most_ranks)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s is made for at most %d stages, not %d; "
                          "use zb-v",
                          name, generator->most_ranks, config->n_stages);
    if (n_chunks > 1 && !generator->about.chunks)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s has one chunk per rank, not %d; use "
                          "interleaved or zb-v",
                          name, n_chunks);
    if (config->n_chunks > 2 && vp_sched_is_v_shape(config))
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: a V has two chunks per rank, not %d; "
                          "use interleaved or leave chunks out",
                          name, config->n_chunks);
    return VP_OK;
}

/* The least memory is two chunks: one minibatch. */
static enum vp_status check_memory(const struct vp_sched_config *config,
                                   const struct generator *generator,
                                   struct vp_err *err)
{
    const char *name = config->name;

    if (config->memory == 0 || generator->about.forward_only)
        return VP_OK;
    if (!generator->about.memory)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s has no memory to set; leave it out, or "
                          "use v-auto",
                          name);
    if (config->memory < 2)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: memory for %d chunks; give at least 2, "
                          "those of one minibatch",
                          name, config->memory);
    return VP_OK;
}

static enum vp_status check_stages(const struct vp_sched_config *config,
                                   const struct generator *generator,
                                   struct vp_err *err)
{
    const char *name = config->name;

    for (int s = 0; config->replicas && s < config->n_stages; s++) {
        if (config->replicas[s] < 1 || config->replicas[s] > MAX_REPLICAS)
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s: %d replicas of stage %d; give 1 "
                              "to %d",
                              name, config->replicas[s], s, MAX_REPLICAS);
        if (config->replicas[s] > 1 && generator->about.planned)
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s: %d replicas of stage %d; it takes "
                              "none, use zb-h2 or zb-v",
                              name, config->replicas[s], s);
        if (config->replicas[s] != config->replicas[0] &&
            (generator->single || vp_sched_n_chunks(config) > 1))
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s: stage %d has %d replicas and stage "
                              "0 has %d; ranks with several stages need the "
                              "same number everywhere; give that, or use 1f1b",
                              name, s, config->replicas[s],
                              config->replicas[0]);
    }
    for (int s = 0; config->depth && s < config->n_stages; s++) {
        if (generator->depth == 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s has no warm-up depth to set; leave "
                              "the depths out",
                              name);
        if (config->depth[s] < 0 || config->depth[s] > MAX_DEPTH)
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s: depth %d of stage %d; give 0 to %d",
                              name, config->depth[s], s, MAX_DEPTH);
        if (config->replicas &&
            config->replicas[s] > MAX_MB / (config->depth[s] + 1))
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s: %d replicas of stage %d with depth "
                              "%d keep more than %d minibatches; give a "
                              "smaller depth",
                              name, config->replicas[s], s, config->depth[s],
                              MAX_MB);
    }
    for (int s = 0; config->version_begin && s < config->n_stages; s++)
        if (config->version_begin[s] < 0 || config->version_begin[s] > MAX_MB)
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s: stage %d begins with version %d; "
                              "give 0 to %d",
                              name, s, config->version_begin[s], MAX_MB);
    for (int s = 0; config->version_past && s < config->n_stages; s++)
        if (config->version_past[s] < 0 ||
            config->version_past[s] >
                (config->version_begin ? config->version_begin[s] : 0))
            return vp_err_set(err, VP_ERR_INVALID,
                              "schedule %s: stage %d carries on %d rounds; "
                              "give 0 to the number of its updates",
                              name, s, config->version_past[s]);
    return VP_OK;
}

static enum vp_status check_stream(const struct vp_sched_config *config,
                                   const struct generator *generator,
                                   struct vp_err *err)
{
    const char *name = config->name;
    int64_t end = (int64_t)config->first_mb + config->n_mb;
    bool asked = config->segment_begin != 0 || config->first_mb != 0 ||
                 config->segment_end != 0 || config->keep_going ||
                 (config->update_every != 0 && !generator->about.forward_only);

    if (generator->about.stream && config->text)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: lists by hand are for a whole group of "
                          "minibatches; use a synchronous schedule",
                          name);
    if (!generator->about.stream && asked)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s describes a whole group of minibatches "
                          "and has no pieces; use pipedream or macrobatch",
                          name);
    if (config->segment_begin < 0 || config->first_mb < config->segment_begin ||
        end > MAX_MB)
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: %d minibatches from %d in a segment "
                          "from %d; give numbers from 0 to %d, the segment "
                          "first",
                          name, config->n_mb, config->first_mb,
                          config->segment_begin, MAX_MB);
    if (config->segment_end != 0 &&
        (config->keep_going ? config->segment_end < end
                            : config->segment_end != end))
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule %s: the piece ends at minibatch %lld, the "
                          "segment at %d; the last piece ends with its "
                          "segment, the others before",
                          name, (long long)end, config->segment_end);
    return VP_OK;
}

/* ---- The stages --------------------------------------------------------- */

/* All stages of a rank have the same number of replicas. */
void vp_sched_place(const struct vp_sched_config *config, int stage,
                    int *first_rank_out, int *n_replicas_out)
{
    int chunk = stage / config->n_stages, at = stage % config->n_stages;

    if (vp_sched_is_v_shape(config) && chunk == 1)
        at = config->n_stages - 1 - at;
    *n_replicas_out = config->replicas ? config->replicas[at] : 1;
    *first_rank_out = at;
    if (config->replicas) {
        *first_rank_out = 0;
        for (int s = 0; s < at; s++)
            *first_rank_out += config->replicas[s];
    }
}

static void place_stages(const struct vp_sched_config *config,
                         struct vp_schedule *schedule)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        struct vp_schedule_stage *stage = &schedule->stages[s];
        int at = s % config->n_stages, end;

        vp_sched_place(config, s, &stage->first_rank, &stage->n_replicas);
        end = stage->first_rank + stage->n_replicas;
        if (schedule->n_ranks < end)
            schedule->n_ranks = end;
        stage->recompute = config->recompute && config->recompute[s] &&
                           !schedule->forward_only;
        stage->w_recomputed = stage->recompute && config->w_recomputed;
        stage->version_begin = config->version_begin ? config->version_begin[at]
                                                     : 0;
    }
}

static bool has_replicas(const struct vp_sched_config *config)
{
    for (int s = 0; config->replicas && s < config->n_stages; s++)
        if (config->replicas[s] > 1)
            return true;
    return false;
}

/* Returns true if replicas are copies of the pipeline, each with its own
 * minibatches. */
static bool is_copied(const struct vp_sched_config *config,
                      const struct generator *generator)
{
    return has_replicas(config) &&
           (generator->single || vp_sched_n_chunks(config) > 1);
}

/* Sets the fallback to the greedy rule for few minibatches or little memory.
 * Replicas that are not copies, and depths given by hand, use the generator's
 * own rule, which works for any number of minibatches but is not optimal for
 * few. */
static void set_fallback(const struct vp_sched_config *config,
                         const struct generator *generator,
                         struct vp_schedule *schedule)
{
    bool copied = is_copied(config, generator);
    int n_copies = copied ? config->replicas[0] : 1;
    int least = generator->least[0] * config->n_stages + generator->least[1];

    if (config->text)
        return;
    schedule->least_mb = least > 1 ? (least - 1) * n_copies + 1 : 1;
    schedule->keeps = vp_sched_keeps(config);
    if (generator->about.memory &&
        schedule->keeps < vp_v_min_keeps(config->n_stages))
        schedule->fallback = VP_FALLBACK_MEMORY;
    if (config->n_mb < schedule->least_mb && !config->depth &&
        (copied || !has_replicas(config)))
        schedule->fallback = VP_FALLBACK_FEW_MB;
}

/* Evaluation has no backwards; the greedy rule and lists by hand have no
 * depths. */
static void set_depths(const struct vp_sched_config *config,
                       const struct generator *generator,
                       struct vp_schedule *schedule)
{
    if (generator->depth == 0 || schedule->forward_only || schedule->fallback ||
        config->text)
        return;
    for (int s = 0; s < schedule->n_stages; s++) {
        int depth = vp_schedule_depth(config->replicas, config->n_stages, s);

        schedule->stages[s].depth = config->depth ? config->depth[s]
                                                  : generator->depth * depth;
    }
}

/* Synchronous schedules have one round and one weight version. */
static void set_round(struct vp_schedule *schedule)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        schedule->stages[s].update_every = schedule->forward_only
                                               ? 0
                                               : schedule->n_mb;
        schedule->stages[s].n_versions = 1;
    }
}

/* A round is one minibatch on each replica; depth + 1 versions are alive. */
static void set_pipedream(struct vp_schedule *schedule)
{
    for (int s = 0; s < schedule->n_stages; s++) {
        struct vp_schedule_stage *stage = &schedule->stages[s];

        stage->update_every = stage->n_replicas;
        stage->version_lag = stage->depth;
        stage->n_versions = stage->depth + 1;
        stage->n_slots = stage->depth + 1;
    }
}

/* A round has enough minibatches that a replica never has those of three rounds
 * in flight, so that two weight versions suffice. */
static enum vp_status set_macrobatch(const struct vp_sched_config *config,
                                     struct vp_schedule *schedule,
                                     struct vp_err *err)
{
    int64_t least = 1;

    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];
        int64_t need = (int64_t)stage->n_replicas * (stage->depth + 1);

        least = need > least ? need : least;
    }
    if (least > MAX_MB || config->update_every < 0 ||
        (config->update_every > 0 && config->update_every < least))
        return vp_err_set(err, VP_ERR_INVALID,
                          "schedule macrobatch: an update every %d minibatches "
                          "needs more than two weight versions; give at least "
                          "%lld",
                          config->update_every, (long long)least);
    for (int s = 0; s < schedule->n_stages; s++) {
        struct vp_schedule_stage *stage = &schedule->stages[s];

        stage->update_every = config->update_every > 0 ? config->update_every
                                                       : (int)least;
        stage->version_lag = 1;
        stage->n_versions = 2;
        stage->n_slots = stage->depth + 1;
    }
    return VP_OK;
}

static void set_past(const struct vp_sched_config *config,
                     struct vp_schedule *schedule)
{
    for (int s = 0; config->version_past && s < schedule->n_stages; s++) {
        struct vp_schedule_stage *stage = &schedule->stages[s];
        int past = config->version_past[s];

        stage->version_past = past < stage->version_lag ? past
                                                        : stage->version_lag;
    }
}

static enum vp_status set_up(const struct vp_sched_config *config,
                             const struct generator *generator,
                             struct vp_schedule *schedule, struct vp_err *err)
{
    snprintf(schedule->name, sizeof(schedule->name), "%s", config->name);
    schedule->n_stages = config->n_stages * vp_sched_n_chunks(config);
    schedule->segment_begin = config->segment_begin;
    schedule->segment_end = config->segment_end;
    schedule->first_mb = config->first_mb;
    schedule->n_mb = config->n_mb;
    schedule->drain = !config->keep_going;
    schedule->split = generator->about.split;
    schedule->forward_only = generator->about.forward_only;
    schedule->global_norm = config->global_norm && !generator->about.stream &&
                            !schedule->forward_only;
    schedule->stages = calloc((size_t)schedule->n_stages,
                              sizeof(*schedule->stages));
    if (!schedule->stages)
        return vp_err_set(err, VP_ERR_NOMEM, "schedule: out of memory");
    place_stages(config, schedule);
    set_fallback(config, generator, schedule);
    set_depths(config, generator, schedule);
    if (!generator->about.stream)
        set_round(schedule);
    else if (generator->about.two_versions)
        VP_TRY(set_macrobatch(config, schedule, err));
    else
        set_pipedream(schedule);
    if (generator->about.stream)
        set_past(config, schedule);
    if (vp_schedule_map_ranks(schedule) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "schedule: out of memory");
    return VP_OK;
}

/* ---- Making ------------------------------------------------------------- */

/* Uses unit costs; every rank has the slots of the generator's own lists. */
static enum vp_status write_greedy(const struct vp_schedule *schedule,
                                   struct vp_sched_list *lists)
{
    double *limit = calloc((size_t)schedule->n_ranks, sizeof(*limit));
    enum vp_status st;

    if (!limit)
        return VP_ERR_NOMEM;
    for (int rank = 0; rank < schedule->n_ranks; rank++)
        limit[rank] = schedule->keeps;
    st = vp_greedy_write(
        &(struct vp_greedy){ .schedule = schedule, .limit = limit }, lists);
    VP_BUG_ON(st == VP_ERR_INVALID);
    free(limit);
    return st;
}

static enum vp_status write_lists(const struct generator *generator,
                                  const struct vp_schedule *schedule,
                                  struct vp_sched_list *lists)
{
    struct vp_nodes nodes;

    if (schedule->fallback)
        return write_greedy(schedule, lists);
    if (generator->ranks) {
        generator->ranks(schedule, lists);
        return VP_OK;
    }
    nodes = vp_nodes_make(schedule);
    if (!nodes.at)
        return VP_ERR_NOMEM;
    for (int i = 0; i < nodes.n; i++)
        generator->node(schedule, &nodes.at[i], &lists[nodes.at[i].rank]);
    vp_nodes_release(&nodes);
    return VP_OK;
}

/* Moves the lists of one copy of the pipeline to its ranks. Its minibatch i is
 * i * n_copies + copy. */
static void take_copy(struct vp_sched_list *from, int n_ranks, int copy,
                      int n_copies, struct vp_sched_list *lists)
{
    for (int rank = 0; rank < n_ranks; rank++) {
        struct vp_sched_list *list = &lists[rank * n_copies + copy];

        *list = from[rank];
        from[rank] = (struct vp_sched_list){ .at = NULL };
        for (int i = 0; i < list->n; i++)
            list->at[i].mb = list->at[i].mb * n_copies + copy;
    }
}

/* Writes the lists of all copies; with few minibatches some copies have
 * none. */
static enum vp_status write_copies(const struct vp_sched_config *config,
                                   const struct generator *generator,
                                   struct vp_sched_list *lists,
                                   struct vp_err *err)
{
    int n_copies = config->replicas[0];
    struct vp_sched_config one = *config;
    enum vp_status st = VP_OK;

    one.replicas = NULL;
    for (int copy = 0; st == VP_OK && copy < n_copies; copy++) {
        struct vp_schedule schedule = { .actions = NULL };
        struct vp_sched_list *own = calloc((size_t)config->n_stages,
                                           sizeof(*own));

        one.n_mb = (config->n_mb - copy + n_copies - 1) / n_copies;
        st = own ? set_up(&one, generator, &schedule, err) : VP_ERR_NOMEM;
        if (st == VP_OK && one.n_mb > 0)
            st = write_lists(generator, &schedule, own);
        if (st == VP_OK)
            take_copy(own, config->n_stages, copy, n_copies, lists);
        vp_schedule_release(&schedule);
        free(own);
    }
    return st;
}

/* Writes the compute-only lists of all ranks. */
static enum vp_status write_all(const struct vp_sched_config *config,
                                const struct generator *generator,
                                struct vp_schedule *schedule,
                                struct vp_sched_list *lists, struct vp_err *err)
{
    if (config->text && !schedule->forward_only)
        return vp_lists_by_hand(config, schedule, lists, err);
    if (is_copied(config, generator))
        return write_copies(config, generator, lists, err);
    return write_lists(generator, schedule, lists);
}

static enum vp_status fill(const struct vp_sched_config *config,
                           const struct generator *generator,
                           struct vp_schedule *schedule, struct vp_err *err)
{
    struct vp_sched_list *lists;
    enum vp_status st;

    lists = calloc((size_t)schedule->n_ranks, sizeof(*lists));
    st = lists ? write_all(config, generator, schedule, lists, err)
               : VP_ERR_NOMEM;
    if (st == VP_OK)
        st = vp_passes_run(
            schedule, lists,
            &(struct vp_passes){
                .stream = generator->about.stream,
                .early = config->early_recompute,
                .swap = schedule->forward_only ? NULL : config->swap });
    for (int rank = 0; lists && rank < schedule->n_ranks; rank++)
        vp_sched_list_release(&lists[rank]);
    free(lists);
    if (st == VP_ERR_NOMEM)
        return vp_err_set(err, st,
                          "schedule %s of %d stages and %d minibatches: out of "
                          "memory; make it in pieces",
                          config->name, config->n_stages, config->n_mb);
    return st;
}

enum vp_status vp_schedule_make(const struct vp_sched_config *config,
                                struct vp_schedule *out, struct vp_err *err)
{
    int index = vp_generator_index(config->name);
    const struct generator *generator;
    struct vp_schedule schedule = { .actions = NULL };
    enum vp_status st;

    if (index < 0)
        return unknown_name(config->name, err);
    generator = &generators[index];
    VP_TRY(check_counts(config, generator, err));
    VP_TRY(check_memory(config, generator, err));
    VP_TRY(check_stages(config, generator, err));
    VP_TRY(check_stream(config, generator, err));
    st = set_up(config, generator, &schedule, err);
    if (st == VP_OK)
        st = generator->about.planned && !config->text
                 ? vp_auto_fill(config, &schedule, err)
                 : fill(config, generator, &schedule, err);
    if (st != VP_OK) {
        vp_schedule_release(&schedule);
        return st;
    }
    *out = schedule;
    return VP_OK;
}
