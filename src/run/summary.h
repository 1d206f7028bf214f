/* What is known of a run before its first step. */
#ifndef VP_RUN_SUMMARY_H
#define VP_RUN_SUMMARY_H

#include "plan/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_blackbox; /* runtime/rank/blackbox.h */

/* One stage, as planned. */
struct vp_run_stage {
    int first_block, n_blocks;
    int64_t n_params; /* tied ones count where they are owned */
    double recompute_ratio;
    int n_lines, n_recomputed_lines; /* in all; recomputed */
    double gflops;           /* of a minibatch, with what is recomputed */
    int first_rank, n_ranks; /* members of groups counted, see rank_numbers */
    int depth;               /* forwards before the first backward */
    int n_slots;             /* minibatches in flight on a rank */
    int n_versions;          /* of its weights */
    /* Bytes of a minibatch that are swapped, and of the host where they wait; and
     * buffers of the device: written by forward, read by backward. */
    int64_t swap_bytes, swap_host_bytes;
    int n_swap_out, n_swap_in;
    const struct vp_memory *memory; /* of each of its ranks */
};

/* What this machine lacks to run a plan for elsewhere, with the reasons:
 * "memory (61 GiB needed, 23 GiB left), a GPU (there is no NVIDIA driver)". */
enum { VP_MISSING_TEXT = 2048 };

/* What is known before the first step. In asp a step is a minibatch, else an
 * update. */
struct vp_run_summary {
    const char *model;        /* "bert" */
    const char *data;         /* vp_data_info.what */
    const char *missing;      /* see VP_MISSING_TEXT; NULL: nothing */
    const char *output;       /* run folder, NULL on a dry run */
    int64_t resumed;          /* step of the checkpoint; 0: from the start */
    const char *resumed_from; /* as the user named it; NULL: from the start */
    bool forward_only;        /* nothing will be trained */
    int64_t n_blocks, n_params;
    int64_t batch, seq, tokens_per_step;
    int64_t n_steps, steps_per_epoch; /* 0: the data that decides is not here */
    double gflops_per_step;           /* forward, backward, recomputation */
    double unigram_loss; /* nats; what a model must beat; NAN: not known */
    const struct vp_run_stage *stages;
    int n_stages, n_ranks;
    int n_members; /* ranks of a tensor-parallel group; 0: 1 */
    /* The user's number of each group; NULL: the same. */
    const int *rank_numbers;
    /* What each rank does, see runtime/rank/blackbox.h; never unmapped. An entry
     * is NULL for a rank of another process; NULL: nothing will be run. */
    struct vp_blackbox *const *blackboxes;
    int n_threads;         /* of a rank */
    int n_cores;           /* of the machine */
    const char *transport; /* "mpi" */

    /* The schedule that was proved: of a group, or of a piece of a stream. */
    const char *schedule;
    bool asp;
    int group_size;          /* minibatches */
    int n_actions;           /* of all ranks */
    char lists[128];         /* what they were made for, or, see
                                vp_schedule_explain(), why by another rule */
    double bubble_simulated; /* with FLOPs as the times of stages */
    double bubble_theory;    /* if stages were equal */
};

static inline int vp_summary_n_members(const struct vp_run_summary *summary)
{
    return summary->n_members > 0 ? summary->n_members : 1;
}

/* The user's number of a rank. */
static inline int vp_summary_rank_number(const struct vp_run_summary *summary,
                                         int rank)
{
    int n = vp_summary_n_members(summary), group = rank / n;

    return (summary->rank_numbers ? summary->rank_numbers[group] : group) * n +
           rank % n;
}

#endif
