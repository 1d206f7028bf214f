/* Requests to a live run for another plan, by two small files in the run
 * folder. The run checks for the first one after its steps, and answers in the
 * second.
 *
 *   rebalance.json        {"id": text, "kind": "plan", "plan": {...}}, or of
 *                         kind "auto" or "undo"; the run removes it when it
 *                         reads it
 *   rebalance.reply.json  {"id": text, "done": bool, "text": one line}
 *
 * Both are created by a rename or a link, so a reader never finds half a
 * file. */
#ifndef VP_RUN_REBALANCE_REQUEST_H
#define VP_RUN_REBALANCE_REQUEST_H

#include "base/limit.h"
#include "base/memory.h"
#include "base/status.h"
#include "plan/plan.h"

#include <stdbool.h>

enum vp_rebalance_kind {
    VP_REBALANCE_PLAN, /* the given plan, or parts of one */
    VP_REBALANCE_AUTO, /* the best partition for the measured times */
    VP_REBALANCE_UNDO, /* the plan before the last move */
};

enum { VP_REBALANCE_ID = 48, VP_REBALANCE_TEXT = 512 };

struct vp_rebalance_request {
    char id[VP_REBALANCE_ID];
    enum vp_rebalance_kind kind;
    struct vp_plan plan; /* for kind PLAN; its arrays are in the arena */
    bool whole;          /* `plan` is complete: the file has a version */
};

/* Writes a request for the live run in `folder`. `plan` is JSON, for kind PLAN
 * only. Writes the id of the request to `id_out`. VP_ERR_INVALID if no run is
 * live there, or if another request is waiting. */
enum vp_status vp_rebalance_ask(const char *folder, enum vp_rebalance_kind kind,
                                const char *plan, char id_out[VP_REBALANCE_ID],
                                struct vp_err *err);
/* Waits for the answer. Returns VP_OK if the run has moved to the new plan, or
 * VP_ERR_INVALID if it refused, both with the run's line in `text_out`;
 * VP_ERR_TIMEOUT; VP_ERR_IO if the run has ended. */
enum vp_status vp_rebalance_await(const char *folder, const char *id,
                                  struct vp_limit limit,
                                  char text_out[VP_REBALANCE_TEXT],
                                  struct vp_err *err);

/* For the run, at its start: removes a request that was left for an earlier
 * run. */
void vp_rebalance_clear(const char *folder);
/* For the run: reads and removes the request. Returns VP_ERR_END if there is
 * none. For a request that is not valid, returns VP_ERR_INVALID with its id, if
 * it has one. */
enum vp_status vp_rebalance_take(const char *folder, struct vp_arena *arena,
                                 struct vp_rebalance_request *out,
                                 struct vp_err *err);
/* For the run: writes the reply to request `id`. */
enum vp_status vp_rebalance_answer(const char *folder, const char *id,
                                   bool done, const char *text,
                                   struct vp_err *err);

#endif
