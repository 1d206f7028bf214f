/* Description of a run before its first step. */
#ifndef VP_RUN_SUMMARY_H
#define VP_RUN_SUMMARY_H

#include "plan/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_blackbox; /* runtime/rank/blackbox.h */

/* One stage, as planned. */
struct vp_run_stage {
    int first_block, n_blocks;
    int64_t n_params; /* a tied parameter counts only in its owner's stage */
    double recompute_ratio;
    int n_lines, n_recomputed_lines; /* all lines; recomputed ones */
    double gflops;                   /* per minibatch, with recomputation */
    int first_rank, n_ranks; /* with members of groups, see rank_numbers */
    int depth;               /* forwards before the first backward */
    int n_slots;             /* minibatches in flight on a rank */
    int n_versions;          /* versions of its weights */
    /* Bytes of a minibatch that are swapped, and host bytes for them; numbers
     * of device buffers that the forward writes and the backward reads. */
    int64_t swap_bytes, swap_host_bytes;
    int n_swap_out, n_swap_in;
    const struct vp_memory *memory; /* memory of each of its ranks */
};

/* Size of a text that lists what this machine lacks to run a plan, with
 * reasons: "memory (61 GiB needed, 23 GiB left), a GPU (there is no NVIDIA
 * driver)". */
enum { VP_MISSING_TEXT = 2048 };

/* Description of a run before its first step. A step is an update; in sync_mode
 * asp, a minibatch. */
struct vp_run_summary {
    const char *model;        /* "bert" */
    const char *data;         /* vp_data_info.what */
    const char *missing;      /* see VP_MISSING_TEXT; NULL: nothing */
    const char *output;       /* run folder; NULL in a dry run */
    int64_t resumed;          /* step of the checkpoint; 0: a new run */
    const char *resumed_from; /* as the user named it; NULL: a new run */
    bool forward_only;        /* nothing will be trained */
    int64_t n_blocks, n_params;
    int64_t batch, seq, tokens_per_step;
    int64_t n_steps, steps_per_epoch; /* 0: unknown, the data is not here */
    double gflops_per_step;           /* forward, backward, recomputation */
    double unigram_loss; /* nats; loss of guessing by frequency; NAN: unknown */
    const struct vp_run_stage *stages;
    int n_stages, n_ranks;
    int n_members; /* ranks of a tensor-parallel group; 0: 1 */
    /* The user's number of each group; NULL: the same as its index. */
    const int *rank_numbers;
    /* Current actions of each rank, see runtime/rank/blackbox.h; never
     * unmapped. An entry is NULL for a rank of another process; NULL: a dry
     * run. */
    struct vp_blackbox *const *blackboxes;
    int n_threads;         /* threads of a rank */
    int n_cores;           /* cores of the machine */
    const char *transport; /* "mpi" */

    /* The schedule, which was proved: for a group, or for a segment of a
     * stream. */
    const char *schedule;
    bool asp;
    int group_size;          /* minibatches */
    int n_actions;           /* actions of all ranks */
    char lists[128];         /* for schedule auto what the lists were made for;
                                otherwise see vp_schedule_explain() */
    double bubble_simulated; /* with FLOPs as times of stages */
    double bubble_theory;    /* if all stages had equal work */
};

static inline int vp_summary_n_members(const struct vp_run_summary *summary)
{
    return summary->n_members > 0 ? summary->n_members : 1;
}

/* Returns the user's number of a rank. */
static inline int vp_summary_rank_number(const struct vp_run_summary *summary,
                                         int rank)
{
    int n = vp_summary_n_members(summary), group = rank / n;

    return (summary->rank_numbers ? summary->rank_numbers[group] : group) * n +
           rank % n;
}

#endif
