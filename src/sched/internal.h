/* Declarations shared by the files of this folder: stages on ranks, lists under
 * construction, generators, passes and checks. */
#ifndef VP_SCHED_INTERNAL_H
#define VP_SCHED_INTERNAL_H

#include "base/strbuf.h"
#include "sched/schedule.h"

#include <stdint.h>

/* ---- Nodes -------------------------------------------------------------- */

/* Range of own indices (rounds for REDUCE and UPDATE), end not included. */
struct vp_sched_range {
    int begin, end;
};

/* A node is a stage on one of its ranks. `range`: per kind, the actions that
 * the schedule must contain there, which follow from its parameters alone. */
struct vp_node {
    int stage, replica, rank;
    int first_mb; /* the first minibatch of the segment that runs here */
    struct vp_sched_range range[VP_ACTION_KIND_COUNT];
};

struct vp_nodes {
    struct vp_node *at;
    int n;
    int *first; /* per stage: index of its replica 0 */
};

/* Sets `at` to NULL if out of memory. */
struct vp_nodes vp_nodes_make(const struct vp_schedule *schedule);
void vp_nodes_release(struct vp_nodes *nodes);

/* Returns the index of the node that runs minibatch `mb` of `stage`. */
static inline int vp_nodes_of(const struct vp_nodes *nodes,
                              const struct vp_schedule *schedule, int stage,
                              int mb)
{
    return nodes->first[stage] + mb % schedule->stages[stage].n_replicas;
}

/* Returns the minibatch with this own index. */
static inline int vp_node_mb(const struct vp_schedule *schedule,
                             const struct vp_node *node, int own_index)
{
    return node->first_mb +
           own_index * schedule->stages[node->stage].n_replicas;
}

/* Returns the number of rounds that are complete on this node when its first
 * `n_own` minibatches have been accumulated. */
static inline int vp_node_rounds(const struct vp_schedule *schedule,
                                 const struct vp_node *node, int n_own)
{
    return (vp_node_mb(schedule, node, n_own) - schedule->segment_begin) /
           schedule->stages[node->stage].update_every;
}

/* Returns the kind of a minibatch's last action on a stage: its slot and
 * buffers are free after it. */
static inline enum vp_action_kind vp_schedule_last_kind(
    const struct vp_schedule *schedule)
{
    return schedule->forward_only ? VP_ACTION_F
           : schedule->split      ? VP_ACTION_W
                                  : VP_ACTION_B;
}

/* Returns true for F, R, B and W, which take the time of a rank and are drawn
 * as boxes. */
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

/* Returns the kind that reads recomputed values last. */
static inline enum vp_action_kind vp_schedule_recomputed_kind(
    const struct vp_schedule *schedule, int stage)
{
    return schedule->split && schedule->stages[stage].w_recomputed
               ? VP_ACTION_W
               : VP_ACTION_B;
}

/* Returns true if the stage has a REDUCE before its update: gradients of
 * replicas are added, or the norm of all stages is computed. */
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
    bool failed; /* out of memory; later pushes are ignored */
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

/* Returns the number of stages per rank. */
int vp_sched_n_chunks(const struct vp_sched_config *config);
/* Returns true if the stages are placed 0 .. P-1, P-1 .. 0. */
bool vp_sched_is_v_shape(const struct vp_sched_config *config);
/* Returns the number of chunks that a rank may keep; 0: no limit. */
int vp_sched_keeps(const struct vp_sched_config *config);

/* ---- Generators --------------------------------------------------------- */

/* Input of the greedy rule: stages on ranks without replicas, B and W split.
 * `limit`: the most that a rank keeps, in the unit of `sizes`. */
struct vp_greedy {
    const struct vp_schedule *schedule; /* only n_mb, stages, ranks are read */
    const struct vp_stage_costs *costs; /* f, b, w per stage; NULL: 1 each */
    const double *sizes; /* per stage: kept from F to W; NULL: 1 each */
    const double *limit; /* per rank */
    double latency;      /* time of a message to another rank */
};

/* Writes compute-only lists. Fails with VP_ERR_INVALID if a limit is below one
 * minibatch of each of the rank's stages. Sets lists[].failed if out of
 * memory. */
enum vp_status vp_greedy_write(const struct vp_greedy *in,
                               struct vp_sched_list *lists);

/* Writes the list of a rank in a V from letters: capitals for its first stage,
 * small letters for its second; "FBWfbw" is every action once. The i-th use of
 * a letter is minibatch i, and uses after n_mb are ignored. */
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
/* Writes the W of the oldest backward that has none yet. The W so far must be
 * in the order of their backwards. */
void vp_v_write_oldest_w(struct vp_v_writer *writer);

/* A building block: per rank the slots of F of its first stage, F of its second
 * stage, B of the second and B of the first; see v_block.c. */
enum { VP_V_BLOCK = 4 };

struct vp_v_costs {
    int f, b, w;
};

struct vp_v_time {
    int all;  /* the makespan */
    int span; /* the longest time between a rank's first and last action */
};

/* Writes the compute-only lists of the repeated block, with idle slots
 * filled. */
void vp_v_block_write(const int (*block)[VP_V_BLOCK],
                      const struct vp_schedule *schedule,
                      struct vp_sched_list *lists);
/* Computes the times of these lists at each of `n` costs. Returns false if out
 * of memory. */
bool vp_v_block_times(const int (*block)[VP_V_BLOCK], int n_ranks, int n_mb,
                      const struct vp_v_costs *costs, int n,
                      struct vp_v_time *out);

/* Return the number of chunks that a rank keeps in v-half and v-min. */
int vp_v_half_keeps(int n_ranks);
int vp_v_min_keeps(int n_ranks);

/* Reads compute-only lists from config->text. Sets schedule->split and the
 * sizes of message rings. */
enum vp_status vp_lists_by_hand(const struct vp_sched_config *config,
                                struct vp_schedule *schedule,
                                struct vp_sched_list *lists,
                                struct vp_err *err);

/* Write the compute-only list of one node. */
void vp_generate_1f1b(const struct vp_schedule *schedule,
                      const struct vp_node *node, struct vp_sched_list *out);
void vp_generate_gpipe(const struct vp_schedule *schedule,
                       const struct vp_node *node, struct vp_sched_list *out);
void vp_generate_zb_h(const struct vp_schedule *schedule,
                      const struct vp_node *node, struct vp_sched_list *out);

/* Write the compute-only lists of all ranks. */
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

/* Replaces `schedule`, which has no lists, by the complete one of `auto`. */
enum vp_status vp_auto_fill(const struct vp_sched_config *config,
                            struct vp_schedule *schedule, struct vp_err *err);

/* Fills the stages of each rank from stages[].first_rank. n_ranks must be
 * set. */
enum vp_status vp_schedule_map_ranks(struct vp_schedule *schedule);

/* Options for the actions that the passes add to F, B and W. */
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

/* swap.c: sets the number of buffers for swapped values and inserts the SWAP
 * actions. */
enum vp_status vp_pass_swap(struct vp_schedule *schedule,
                            struct vp_sched_list *lists, const int *swap);

/* Sets sizes of rings and slots that are still 0 to the peaks of the lists. */
enum vp_status vp_pass_sizes(struct vp_schedule *schedule,
                             const struct vp_sched_list *lists);

/* Makes rings longer where messages would wait for a buffer under `costs`
 * (NULL: 1 for each of F, B, W). For ranks that own several stages, whose
 * replicas are copies of the pipeline. */
enum vp_status vp_pass_rings(struct vp_schedule *schedule,
                             const struct vp_sched_costs *costs);

/* Moves finished lists into schedule->actions and empties them. */
enum vp_status vp_schedule_take(struct vp_schedule *schedule,
                                struct vp_sched_list *lists);

/* Sets peer and msg, and slot and version if they are -1, from the
 * minibatch. */
void vp_action_complete(const struct vp_schedule *schedule,
                        struct vp_action *action);

/* ---- The proof's two halves --------------------------------------------- */

/* Checks each list for itself: actions, their order, slots, versions. */
enum vp_status vp_check_lists(const struct vp_schedule *schedule,
                              const struct vp_nodes *nodes, struct vp_err *err);

/* Runs all lists together and fails if they deadlock. Lists must have passed
 * vp_check_lists(). `spans` gets the times under `costs`; both may be NULL: no
 * times. */
enum vp_status vp_run_lists(const struct vp_schedule *schedule,
                            const struct vp_nodes *nodes,
                            const struct vp_sched_costs *costs,
                            struct vp_span *spans, struct vp_err *err);

/* Returns the place of an action for messages: "rank 2, action 7
 * (1RECV_GRAD3)". */
struct vp_place {
    char text[80];
};
struct vp_place vp_place_of(const struct vp_schedule *schedule, int rank,
                            int position);

/* ---- Text --------------------------------------------------------------- */

/* Keys in the first line of a schedule's text. */
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
