/* The state of a rank, and the data that all ranks of a trainer share. */
#ifndef VP_RUNTIME_RANK_RANK_STATE_H
#define VP_RUNTIME_RANK_RANK_STATE_H

#include "base/counter.h"
#include "comm/comm.h"
#include "runtime/rank/blackbox.h"
#include "runtime/report.h"
#include "runtime/stage/stage.h"
#include "runtime/train_config.h"
#include "sched/schedule.h"
#include "trace/trace.h"

#include <stdatomic.h>

/* A ring of messages to one (stage, replica). The schedule numbers messages
 * from the start of a group or segment; `base` is the number of messages before
 * it. */
struct vp_edge {
    struct vp_channel *channel;
    uint64_t base;
};

/* Links of a stage, shared by its replicas. Members of tensor-parallel groups
 * have their own: entry replica * n_members + member. */
struct vp_stage_links {
    struct vp_edge *act, *grad; /* per rank of the receiving stage */
    struct vp_group **replicas; /* per member; NULL: one replica */
    bool direct;                /* replicas add on their devices */
    int n_replicas;
};

enum { VP_MAX_USES = 16 }; /* uses of a tied parameter on one rank */

/* A parameter that several blocks use. */
struct vp_tie {
    struct vp_group *group;
    vp_par owner;
    int64_t n;   /* number of floats */
    int *member; /* per rank: its index in the group; -1: no use */
    bool own;    /* all uses are in one stage */
    /* Host copy of the uses here, for other processes; else NULL. */
    float *mirror;
};

/* The links of a tensor-parallel group. */
struct vp_member_links {
    struct vp_group *exchange; /* exchanges and gathers */
    struct vp_group **sums;    /* per entry of the pipeline's sum_lengths */
    /* Per stage of a rank: sums of gradients of which members have parts. NULL:
     * there are none. */
    struct vp_group **grads;
    /* From device to device; NULL: the devices cannot access each other, or
     * this process has no member. */
    struct vp_group *gather;
};

/* Length of a sum in programs: all members get n floats, or each its slice. */
struct vp_sum_length {
    int64_t n;
    int64_t slice; /* floats per member; 0: no slices */
};

/* Reports read results of minibatches and notes on updates from rings. Both
 * have at least this length; more if the schedule needs more before it can
 * report. */
enum { VP_RESULT_RING = 8192 };

struct vp_result {
    /* Number of this minibatch + 1, once the result is valid. */
    atomic_llong n_minibatches;
    float loss[VP_LOSS_COLS];
    int64_t n_samples, n_tokens;
};

/* Counters of a rank at time `ns`: time waited, and FLOPs executed in training.
 * See trainer_measure.c. */
struct vp_mark {
    int64_t ns; /* time by the lead's clock */
    int64_t wait_ns;
    double flops;
};

/* Data that the ranks of a trainer share; set up before they start. */
struct vp_pipeline {
    const struct vp_train_config *config;
    struct vp_world *world;
    int links_number; /* number of this pipeline's links in the world */
    bool is_left; /* the run continues in another pipeline of the same world */
    /* Links to other processes; NULL: there are none. */
    struct vp_remote *remote;
    bool is_lead;      /* this process runs and reports; see remote.h */
    int me;            /* a rank of this process */
    int64_t behind_ns; /* clock of the lead minus the clock here */
    int n_ranks, n_stages;
    /* Ranks that share each operator: rank r is member r % n_members of group
     * r / n_members, and a group walks one list of the schedule. */
    int n_members;
    struct vp_member_links
        *member_links; /* per group; NULL: groups have one member */
    struct vp_sum_length *sum_lengths;
    int n_sum_lengths;
    struct vp_counter *n_done;        /* per rank: number of finished jobs */
    struct vp_stage_links *links;     /* per stage */
    enum vp_edge_kind *edges;         /* from stage s to s + 1 */
    enum vp_edge_kind *replica_edges; /* as in struct vp_plan */
    enum vp_edge_kind tie_edge;
    struct vp_tie *ties;
    int n_ties;
    /* All ranks: norms and stop flags at updates of synchronous training. */
    struct vp_group *everybody;
    struct vp_result *results; /* ring of n_results, by minibatch */
    int64_t n_results, n_notes;
    double *norms;           /* n_notes x n_stages, by update number */
    struct vp_scale *scales; /* likewise: loss scales after the update */
    struct vp_mark *marks;   /* n_notes x n_ranks: counters after the update */
    double *global_norms; /* n_notes, by update number (synchronous training) */
    /* Request to end the run after the current update. */
    atomic_bool stop_asked;
    atomic_bool stopped;     /* some process got a stop request */
    atomic_llong n_reported; /* number of minibatches whose results were read */
    /* CPU time of this process, sampled at `at_ns` (vp_clock_ns()) when actions
     * were last finished, at most once per second. */
    struct {
        atomic_llong ran_ns, delayed_ns, at_ns;
    } cores;
    /* vp_clock_ns() when this process resumed after it was frozen; 0: never. */
    atomic_llong resumed_ns;
    bool has_bad_loss; /* the loss of bad_minibatch is not finite */
    uint64_t bad_minibatch;
};

/* Returns the number of rank `index` for messages to users. */
static inline int vp_rank_number(const struct vp_pipeline *pipeline, int index)
{
    const int *numbers = pipeline->config->rank_numbers;
    int n = pipeline->n_members, group = index / n;

    return (numbers ? numbers[group] : group) * n + index % n;
}

/* Part of an update that has not been read back from the device yet. The rank
 * continues in the meantime if nothing depends on it. */
enum vp_pending {
    VP_PENDING_NOTHING,
    VP_PENDING_SUMS, /* squares of the gradients, computed by the device */
    VP_PENDING_NORM, /* the norm over all ranks */
};

enum vp_job_kind {
    VP_JOB_PREPARE, /* allocate, and restore if there is a loader */
    VP_JOB_RESTORE,
    VP_JOB_TRAIN,
    VP_JOB_EVAL,
    VP_JOB_EXIT,
};

/* Work for all ranks. */
struct vp_job {
    enum vp_job_kind kind;
    const struct vp_schedule *schedule;
    bool sync; /* repeats of a synchronous round; false: a piece of a stream */
    int64_t n_repeats;
    int64_t first_mb; /* number in the run of the schedule's minibatch 0 */
};

/* The atomic form of vp_stage_stats, written by the rank and read at any
 * time. */
struct vp_way_count {
    atomic_llong receive_ns, send_ns;
    atomic_llong bytes_sent, bytes_received;
    atomic_llong n_sent, n_received;
};

struct vp_stage_count {
    atomic_llong forward_ns, backward_ns, reduce_ns, update_ns;
    atomic_llong wait_ns, message_ns;
    atomic_llong n_forward, n_backward;
    atomic_llong n_sums, n_early_sums;
    struct vp_way_count way[2]; /* activations, gradients */
};

struct vp_rank_stage {
    struct vp_stage stage;
    int index, replica;
    int first_item; /* number of its first item in vp_trainer_state() */
    /* Arrived messages for the next F and B. */
    struct vp_stage_message *act, *grad;
    /* A ring of events per direction, see mark_written(). */
    struct vp_event **sent[2];
    int n_sent[2]; /* number of events in the ring */
    uint64_t n_messages[2];
    double norm; /* gradient norm at the last update */
    struct vp_stage_count count;
    struct vp_stage_stats told; /* last report of a rank in another process */

    /* Set if the stage has several replicas; see reduce.c. */
    struct vp_group *replicas; /* NULL: one replica */
    struct vp_term term; /* this replica's gradients, as a term of the sum */
    /* Host copy of the gradients if replicas are in other processes and the
     * device has its own memory; else NULL. */
    float *mirror;
};

struct vp_device_log;

struct vp_rank {
    struct vp_pipeline *pipeline;
    int index;
    /* The group runs one list of the schedule; see n_members. */
    int group, member;
    struct vp_members members; /* for programs; n is 0 or 1: it is alone */
    enum vp_status team_status;
    bool in_longer_wait;     /* members meet within a wait that began before */
    struct vp_term sum_term; /* others read it, also when this rank gave up */
    int64_t *slice_ends;     /* per member, of the gather being made */
    atomic_uintptr_t waits_in; /* see vp_rank_waits_in() */
    bool is_here;              /* in this process; false: only its plan is */
    struct vp_backend_config backend_config; /* configuration of its backend */
    struct vp_backend *backend;
    struct vp_device *device;
    struct vp_rank_stage *stages;
    int n_stages;
    struct vp_prefetch *reader;  /* replicas of stage 0 only */
    struct vp_batch *eval_batch; /* replicas of stage 0 only */

    const struct vp_job *job;
    int64_t repeat;     /* number of the current repeat of the job's schedule */
    double *mine, *all; /* buffers for exchanges before synchronous updates */
    double norm;        /* gradient norm of all stages */
    bool stop;          /* all ranks end after this update */
    enum vp_pending pending; /* unread part of the last update */
    int64_t pending_mb;      /* number of its last minibatch */
    struct vp_mark seen; /* counters when the device was seen to have made it */

    void *host_copy; /* host copy of a message for observers */
    int64_t n_host_copy;

    struct vp_counter n_updates; /* updates of all its stages together */
    int n_filled; /* stages saved so far of the current checkpoint */
    struct vp_recorder *recorder;
    struct vp_device_log *device_log; /* NULL: the host's times are exact */
    /* The whole trace of a rank in another process has arrived. */
    atomic_bool is_heard;
    int64_t wait_ns;     /* time waited so far */
    double flops;        /* FLOPs of training so far */
    double action_flops; /* FLOPs of the current action */
    struct vp_mark last; /* counters at the end of its last job */

    /* Current activity; read by other threads, see watch.h. */
    atomic_int doing; /* index of the action in the list, -1: none */
    struct vp_blackbox *blackbox;
    struct vp_blackbox own_blackbox; /* used if the caller gave none */
    int64_t waited_ns;               /* time waited in the current action */
    /* Time of adding gradients of replicas in the current action. */
    int64_t summed_ns;
};

/* Returns the operator in whose sum or exchange the rank is; NULL: none. Any
 * thread. */
static inline const struct vp_op *vp_rank_waits_in(const struct vp_rank *rank)
{
    return (const struct vp_op *)atomic_load(&rank->waits_in);
}

#endif
