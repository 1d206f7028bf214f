/* The state of a rank, and what all ranks of a trainer share. */
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
 * from the start of a group or segment; `base` counts those before it. */
struct vp_edge {
    struct vp_channel *channel;
    uint64_t base;
};

/* What all replicas of a stage share. Members of tensor-parallel groups have links of
 * their own: entry replica * n_members + member. */
struct vp_stage_links {
    struct vp_edge *act, *grad; /* per rank of the receiving stage */
    struct vp_group **replicas; /* per member; NULL: one replica */
    bool direct;                /* these add on their devices */
    int n_replicas;
};

enum { VP_MAX_USES = 16 }; /* of a tied parameter on one rank */

/* A parameter that several blocks use. */
struct vp_tie {
    struct vp_group *group;
    vp_par owner;
    int64_t n;     /* floats */
    int *member;   /* per rank; -1: it has no use */
    bool own;      /* all uses are in one stage */
    float *mirror; /* of the uses here, for other processes; else NULL */
};

/* The links of a tensor-parallel group. */
struct vp_member_links {
    struct vp_group *exchange; /* and gathers */
    struct vp_group **sums;    /* per entry of the pipeline's sum_lengths */
    /* Per stage of a rank: sums of gradients that members have parts of. NULL: they
     * have none. */
    struct vp_group **grads;
    struct vp_group *gather; /* from device to device; NULL: they do not reach
                                each other, or this process has no member */
};

/* Sums of programs: all members get n floats, or with a slice each its own. */
struct vp_sum_length {
    int64_t n;
    int64_t slice; /* 0: none */
};

/* Results of minibatches and notes on updates go to the reports through rings.
 * Both have at least this length; longer ones if the schedule needs them before
 * it can report. */
enum { VP_RESULT_RING = 8192 };

struct vp_result {
    atomic_llong n_minibatches; /* that of this result, plus one: it is here */
    float loss[VP_LOSS_COLS];
    int64_t n_samples, n_tokens;
};

/* What a rank has done so far: up to `ns` it has waited for `wait_ns` and
 * executed `flops` in training. See trainer_measure.c. */
struct vp_mark {
    int64_t ns; /* by the lead's clock */
    int64_t wait_ns;
    double flops;
};

/* What the ranks of a trainer have in common; set up before they start. */
struct vp_pipeline {
    const struct vp_train_config *config;
    struct vp_world *world;
    int links_number; /* in the world, of this pipeline's links */
    bool is_left; /* the run goes on in another pipeline of the same world */
    struct vp_remote *remote; /* to other processes; NULL: there are none */
    bool is_lead;             /* this process reports; see remote.h */
    int me;                   /* a rank of this process */
    int64_t behind_ns;        /* the lead's clock, minus the one here */
    int n_ranks, n_stages;
    /* Ranks that share each operator: rank r is member r % n_members of group
     * r / n_members, and a group walks one list of the schedule. */
    int n_members;
    struct vp_member_links *teams; /* per group; NULL: of one member each */
    struct vp_sum_length *sum_lengths;
    int n_sum_lengths;
    struct vp_counter *n_done;        /* jobs, per rank */
    struct vp_stage_links *links;     /* per stage */
    enum vp_edge_kind *edges;         /* from stage s to s + 1 */
    enum vp_edge_kind *replica_edges; /* as in struct vp_plan */
    enum vp_edge_kind tie_edge;
    struct vp_tie *ties;
    int n_ties;
    struct vp_group *everybody; /* norms and stop flags, at updates of bsp */
    struct vp_result *results;  /* n_results, by minibatch */
    int64_t n_results, n_notes;
    double *norms;           /* n_notes x n_stages, by update */
    struct vp_scale *scales; /* likewise, after it */
    struct vp_mark *marks;   /* n_notes x n_ranks, after an update */
    double *global_norms;    /* n_notes, by update (bsp) */
    atomic_bool stop_asked;  /* end after the update being run */
    atomic_bool stopped;     /* some process was asked to end */
    atomic_llong n_reported; /* minibatches whose result was read */
    /* The cores' time of this process, at vp_clock_ns() `at_ns`, when actions
     * were done last; up to a second before. */
    struct {
        atomic_llong ran_ns, delayed_ns, at_ns;
    } cores;
    atomic_llong resumed_ns; /* vp_clock_ns() when this process went on after it
                                was frozen; 0: never */
    bool has_bad_loss;       /* the loss of bad_minibatch is not finite */
    uint64_t bad_minibatch;
};

/* The user's number of rank `index`, for messages. */
static inline int vp_rank_number(const struct vp_pipeline *pipeline, int index)
{
    const int *numbers = pipeline->config->rank_numbers;
    int n = pipeline->n_members, group = index / n;

    return (numbers ? numbers[group] : group) * n + index % n;
}

/* What has not been read back yet of an update that was given to the device. The
 * rank continues meanwhile, where nothing depends on it. */
enum vp_pending {
    VP_PENDING_NOTHING,
    VP_PENDING_SUMS, /* squares of its gradients, computed by the device */
    VP_PENDING_NORM, /* the norm over all ranks */
};

enum vp_job_kind {
    VP_JOB_PREPARE, /* allocates; restores if there is a loader */
    VP_JOB_RESTORE,
    VP_JOB_TRAIN,
    VP_JOB_EVAL,
    VP_JOB_EXIT,
};

/* What all ranks do next. */
struct vp_job {
    enum vp_job_kind kind;
    const struct vp_schedule *schedule;
    bool sync; /* repeats of a group; else a piece of a stream */
    int64_t n_repeats;
    int64_t first_mb; /* of the run: minibatch 0 of the schedule */
};

/* vp_stage_stats as a rank counts them, for others to read at any time. */
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
    int first_item; /* of its state: see vp_trainer_state() */
    struct vp_stage_message *act, *grad; /* that arrived for the next F, B */
    struct vp_event **sent[2];           /* a ring per direction: see send() */
    int n_sent[2];                       /* events in it */
    uint64_t n_messages[2];
    double norm; /* of its gradients, at the last update */
    struct vp_stage_count count;
    struct vp_stage_stats told; /* of a rank in another process */

    /* One of several replicas; see reduce.c. */
    struct vp_group *replicas; /* NULL: the only one */
    struct vp_term term;       /* its gradients in their sum */
    float *mirror; /* of them, in memory of the host, where the replicas are
                      other processes and the device has its own; else NULL */
};

struct vp_device_log;

struct vp_rank {
    struct vp_pipeline *pipeline;
    int index;
    int group, member; /* whose list of the schedule it walks; see n_members */
    struct vp_members members; /* for programs; n is 0 or 1: it is alone */
    enum vp_status team_status;
    bool in_longer_wait; /* members meet within a wait that began before */
    struct vp_term sum_term;   /* others read it, also when this rank gave up */
    int64_t *slice_ends;       /* per member, of the gather being made */
    atomic_uintptr_t waits_in; /* see vp_rank_waits_in() */
    bool is_here; /* it lives in this process; else only its plan does */
    struct vp_backend_config backend_config; /* how it was opened */
    struct vp_backend *backend;
    struct vp_device *device; /* its device */
    struct vp_rank_stage *stages;
    int n_stages;
    struct vp_prefetch *reader;  /* of a replica of stage 0 */
    struct vp_batch *eval_batch; /* likewise */

    const struct vp_job *job;
    int64_t repeat;          /* of the job's schedule */
    double *mine, *all;      /* exchanged before updates of bsp */
    double norm;             /* of all stages */
    bool stop;               /* all ranks end after this update */
    enum vp_pending pending; /* of the last update */
    int64_t pending_mb;      /* the last minibatch of it */
    struct vp_mark seen;     /* when the device was seen to have made it */

    void *host_copy; /* a message, copied from the device to be shown */
    int64_t n_host_copy;

    struct vp_counter n_updates; /* of all its stages together */
    int n_filled;                /* stages saved, of the step being saved */
    struct vp_recorder *recorder;
    struct vp_device_log *device_log; /* NULL: the host's times are right */
    atomic_bool is_heard; /* all that it recorded in another process */
    int64_t wait_ns;      /* spent waiting so far ... */
    double flops;         /* ... and operations of training */
    double action_flops;  /* of the action being run */
    struct vp_mark last;  /* at the end of its last job */

    /* What it is doing; read by other threads, see watch.h. */
    atomic_int doing; /* action of the list, -1: nothing */
    struct vp_blackbox *blackbox;
    struct vp_blackbox own_blackbox; /* if the caller gave none */
    int64_t waited_ns;               /* in the action being run */
    int64_t summed_ns; /* likewise, adding gradients of replicas */
};

/* The operator in whose sum or exchange over its group the rank is; NULL: in none. Any
 * thread. */
static inline const struct vp_op *vp_rank_waits_in(const struct vp_rank *rank)
{
    return (const struct vp_op *)atomic_load(&rank->waits_in);
}

#endif
