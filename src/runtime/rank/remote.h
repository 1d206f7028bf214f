/* Messages between the processes of a run other than those between stages:
 * orders of the lead, and notes to the lead. If all ranks are threads of one
 * process, notes are handled at once and orders have no receiver. */
#ifndef VP_RUNTIME_RANK_REMOTE_H
#define VP_RUNTIME_RANK_REMOTE_H

#include "runtime/rank/rank_state.h"

/* ---- Orders ------------------------------------------------------------- */

enum vp_order_kind {
    VP_ORDER_ROUNDS,  /* train rounds of minibatches */
    VP_ORDER_PIECE,   /* train a piece of a stream */
    VP_ORDER_EVAL,    /* evaluate minibatches [first_mb, first_mb + n_mb) */
    VP_ORDER_ADVANCE, /* earlier jobs are done; see advance_edges() */
    VP_ORDER_SAVE,    /* save the state at `step`; the trainer is idle */
    VP_ORDER_TRACE,   /* send the recorded trace */
    VP_ORDER_PREPARE, /* create the next trainer; see trainer/migrate.h */
    VP_ORDER_MOVE,    /* move to the next trainer, or drop it */
    VP_ORDER_END,
};

struct vp_order {
    enum vp_order_kind kind;
    int64_t n_repeats, first_mb, step;
    int n_mb;
    bool gradients;                 /* for ADVANCE */
    int segment_begin, segment_end; /* for PIECE, as in vp_sched_config */
    bool keep_going;
    int version_begin[VP_MAX_STAGES], version_past[VP_MAX_STAGES];
};

/* Sends an order from the lead to all other processes. */
enum vp_status vp_remote_send_order(struct vp_pipeline *pipeline,
                                    const struct vp_order *order);
/* Takes the next order, not in the lead. Returns false if none has arrived. */
bool vp_remote_take_order(struct vp_pipeline *pipeline, struct vp_order *out);

/* ---- Notes -------------------------------------------------------------- */

enum vp_note_kind {
    VP_NOTE_RESULT, /* result of minibatch `number` */
    VP_NOTE_UPDATE, /* update number `number` of a stage */
    VP_NOTE_STATS,  /* counters of a stage at the end of a job */
    VP_NOTE_DONE,   /* end of a job after `number` repeats */
    VP_NOTE_TRACE,  /* part of a trace; `number` events are left */
};

enum { VP_NOTE_EVENTS = 8 };

struct vp_note {
    enum vp_note_kind kind;
    bool
        stop; /* this process got a stop request; set by vp_remote_send_note() */
    int stage; /* UPDATE, STATS: index in the rank's stages */
    int64_t number;
    union {
        struct {
            float loss[VP_LOSS_COLS];
            bool eval;
            int64_t n_samples, n_tokens;
            uint64_t n_logits; /* messages with logits that were sent before */
        } result;
        struct {
            double norm, global_norm;
            struct vp_mark mark; /* counters when the update was made */
            struct vp_scale scale;
            struct vp_stage_stats stats; /* counters before the update */
        } update;
        struct vp_stage_stats stats;
        struct vp_mark mark; /* for DONE */
        struct {
            struct vp_trace_event events[VP_NOTE_EVENTS];
            int n;
        } trace;
    } of;
};

/* Sends a note to the lead, which may be this process. Call it on the thread of
 * the rank, or on any thread while that one is idle. */
enum vp_status vp_remote_send_note(struct vp_rank *rank,
                                   const struct vp_note *note);
/* Handles all notes that have arrived. Called by the lead. */
void vp_remote_handle_notes(struct vp_pipeline *pipeline,
                            struct vp_rank *ranks);

/* ---- Logits ------------------------------------------------------------- */

/* Passes logits of an evaluation to the sink of the lead, which may be this
 * process. Called on the thread of a rank of the last stage. Another process
 * sends them in messages of at most VP_REMOTE_LOGITS_BYTES, but at least one
 * row. */
enum { VP_REMOTE_LOGITS_BYTES = 1 << 20 };
enum vp_status vp_remote_send_logits(struct vp_rank *rank,
                                     const struct vp_logits *logits);
/* Returns the number of messages with logits that this process has sent. */
uint64_t vp_remote_n_logits(const struct vp_pipeline *pipeline);

/* ---- Links -------------------------------------------------------------- */

/* Creates all channels; none if all ranks are in this process. */
enum vp_status vp_remote_connect(struct vp_pipeline *pipeline,
                                 const struct vp_schedule *schedule);
void vp_remote_release(struct vp_pipeline *pipeline);

#endif
