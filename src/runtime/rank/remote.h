/* What the processes of a run tell each other besides messages between stages:
 * orders from the lead, notes to it. Where all ranks are threads of one
 * process, notes are taken at once and orders have nowhere to go. */
#ifndef VP_RUNTIME_RANK_REMOTE_H
#define VP_RUNTIME_RANK_REMOTE_H

#include "runtime/rank/rank_state.h"

/* ---- Orders ------------------------------------------------------------- */

enum vp_order_kind {
    VP_ORDER_GROUPS,  /* train, in groups */
    VP_ORDER_PIECE,   /* train, a piece of a stream */
    VP_ORDER_EVAL,    /* minibatches [first_mb, first_mb + n_mb) */
    VP_ORDER_ADVANCE, /* the jobs before are done; see advance_edges() */
    VP_ORDER_SAVE,    /* an idle trainer, at `step` */
    VP_ORDER_TRACE,   /* say what was recorded */
    VP_ORDER_PREPARE, /* another trainer; see trainer/migrate.h */
    VP_ORDER_MOVE,    /* to that one */
    VP_ORDER_END,
};

struct vp_order {
    enum vp_order_kind kind;
    int64_t n_repeats, first_mb, step;
    int n_mb;
    bool gradients;                 /* ADVANCE */
    int segment_begin, segment_end; /* PIECE, as in vp_sched_config */
    bool keep_going;
    int version_begin[VP_MAX_STAGES], version_past[VP_MAX_STAGES];
};

/* From the lead to all others. */
enum vp_status vp_remote_give(struct vp_pipeline *pipeline,
                              const struct vp_order *order);
/* The next order, if it is here. Elsewhere than in the lead. */
bool vp_remote_take(struct vp_pipeline *pipeline, struct vp_order *out);

/* ---- Notes -------------------------------------------------------------- */

enum vp_note_kind {
    VP_NOTE_RESULT, /* of minibatch `number` */
    VP_NOTE_UPDATE, /* of a stage, its update `number` */
    VP_NOTE_STATS,  /* of a stage, at the end of a job */
    VP_NOTE_DONE,   /* with a job, after `number` repeats */
    VP_NOTE_TRACE,  /* some of what was recorded; `number` are left */
};

enum { VP_NOTE_EVENTS = 8 };

struct vp_note {
    enum vp_note_kind kind;
    bool stop; /* this process was asked to end the run; set by tell() */
    int stage; /* UPDATE, STATS: number i of the rank's stages */
    int64_t number;
    union {
        struct {
            float loss[VP_LOSS_COLS];
            bool eval;
            int64_t n_samples, n_tokens;
            uint64_t n_logits; /* messages with logits that came before it */
        } result;
        struct {
            double norm, global_norm;
            struct vp_mark mark; /* when it was made */
            struct vp_scale scale;
            struct vp_stage_stats stats; /* before it */
        } update;
        struct vp_stage_stats stats;
        struct vp_mark mark; /* DONE */
        struct {
            struct vp_trace_event events[VP_NOTE_EVENTS];
            int n;
        } trace;
    } of;
};

/* Brings a note to the lead, which may be this process. On the thread of the
 * rank; or any, while that is idle. */
enum vp_status vp_remote_tell(struct vp_rank *rank, const struct vp_note *note);
/* Takes all notes that have come, in the lead. */
void vp_remote_hear(struct vp_pipeline *pipeline, struct vp_rank *ranks);

/* ---- Logits ------------------------------------------------------------- */

/* Gives logits of an evaluation to the sink of the lead, which may be this
 * process. On the thread of a rank of the last stage. Another process sends
 * them in messages of at most VP_REMOTE_LOGITS_BYTES, or of one row. */
enum { VP_REMOTE_LOGITS_BYTES = 1 << 20 };
enum vp_status vp_remote_give_logits(struct vp_rank *rank,
                                     const struct vp_logits *logits);
/* Messages with logits that this process has sent so far. */
uint64_t vp_remote_n_logits(const struct vp_pipeline *pipeline);

/* ---- Links -------------------------------------------------------------- */

/* Channels for all of it; nothing where all ranks are in this process. */
enum vp_status vp_remote_connect(struct vp_pipeline *pipeline,
                                 const struct vp_schedule *schedule);
void vp_remote_release(struct vp_pipeline *pipeline);

#endif
