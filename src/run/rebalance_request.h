/* How another process asks a run for another plan: two small files in the run
 * folder. The run looks for the first one after its steps, and answers in the
 * second.
 *
 *   rebalance.json        {"id": text, "kind": "plan", "plan": {...}}, or of kind
 *                         "auto" or "undo"; removed when it is taken
 *   rebalance.reply.json  {"id": text, "done": bool, "text": one line}
 *
 * Both appear whole, by a rename or a link. */
#ifndef VP_RUN_REBALANCE_REQUEST_H
#define VP_RUN_REBALANCE_REQUEST_H

#include "base/limit.h"
#include "base/memory.h"
#include "base/status.h"
#include "plan/plan.h"

#include <stdbool.h>

enum vp_rebalance_kind {
    VP_REBALANCE_PLAN, /* this plan, or parts of one */
    VP_REBALANCE_AUTO, /* a partition for the times that were measured */
    VP_REBALANCE_UNDO, /* the plan before the last move */
};

enum { VP_REBALANCE_ID = 48, VP_REBALANCE_TEXT = 512 };

struct vp_rebalance_request {
    char id[VP_REBALANCE_ID];
    enum vp_rebalance_kind kind;
    struct vp_plan plan; /* of kind PLAN; its arrays live in the arena */
    bool whole; /* the file has a version: it says all about the plan */
};

/* Asks the live run in `folder`. `plan` is JSON, of kind PLAN. The id of the
 * request is written to `id_out`. VP_ERR_INVALID if no run is there, or another
 * request waits. */
enum vp_status vp_rebalance_ask(const char *folder, enum vp_rebalance_kind kind,
                                const char *plan, char id_out[VP_REBALANCE_ID],
                                struct vp_err *err);
/* Waits for the answer: VP_OK if the new plan is in force, VP_ERR_INVALID if it
 * was refused; both with the run's line in `text_out`. VP_ERR_TIMEOUT; VP_ERR_IO
 * if the run has ended. */
enum vp_status vp_rebalance_await(const char *folder, const char *id,
                                  struct vp_limit limit,
                                  char text_out[VP_REBALANCE_TEXT],
                                  struct vp_err *err);

/* The run's side, at its start: removes a request that a run before has left. */
void vp_rebalance_clear(const char *folder);
/* The run's side. Returns VP_ERR_END if nothing was asked. A request that cannot
 * be read is removed, and VP_ERR_INVALID returned with its id, if it has one. */
enum vp_status vp_rebalance_take(const char *folder, struct vp_arena *arena,
                                 struct vp_rebalance_request *out,
                                 struct vp_err *err);
enum vp_status vp_rebalance_answer(const char *folder, const char *id,
                                   bool done, const char *text,
                                   struct vp_err *err);

#endif
