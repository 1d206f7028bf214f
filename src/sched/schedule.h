/* A schedule is data: per rank, a list of actions. Generators write it, one
 * validator proves it, one simulator times it, one executor runs it, two
 * drawers paint it. Pure: no device, no I/O, no threads.
 *
 * Ranks and stages. Stages are numbered along the pipeline. With one chunk the
 * replicas of a stage are consecutive ranks, in stage order. With v > 1 chunks
 * every rank owns v stages: stage k is on rank k mod P (interleaved), or the
 * ranks run 0 .. P-1 and then P-1 .. 0 (placed in a V); replicas are then
 * copies of the pipeline, those of a rank next to each other. Minibatch m of
 * stage s runs on replica m mod R_s, where its own index is (m - b) / R_s, b
 * being the first minibatch of the segment. A rank executes its list in order.
 *
 * Messages and credits. Every (rank, stage) owns two rings of buffers: incoming
 * activations (stages > 0) and incoming gradients (all but the last stage).
 * Message j of a ring uses buffer j mod n, and j is the receiver's own index of
 * the minibatch. F and B write their result straight into the receiver's
 * buffer, so F(m) and B(m) wait until the receiver has released message j - n.
 * SEND signals that the buffer is full, RECV waits for that. A buffer is
 * released when the last action that reads it ends: both the activation and the
 * gradient of m at the end of B(m), of W(m) if backward is split in B and W, of
 * F(m) in a forward-only schedule. Neighbours on the same rank use the same
 * actions. Only F and B (credit), RECV (arrival), REDUCE (replicas), UPDATE
 * (global norm), SWAP_FREE and SWAP_READY (copies) wait.
 *
 * Generators give a ring one buffer for each message that is kept at once, and
 * one more for each rank that sends: n_slots + 1 for activations, 2 for
 * gradients (split: the most minibatches between B and W, + 1). A ring of
 * activations is longer if the previous stage starts more forwards than that
 * before its first backward (depths given by hand). If a rank owns several
 * stages, a ring is longer if messages would have to wait for a buffer at unit
 * costs. Sizes of a stream depend on its depths and replicas alone: all its
 * pieces have the same.
 *
 * Recomputation. The values that R(m) computes are in one of n_recomputed
 * buffers up to the end of B(m), or of W(m) if W(m) computes weight gradients
 * of recomputed operators (w_recomputed). R of own index i uses buffer i mod
 * n_recomputed, so it comes after that B or W of index i - n_recomputed.
 *
 * Swap. Swapped activations are in host memory between F and backward. F of own
 * index i writes them to buffer i mod n_swap_out of the device. SWAP_OUT starts
 * to copy them to the host; SWAP_FREE waits for the end of that copy, and F of
 * index i + n_swap_out may write the buffer again. SWAP_IN starts to copy them
 * back, into buffer i mod n_swap_in of those that R, B and W read, which index
 * i - n_swap_in must not need any more; SWAP_READY waits for that copy. Copies
 * run at the same time as all other work, one at a time in each direction.
 *
 * Order. On every (rank, stage), the actions of one kind come in minibatch
 * order. So messages, slots and buffers are first in, first out, and gradients
 * add up in minibatch order in every schedule. */
#ifndef VP_SCHED_SCHEDULE_H
#define VP_SCHED_SCHEDULE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vp_action_kind {
    VP_ACTION_F,         /* forward */
    VP_ACTION_R,         /* recompute what F did not keep */
    VP_ACTION_B,         /* backward; only input gradients if split */
    VP_ACTION_W,         /* weight gradients */
    VP_ACTION_SEND_ACT,  /* F's result is complete in the next stage's buffer */
    VP_ACTION_RECV_ACT,  /* wait for the input of F */
    VP_ACTION_SEND_GRAD, /* B's result is complete in the previous stage's */
    VP_ACTION_RECV_GRAD, /* wait for the input of B */
    VP_ACTION_REDUCE,    /* replicas add gradients; norm, tied weights (bsp) */
    VP_ACTION_UPDATE,    /* write the next weight version */
    VP_ACTION_SWAP_OUT,  /* begin to copy swapped values to the host */
    VP_ACTION_SWAP_FREE, /* wait for SWAP_OUT: the buffer is free */
    VP_ACTION_SWAP_IN,   /* begin to copy them back */
    VP_ACTION_SWAP_READY, /* wait for SWAP_IN: R, B and W may read them */
    VP_ACTION_KIND_COUNT
};

/* Fields that an action does not have are -1. */
struct vp_action {
    enum vp_action_kind kind;
    int stage;
    int mb;      /* minibatch; REDUCE, UPDATE: round, from 0 in the segment */
    int slot;    /* F R B W SWAP: place of the minibatch's activations */
    int version; /* F R B W: weight version read; UPDATE: version written */
    int peer;    /* F B SEND: rank that receives the result; RECV: sender */
    int msg;     /* F B SEND RECV: message index at the receiver */
};

struct vp_rank_list {
    struct vp_action *actions; /* a part of vp_schedule.actions */
    int n_actions;
    int n_stages; /* stages of this rank: 1, or the number of chunks */
    int *stages;  /* ascending */
};

struct vp_schedule_stage {
    int first_rank, n_replicas;
    int depth;      /* B of own index i - depth follows F of i; 0 in schedules
                  without depths */
    bool recompute; /* R comes between F and B */
    bool w_recomputed;         /* W reads recomputed values */
    int n_recomputed;          /* buffers for these; 0: there is no R */
    int n_swap_out, n_swap_in; /* buffers for swapped values; 0: no swap */
    int n_slots;               /* activation slots on each replica */
    int n_act_bufs;   /* ring of incoming activations; 0: first stage */
    int n_grad_bufs;  /* ring of incoming gradients; 0: none arrive */
    int n_versions;   /* ring of weights: version v is in place v mod n */
    int update_every; /* minibatches of a round; 0: no updates */
    /* Round r uses version version_begin + max(r - version_lag,
     * -version_past). */
    int version_lag;
    int version_begin; /* updates before the segment */
    int version_past;
};

/* Reason for which greedy.c wrote the lists instead of the named generator. */
enum vp_fallback {
    VP_FALLBACK_NONE,
    VP_FALLBACK_FEW_MB, /* fewer minibatches than vp_schedule.least_mb */
    VP_FALLBACK_MEMORY, /* less memory than any list of the generator needs */
};

struct vp_schedule {
    char name[16]; /* name of the generator */
    int n_ranks;
    int n_stages; /* chunks counted, unlike vp_sched_config.n_stages */
    int least_mb; /* minibatches that the generator's own lists need */
    int keeps;    /* chunks that a rank may keep; 0: no limit was set */
    enum vp_fallback fallback; /* not part of the text */
    struct vp_rank_list *ranks;
    struct vp_schedule_stage *stages;

    int segment_begin;  /* b: the pipeline was empty before this minibatch */
    int segment_end;    /* one after the segment's last; 0: not known */
    int first_mb, n_mb; /* the forwards: [first_mb, first_mb + n_mb) */
    bool drain;         /* all backwards are part of it; otherwise only those
                           that follow its forwards by `depth` */
    bool split;         /* B and W are separate actions */
    bool forward_only;
    bool global_norm; /* UPDATE waits for the REDUCE of every stage */

    struct vp_action *actions; /* actions of all ranks, rank 0 first */
    int n_actions;
};

/* ---- Making schedules --------------------------------------------------- */

/* Memory that the slots of a rank's stages may take, in any unit. Messages are
 * not counted. */
struct vp_sched_limits {
    const double *rank;  /* per rank; NULL: no limit */
    const double *stage; /* size of a slot, per stage; NULL: 1 each */
    /* True: counts the slots in use at the same time. False: counts all slots
     * of the stages, as a run allocates them. */
    bool in_use;
};

enum { VP_SWAP_DEFAULT = -1 };

struct vp_sched_config {
    const char *name; /* name of a generator */
    int n_stages;     /* without replicas: the number of ranks */
    int n_chunks;     /* stages per rank; 0: the generator's default */
    bool v_shape;     /* eval, auto: two chunks placed in a V */
    int memory;       /* v-auto: chunks that a rank may keep; 0: 2 per stage */
    /* Synchronous schedules: text of vp_schedule_print() that gives the order
     * of F, B, W and R; NULL: the generator writes the lists. `name` and
     * v_shape give the placement. R is inserted if a stage recomputes and the
     * text has none. */
    const char *text;
    int n_mb;
    const int *replicas;   /* per stage; NULL: one each */
    const int *depth;      /* per stage, stage_to_depth_map; NULL: default */
    const bool *recompute; /* per stage (chunks x stages); NULL: none */
    bool w_recomputed; /* see vp_schedule_stage; only if B and W are split */
    /* Per stage (chunks x stages): device buffers for swapped values, of both
     * kinds together. 0: the stage does not swap; NULL: no stage does;
     * VP_SWAP_DEFAULT: a number that suits its slots. A stage gets at least the
     * number that it needs, and does not swap if that is not less than its
     * slots. */
    const int *swap;
    bool early_recompute; /* R before RECV_GRAD: overlaps the wait */
    bool global_norm;     /* bsp: clip by the norm of all stages */

    /* Streams (pipedream, macrobatch): a piece of a long list, beginning with
     * the forward of first_mb. Concatenated pieces equal the whole list if
     * segment_end is set in all of them. Without it, a piece that keeps going
     * assumes that later minibatches fill the rounds it has begun. */
    int segment_begin, first_mb; /* 0, 0: from the start */
    int segment_end;             /* 0: not known */
    bool keep_going;             /* do not drain at the end of the piece */
    const int *version_begin;    /* per stage; NULL: 0 */
    /* Per stage; NULL: 0. Rounds before the segment whose versions are still in
     * the ring: the first rounds use them as if the pipeline had never been
     * empty. Limited to the lag. */
    const int *version_past;
    int update_every; /* macrobatch: minibatches; 0: the least */

    /* Input of auto. */
    bool fused; /* B contains W, as in 1f1b: slots are smaller, in bytes */
    const struct vp_sched_costs *costs;   /* NULL: one each for F, R, B, W */
    const struct vp_sched_limits *limits; /* NULL: memory has no limits */
};

struct vp_generator {
    const char *name;
    const char *meaning; /* one line */
    bool split;          /* separates B and W */
    bool chunks;         /* takes n_chunks > 1 */
    bool v_shape;        /* two chunks per rank, placed in a V */
    bool memory;         /* takes the memory of a rank */
    bool stream;         /* asynchronous: pieces, weight versions */
    bool two_versions;   /* stream: a round is update_every minibatches */
    bool forward_only;
    bool planned; /* depends on config->costs and limits; any placement */
};

/* Returns the i-th generator; NULL after the last. */
const struct vp_generator *vp_generator_at(int i);
/* Returns the index of a generator; -1 if the name is unknown. */
int vp_generator_index(const char *name);
/* Returns a generator; NULL if the name is unknown. */
const struct vp_generator *vp_generator_find(const char *name);

/* Makes the schedule of `config`. A forward-only schedule ignores depths,
 * recomputation and updates. Fails with VP_ERR_INVALID and a line about the
 * first mistake in `config`. The result is not validated: depths given by hand
 * can make it deadlock. Free with vp_schedule_release(). */
enum vp_status vp_schedule_make(const struct vp_sched_config *config,
                                struct vp_schedule *out, struct vp_err *err);
void vp_schedule_release(struct vp_schedule *schedule);

/* Writes the configuration of a generator with the stages, ranks, replicas and
 * number of minibatches of `schedule`. Fills `replicas` (one per stage of the
 * schedule), which `out` borrows. Returns false if no generator places stages
 * like this. */
bool vp_schedule_base(const struct vp_schedule *schedule, int *replicas,
                      struct vp_sched_config *out);

/* Makes the fastest of several schedules, each timed under its own
 * config->costs. `*best_out` gets its index; may be NULL. Skips configurations
 * that are refused; if all are, returns the error of the first. */
enum vp_status vp_schedule_make_best(const struct vp_sched_config *configs,
                                     int n, struct vp_schedule *out,
                                     int *best_out, struct vp_err *err);

/* Returns the default depth of a stage: floor((N - 1 - sum of R before it) /
 * R_s). */
int vp_schedule_depth(const int *replicas, int n_stages, int stage);
/* Returns the number of minibatches of a drained schedule that is enough to
 * find every deadlock of these depths, for the shortest rounds of macrobatch.
 * Arrays are per stage; `replicas` NULL: one each. */
int64_t vp_schedule_proof_mb(const int *replicas, const int *depth,
                             int n_stages);

/* Writes the ranks of stage `stage`, from 0 to chunks x stages - 1. Reads only
 * name, n_stages, n_chunks, v_shape and replicas of `config`. */
void vp_sched_place(const struct vp_sched_config *config, int stage,
                    int *first_rank_out, int *n_replicas_out);

/* ---- Questions ---------------------------------------------------------- */

/* Returns the rank that runs a minibatch of a stage. */
int vp_schedule_rank_of(const struct vp_schedule *schedule, int stage, int mb);
/* Returns the own index of a minibatch on the replica that runs it, which is
 * also its message index. */
int vp_schedule_own_index(const struct vp_schedule *schedule, int stage,
                          int mb);
/* Returns the weight version that F, R, B and W of a minibatch use. */
int vp_schedule_version_of(const struct vp_schedule *schedule, int stage,
                           int mb);
/* Writes the cause of vp_schedule.fallback as text for users; "" without
 * one. */
void vp_schedule_explain(const struct vp_schedule *schedule, char *text,
                         size_t n_bytes);
/* Returns the number of minibatches at the end of a drained stream whose
 * gradients are not applied, because they do not fill a round. */
int vp_schedule_n_dropped(const struct vp_schedule *schedule, int stage);

/* ---- Text --------------------------------------------------------------- */

enum {
    VP_PRINT_COMPUTE = 1, /* leave out the first line and messages */
    VP_PRINT_FULL = 2,    /* slots and versions everywhere: 1F0@0v3 */
};

/* Returns "F", "RECV_ACT", ... */
const char *vp_action_kind_name(enum vp_action_kind kind);
/* Writes one action: "1F0", "0SEND_ACT3". Returns the length like
 * snprintf(). */
int vp_action_print(const struct vp_action *action, char *text, size_t n_bytes);

/* Writes a line with the parameters, then one line per rank: "0: 0F0 0SEND_ACT0
 * ...". Slots and versions are written (as in 1F0@0v3) where they differ from
 * the defaults: slot = own index mod n_slots, vp_schedule_version_of(). The
 * caller frees the text. */
enum vp_status vp_schedule_print(const struct vp_schedule *schedule, int flags,
                                 char **text_out);

/* Parses a text of vp_schedule_print() (without VP_PRINT_COMPUTE). `source` is
 * the name of the text in messages: "file:line:column: cause; remedy". Checks
 * only the syntax: see vp_schedule_validate(). */
enum vp_status vp_schedule_parse(const char *text, const char *source,
                                 struct vp_schedule *out, struct vp_err *err);

/* ---- Proof -------------------------------------------------------------- */

/* Returns VP_OK if an executor that follows the rules above finishes this
 * schedule in every interleaving, never overwrites a buffer that is still
 * needed, uses the right weight versions and adds every gradient once and in
 * order. Otherwise returns VP_ERR_INVALID and a line with rank, position,
 * action and cause. The proof of a piece of a stream assumes that the pieces
 * around it run, too; a piece that waits for an action of a later piece is
 * refused. */
enum vp_status vp_schedule_validate(const struct vp_schedule *schedule,
                                    struct vp_err *err);

/* ---- Time --------------------------------------------------------------- */

/* Costs in seconds, or any unit. Messages go to the next (act) and previous
 * (grad) stage. Each pair of ranks has one link per direction, which carries
 * one message at a time; a message to the same rank takes no time. Computation
 * overlaps with links and copy engines. */
struct vp_stage_costs {
    double f, b, w, r; /* a B that is not split takes b + w */
    double reduce, update;
    double act, grad; /* time on the link */
    /* Time of a message on each of two copy engines if devices cannot access
     * each other's memory; 0: it passes none. */
    double act_copy, grad_copy;
    /* Time of a minibatch's swapped values on the copy engines. */
    double swap_out, swap_in;
};

/* Returns the field with the cost of a kind of action; NULL: it has none. */
double *vp_costs_field(struct vp_stage_costs *costs, enum vp_action_kind kind);

struct vp_sched_costs {
    const struct vp_stage_costs *stages; /* one per stage of the schedule */
    /* Costs of F, R, B and W in the first n_first_slots slots of each stage;
     * NULL: all slots have the same. */
    const struct vp_stage_costs *first_slots;
    const int *n_first_slots;
    double latency;   /* added to each message; does not fill a link */
    bool send_blocks; /* SEND keeps the sender busy while the link works */
    bool one_port;    /* all messages of a device use the same link */
    /* True: RECV only posts the receive, and F or B waits for the message.
     * False: RECV waits for it. */
    bool recv_posts;

    /* Ranks on the same device (GPU, or set of cores) compute at equal shares:
     * if k > capacity compute at once, each takes k / capacity times as long. A
     * device has one copy engine per direction. */
    double capacity;   /* ranks that a device carries at full speed; 0: 1 if
                          `device` is given, else all */
    const int *device; /* per rank, from 0 to n_ranks - 1; NULL: all on one if
                          `capacity` or `busy` is given, else one each */
    /* Costs of F, R, B, W and UPDATE while all ranks of the device compute, for
     * cores that share clocks and memory bandwidth. `stages` are then the costs
     * of a rank that computes alone, and costs grow linearly with the number of
     * ranks that compute. NULL: all costs are those of `stages`. */
    const struct vp_stage_costs *busy;
};

/* Times of one action, without the wait before `start`. */
struct vp_span {
    double start, end;
};

struct vp_rank_times {
    double busy;     /* computing (and sending, if that blocks) */
    double bubble;   /* 1 - busy / makespan */
    int first_slots; /* minibatches kept at the start, over all its stages */
    int peak_slots;  /* largest number kept at once, over all its stages */
};

struct vp_timing {
    double makespan;
    double bubble;         /* 1 - sum of busy / (n_ranks * makespan) */
    struct vp_span *spans; /* one per action, as vp_schedule.actions */
    struct vp_rank_times *ranks;
    int *peak_slots; /* per stage, the largest replica */
};

/* Simulates the lists; each action starts as early as the rules allow. Fails
 * with VP_ERR_INVALID for schedules that vp_schedule_validate() refuses and for
 * device numbers out of range. Free with vp_timing_release(). */
enum vp_status vp_simulate(const struct vp_schedule *schedule,
                           const struct vp_sched_costs *costs,
                           struct vp_timing *out, struct vp_err *err);
void vp_timing_release(struct vp_timing *timing);

/* Returns the idle share of the rank with the longest span, from the start of
 * its first F to the end of its last F, R, B or W. A rank that starts late and
 * ends late by the same time has no bubble in this measure: iterations without
 * a flush in between would interlock. */
double vp_timing_span(const struct vp_schedule *schedule,
                      const struct vp_timing *timing);

/* Returns the theoretical bubble if every stage costs `costs` and messages cost
 * nothing. schedule_theory.c has the formulas and the cases in which they are
 * exact. */
double vp_schedule_theory(const struct vp_sched_config *config,
                          const struct vp_stage_costs *costs);

/* Returns the same for given lists: as above if the generator schedule->name
 * writes these lists, otherwise a lower bound for all lists with these stages,
 * minibatches and recomputation. Returns 0 if out of memory. */
double vp_schedule_list_theory(const struct vp_schedule *schedule,
                               const struct vp_stage_costs *costs);

/* Computes the theoretical value of vp_timing_span(). Returns false if no
 * closed form is exact for this configuration. */
bool vp_schedule_span_theory(const struct vp_sched_config *config,
                             const struct vp_stage_costs *costs,
                             double *bubble_out);

/* ---- Pictures ----------------------------------------------------------- */

/* Draws a schedule for the terminal, one row per rank, `width` columns wide.
 * The caller frees the text. */
enum vp_status vp_schedule_chart(const struct vp_schedule *schedule,
                                 const struct vp_timing *timing, int width,
                                 bool colour, char **text_out);

/* Draws a schedule as SVG, with the slots in use below. The caller frees the
 * text. */
enum vp_status vp_schedule_svg(const struct vp_schedule *schedule,
                               const struct vp_timing *timing,
                               const char *title, char **text_out);

#endif
