/* Re-balancing: takes requests, watches the balance, prepares the next trainer
 * in the background, and hands over to it. */
#include "run/rebalance.h"

#include "base/clock.h"
#include "plan/costs.h"
#include "plan/plan_json.h"
#include "run/balance_watch.h"
#include "run/rebalance_request.h"
#include "run/share_text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Shortest time between two checks for a request. */
#define LOOK_SECONDS 0.1

/* A plan of the run, with the memory of its arrays. */
struct held_plan {
    struct held_plan *before; /* plan before it; NULL: the first */
    struct vp_arena arena;
    struct vp_plan plan;
};

struct vp_rebalance {
    struct vp_rebalance_config with;
    struct held_plan *now;
    struct vp_workload work;
    struct vp_device_profile profile;
    struct vp_cost_table costs;
    int64_t looked_ns;

    struct vp_balance_watch watch;

    /* The next plan. */
    struct held_plan *next;
    struct vp_trainer *trainer;  /* current trainer */
    struct vp_trainer *prepared; /* trainer for `next` */
    pthread_t thread;
    bool has_thread; /* to be joined */
    bool preparing;
    atomic_bool ready;
    enum vp_status status; /* result of preparing */
    char *text;            /* lead: the plan as JSON, for other processes */
    struct vp_err err;
    char id[VP_REBALANCE_ID]; /* id of the request; "": decided by the watch */
    const char *why;
    bool undoes;  /* `next` is the plan before; the history gets shorter */
    bool follows; /* this process is not the lead */
};

/* ---- Plans -------------------------------------------------------------- */

static struct held_plan *hold(struct held_plan *before)
{
    struct held_plan *plan = calloc(1, sizeof(*plan));

    if (plan)
        plan->before = before;
    return plan;
}

/* Frees a plan. Returns the plan before it. */
static struct held_plan *drop(struct held_plan *plan)
{
    struct held_plan *before = plan->before;

    vp_arena_release(&plan->arena);
    free(plan);
    return before;
}

/* A request with only a partition keeps the schedule, so the number of stages
 * must not change. */
static enum vp_status check_stages(const struct vp_plan *now,
                                   const struct vp_rebalance_request *request,
                                   struct vp_err *err)
{
    int n = vp_plan_n_stages(now), n_asked = vp_plan_n_stages(&request->plan);

    if (request->whole || n_asked == n)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "partition: %d stages, the plan in force has %d; for "
                      "another number give a whole plan, as 'vpipe plan --out' "
                      "writes it",
                      n_asked, n);
}

/* Returns the number of stages along the pipeline, without chunks. */
static int count_stages(const struct vp_plan *plan)
{
    return plan->n_stages > 0 ? plan->n_stages : 1;
}

/* Returns the current plan with the changes of a request. A plan file of vpipe
 * replaces everything but ranks, devices and transports; a file of the original
 * vPipe replaces only the partition and the recomputation. */
static struct vp_plan merge(const struct vp_plan *now,
                            const struct vp_rebalance_request *request)
{
    const struct vp_plan *asked = &request->plan;
    struct vp_plan plan = request->whole ? *asked : *now;

    if (!request->whole) {
        if (asked->partition)
            plan.partition = asked->partition;
        if (asked->recompute_ratio) {
            plan.recompute_ratio = asked->recompute_ratio;
            plan.recompute_sets = NULL;
            plan.slots = NULL;
            plan.n_slots = 0;
        }
        return plan;
    }
    /* Lists with an entry per stage are kept only for the same number of
     * stages. */
    if (!plan.replicas && count_stages(asked) == count_stages(now))
        plan.replicas = now->replicas;
    if (!plan.depth && count_stages(asked) == count_stages(now))
        plan.depth = now->depth;
    plan.accumulation_steps = asked->accumulation_steps
                                  ? asked->accumulation_steps
                                  : now->accumulation_steps;
    plan.ranks = now->ranks;
    plan.devices = now->devices;
    plan.tensor_parallel = now->tensor_parallel;
    plan.edges = now->edges;
    plan.replica_edges = now->replica_edges;
    plan.tie_edge = now->tie_edge;
    plan.compress = now->compress;
    plan.shard_optimizer = now->shard_optimizer;
    plan.bundle_bytes = now->bundle_bytes;
    return plan;
}

/* ---- Preparing ---------------------------------------------------------- */

/* Called by all processes; the lead has the plan as text. */
static enum vp_status prepare_together(struct vp_rebalance *r)
{
    char *shared = NULL;
    struct vp_rebalance_request request = { .whole = true };
    enum vp_status st = vp_share_text(r->with.world, r->text, &shared, &r->err);

    if (st == VP_OK && r->follows) {
        r->next = hold(r->now);
        st = r->next ? vp_plan_parse(shared, strlen(shared), "plan of the lead",
                                     &r->next->arena, &request.plan, &r->err)
                     : vp_err_set(&r->err, VP_ERR_NOMEM, "out of memory");
        if (st == VP_OK)
            r->next->plan = merge(&r->now->plan, &request);
    }
    free(shared);
    return vp_world_agree(r->with.world, st, VP_LIMIT_NEVER, &r->err);
}

static void *prepare(void *arg)
{
    struct vp_rebalance *r = arg;

    r->status = r->with.world ? prepare_together(r) : VP_OK;
    if (r->status == VP_OK)
        r->status = vp_trainer_create_next(r->trainer, &r->next->plan,
                                           &r->prepared, &r->err);
    atomic_store(&r->ready, true);
    return NULL;
}

/* Prepares on this thread, while training waits, if no thread can be
 * created. */
static void start_preparing(struct vp_rebalance *r, struct vp_trainer *trainer,
                            const char *why)
{
    r->trainer = trainer;
    r->prepared = NULL;
    r->why = why;
    r->err.text[0] = '\0';
    r->preparing = true;
    atomic_store(&r->ready, false);
    r->has_thread = pthread_create(&r->thread, NULL, prepare, r) == 0;
    if (!r->has_thread)
        prepare(r);
}

static void end_preparing(struct vp_rebalance *r)
{
    if (r->has_thread)
        pthread_join(r->thread, NULL);
    r->has_thread = false;
    free(r->text);
    r->text = NULL;
}

static void tell_refusal(struct vp_rebalance *r, const char *cause)
{
    char line[VP_REBALANCE_TEXT];
    struct vp_err err;

    snprintf(line, sizeof(line), "rebalance: refused: %.440s", cause);
    r->with.notice(r->with.ctx, line);
    if (r->id[0])
        vp_rebalance_answer(r->with.folder, r->id, false, cause, &err);
    r->id[0] = '\0';
}

static void forget_next(struct vp_rebalance *r)
{
    if (r->next)
        drop(r->next);
    r->next = NULL;
    r->undoes = false;
}

static void drop_prepared(struct vp_rebalance *r)
{
    vp_trainer_free(r->prepared);
    r->prepared = NULL;
    r->preparing = false;
    forget_next(r);
}

/* Tells the other processes to prepare, too. */
static enum vp_status call_others(struct vp_rebalance *r,
                                  struct vp_trainer *trainer)
{
    int n_blocks = r->with.train->graphs[0].n_blocks;

    if (!r->with.world)
        return VP_OK;
    if (vp_plan_print(&r->next->plan, n_blocks, NULL, &r->text) != VP_OK)
        return vp_err_set(&r->err, VP_ERR_NOMEM, "out of memory");
    return vp_trainer_order_prepare(trainer, &r->err);
}

static void begin(struct vp_rebalance *r, struct vp_trainer *trainer,
                  const char *why)
{
    if (call_others(r, trainer) != VP_OK) {
        tell_refusal(r, r->err.text);
        end_preparing(r);
        forget_next(r);
        return;
    }
    start_preparing(r, trainer, why);
}

/* ---- Measured work ------------------------------------------------------ */

/* Makes `next` from the current plan and the partition of `found`. Returns
 * false if memory is exhausted. */
static bool hold_partition(struct vp_rebalance *r,
                           const struct vp_imbalance *found)
{
    int n = vp_plan_n_stages(&r->now->plan);
    int *partition;

    r->next = hold(r->now);
    partition = r->next ? vp_arena_alloc(&r->next->arena,
                                         (size_t)n * sizeof(*partition))
                        : NULL;
    if (!partition) {
        forget_next(r);
        return false;
    }
    memcpy(partition, found->partition, (size_t)n * sizeof(*partition));
    r->next->plan = r->now->plan;
    r->next->plan.partition = partition;
    return true;
}

static void watch(struct vp_rebalance *r, struct vp_trainer *trainer,
                  const struct vp_step_report *report)
{
    struct vp_imbalance found;
    char line[VP_REBALANCE_TEXT];

    if (!vp_balance_watch_step(
            &r->watch, &r->costs, &r->now->plan, vp_trainer_schedule(trainer),
            vp_trainer_stats(trainer), report, r->with.last_step, &found) ||
        !hold_partition(r, &found))
        return;
    snprintf(line, sizeof(line),
             "rebalance: stages are out of balance: a step of %.4g s can take "
             "%.4g s; preparing the move",
             found.now, found.then);
    r->with.notice(r->with.ctx, line);
    begin(r, trainer, "stages out of balance");
}

/* ---- Requests ----------------------------------------------------------- */

static void take_auto(struct vp_rebalance *r, struct vp_trainer *trainer)
{
    struct vp_imbalance found;
    struct vp_err err = { .text = "" };

    if (vp_balance_watch_find(
            &r->watch, &r->costs, &r->now->plan, vp_trainer_schedule(trainer),
            vp_trainer_stats(trainer), &found, &err) != VP_OK) {
        tell_refusal(r, err.text);
        return;
    }
    if (found.same || found.then >= found.now) {
        tell_refusal(r, "no other partition is faster by the times that were "
                        "measured");
        return;
    }
    if (hold_partition(r, &found))
        begin(r, trainer, "asked for: auto");
    else
        tell_refusal(r, "out of memory");
}

static void take_undo(struct vp_rebalance *r, struct vp_trainer *trainer)
{
    if (!r->now->before) {
        tell_refusal(r, "the run has its first plan; there is nothing to undo");
        return;
    }
    r->next = hold(r->now);
    if (!r->next) {
        tell_refusal(r, "out of memory");
        return;
    }
    r->next->plan = r->now->before->plan; /* `before` keeps the arrays */
    r->undoes = true;
    begin(r, trainer, "asked for: undo");
}

/* Checks for a request and starts to carry it out. */
static void look(struct vp_rebalance *r, struct vp_trainer *trainer)
{
    struct held_plan *next = hold(r->now);
    struct vp_rebalance_request request;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (!next)
        return;
    st = vp_rebalance_take(r->with.folder, &next->arena, &request, &err);
    if (st == VP_ERR_END) {
        drop(next);
        return;
    }
    memcpy(r->id, request.id, sizeof(r->id));
    if (st == VP_OK && request.kind == VP_REBALANCE_PLAN)
        st = check_stages(&r->now->plan, &request, &err);
    if (st == VP_OK && request.kind == VP_REBALANCE_PLAN) {
        next->plan = merge(&r->now->plan, &request);
        r->next = next;
        begin(r, trainer, "asked for");
        return;
    }
    drop(next);
    if (st != VP_OK)
        tell_refusal(r, err.text);
    else if (request.kind == VP_REBALANCE_AUTO)
        take_auto(r, trainer);
    else
        take_undo(r, trainer);
}

/* Returns true if the trainer should become idle so that the prepared one can
 * take over: preparing has ended, and stages have kept the weight versions that
 * it needs. */
static bool is_ready(struct vp_rebalance *r)
{
    return atomic_load(&r->ready) &&
           (!r->prepared || vp_trainer_can_take_over(r->prepared));
}

bool vp_rebalance_step(struct vp_rebalance *r, struct vp_trainer *trainer,
                       const struct vp_step_report *report)
{
    int64_t now = vp_clock_ns();

    if (r->preparing)
        return is_ready(r);
    if (vp_clock_seconds(r->looked_ns, now) >= LOOK_SECONDS) {
        r->looked_ns = now;
        look(r, trainer);
    }
    if (!r->preparing && r->with.config->rebalance)
        watch(r, trainer, report);
    return false;
}

/* ---- The move ----------------------------------------------------------- */

/* Makes the next plan the current one. */
static void advance(struct vp_rebalance *r)
{
    if (r->undoes) {
        drop(r->next);
        r->now = drop(r->now);
    } else {
        r->now = r->next;
    }
    r->next = NULL;
    r->undoes = false;
    vp_balance_watch_moved(&r->watch, r->id[0] == '\0');
}

/* Moves to the prepared trainer, or reports why that is not possible. `st` is
 * the status of preparing. */
static bool finish(struct vp_rebalance *r, enum vp_status st,
                   struct vp_trainer **trainer,
                   struct vp_rebalance_move *move_out)
{
    bool own = r->id[0] == '\0'; /* decided by the watch */

    if (st == VP_OK)
        st = vp_trainer_take_over(r->prepared, *trainer, &move_out->migration,
                                  &r->err);
    if (st != VP_OK) {
        /* The process that refuses has the message; the lead answers. */
        if (r->err.text[0])
            tell_refusal(r, r->err.text);
        else if (!r->follows)
            tell_refusal(r, "another process cannot use the plan; see its "
                            "messages");
        drop_prepared(r);
        if (own)
            vp_balance_watch_refused(&r->watch);
        return false;
    }
    move_out->left = *trainer;
    *trainer = r->prepared;
    r->prepared = NULL;
    advance(r);
    move_out->plan = &r->now->plan;
    move_out->why = r->why;
    return true;
}

/* The lead's decision on the prepared trainer, for all processes. */
enum decision {
    DECISION_WAIT, /* train on until stages have kept the needed versions */
    DECISION_TAKE,
    DECISION_DROP,
};

static enum vp_status share_decision(struct vp_rebalance *r,
                                     enum decision *decision)
{
    int32_t number = *decision;
    enum vp_status st = vp_world_share(r->with.world, &number, sizeof(number),
                                       vp_limit_ms(r->with.train->timeout_ms));

    *decision = (enum decision)number;
    return st == VP_OK
               ? VP_OK
               : vp_err_set(&r->err, st, "another process does not answer");
}

/* Called by all processes, which are idle. If one of them lacks weight
 * versions, all wait. If preparing failed, it failed in all of them. */
static enum vp_status decide_together(struct vp_rebalance *r,
                                      enum decision *decision)
{
    enum vp_status mine, all;

    VP_TRY(r->status);
    VP_TRY(share_decision(r, decision));
    if (*decision != DECISION_TAKE)
        return VP_OK;
    mine = vp_trainer_can_take_over(r->prepared) ? VP_OK : VP_ERR_END;
    all = vp_world_agree(r->with.world, mine, VP_LIMIT_NEVER, &r->err);
    if (all != VP_ERR_END)
        return all;
    r->err.text[0] = '\0';
    *decision = DECISION_WAIT;
    return VP_OK;
}

bool vp_rebalance_move(struct vp_rebalance *r, struct vp_trainer **trainer,
                       struct vp_rebalance_move *move_out)
{
    enum decision decision = DECISION_TAKE;
    enum vp_status st = VP_OK;

    if (!r->preparing || !is_ready(r))
        return false;
    if (r->with.world)
        st = vp_trainer_order_move(*trainer, &r->err);
    end_preparing(r);
    if (st == VP_OK)
        st = r->with.world ? decide_together(r, &decision) : r->status;
    if (st == VP_OK && decision == DECISION_WAIT)
        return false;
    r->preparing = false;
    return finish(r, st, trainer, move_out);
}

void vp_rebalance_prepare(struct vp_rebalance *r, struct vp_trainer *trainer)
{
    r->follows = true;
    start_preparing(r, trainer, "");
}

bool vp_rebalance_follow(struct vp_rebalance *r, struct vp_trainer **trainer,
                         struct vp_rebalance_move *move_out)
{
    enum decision decision = DECISION_TAKE;
    enum vp_status st;

    end_preparing(r);
    st = decide_together(r, &decision);
    if (st == VP_OK && decision == DECISION_WAIT)
        return false;
    if (st == VP_OK && decision == DECISION_DROP) {
        drop_prepared(r);
        return false;
    }
    r->preparing = false;
    return finish(r, st, trainer, move_out);
}

void vp_rebalance_give_up(struct vp_rebalance *r)
{
    enum decision decision = DECISION_DROP;

    if (!r || !r->preparing || !r->with.world)
        return;
    if (r->id[0])
        tell_refusal(r, "the run has ended");
    if (vp_trainer_order_move(r->trainer, &r->err) != VP_OK)
        return;
    end_preparing(r);
    if (decide_together(r, &decision) == VP_OK)
        drop_prepared(r);
}

void vp_rebalance_tell(struct vp_rebalance *r, const char *line)
{
    struct vp_err err;

    r->with.notice(r->with.ctx, line);
    if (r->id[0])
        vp_rebalance_answer(r->with.folder, r->id, true, line, &err);
    r->id[0] = '\0';
}

/* ---- Creating ----------------------------------------------------------- */

enum vp_status vp_rebalance_create(const struct vp_rebalance_config *config,
                                   struct vp_rebalance **out,
                                   struct vp_err *err)
{
    const struct vp_train_config *train = config->train;
    struct vp_rebalance *r = calloc(1, sizeof(*r));

    if (!r || !(r->now = hold(NULL))) {
        free(r);
        return vp_err_set(err, VP_ERR_NOMEM, "rebalance: out of memory");
    }
    r->with = *config;
    r->now->plan = train->plan;
    r->work = (struct vp_workload){ .graphs = train->graphs,
                                    .n_graphs = train->n_graphs,
                                    .optim = train->optim,
                                    .scale = train->scale };
    vp_profile_synthetic(train->backend->device->host_memory,
                         train->graphs[0].dtype, &r->profile);
    if (vp_cost_table_init(&r->costs, &r->work, &r->profile) != VP_OK) {
        vp_rebalance_free(r);
        return vp_err_set(err, VP_ERR_NOMEM, "rebalance: out of memory");
    }
    *out = r;
    return VP_OK;
}

void vp_rebalance_free(struct vp_rebalance *r)
{
    if (!r)
        return;
    end_preparing(r);
    if (r->preparing && r->id[0])
        tell_refusal(r, "the run has ended");
    drop_prepared(r);
    while (r->now)
        r->now = drop(r->now);
    vp_cost_table_release(&r->costs);
    free(r);
}
