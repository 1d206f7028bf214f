/* Builds the ranks of a trainer: backends, stages, channels, groups, readers
 * and rings of results. */
#include "runtime/trainer/pipeline.h"

#include "runtime/fit.h"
#include "runtime/rank/device_log.h"
#include "runtime/rank/internal.h"
#include "runtime/rank/members.h"
#include "runtime/rank/remote.h"
#include "runtime/stage/shard_table.h"
#include "runtime/stage/wire.h"
#include "runtime/trainer/edges.h"

#include <stdlib.h>

enum { RECORDED_ACTIONS = 8192 }; /* per rank: 256 kB */

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "setting up the ranks: out of memory");
}

/* ---- Planning ----------------------------------------------------------- */

static bool is_mine(const struct vp_pipeline *pipeline, int rank)
{
    return !pipeline->config->world ||
           vp_world_is_mine(pipeline->config->world, rank);
}

/* Makes the table of this replica's shard of the optimizer's state. */
static enum vp_status shard_stage(struct vp_rank_stage *rs, struct vp_err *err)
{
    if (rs->stage.plan.n_shards == 0)
        return VP_OK;
    return vp_shard_table_create(&rs->stage.plan, rs->stage.tensors,
                                 rs->stage.n_tensors, rs->replica,
                                 &rs->stage.shard) == VP_OK
               ? VP_OK
               : no_memory(err);
}

static enum vp_status plan_stage(struct vp_rank *rank, struct vp_rank_stage *rs,
                                 const struct vp_schedule *schedule,
                                 struct vp_err *err)
{
    const struct vp_train_config *config = rank->pipeline->config;
    struct vp_stage_config stage_config = vp_train_stage_config(
        config, &rank->backend_config);
    uint64_t *sets = calloc(2 * (size_t)config->graphs[0].n_blocks,
                            sizeof(*sets));
    struct vp_plan plan = config->plan;
    struct vp_stage_choices choices;
    struct vp_stage_shape shape;
    enum vp_status st;

    if (!sets)
        return no_memory(err);
    stage_config.member = rank->member;
    plan.edges = rank->pipeline->edges;
    plan.replica_edges = rank->pipeline->replica_edges;
    plan.tie_edge = rank->pipeline->tie_edge;
    choices = vp_plan_stage_choices(&plan, &stage_config.work, schedule,
                                    rs->index, sets);
    shape = vp_plan_stage_shape(&plan, &config->graphs[0], schedule, rs->index);
    st = vp_stage_init(&rs->stage, &stage_config, rank->backend, &choices,
                       &shape, err);
    free(sets);
    VP_TRY(st);
    return shard_stage(rs, err);
}

static bool poll_world(void *world)
{
    vp_world_poll(world);
    return vp_world_status(world, NULL) == VP_OK;
}

static enum vp_status open_rank(struct vp_rank *rank, struct vp_err *err)
{
    const struct vp_train_config *config = rank->pipeline->config;
    struct vp_backend_config *backend = &rank->backend_config;
    enum vp_status st;

    *backend = vp_train_backend_config(config, rank->index);
    backend->plan_only |= !rank->is_here;
    if (config->world) {
        backend->between = poll_world;
        backend->between_ctx = config->world;
    }
    st = vp_backend_open(config->backend, backend, &rank->backend, err);
    if (st == VP_OK)
        rank->device = vp_backend_device(rank->backend);
    else if (!err->fields)
        err->fields = "device";
    return st;
}

static enum vp_status plan_rank(struct vp_rank *rank,
                                const struct vp_schedule *schedule,
                                struct vp_err *err)
{
    const struct vp_rank_list *list = &schedule->ranks[rank->group];

    rank->stages = calloc((size_t)list->n_stages, sizeof(*rank->stages));
    if (!rank->stages)
        return no_memory(err);
    rank->n_stages = list->n_stages;
    for (int i = 0; i < list->n_stages; i++) {
        struct vp_rank_stage *rs = &rank->stages[i];

        rs->index = list->stages[i];
        rs->replica = schedule->stages[rs->index].n_replicas > 1
                          ? rank->group - schedule->stages[rs->index].first_rank
                          : 0;
        VP_TRY(plan_stage(rank, rs, schedule, err));
    }
    return VP_OK;
}

enum vp_status vp_pipeline_open(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks, struct vp_err *err)
{
    for (int i = 0; i < pipeline->n_ranks; i++) {
        ranks[i].pipeline = pipeline;
        ranks[i].index = i;
        ranks[i].group = i / pipeline->n_members;
        ranks[i].member = i % pipeline->n_members;
        ranks[i].blackbox = pipeline->config->blackboxes &&
                                    pipeline->config->blackboxes[i]
                                ? pipeline->config->blackboxes[i]
                                : &ranks[i].own_blackbox;
        ranks[i].is_here = is_mine(pipeline, i);
        if (ranks[i].is_here)
            pipeline->me = i;
        atomic_store(&ranks[i].doing, -1);
        if (vp_recorder_create(RECORDED_ACTIONS, &ranks[i].recorder) != VP_OK)
            return no_memory(err);
        VP_TRY(open_rank(&ranks[i], err));
    }
    return VP_OK;
}

enum vp_status vp_pipeline_meet(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks, struct vp_limit limit)
{
    const struct vp_train_config *config = pipeline->config;
    const struct vp_backend_ops *ops = config->backend;
    char address[32] = "";

    if (ops->address &&
        !ops->address(config->plan.devices ? config->plan.devices[pipeline->me]
                                           : config->backend_config.device,
                      address, sizeof(address)))
        address[0] = '\0';
    vp_world_set_device(config->world, ranks[pipeline->me].device);
    return vp_world_meet(config->world, address, limit);
}

enum vp_status vp_pipeline_plan(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks,
                                const struct vp_schedule *schedule,
                                struct vp_err *err)
{
    VP_TRY(vp_fit_check_optimizer(pipeline->config, err));
    if (vp_edges_find(pipeline, schedule) != VP_OK)
        return no_memory(err);
    for (int i = 0; i < pipeline->n_ranks; i++)
        VP_TRY(plan_rank(&ranks[i], schedule, err));
    return VP_OK;
}

/* ---- Links -------------------------------------------------------------- */

static struct vp_rank_stage *find_stage(struct vp_rank *rank, int stage)
{
    for (int i = 0; i < rank->n_stages; i++)
        if (rank->stages[i].index == stage)
            return &rank->stages[i];
    vp_bug(__FILE__, __LINE__, "a stage that the rank does not have");
}

/* Messages in one direction between neighbouring stages, to one replica of
 * stage `to`, for one member of the tensor-parallel groups. Boundary values are
 * the same for all members, and each member sends to the one with its
 * number. */
struct way {
    int from, to, replica, member;
    int n_buffers;
    bool gradients;
};

static enum vp_edge_kind edge_of(const struct vp_pipeline *pipeline,
                                 const struct way *way)
{
    return pipeline->edges[way->from < way->to ? way->from : way->to];
}

static void list_buffers(struct vp_stage *stage,
                         struct vp_stage_message *messages, int n,
                         enum vp_space space, struct vp_buffer *out)
{
    for (int i = 0; i < n; i++) {
        void *body = vp_stage_edge(&stage->plan.shape, space) == VP_EDGE_DEVICE
                         ? messages[i].tensors
                         : messages[i].wire;

        out[i] = (struct vp_buffer){
            .self = &messages[i],
            .head = &messages[i].header,
            .n_head = sizeof(messages[i].header),
            .body = body,
            .n_body = body ? (size_t)vp_stage_wire_bytes(
                                 &stage->plan.sizes, &stage->plan.shape, space)
                           : 0,
            .written = messages[i].written,
            .read = messages[i].read,
        };
    }
}

/* Lists the message buffers of this process at both ends of a way. */
static void list_ends(struct vp_pipeline *pipeline, struct vp_rank *ranks,
                      const struct way *way, struct vp_link *link,
                      struct vp_buffer *in, struct vp_buffer *out)
{
    struct vp_rank *receiver = &ranks[link->receiver];

    if (receiver->is_here) {
        struct vp_stage *stage = &find_stage(receiver, way->to)->stage;

        list_buffers(stage, way->gradients ? stage->grad_bufs : stage->act_bufs,
                     way->n_buffers,
                     way->gradients ? VP_SPACE_DOUT : VP_SPACE_IN, in);
        link->buffers = in;
    }
    for (int i = 0; i < link->n_senders; i++) {
        struct vp_rank *sender = &ranks[link->senders[i]];
        struct vp_stage *stage;

        if (!sender->is_here || edge_of(pipeline, way) == VP_EDGE_LOCAL)
            continue;
        stage = &find_stage(sender, way->from)->stage;
        list_buffers(stage,
                     (way->gradients ? stage->din_bufs : stage->out_bufs) +
                         way->replica * VP_STAGE_LEAVING,
                     VP_STAGE_LEAVING,
                     way->gradients ? VP_SPACE_DIN : VP_SPACE_OUT, out);
        link->out = out;
    }
}

/* Returns the rank of member `member` in group `group`. */
static int rank_at(const struct vp_pipeline *pipeline, int group, int member)
{
    return group * pipeline->n_members + member;
}

/* Lists the sending ranks: all replicas of the stage; only the rank itself if
 * both stages are on the same ranks. */
static int list_senders(const struct vp_pipeline *pipeline,
                        const struct vp_schedule *schedule,
                        const struct way *way, int receiver, int *senders)
{
    const struct vp_schedule_stage *from = &schedule->stages[way->from];

    senders[0] = receiver;
    if (from->first_rank == schedule->stages[way->to].first_rank)
        return 1;
    for (int i = 0; i < from->n_replicas; i++)
        senders[i] = rank_at(pipeline, from->first_rank + i, way->member);
    return from->n_replicas;
}

static enum vp_status make_channel(struct vp_pipeline *pipeline,
                                   struct vp_rank *ranks,
                                   const struct vp_schedule *schedule,
                                   const struct way *way,
                                   struct vp_channel **out)
{
    const struct vp_schedule_stage *from = &schedule->stages[way->from];
    struct vp_buffer leaving[VP_STAGE_LEAVING];
    struct vp_buffer *buffers = calloc((size_t)way->n_buffers,
                                       sizeof(*buffers));
    int *senders = calloc((size_t)from->n_replicas, sizeof(*senders));
    struct vp_link link = {
        .receiver = rank_at(pipeline,
                            schedule->stages[way->to].first_rank + way->replica,
                            way->member),
        .senders = senders,
        .n_buffers = way->n_buffers,
        .n_out = VP_STAGE_LEAVING,
        .direct = edge_of(pipeline, way) == VP_EDGE_DEVICE,
    };
    enum vp_status st = VP_ERR_NOMEM;

    if (buffers && senders) {
        link.n_senders = list_senders(pipeline, schedule, way, link.receiver,
                                      senders);
        list_ends(pipeline, ranks, way, &link, buffers, leaving);
        st = vp_channel_create(pipeline->world, &link, out);
    }
    free(buffers);
    free(senders);
    return st;
}

static enum vp_status connect_stage(struct vp_pipeline *pipeline,
                                    struct vp_rank *ranks,
                                    const struct vp_schedule *schedule, int s)
{
    const struct vp_schedule_stage *plan = &schedule->stages[s];
    struct vp_stage_links *links = &pipeline->links[s];

    for (int i = 0; i < plan->n_replicas * pipeline->n_members; i++) {
        int r = i / pipeline->n_members, t = i % pipeline->n_members;
        struct way act = { s - 1, s, r, t, plan->n_act_bufs, false };
        struct way grad = { s + 1, s, r, t, plan->n_grad_bufs, true };

        if (s > 0)
            VP_TRY(make_channel(pipeline, ranks, schedule, &act,
                                &links->act[i].channel));
        if (plan->n_grad_bufs > 0)
            VP_TRY(make_channel(pipeline, ranks, schedule, &grad,
                                &links->grad[i].channel));
    }
    return VP_OK;
}

/* Creates an event for every message that can be on its way to the neighbouring
 * stages. */
static enum vp_status make_events(struct vp_rank_stage *rs,
                                  const struct vp_schedule *schedule)
{
    for (int way = 0; way < 2; way++) {
        int to = rs->index + (way == 0 ? 1 : -1);
        const struct vp_schedule_stage *next = &schedule->stages[to];
        int n;

        if (to < 0 || to == schedule->n_stages)
            continue;
        n = next->n_replicas *
            (way == 0 ? next->n_act_bufs : next->n_grad_bufs);
        rs->sent[way] = calloc((size_t)n + 1, sizeof(struct vp_event *));
        if (!rs->sent[way])
            return VP_ERR_NOMEM;
        for (; rs->n_sent[way] < n; rs->n_sent[way]++)
            VP_TRY(vp_event_create(rs->stage.device,
                                   &rs->sent[way][rs->n_sent[way]]));
    }
    return VP_OK;
}

static void free_events(struct vp_rank_stage *rs)
{
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < rs->n_sent[way]; i++)
            vp_event_free(rs->sent[way][i]);
        free(rs->sent[way]);
    }
}

/* Creates the group that sums gradients over the replicas of a stage, bundle by
 * bundle, for one member of the tensor-parallel groups. */
static enum vp_status link_replicas(struct vp_pipeline *pipeline,
                                    const struct vp_stage *stage,
                                    int first_group, int member,
                                    struct vp_stage_links *links)
{
    const struct vp_program *program = &stage->plan.train[0];
    const struct vp_shard_table *shard = stage->shard;
    size_t n = (size_t)program->n_bundles, n_ranks = (size_t)links->n_replicas;
    struct vp_group **group = &links->replicas[member];
    int64_t *ends = calloc(n, sizeof(*ends));
    int *ranks = calloc(n_ranks, sizeof(*ranks));
    enum vp_status st = VP_ERR_NOMEM;

    if (ends && ranks) {
        for (size_t i = 0; i < n; i++)
            ends[i] = program->bundles[i].end / (int64_t)sizeof(float);
        for (size_t i = 0; i < n_ranks; i++)
            ranks[i] = rank_at(pipeline, first_group + (int)i, member);
        st = links->direct
                 ? vp_direct_group_create(pipeline->world, ranks, (int)n_ranks,
                                          group)
                 : vp_group_create(pipeline->world, ranks, (int)n_ranks,
                                   shard ? vp_shard_table_bytes(shard) : 0,
                                   group);
    }
    if (st == VP_OK && *group && shard)
        st = vp_group_set_parts(*group, shard->parts, shard->n_parts);
    if (st == VP_OK && *group && pipeline->config->fast_sums)
        vp_group_set_fast(*group);
    if (st == VP_OK && *group)
        st = vp_group_cut(*group, ends, (int)n);
    free(ends);
    free(ranks);
    return st;
}

/* With fewer minibatches than replicas some replicas have no gradients and only
 * receive the sum. */
static enum vp_status join_replicas(const struct vp_rank *rank,
                                    struct vp_rank_stage *rs,
                                    const struct vp_schedule *schedule,
                                    bool stream)
{
    const struct vp_pipeline *pipeline = rank->pipeline;
    const struct vp_stage_links *links = &pipeline->links[rs->index];

    if (links->n_replicas == 1 || pipeline->config->plan.forward_only)
        return VP_OK;
    rs->replicas = links->replicas[rank->member];
    if (rs->stage.shard)
        rs->stage.shard->group = rs->replicas;
    if (!vp_device_has_host_memory(rs->stage.device) &&
        rs->stage.plan.shape.mirrored)
        VP_TRY(vp_device_host_alloc(
            rs->stage.device,
            (size_t)rs->stage.plan.sizes.n_bytes[VP_SPACE_GRAD],
            (void **)&rs->mirror));
    rs->term = (struct vp_term){ rs->mirror ? rs->mirror : rs->stage.grads,
                                 rs->replica,
                                 !stream && rs->replica >= schedule->n_mb };
    vp_group_set_terms(rs->replicas, rs->replica, &rs->term, 1);
    if (!vp_device_has_host_memory(rs->stage.device) && !rs->mirror)
        vp_group_set_adder(rs->replicas, rs->replica, vp_stage_add_terms,
                           &rs->stage);
    return VP_OK;
}

static enum vp_status make_links(struct vp_pipeline *pipeline,
                                 const struct vp_schedule *schedule)
{
    pipeline->links = calloc((size_t)pipeline->n_stages,
                             sizeof(*pipeline->links));
    if (!pipeline->links)
        return VP_ERR_NOMEM;
    for (int s = 0; s < pipeline->n_stages; s++) {
        struct vp_stage_links *links = &pipeline->links[s];
        size_t n_members = (size_t)pipeline->n_members;
        size_t n = (size_t)schedule->stages[s].n_replicas * n_members;

        links->n_replicas = schedule->stages[s].n_replicas;
        links->direct = pipeline->replica_edges[s] == VP_EDGE_DEVICE;
        links->act = calloc(n, sizeof(*links->act));
        links->grad = calloc(n, sizeof(*links->grad));
        links->replicas = calloc(n_members, sizeof(struct vp_group *));
        if (!links->act || !links->grad || !links->replicas)
            return VP_ERR_NOMEM;
    }
    return VP_OK;
}

static enum vp_status connect_all(struct vp_pipeline *pipeline,
                                  struct vp_rank *ranks,
                                  const struct vp_schedule *schedule,
                                  bool stream)
{
    VP_TRY(make_links(pipeline, schedule));
    for (int s = 0; s < pipeline->n_stages; s++) {
        int first = schedule->stages[s].first_rank;

        VP_TRY(connect_stage(pipeline, ranks, schedule, s));
        for (int t = 0;
             pipeline->links[s].n_replicas > 1 &&
             !pipeline->config->plan.forward_only && t < pipeline->n_members;
             t++)
            VP_TRY(link_replicas(
                pipeline,
                &find_stage(&ranks[rank_at(pipeline, first, t)], s)->stage,
                first, t, &pipeline->links[s]));
    }
    for (int r = 0; r < pipeline->n_ranks; r++) {
        if (!ranks[r].is_here)
            continue;
        VP_TRY(vp_device_log_create(ranks[r].device, &ranks[r].device_log));
        for (int i = 0; i < ranks[r].n_stages; i++) {
            struct vp_rank_stage *rs = &ranks[r].stages[i];

            rs->stage.world = pipeline->world;
            VP_TRY(make_events(rs, schedule));
            VP_TRY(join_replicas(&ranks[r], rs, schedule, stream));
        }
    }
    return VP_OK;
}

/* ---- Ties --------------------------------------------------------------- */

static int count_uses(const struct vp_rank *rank, vp_par owner)
{
    const struct vp_graph *graph = &rank->pipeline->config->graphs[0];
    int n = 0;

    for (int s = 0; s < rank->n_stages; s++) {
        const struct vp_layout *layout =
            &rank->stages[s].stage.plan.train[0].layout;

        for (int i = 0; i < layout->n_entries; i++)
            if (layout->entries[i].par == owner ||
                graph->params[layout->entries[i].par].tied_to == owner)
                n++;
    }
    return n;
}

/* Sets how a rank adds gradients that are in device memory. */
static enum vp_status reach_uses(struct vp_pipeline *pipeline,
                                 struct vp_rank *rank, struct vp_tie *tie,
                                 bool direct)
{
    size_t n_bytes = (size_t)(count_uses(rank, tie->owner) * tie->n) *
                     sizeof(float);

    if (tie->member[rank->index] < 0 || !rank->is_here || tie->own ||
        vp_device_has_host_memory(rank->device))
        return VP_OK;
    if (pipeline->config->world && !direct)
        return vp_device_host_alloc(rank->device, n_bytes,
                                    (void **)&tie->mirror);
    vp_group_set_adder(tie->group, tie->member[rank->index], vp_stage_add_terms,
                       &rank->stages[0].stage);
    return VP_OK;
}

/* Members of tensor-parallel groups have slices of the parameter: the members
 * with the same slice are summed. */
static enum vp_status make_tie(struct vp_pipeline *pipeline,
                               struct vp_rank *ranks, vp_par owner, int slice)
{
    const struct vp_param *param = &pipeline->config->graphs[0].params[owner];
    struct vp_tie *tie = &pipeline->ties[pipeline->n_ties++];
    int *members = calloc((size_t)pipeline->n_ranks, sizeof(*members));
    int n_members = 0;
    bool direct = false;
    enum vp_status st = VP_ERR_NOMEM;

    tie->owner = owner;
    tie->n = param->rows * param->cols;
    tie->member = calloc((size_t)pipeline->n_ranks, sizeof(*tie->member));
    for (int r = 0; tie->member && members && r < pipeline->n_ranks; r++) {
        tie->member[r] = ranks[r].member == slice &&
                                 count_uses(&ranks[r], owner) > 0
                             ? n_members
                             : -1;
        if (tie->member[r] >= 0)
            members[n_members++] = r;
    }
    if (tie->member && members) {
        tie->own = n_members == 1 && ranks[members[0]].n_stages == 1;
        direct = pipeline->tie_edge == VP_EDGE_DEVICE && n_members > 1;
        st = direct ? vp_direct_group_create(pipeline->world, members,
                                             n_members, &tie->group)
                    : vp_group_create(pipeline->world, members, n_members, 0,
                                      &tie->group);
    }
    free(members);
    VP_TRY(st);
    for (int r = 0; r < pipeline->n_ranks; r++)
        VP_TRY(reach_uses(pipeline, &ranks[r], tie, direct));
    return VP_OK;
}

static enum vp_status make_ties(struct vp_pipeline *pipeline,
                                struct vp_rank *ranks)
{
    const struct vp_graph *graph = &pipeline->config->graphs[0];

    pipeline->ties = calloc(((size_t)graph->n_params + 1) *
                                (size_t)pipeline->n_members,
                            sizeof(*pipeline->ties));
    if (!pipeline->ties)
        return VP_ERR_NOMEM;
    for (vp_par par = 0; par < graph->n_params; par++) {
        vp_par owner = graph->params[par].tied_to;

        VP_BUG_ON(owner != VP_NONE &&
                  graph->params[par].block <= graph->params[owner].block);
        for (int t = 0;
             graph->params[par].has_copies &&
             !pipeline->config->plan.forward_only && t < pipeline->n_members;
             t++)
            VP_TRY(make_tie(pipeline, ranks, par, t));
    }
    return VP_OK;
}

/* ---- Data and results --------------------------------------------------- */

/* Opens the batches of a replica of stage 0. In a stream a round counts as a
 * group. */
static enum vp_status open_reader(struct vp_rank *rank, int replica,
                                  const struct vp_schedule *schedule,
                                  bool stream)
{
    const struct vp_train_config *config = rank->pipeline->config;
    uint64_t n = (uint64_t)schedule->stages[0].n_replicas;
    uint64_t group = stream ? n : (uint64_t)config->plan.accumulation_steps;
    uint64_t begin = config->loader
                         ? (uint64_t)config->loader->progress.minibatch
                         : 0;
    /* Replica m mod n runs minibatch m of a stream. In a synchronous round m is
     * the number within the group. */
    uint64_t at = stream ? ((uint64_t)replica + n - begin % n) % n
                         : (uint64_t)replica;
    struct vp_batch_order order = {
        .first = begin + at,
        .period = group,
        .stride = n,
        .n_strides = (group - (uint64_t)replica + n - 1) / n,
    };

    /* No reader if there are more replicas than minibatches. */
    if (order.n_strides > 0 && !config->plan.forward_only)
        VP_TRY(vp_prefetch_create(config->data, &order, config->prefetch,
                                  &rank->reader));
    if (config->eval_data)
        VP_TRY(vp_batch_create(config->eval_data, &rank->eval_batch));
    return VP_OK;
}

int64_t vp_pipeline_ahead(const struct vp_schedule *schedule)
{
    int64_t round = 0, flight = 0;

    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];
        int64_t n = (stage->depth + 1) * (int64_t)stage->n_replicas;

        round = stage->update_every > round ? stage->update_every : round;
        flight = n > flight ? n : flight;
    }
    return round + flight;
}

/* Ranks wait when the ring of results is full, so the ring of updates must have
 * room for all updates of that number of minibatches. */
static void size_results(struct vp_pipeline *pipeline,
                         const struct vp_schedule *schedule)
{
    int64_t n = 2 * vp_pipeline_ahead(schedule);
    int shortest = schedule->stages[0].update_every;

    for (int s = 1; s < schedule->n_stages; s++)
        if (schedule->stages[s].update_every < shortest)
            shortest = schedule->stages[s].update_every;
    pipeline->n_results = n > VP_RESULT_RING ? n : VP_RESULT_RING;
    n = schedule->forward_only ? 0 : pipeline->n_results / shortest + 1;
    pipeline->n_notes = n > VP_RESULT_RING ? n : VP_RESULT_RING;
}

static enum vp_status make_results(struct vp_pipeline *pipeline,
                                   struct vp_rank *ranks,
                                   const struct vp_schedule *schedule)
{
    const struct vp_train_config *config = pipeline->config;
    size_t n_words = (size_t)config->graphs[0].n_blocks + 1, n_notes;

    size_results(pipeline, schedule);
    n_notes = (size_t)pipeline->n_notes * (size_t)pipeline->n_stages;
    pipeline->results = calloc((size_t)pipeline->n_results,
                               sizeof(*pipeline->results));
    pipeline->norms = calloc(n_notes, sizeof(*pipeline->norms));
    pipeline->scales = calloc(n_notes, sizeof(*pipeline->scales));
    pipeline->marks = calloc((size_t)pipeline->n_notes *
                                 (size_t)pipeline->n_ranks,
                             sizeof(*pipeline->marks));
    pipeline->global_norms = calloc((size_t)pipeline->n_notes,
                                    sizeof(*pipeline->global_norms));
    if (!pipeline->results || !pipeline->norms || !pipeline->scales ||
        !pipeline->marks || !pipeline->global_norms)
        return VP_ERR_NOMEM;
    for (int r = 0; r < pipeline->n_ranks; r++) {
        ranks[r].mine = calloc(n_words, sizeof(double));
        ranks[r].all = calloc(n_words * (size_t)pipeline->n_ranks,
                              sizeof(double));
        if (!ranks[r].mine || !ranks[r].all)
            return VP_ERR_NOMEM;
    }
    return VP_OK;
}

/* Creates the group of all ranks, for norms and stop flags. */
static enum vp_status join_everybody(struct vp_pipeline *pipeline)
{
    size_t n_words = (size_t)pipeline->config->graphs[0].n_blocks + 1;
    int *ranks = calloc((size_t)pipeline->n_ranks, sizeof(*ranks));
    enum vp_status st;

    if (!ranks)
        return VP_ERR_NOMEM;
    for (int r = 0; r < pipeline->n_ranks; r++)
        ranks[r] = r;
    st = vp_group_create(pipeline->world, ranks, pipeline->n_ranks,
                         n_words * sizeof(double), &pipeline->everybody);
    free(ranks);
    return st;
}

enum vp_status vp_pipeline_connect(struct vp_pipeline *pipeline,
                                   struct vp_rank *ranks,
                                   const struct vp_schedule *schedule,
                                   struct vp_err *err)
{
    bool stream = vp_generator_find(schedule->name)->stream;

    pipeline->links_number = vp_world_begin_links(pipeline->world);
    if (connect_all(pipeline, ranks, schedule, stream) != VP_OK ||
        make_ties(pipeline, ranks) != VP_OK ||
        vp_members_connect(pipeline, ranks) != VP_OK ||
        join_everybody(pipeline) != VP_OK ||
        vp_remote_connect(pipeline, schedule) != VP_OK ||
        make_results(pipeline, ranks, schedule) != VP_OK)
        return vp_world_status(pipeline->world, err) == VP_OK
                   ? no_memory(err)
                   : vp_world_status(pipeline->world, NULL);
    vp_world_begin_links(pipeline->world); /* later links belong to others */
    return VP_OK;
}

enum vp_status vp_pipeline_open_readers(struct vp_rank *ranks,
                                        const struct vp_schedule *schedule,
                                        struct vp_err *err)
{
    bool stream = vp_generator_find(schedule->name)->stream;

    int n_members = ranks[0].pipeline->n_members;

    /* All members of a group read the same batches. */
    for (int r = 0; r < schedule->stages[0].n_replicas * n_members; r++) {
        enum vp_status st = ranks[r].is_here
                                ? open_reader(&ranks[r], r / n_members,
                                              schedule, stream)
                                : VP_OK;

        if (st != VP_OK)
            return st == VP_ERR_UNSUPPORTED
                       ? vp_err_thread(err, "a thread that reads data")
                       : no_memory(err);
    }
    return VP_OK;
}

void vp_pipeline_release(struct vp_pipeline *pipeline, struct vp_rank *ranks)
{
    VP_BUG_ON(ranks && !pipeline->config);
    if (pipeline->config && pipeline->config->world && !pipeline->is_left)
        vp_world_set_device(pipeline->config->world, NULL);
    for (int r = 0; ranks && r < pipeline->n_ranks; r++) {
        struct vp_rank *rank = &ranks[r];

        vp_prefetch_free(rank->reader);
        vp_batch_free(rank->eval_batch);
        for (int t = 0; rank->is_here && t < pipeline->n_ties; t++)
            vp_device_host_free(rank->device, pipeline->ties[t].mirror);
        for (int i = 0; i < rank->n_stages; i++) {
            free_events(&rank->stages[i]);
            vp_device_host_free(rank->device, rank->stages[i].mirror);
            vp_stage_release(&rank->stages[i].stage);
        }
        free(rank->stages);
        free(rank->host_copy);
        vp_device_log_free(rank->device_log);
        vp_recorder_free(rank->recorder);
        free(rank->mine);
        free(rank->all);
        free(rank->slice_ends);
        if (rank->backend)
            pipeline->config->backend->close(rank->backend);
    }
    for (int s = 0; pipeline->links && s < pipeline->n_stages; s++) {
        free(pipeline->links[s].act);
        free(pipeline->links[s].grad);
        free(pipeline->links[s].replicas);
    }
    for (int t = 0; t < pipeline->n_ties; t++)
        free(pipeline->ties[t].member);
    free(pipeline->links);
    free(pipeline->edges);
    free(pipeline->replica_edges);
    free(pipeline->ties);
    free(pipeline->results);
    free(pipeline->norms);
    free(pipeline->scales);
    free(pipeline->marks);
    free(pipeline->global_norms);
    vp_remote_release(pipeline);
    vp_members_release(pipeline);
    if (!pipeline->config || !pipeline->config->world)
        vp_world_free(pipeline->world);
}
