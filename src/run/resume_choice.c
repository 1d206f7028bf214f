/* Chooses the checkpoint to resume from. With several processes the lead offers
 * one checkpoint after another, until all processes can open the same. */
#include "run/resume_choice.h"

#include "base/nearest.h"
#include "ckpt/search.h"
#include "run/folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The lead's offer; small enough for vp_world_share(). */
struct offer {
    int status; /* status of the lead's search; unless VP_OK, no offer */
    struct vp_ckpt_id id;
    char hint[1152]; /* how to resume from an older checkpoint */
};

/* The answer of each process. */
struct answer {
    int status;
    char text[1000];
};

struct choice {
    const struct vp_resume_config *resume;
    bool is_lead;
    char folder[1024 + 16];        /* folder of checkpoints */
    struct vp_ckpt_search *search; /* NULL: the path is a checkpoint */
    struct vp_ckpt *ckpt;          /* opened last */
    bool *wanted;                  /* [n_blocks] blocks of this process */
    struct vp_group *group;        /* all processes */
    struct answer *answers;        /* per rank */
    int objection;                 /* a rank that found damage; -1: none */
};

/* ---- The lead's search -------------------------------------------------- */

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return (size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) <
               sizeof(path) &&
           access(path, F_OK) == 0;
}

enum vp_status vp_resume_choice_none(const char *path, struct vp_err *err)
{
    char remedy[VP_PATH_REMEDY_BYTES];
    struct stat info;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID, "%s is no folder; %s", path,
                          vp_path_remedy(path,
                                         "give --resume the folder of a run "
                                         "that was saved",
                                         remedy));
    if (vp_folder_has_metrics(path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s holds no checkpoint: the run ended before its "
                          "first; start anew with another --output, and set "
                          "checkpoint_every to save sooner",
                          path);
    if (exists(path, "metrics.jsonl"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s holds no checkpoint: the run ended before its "
                          "first step; start it anew with --output %s",
                          path, path);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s holds no checkpoint; give --resume the folder of a "
                      "run that was saved",
                      path);
}

static enum vp_status start_search(struct choice *choice, struct vp_err *err)
{
    const char *path = choice->resume->path;
    struct stat info;

    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return vp_resume_choice_none(path, err);
    if (exists(path, "manifest.json"))
        return VP_OK;
    snprintf(choice->folder, sizeof(choice->folder), "%s%s", path,
             exists(path, "checkpoints") ? "/checkpoints" : "");
    return vp_ckpt_search_create(choice->folder, &choice->search, err);
}

/* Opens the next checkpoint to try, after verifying all its files. */
static enum vp_status search_next(struct choice *choice, struct vp_err *err)
{
    const char *path = choice->resume->path;
    enum vp_status st;

    vp_ckpt_close(choice->ckpt);
    choice->ckpt = NULL;
    if (!choice->search)
        return vp_ckpt_open(path, &choice->ckpt, err);
    st = vp_ckpt_search_next(choice->search, &choice->ckpt, err);
    return st == VP_ERR_END ? vp_resume_choice_none(path, err) : st;
}

/* ---- Several processes -------------------------------------------------- */

/* Marks the blocks of the stages that ranks of this process hold. */
static void want_own_blocks(const struct choice *choice)
{
    const struct vp_config *config = choice->resume->config;
    const struct vp_sched_config sched = {
        .name = vp_generator_at(config->schedule)->name,
        .n_stages = config->stages,
        .n_chunks = config->chunks,
        .v_shape = config->schedule_v,
        .replicas = config->replicas.n > 0 ? config->replicas.at : NULL,
    };
    int block = 0;

    for (int s = 0; s < vp_config_n_stages(config); s++) {
        int n = config->partition.n > 0 ? config->partition.at[s]
                                        : choice->resume->graph->n_blocks;
        int first, n_replicas;
        bool mine = false;

        vp_sched_place(&sched, s, &first, &n_replicas);
        for (int r = first; r < first + n_replicas; r++)
            mine |= vp_world_is_mine(choice->resume->world, r);
        for (int b = 0; b < n; b++)
            choice->wanted[block++] = mine;
    }
}

static enum vp_status make_group(struct choice *choice, struct vp_err *err)
{
    int n = vp_world_n_ranks(choice->resume->world);
    int *ranks = calloc((size_t)n, sizeof(*ranks));
    enum vp_status st = VP_ERR_NOMEM;

    choice->answers = calloc((size_t)n, sizeof(*choice->answers));
    choice->wanted = calloc((size_t)choice->resume->graph->n_blocks, 1);
    for (int r = 0; ranks && r < n; r++)
        ranks[r] = r;
    if (ranks && choice->answers && choice->wanted)
        st = vp_group_create(choice->resume->world, ranks, n,
                             sizeof(struct answer), &choice->group);
    free(ranks);
    return st == VP_OK
               ? VP_OK
               : vp_err_set(err, st, "resuming: linking the processes failed");
}

/* Records why the last offer was skipped. */
static enum vp_status reject(struct choice *choice, struct vp_err *err)
{
    char reason[sizeof(choice->answers->text) + 32];

    snprintf(reason, sizeof(reason), "rank %d: %s",
             vp_config_rank_number(choice->resume->config, choice->objection),
             choice->answers[choice->objection].text);
    return vp_ckpt_search_reject(choice->search, reason, err);
}

static enum vp_status make_offer(struct choice *choice, struct offer *offer,
                                 struct vp_err *err)
{
    if (choice->objection >= 0)
        VP_TRY(reject(choice, err));
    VP_TRY(search_next(choice, err));
    if (choice->search)
        vp_ckpt_search_hint(choice->search, offer->hint, sizeof(offer->hint));
    return vp_ckpt_identify(choice->ckpt, &offer->id, err);
}

/* Sends the lead's offer, or its failure, to all processes. */
static enum vp_status share_offer(struct choice *choice, struct offer *offer,
                                  struct vp_err *err)
{
    struct vp_world *world = choice->resume->world;

    if (choice->is_lead)
        offer->status = (int)make_offer(choice, offer, err);
    if (vp_world_share(world, offer, sizeof(*offer), VP_LIMIT_NEVER) != VP_OK)
        return vp_err_set(err, VP_ERR_ABORTED,
                          "resuming: process 0 has ended; see its messages");
    if (offer->status != VP_OK && !choice->is_lead)
        err->text[0] = '\0';
    return (enum vp_status)offer->status;
}

/* Opens the offered checkpoint in this process. Returns the result. */
static struct answer open_offer(struct choice *choice,
                                const struct offer *offer)
{
    struct answer answer = { .status = VP_OK };
    struct vp_err why = { .text = "" };

    if (choice->is_lead)
        return answer;
    vp_ckpt_close(choice->ckpt);
    choice->ckpt = NULL;
    answer.status = (int)vp_ckpt_open_same(&offer->id, choice->wanted,
                                           choice->resume->graph->n_blocks,
                                           &choice->ckpt, &why);
    snprintf(answer.text, sizeof(answer.text), "%.999s", why.text);
    return answer;
}

/* Returns the rank whose answer decides: the first that cannot read the
 * checkpoint, otherwise the first that found damage; -1: all can use it. */
static int find_objection(const struct choice *choice)
{
    int damaged = -1;

    for (int r = vp_world_n_ranks(choice->resume->world) - 1; r >= 0; r--)
        if (choice->answers[r].status == VP_ERR_INVALID)
            damaged = r;
    for (int r = 0; r < vp_world_n_ranks(choice->resume->world); r++)
        if (choice->answers[r].status != VP_OK &&
            choice->answers[r].status != VP_ERR_INVALID)
            return r;
    return damaged;
}

static enum vp_status exchange_answers(struct choice *choice,
                                       const struct answer *mine,
                                       struct vp_err *err)
{
    struct vp_world *world = choice->resume->world;
    int me = 0;

    while (!vp_world_is_mine(world, me))
        me++;
    if (vp_group_exchange(choice->group, me, mine, sizeof(*mine),
                          choice->answers, VP_LIMIT_NEVER) != VP_OK)
        return vp_err_set(err, VP_ERR_ABORTED,
                          "resuming: another process has ended; see its "
                          "messages");
    return VP_OK;
}

/* Ends the choice with an error; only the process that objected has the
 * message. */
static enum vp_status stop_all(const struct choice *choice,
                               const struct offer *offer, struct vp_err *err)
{
    const struct answer *answer = &choice->answers[choice->objection];

    vp_err_set(err, VP_OK, "%s%s", answer->text, offer->hint);
    if (!vp_world_is_mine(choice->resume->world, choice->objection))
        err->text[0] = '\0';
    return (enum vp_status)answer->status;
}

/* Offers one checkpoint after another until all processes have opened the same.
 * An empty hint means that the path is a checkpoint, so there is no other to
 * try. */
static enum vp_status choose_together(struct choice *choice, struct vp_err *err)
{
    for (;;) {
        struct offer offer = { .status = VP_OK };
        struct answer mine;

        VP_TRY(share_offer(choice, &offer, err));
        mine = open_offer(choice, &offer);
        VP_TRY(exchange_answers(choice, &mine, err));
        choice->objection = find_objection(choice);
        if (choice->objection < 0)
            return VP_OK;
        if (choice->answers[choice->objection].status != VP_ERR_INVALID ||
            !offer.hint[0])
            return stop_all(choice, &offer, err);
    }
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status choose(struct choice *choice, bool *agreed_out,
                             struct vp_err *err)
{
    struct vp_world *world = choice->resume->world;
    enum vp_status st = VP_OK;

    if (choice->is_lead)
        st = start_search(choice, err);
    if (!world)
        return st == VP_OK ? search_next(choice, err) : st;
    st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    if (st == VP_OK)
        st = vp_world_agree(world, make_group(choice, err), VP_LIMIT_NEVER,
                            err);
    if (st == VP_OK) {
        want_own_blocks(choice);
        st = choose_together(choice, err);
    }
    *agreed_out = st != VP_OK;
    return st;
}

enum vp_status vp_resume_choice_open(const struct vp_resume_config *resume,
                                     struct vp_ckpt **out, bool *agreed_out,
                                     struct vp_err *err)
{
    struct vp_world *world = resume->world;
    struct choice choice = {
        .resume = resume,
        .is_lead = !world || vp_world_is_mine(world, vp_world_lead(world)),
        .objection = -1,
    };
    enum vp_status st = choose(&choice, agreed_out, err);

    if (st == VP_OK && choice.search)
        vp_ckpt_search_tell(choice.search, vp_ckpt_step(choice.ckpt),
                            resume->warn, resume->ctx);
    vp_ckpt_search_free(choice.search);
    free(choice.answers);
    free(choice.wanted);
    if (st != VP_OK) {
        vp_ckpt_close(choice.ckpt);
        return st;
    }
    *out = choice.ckpt;
    return VP_OK;
}
