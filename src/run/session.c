/* Sessions: call the parts of the run loop one by one, and save to other
 * folders. */
#include "run/session.h"

#include "plan/plan_json.h"
#include "run/checkpoint.h"
#include "run/run.h"
#include "run/run_loop.h"
#include "run/run_state.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vp_session {
    struct vp_run_state *run;
    /* Checkpoints in a folder other than the run's, and the path of that
     * folder. */
    struct vp_checkpoints *copies;
    char copies_at[PATH_MAX];
    bool begun, finished;
};

enum vp_status vp_session_open(const struct vp_config *config,
                               const struct vp_run_options *options,
                               const struct vp_run_events *events,
                               struct vp_session **out, struct vp_err *err)
{
    struct vp_session *session = calloc(1, sizeof(*session));
    enum vp_status st;

    if (!session)
        return vp_err_set(err, VP_ERR_NOMEM, "starting a run: out of memory");
    st = vp_run_open(config, options, events, &session->run, err);
    if (st != VP_OK) {
        free(session);
        return st;
    }
    *out = session;
    return VP_OK;
}

bool vp_session_close(struct vp_session *session)
{
    bool ended;

    if (!session)
        return true;
    vp_checkpoints_free(session->copies);
    ended = vp_run_close(session->run);
    free(session);
    return ended;
}

/* ---- Training ----------------------------------------------------------- */

static enum vp_status check_steps(const struct vp_run_state *run, int64_t n,
                                  struct vp_err *err)
{
    int64_t last = vp_run_last_step(run);

    if (n >= 0 && n <= last - run->n_done)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%lld steps are asked for, but %lld of %lld are left; "
                      "ask for fewer, or set total_steps",
                      (long long)n, (long long)(last - run->n_done),
                      (long long)last);
}

/* Ends the run after its last step. */
static enum vp_status finish(struct vp_session *session, struct vp_err *err)
{
    if (session->finished || !session->run->checkpoints)
        return VP_OK;
    session->finished = true;
    return vp_run_finish(session->run, err);
}

enum vp_status vp_session_run(struct vp_session *session, int64_t n,
                              struct vp_err *err)
{
    struct vp_run_state *run = session->run;
    int64_t last = vp_run_last_step(run);

    VP_TRY(check_steps(run, n, err));
    if (!session->begun)
        VP_TRY(vp_run_begin(run, err));
    session->begun = true;
    VP_TRY(vp_run_to(run, n == 0 ? last : run->n_done + n, err));
    return run->n_done == last ? finish(session, err) : VP_OK;
}

enum vp_status vp_session_evaluate(struct vp_session *session, int64_t n,
                                   double *loss_out, struct vp_err *err)
{
    struct vp_run_state *run = session->run;

    if (!run->samples.eval || n < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          n < 0 ? "an evaluation of a negative number of "
                                  "batches; ask for 0 (all) or more"
                                : "there are no batches to evaluate; give the "
                                  "data callback some, or use more data");
    VP_TRY(vp_run_evaluate(run, n == 0 ? INT64_MAX : n, err));
    *loss_out = run->eval_loss;
    return VP_OK;
}

/* ---- Saving ------------------------------------------------------------- */

static enum vp_status check_unused(const char *folder, struct vp_err *err)
{
    char path[PATH_MAX];
    struct vp_ckpt_entry *list = NULL;
    int n = 0;

    if (snprintf(path, sizeof(path), "%s/checkpoints", folder) >=
        (int)sizeof(path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.80s...: path is too long; name another folder",
                          folder);
    VP_TRY(vp_ckpt_list(path, &list, &n, err));
    free(list);
    if (n == 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: holds checkpoints of another run; name another "
                      "folder",
                      folder);
}

/* Opens `folder` for checkpoints that are not in the run folder. */
static enum vp_status open_copies(struct vp_session *session,
                                  const char *folder, struct vp_err *err)
{
    struct vp_run_state *run = session->run;
    struct vp_checkpoints *copies;
    enum vp_status st;

    if (session->copies && strcmp(session->copies_at, folder) == 0)
        return VP_OK;
    VP_TRY(check_unused(folder, err));
    VP_TRY(vp_folder_make(folder, err));
    VP_TRY(vp_checkpoints_create(run->config, 0, NULL, &copies, err));
    st = vp_checkpoints_arm(copies, run->trainer, run->samples.train, folder,
                            NULL, err);
    if (st != VP_OK) {
        vp_checkpoints_free(copies);
        return st;
    }
    vp_checkpoints_free(session->copies);
    session->copies = copies;
    snprintf(session->copies_at, sizeof(session->copies_at), "%s", folder);
    return VP_OK;
}

enum vp_status vp_session_save(struct vp_session *session, const char *folder,
                               struct vp_err *err)
{
    struct vp_run_state *run = session->run;

    if (folder) {
        VP_TRY(open_copies(session, folder, err));
        VP_TRY(vp_checkpoints_follow(session->copies, run->trainer, err));
        return vp_checkpoints_finish(session->copies, (double)NAN, err);
    }
    if (!run->checkpoints)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the run has no folder; name one for the checkpoint");
    return vp_run_save(run, err);
}

/* ---- State -------------------------------------------------------------- */

int64_t vp_session_step(const struct vp_session *session)
{
    return session->run->n_done;
}

const struct vp_trainer *vp_session_trainer(const struct vp_session *session)
{
    return session->run->trainer;
}

const struct vp_graph *vp_session_graph(const struct vp_session *session)
{
    return &session->run->graphs[0];
}

enum vp_status vp_session_plan(const struct vp_session *session,
                               char **text_out)
{
    const struct vp_run_state *run = session->run;
    const struct vp_memory *memory[VP_MAX_STAGES];
    int64_t bytes[VP_MAX_STAGES];
    const struct vp_plan_forecast forecast = {
        .bytes = bytes,
        .memory = memory,
        .bubble = run->summary.bubble_simulated,
    };

    for (int s = 0; s < run->schedule->n_stages; s++) {
        memory[s] = &run->prices[s].memory;
        bytes[s] = memory[s]->total;
    }
    return vp_plan_print(&run->train.plan, run->graphs[0].n_blocks, &forecast,
                         text_out);
}
