/* What the files of this folder share: the stages as they sit on ranks, and
 * what a schedule has to contain. */
#ifndef VP_SCHED_INTERNAL_H
#define VP_SCHED_INTERNAL_H

#include "base/strbuf.h"
#include "sched/schedule.h"

#include <stdint.h>

/* ---- Nodes -------------------------------------------------------------- */

/* Own indices (rounds for REDUCE and UPDATE), end not included. */
struct vp_sched_range {
    int begin, end;
};

/* A node is a stage on one of its ranks. `range` says, per kind, which actions
 * the schedule must contain there: a property of its parameters alone. */
struct vp_node {
    int stage, replica, rank;
    int first_mb; /* the first one of the segment that runs here */
    struct vp_sched_range range[VP_ACTION_KIND_COUNT];
};

struct vp_nodes {
    struct vp_node *at;
    int n;
    int *first; /* per stage: its replica 0 */
};

/* NULL in `at` when memory is exhausted. */
struct vp_nodes vp_nodes_make(const struct vp_schedule *schedule);
void vp_nodes_release(struct vp_nodes *nodes);

static inline int vp_nodes_of(const struct vp_nodes *nodes,
                              const struct vp_schedule *schedule, int stage,
                              int mb)
{
    return nodes->first[stage] + mb % schedule->stages[stage].n_replicas;
}

static inline int vp_node_mb(const struct vp_schedule *schedule,
                             const struct vp_node *node, int own_index)
{
    return node->first_mb +
           own_index * schedule->stages[node->stage].n_replicas;
}

/* The round of the first minibatch that is not among the first `n_own`: so
 * many rounds are complete here when these have been accumulated. */
static inline int vp_node_rounds(const struct vp_schedule *schedule,
                                 const struct vp_node *node, int n_own)
{
    return (vp_node_mb(schedule, node, n_own) - schedule->segment_begin) /
           schedule->stages[node->stage].update_every;
}

/* The action after which nothing of a minibatch is needed any more. */
static inline enum vp_action_kind vp_schedule_last_kind(
    const struct vp_schedule *schedule)
{
    return schedule->forward_only ? VP_ACTION_F
           : schedule->split      ? VP_ACTION_W
                                  : VP_ACTION_B;
}

/* F, R, B and W: what takes the time of a rank, and is drawn as a box. */
static inline bool vp_action_computes(enum vp_action_kind kind)
{
    return kind == VP_ACTION_F || kind == VP_ACTION_R || kind == VP_ACTION_B ||
           kind == VP_ACTION_W;
}

static inline bool vp_action_swaps(enum vp_action_kind kind)
{
    return kind == VP_ACTION_SWAP_OUT || kind == VP_ACTION_SWAP_FREE ||
           kind == VP_ACTION_SWAP_IN || kind == VP_ACTION_SWAP_READY;
}

/* The action after which a stage does not need what R made any more. */
static inline enum vp_action_kind vp_schedule_recomputed_kind(
    const struct vp_schedule *schedule, int stage)
{
    return schedule->split && schedule->stages[stage].w_recomputed
               ? VP_ACTION_W
               : VP_ACTION_B;
}

/* Whether gradients of the stage meet those of others before the update. */
static inline bool vp_schedule_reduces(const struct vp_schedule *schedule,
                                       int stage)
{
    return schedule->stages[stage].update_every > 0 &&
           (schedule->global_norm || schedule->stages[stage].n_replicas > 1);
}

/* ---- Lists under construction ------------------------------------------- */

struct vp_sched_list {
    struct vp_action *at;
    int n, capacity;
    bool failed; /* memory ran out; pushes are ignored from then on */
};

void vp_sched_list_push(struct vp_sched_list *list, struct vp_action action);
void vp_sched_list_release(struct vp_sched_list *list);

static inline void vp_sched_list_put(struct vp_sched_list *list,
                                     enum vp_action_kind kind, int stage,
                                     int mb)
{
    vp_sched_list_push(list,
                       (struct vp_action){ kind, stage, mb, -1, -1, -1, -1 });
}

/* Stages per rank, and whether they are placed 0 .. P-1, P-1 .. 0. */
int vp_sched_n_chunks(const struct vp_sched_config *config);
bool vp_sched_is_v_shape(const struct vp_sched_config *config);
/* Chunks that a rank may keep; 0: as many as the lists need. */
int vp_sched_keeps(const struct vp_sched_config *config);

/* ---- Generators --------------------------------------------------------- */

/* What the greedy rule has to do: stages on ranks without replicas, B apart
 * from W. `limit` is the most that a rank keeps, in the unit of `sizes`. */
struct vp_greedy {
    const struct vp_schedule *schedule; /* n_mb, stages and ranks count */
    const struct vp_stage_costs *costs; /* f, b, w per stage; NULL: 1 each */
    const double *sizes; /* per stage: kept from F to W; NULL: 1 each */
    const double *limit; /* per rank */
    double latency;      /* of a message to another rank */
};

/* Compute-only lists. VP_ERR_INVALID: a limit is below one minibatch of each
 * of the rank's stages. A lack of memory is told by lists[].failed. */
enum vp_status vp_greedy_write(const struct vp_greedy *in,
                               struct vp_sched_list *lists);

/* The list of a rank in a V, as words: capitals for its first stage, small
 * letters for its second; "FBWfbw" is every action once. Minibatches count per
 * letter, and a letter that has had its n_mb is left out. */
enum { VP_V_F, VP_V_B, VP_V_W, VP_V_SECOND };

struct vp_v_writer {
    struct vp_sched_list *list;
    int stages[2];
    int n_mb;
    int n[2 * VP_V_SECOND]; /* per letter */
};

struct vp_v_writer vp_v_writer_of(const struct vp_schedule *schedule, int rank,
                                  struct vp_sched_list *lists);
void vp_v_write(struct vp_v_writer *writer, const char *word, int times);
/* The W of the backward that has waited longest for it. W must have come in the
 * order of the backwards so far. */
void vp_v_write_oldest_w(struct vp_v_writer *writer);

/* A building block: per rank the slots of F of its first stage, F of its second,
 * B of the second, B of the first; see v_block.c. */
enum { VP_V_BLOCK = 4 };

struct vp_v_costs {
    int f, b, w;
};

struct vp_v_time {
    int all;  /* the makespan */
    int span; /* the longest time between a rank's first and last action */
};

/* Compute-only lists of the block repeated, with its holes filled. */
void vp_v_block_write(const int (*block)[VP_V_BLOCK],
                      const struct vp_schedule *schedule,
                      struct vp_sched_list *lists);
/* How long these lists take at each of `n` costs; false: memory is exhausted. */
bool vp_v_block_times(const int (*block)[VP_V_BLOCK], int n_ranks, int n_mb,
                      const struct vp_v_costs *costs, int n,
                      struct vp_v_time *out);

/* Chunks that a rank of these schedules keeps. */
int vp_v_half_keeps(int n_ranks);
int vp_v_min_keeps(int n_ranks);

/* Compute-only lists, from config->text; sets schedule->split. */
enum vp_status vp_lists_by_hand(const struct vp_sched_config *config,
                                struct vp_schedule *schedule,
                                struct vp_sched_list *lists,
                                struct vp_err *err);

/* The compute-only list of one node. */
void vp_generate_1f1b(const struct vp_schedule *schedule,
                      const struct vp_node *node, struct vp_sched_list *out);
void vp_generate_gpipe(const struct vp_schedule *schedule,
                       const struct vp_node *node, struct vp_sched_list *out);
void vp_generate_zb_h(const struct vp_schedule *schedule,
                      const struct vp_node *node, struct vp_sched_list *out);

/* Compute-only lists, one per rank. */
void vp_generate_interleaved(const struct vp_schedule *schedule,
                             struct vp_sched_list *lists);
void vp_generate_zb_v(const struct vp_schedule *schedule,
                      struct vp_sched_list *lists);
void vp_generate_dualpipe_v(const struct vp_schedule *schedule,
                            struct vp_sched_list *lists);
void vp_generate_v_half(const struct vp_schedule *schedule,
                        struct vp_sched_list *lists);
void vp_generate_v_min(const struct vp_schedule *schedule,
                       struct vp_sched_list *lists);
void vp_generate_v_auto(const struct vp_schedule *schedule,
                        struct vp_sched_list *lists);
void vp_generate_eval(const struct vp_schedule *schedule,
                      struct vp_sched_list *lists);

/* The complete lists of `auto`, in place of the empty ones of `schedule`. */
enum vp_status vp_auto_fill(const struct vp_sched_config *config,
                            struct vp_schedule *schedule, struct vp_err *err);

/* The maps rank -> stages, from stages[].first_rank; needs n_ranks. */
enum vp_status vp_schedule_map_ranks(struct vp_schedule *schedule);

/* What complete lists have beside F, B and W. */
struct vp_passes {
    bool stream;     /* updates come after each round, not at the end */
    bool early;      /* R comes before the gradient arrives */
    const int *swap; /* as in struct vp_sched_config */
};

/* Turns compute-only lists into complete ones and moves them into the
 * schedule: reduction and update, messages, recomputation, swap, slots,
 * versions. */
enum vp_status vp_passes_run(struct vp_schedule *schedule,
                             struct vp_sched_list *lists,
                             const struct vp_passes *passes);

/* swap.c: gives stages buffers of swapped values, and lists the copies. */
enum vp_status vp_pass_swap(struct vp_schedule *schedule,
                            struct vp_sched_list *lists, const int *swap);

/* Sizes of rings and slots that are 0 so far, from the lists' own peaks. */
enum vp_status vp_pass_sizes(struct vp_schedule *schedule,
                             const struct vp_sched_list *lists);

/* Longer rings where messages would wait for a buffer under `costs` (NULL: one
 * each for F, B, W), for ranks that own several stages; their replicas are
 * copies of the pipeline. */
enum vp_status vp_pass_rings(struct vp_schedule *schedule,
                             const struct vp_sched_costs *costs);

/* Moves finished lists into schedule->actions and empties them. */
enum vp_status vp_schedule_take(struct vp_schedule *schedule,
                                struct vp_sched_list *lists);

/* Fills in what the minibatch decides: peer and msg; slot and version too
 * where they are -1. */
void vp_action_complete(const struct vp_schedule *schedule,
                        struct vp_action *action);

/* ---- The proof's two halves --------------------------------------------- */

/* Each list for itself: right actions, right order, slots, versions. */
enum vp_status vp_check_lists(const struct vp_schedule *schedule,
                              const struct vp_nodes *nodes, struct vp_err *err);

/* All lists together; `spans` (may be NULL) get the times under `costs` (may
 * be NULL: no times). Lists must have passed vp_check_lists(). */
enum vp_status vp_run_lists(const struct vp_schedule *schedule,
                            const struct vp_nodes *nodes,
                            const struct vp_sched_costs *costs,
                            struct vp_span *spans, struct vp_err *err);

/* "rank 2, action 7 (1RECV_GRAD3)" for messages. */
struct vp_place {
    char text[80];
};
struct vp_place vp_place_of(const struct vp_schedule *schedule, int rank,
                            int position);

/* ---- Text --------------------------------------------------------------- */

/* The words of a schedule file's first line. */
enum vp_text_key {
    VP_TEXT_KEY_STAGES,
    VP_TEXT_KEY_MINIBATCHES,
    VP_TEXT_KEY_BEGIN,
    VP_TEXT_KEY_END,
    VP_TEXT_KEY_FIRST,
    VP_TEXT_KEY_DRAIN,
    VP_TEXT_KEY_SPLIT,
    VP_TEXT_KEY_FORWARD_ONLY,
    VP_TEXT_KEY_GLOBAL_NORM,
    VP_TEXT_KEY_RANK,
    VP_TEXT_KEY_REPLICAS,
    VP_TEXT_KEY_DEPTH,
    VP_TEXT_KEY_RECOMPUTE,
    VP_TEXT_KEY_SLOTS,
    VP_TEXT_KEY_ACT,
    VP_TEXT_KEY_GRAD,
    VP_TEXT_KEY_VERSIONS,
    VP_TEXT_KEY_EVERY,
    VP_TEXT_KEY_LAG,
    VP_TEXT_KEY_BASE,
    VP_TEXT_KEY_PAST,
    VP_TEXT_KEY_RECOMPUTED,
    VP_TEXT_KEY_W_RECOMPUTED,
    VP_TEXT_KEY_SWAP_OUT,
    VP_TEXT_KEY_SWAP_IN,
    VP_TEXT_KEY_COUNT
};

struct vp_schedule_key {
    const char *name;
    size_t offset; /* in struct vp_schedule, or vp_schedule_stage */
    bool is_bool, per_stage;
    int least, most;
    bool rare; /* not printed if no stage has more than `usual` */
    int usual;
};

extern const struct vp_schedule_key vp_schedule_keys[VP_TEXT_KEY_COUNT];

#endif
