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
 * SEND says that the buffer is full, RECV waits for that. A buffer is released
 * when the last action that reads it ends: both the activation and the gradient
 * of m at the end of B(m), of W(m) if backward is split in B and W, of F(m) in
 * a forward-only schedule. Neighbours on the same rank use the same actions.
 * Waits of F, B (credit), RECV (arrival), REDUCE (replicas), and UPDATE (global
 * norm) are the only ones.
 *
 * Generators make rings as long as what is kept at once, and one buffer more
 * for each rank that sends: n_slots + 1 for activations, 2 for gradients
 * (split: the most minibatches between B and W, + 1). A ring of activations is
 * longer if the stage before starts more forwards than that before its first
 * backward (depths given by hand). Where a rank owns several stages a ring is
 * longer if messages would have to wait for a buffer at unit costs. Sizes of a
 * stream depend on its depths and replicas alone: all its pieces have the same.
 *
 * Recomputation. What R computes is in one of n_recomputed buffers, from R(m) to
 * the end of B(m), or of W(m) if weight gradients of recomputed operators run
 * there (w_recomputed). R of own index i uses buffer i mod n_recomputed, so it
 * comes after the end of index i - n_recomputed.
 *
 * Swap. What a stage swaps waits in memory of the host between F and backward.
 * F of own index i writes it to buffer i mod n_swap_out of the device. SWAP_OUT
 * starts to copy that to the host; SWAP_FREE waits until the copy is made, and F
 * of index i + n_swap_out may write the buffer again. SWAP_IN starts to copy it
 * back, into buffer i mod n_swap_in of those that R, B and W read, which index
 * i - n_swap_in must not need any more; SWAP_READY waits for that copy. Copies
 * run beside everything else, one at a time in each direction.
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
    VP_ACTION_F,          /* forward */
    VP_ACTION_R,          /* recompute what F did not keep */
    VP_ACTION_B,          /* backward; input gradients only if W is apart */
    VP_ACTION_W,          /* weight gradients */
    VP_ACTION_SEND_ACT,   /* F's result is in the next stage's buffer */
    VP_ACTION_RECV_ACT,   /* wait for the input of F */
    VP_ACTION_SEND_GRAD,  /* B's result is in the previous stage's buffer */
    VP_ACTION_RECV_GRAD,  /* wait for the input of B */
    VP_ACTION_REDUCE,     /* replicas add gradients; norm, tied weights (bsp) */
    VP_ACTION_UPDATE,     /* write the next weight version */
    VP_ACTION_SWAP_OUT,   /* begin to copy what F left to the host */
    VP_ACTION_SWAP_FREE,  /* wait for that: its buffer is free */
    VP_ACTION_SWAP_IN,    /* begin to copy it back */
    VP_ACTION_SWAP_READY, /* wait for that: R, B and W may read it */
    VP_ACTION_KIND_COUNT
};

/* What an action does not have is -1. */
struct vp_action {
    enum vp_action_kind kind;
    int stage;
    int mb;      /* minibatch; REDUCE, UPDATE: round, from 0 in the segment */
    int slot;    /* F R B W SWAP: where the minibatch's activations are kept */
    int version; /* F R B W: of the weights it uses; UPDATE: that it writes */
    int peer;    /* F B SEND: rank that receives the result; RECV: sender */
    int msg;     /* F B SEND: index at the receiver; RECV: here */
};

struct vp_rank_list {
    struct vp_action *actions; /* a part of vp_schedule.actions */
    int n_actions;
    int n_stages; /* that this rank owns: 1, or the number of chunks */
    int *stages;  /* ascending */
};

struct vp_schedule_stage {
    int first_rank, n_replicas;
    int depth;         /* W: B of own index i - W follows F of i; else 0 */
    bool recompute;    /* R stands between F and B */
    bool w_recomputed; /* W reads what R made */
    int n_recomputed;  /* buffers for what R makes; 0: there is no R */
    int n_swap_out, n_swap_in; /* of swapped values; 0: nothing is swapped */
    int n_slots;               /* activation slots on each replica */
    int n_act_bufs;    /* ring of incoming activations; 0: first stage */
    int n_grad_bufs;   /* ring of incoming gradients; 0: none arrive */
    int n_versions;    /* ring of weights: version v is in place v mod n */
    int update_every;  /* minibatches of a round; 0: no updates */
    int version_lag;   /* round r runs on version_begin + r - lag, but ... */
    int version_begin; /* updates before the segment */
    int version_past;  /* ... on none before version_begin - past */
};

/* Why greedy.c wrote the lists instead of the generator named. */
enum vp_fallback {
    VP_FALLBACK_NONE,
    VP_FALLBACK_FEW_MB, /* fewer minibatches than vp_schedule.least_mb */
    VP_FALLBACK_MEMORY, /* less memory than any list of the generator needs */
};

struct vp_schedule {
    char name[16]; /* of the generator */
    int n_ranks, n_stages;
    int least_mb; /* minibatches that the generator's own lists need */
    int keeps;    /* chunks that a rank may keep; 0: no limit was set */
    enum vp_fallback fallback; /* not part of the text */
    struct vp_rank_list *ranks;
    struct vp_schedule_stage *stages;

    int segment_begin;  /* b: the pipe was empty before this minibatch */
    int segment_end;    /* no minibatch comes from here on; 0: not known */
    int first_mb, n_mb; /* the forwards: [first_mb, first_mb + n_mb) */
    bool drain;         /* all backwards too; else those that pair up */
    bool split;         /* W apart from B */
    bool forward_only;
    bool global_norm; /* UPDATE waits for the REDUCE of every stage */

    struct vp_action *actions; /* of all ranks, rank 0 first */
    int n_actions;
};

/* ---- Making one --------------------------------------------------------- */

/* Memory that the slots of a rank's stages may take, in any unit. Messages are
 * not counted. */
struct vp_sched_limits {
    const double *rank;  /* per rank; NULL: no limit */
    const double *stage; /* size of a slot, per stage; NULL: 1 each */
    /* Slots that hold something at the same time; else all that the stages own,
     * as a run allocates them. */
    bool in_use;
};

enum { VP_SWAP_DEFAULT = -1 };

struct vp_sched_config {
    const char *name; /* a generator */
    int n_stages;     /* without replicas: the number of ranks */
    int n_chunks;     /* of a stage; 0: two if interleaved, else one */
    bool v_shape;     /* eval, auto: two chunks placed in a V */
    int memory;       /* v-auto: chunks that a rank may keep; 0: 2 per stage */
    /* Synchronous: F, B, W and R come in the order of this text, which
     * vp_schedule_print() wrote; `name` (and v_shape) say how stages are
     * placed. R is inserted where a stage recomputes and the text has none. */
    const char *text;
    int n_mb;
    const int *replicas;   /* per stage; NULL: one each */
    const int *depth;      /* per stage, stage_to_depth_map; NULL: default */
    const bool *recompute; /* per stage (chunks x stages); NULL: none */
    bool w_recomputed;     /* see vp_schedule_stage; only if W is apart */
    /* Per stage (chunks x stages): buffers of swapped values on the device, of
     * both kinds together; 0: nothing is swapped, NULL: by no stage,
     * VP_SWAP_DEFAULT: as many as suit its slots. A stage gets as many as it needs
     * at least, and swaps nothing if they are not fewer than its slots. */
    const int *swap;
    bool early_recompute; /* R before RECV_GRAD: overlaps the wait */
    bool global_norm;     /* bsp: clip by the norm of all stages */

    /* Streams (pipedream, macrobatch): a piece of a long list, beginning with
     * the forward of first_mb. Pieces put together equal the whole if all know
     * the end of the segment. Without it, a piece that keeps going counts on
     * minibatches to come that fill the rounds it has begun. */
    int segment_begin, first_mb; /* 0, 0: from the start */
    int segment_end;             /* 0: not known */
    bool keep_going;             /* do not drain at the end of the piece */
    const int *version_begin;    /* per stage; NULL: 0 */
    /* Per stage; NULL: 0. Rounds before the segment that it carries on: their
     * versions are still in the ring, and the first rounds run on them as if
     * the pipe had never been empty. More than the lag is the lag. */
    const int *version_past;
    int update_every; /* macrobatch: minibatches; 0: the least */

    /* auto: what it is made for. */
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

/* The i-th generator, NULL after the last. */
const struct vp_generator *vp_generator_at(int i);
/* The i of a name, -1 if there is none. */
int vp_generator_index(const char *name);
const struct vp_generator *vp_generator_find(const char *name);

/* A forward-only schedule ignores depths, recomputation and updates.
 * VP_ERR_INVALID with a line about the first thing wrong in `config`. The
 * result is not yet validated: depths given by hand can make it hang. */
enum vp_status vp_schedule_make(const struct vp_sched_config *config,
                                struct vp_schedule *out, struct vp_err *err);
void vp_schedule_release(struct vp_schedule *schedule);

/* The configuration of a generator with the stages, ranks, replicas and number
 * of minibatches of `schedule`; `replicas` (one per stage of the schedule) is
 * filled and borrowed. False: its stages are on other ranks than any generator
 * puts them. */
bool vp_schedule_base(const struct vp_schedule *schedule, int *replicas,
                      struct vp_sched_config *out);

/* The fastest of several, each timed under its own config->costs; `best_out`
 * (may be NULL) tells which. Skips those that are refused; if all are, the
 * message is about the first. */
enum vp_status vp_schedule_make_best(const struct vp_sched_config *configs,
                                     int n, struct vp_schedule *out,
                                     int *best_out, struct vp_err *err);

/* Default depth of a stage: floor((N - 1 - sum of R before it) / R_s). */
int vp_schedule_depth(const int *replicas, int n_stages, int stage);
/* Minibatches of a drained schedule that show every deadlock of these depths:
 * more cannot add one. Arrays per stage; `replicas` NULL: one each. For the
 * shortest rounds of macrobatch. */
int64_t vp_schedule_proof_mb(const int *replicas, const int *depth,
                             int n_stages);

/* The ranks that hold stage `stage` (chunks x stages of them) under `config`,
 * of which only name, n_stages, n_chunks, v_shape and replicas count. */
void vp_sched_place(const struct vp_sched_config *config, int stage,
                    int *first_rank_out, int *n_replicas_out);

/* ---- Asking ------------------------------------------------------------- */

int vp_schedule_rank_of(const struct vp_schedule *schedule, int stage, int mb);
/* Of a minibatch on the replica that runs it; also its message index. */
int vp_schedule_own_index(const struct vp_schedule *schedule, int stage,
                          int mb);
/* The weights that F, R, B and W of a minibatch use. */
int vp_schedule_version_of(const struct vp_schedule *schedule, int stage,
                           int mb);
/* The cause of vp_schedule.fallback in words, for people; "" without one. */
void vp_schedule_explain(const struct vp_schedule *schedule, char *text,
                         size_t n_bytes);
/* Minibatches at the end of a drained stream whose gradients are not applied,
 * because they do not fill a round. */
int vp_schedule_n_dropped(const struct vp_schedule *schedule, int stage);

/* ---- Text --------------------------------------------------------------- */

enum {
    VP_PRINT_COMPUTE = 1, /* leave out the first line and messages */
    VP_PRINT_FULL = 2,    /* slots and versions everywhere: 1F0@0v3 */
};

/* "F", "RECV_ACT", ... */
const char *vp_action_kind_name(enum vp_action_kind kind);
/* One action: "1F0", "0SEND_ACT3"; returns the length like snprintf. */
int vp_action_print(const struct vp_action *action, char *text, size_t n_bytes);

/* A line with the parameters, then one line per rank: "0: 0F0 0SEND_ACT0 ...".
 * Slots and versions are written (as in 1F0@0v3) where they differ from the
 * plain rule: slot = own index mod n_slots, vp_schedule_version_of(). The
 * caller frees the text. */
enum vp_status vp_schedule_print(const struct vp_schedule *schedule, int flags,
                                 char **text_out);

/* Reads what vp_schedule_print() writes (not VP_PRINT_COMPUTE). `source` names
 * the text in messages: "file:line:column: cause; remedy". Checks the form,
 * not the sense: see vp_schedule_validate(). */
enum vp_status vp_schedule_parse(const char *text, const char *source,
                                 struct vp_schedule *out, struct vp_err *err);

/* ---- Proof -------------------------------------------------------------- */

/* VP_OK: an executor that follows the rules above finishes this schedule in
 * every interleaving, never overwrites what is still needed, uses the right
 * weight versions and adds every gradient once and in order. Else
 * VP_ERR_INVALID and a line with rank, position, action and cause. A piece of a
 * stream is proven on the condition that the pieces around it run, too; one
 * that ends before an action that it waits for cannot be proven alone. */
enum vp_status vp_schedule_validate(const struct vp_schedule *schedule,
                                    struct vp_err *err);

/* ---- Time --------------------------------------------------------------- */

/* Seconds, or any unit. Messages go to the next (act) and previous (grad)
 * stage; each pair of ranks has one link per direction, which carries one
 * message at a time; a message to the own rank takes no time. Computing goes
 * on while links and copy engines work. */
struct vp_stage_costs {
    double f, b, w, r; /* a B that is not split takes b + w */
    double reduce, update;
    double act, grad; /* time on the link */
    /* Time on each of the two copy engines that a message goes through where
     * devices cannot reach each other's memory; 0: it does not. */
    double act_copy, grad_copy;
    /* Time on the copy engines of a minibatch's swapped values. */
    double swap_out, swap_in;
};

/* What a kind of action takes; NULL: that is not part of it. */
double *vp_costs_field(struct vp_stage_costs *costs, enum vp_action_kind kind);

struct vp_sched_costs {
    const struct vp_stage_costs *stages; /* one per stage of the schedule */
    /* What F, R, B and W take in the first `n_first_slots` slots of each stage, in
     * place of that; NULL: all slots are alike. */
    const struct vp_stage_costs *first_slots;
    const int *n_first_slots;
    double latency;   /* of a message, in addition; does not fill a link */
    bool send_blocks; /* SEND keeps the sender busy while the link works */
    bool one_port;    /* all that a device sends goes over the same link */
    /* RECV only posts the receive, and F or B waits for the message; else RECV
     * waits for it. It matters where RECV stands well before its reader. */
    bool recv_posts;

    /* Ranks on the same device (GPU, or set of cores) compute at equal shares:
     * when k > capacity do at once, each takes k / capacity as long. A device
     * has a copy engine each way. */
    double capacity;   /* ranks that a device carries at full speed; 0: 1 if
                          `device` is given, else all */
    const int *device; /* per rank, from 0 to n_ranks - 1; NULL: all on one if
                          `capacity` or `busy` is given, else one each */
    /* Cores that share clocks and memory bandwidth slow each other down: the
     * costs of F, R, B, W and UPDATE while all ranks of the device compute.
     * `stages` are then those of a rank that computes alone, and in between
     * costs grow linearly with the number of ranks that compute. NULL: all
     * costs are those of `stages`. */
    const struct vp_stage_costs *busy;
};

/* Times of one action: waiting before `start` is not part of it. */
struct vp_span {
    double start, end;
};

struct vp_rank_times {
    double busy;     /* computing (and sending, if that blocks) */
    double bubble;   /* 1 - busy / makespan */
    int first_slots; /* minibatches kept at the start, over all its stages */
    int peak_slots;  /* and at most */
};

struct vp_timing {
    double makespan;
    double bubble; /* of all ranks: 1 - sum busy / (n_ranks * makespan) */
    struct vp_span *spans; /* one per action, as vp_schedule.actions */
    struct vp_rank_times *ranks;
    int *peak_slots; /* per stage, the largest replica */
};

/* Runs the lists as fast as the rules allow. Refuses what the validator
 * refuses, and devices that do not exist. */
enum vp_status vp_simulate(const struct vp_schedule *schedule,
                           const struct vp_sched_costs *costs,
                           struct vp_timing *out, struct vp_err *err);
void vp_timing_release(struct vp_timing *timing);

/* The idle share of the rank that takes longest, between the start of its first
 * F and the end of its last F, R, B or W. A rank that starts late and ends late
 * by as much has none: iterations without a flush between them would fit into
 * each other. */
double vp_timing_span(const struct vp_schedule *schedule,
                      const struct vp_timing *timing);

/* The bubble in theory when every stage costs `costs` and messages nothing:
 * see schedule_theory.c for the formulas and where they are exact. */
double vp_schedule_theory(const struct vp_sched_config *config,
                          const struct vp_stage_costs *costs);

/* The same for lists that were read: as above if the generator that `schedule`
 * names writes these lists, else what no lists with these stages, minibatches
 * and recomputation can avoid. 0 if memory is exhausted. */
double vp_schedule_list_theory(const struct vp_schedule *schedule,
                               const struct vp_stage_costs *costs);

/* As vp_schedule_theory(), for vp_timing_span(); false: no closed form is exact
 * here. */
bool vp_schedule_span_theory(const struct vp_sched_config *config,
                             const struct vp_stage_costs *costs,
                             double *bubble_out);

/* ---- Pictures ----------------------------------------------------------- */

/* A staircase for the terminal, one row per rank; `width` in columns. */
enum vp_status vp_schedule_chart(const struct vp_schedule *schedule,
                                 const struct vp_timing *timing, int width,
                                 bool colour, char **text_out);

/* The same as an SVG drawing, with the slots in use below. */
enum vp_status vp_schedule_svg(const struct vp_schedule *schedule,
                               const struct vp_timing *timing,
                               const char *title, char **text_out);

#endif
