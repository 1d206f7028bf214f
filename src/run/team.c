/* Reports of written checkpoint files, by channels from each process to the
 * lead. */
#include "run/team.h"

#include "base/blocking.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    N_REPORTS = 2,            /* reports in flight from one process */
    LOOK_NS = 5 * 1000000,    /* between two polls; disks take longer */
    LIMIT_MS = 30 * 60 * 1000 /* time limit, for the slowest disk */
};

/* Report of a process on one checkpoint. */
struct report {
    int64_t step;
    int n; /* number of files; -1: writing failed */
};

/* Connection from one process to the lead. */
struct line {
    struct vp_channel *channel;
    uint64_t n_reports;
    struct report head[N_REPORTS];
    struct vp_ckpt_part *parts[N_REPORTS];
};

struct vp_team {
    struct vp_world *world;
    int n_ranks, lead, me;
    struct line *lines; /* per rank */
    struct vp_ckpt_team ckpt;
};

/* ---- Sending reports ---------------------------------------------------- */

/* Sleeps between two polls. Returns an error if waiting is to end. */
static enum vp_status give_up_wait(const struct vp_team *team,
                                   const atomic_bool *give_up,
                                   struct vp_limit *limit)
{
    const struct timespec pause = { .tv_nsec = LOOK_NS };

    if (give_up && atomic_load(give_up))
        return VP_ERR_ABORTED;
    if (vp_limit_is_over(limit))
        return VP_ERR_TIMEOUT;
    VP_TRY(vp_world_status(team->world, NULL));
    nanosleep(&pause, NULL);
    return VP_OK;
}

static enum vp_status failed(enum vp_status st, int64_t step, int rank,
                             struct vp_err *err)
{
    return vp_err_set(err, st,
                      "checkpoint of step %lld: rank %d did not report that "
                      "its files are written; see its messages",
                      (long long)step, rank);
}

/* A channel returns the head as its buffer; the parts have the same index. */
static struct vp_ckpt_part *parts_of(const struct line *line,
                                     const struct report *head)
{
    return line->parts[head - line->head];
}

static enum vp_status report_files(void *ctx, int64_t step,
                                   const struct vp_ckpt_part *parts, int n,
                                   const atomic_bool *give_up,
                                   struct vp_err *err)
{
    struct vp_team *team = ctx;
    struct line *line = &team->lines[team->me];
    struct vp_limit limit = vp_limit_ms(LIMIT_MS);
    void *head;

    while (vp_channel_acquire(line->channel, line->n_reports, VP_LIMIT_NOW,
                              &head) != VP_OK)
        if (give_up_wait(team, give_up, &limit) != VP_OK)
            return failed(VP_ERR_ABORTED, step, team->me, err);
    *(struct report *)head = (struct report){ step, n };
    if (n > 0)
        memcpy(parts_of(line, head), parts, (size_t)n * sizeof(*parts));
    vp_channel_post(line->channel, line->n_reports++,
                    n > 0 ? (size_t)n * sizeof(*parts) : 0);
    return VP_OK;
}

/* ---- Receiving reports -------------------------------------------------- */

static enum vp_status collect_from(struct vp_team *team, int rank, int64_t step,
                                   struct vp_ckpt_part *parts, int *n,
                                   const atomic_bool *give_up,
                                   struct vp_err *err)
{
    struct line *line = &team->lines[rank];
    struct vp_limit limit = vp_limit_ms(LIMIT_MS);
    const struct report *report;
    void *head;

    while (vp_channel_wait(line->channel, line->n_reports, VP_LIMIT_NOW,
                           &head) != VP_OK)
        VP_TRY(give_up_wait(team, give_up, &limit) == VP_OK
                   ? VP_OK
                   : failed(VP_ERR_TIMEOUT, step, rank, err));
    report = head;
    if (report->n < 0)
        return vp_err_set(err, VP_ERR_IO,
                          "checkpoint of step %lld: rank %d could not write "
                          "its files",
                          (long long)step, rank);
    if (report->step != step || *n + report->n > team->ckpt.max_parts)
        return vp_err_set(err, VP_ERR_INVALID,
                          "checkpoint of step %lld: rank %d wrote step %lld",
                          (long long)step, rank, (long long)report->step);
    memcpy(parts + *n, parts_of(line, report),
           (size_t)report->n * sizeof(*parts));
    *n += report->n;
    vp_channel_release(line->channel, line->n_reports++);
    return VP_OK;
}

static enum vp_status collect_files(void *ctx, int64_t step,
                                    struct vp_ckpt_part *parts, int *n_out,
                                    const atomic_bool *give_up,
                                    struct vp_err *err)
{
    struct vp_team *team = ctx;
    enum vp_status st = VP_OK;
    int n = 0;
    int call = vp_blocking_begin(VP_BLOCKING_PEERS, "waiting for other ranks",
                                 NULL, -1);

    for (int r = 0; r < team->n_ranks; r++) {
        enum vp_status one = VP_OK;

        if (r != team->lead)
            one = collect_from(team, r, step, parts, &n, give_up,
                               st == VP_OK ? err : NULL);
        st = st == VP_OK ? one : st;
    }
    vp_blocking_end(call);
    if (st == VP_OK)
        *n_out = n;
    return st;
}

/* ---- Creating ----------------------------------------------------------- */

static enum vp_status connect_line(struct vp_team *team, int rank)
{
    struct line *line = &team->lines[rank];
    bool ends_here = vp_world_is_mine(team->world, rank) || team->ckpt.is_lead;
    size_t n_bytes = (size_t)team->ckpt.max_parts * sizeof(**line->parts);
    struct vp_buffer buffers[N_REPORTS];
    struct vp_link link = { .receiver = team->lead,
                            .senders = &rank,
                            .n_senders = 1,
                            .n_buffers = N_REPORTS,
                            .buffers = ends_here ? buffers : NULL,
                            .out = ends_here ? buffers : NULL,
                            .n_out = N_REPORTS };

    for (int i = 0; ends_here && i < N_REPORTS; i++) {
        line->parts[i] = malloc(n_bytes);
        if (!line->parts[i])
            return VP_ERR_NOMEM;
        buffers[i] = (struct vp_buffer){ .self = &line->head[i],
                                         .head = &line->head[i],
                                         .n_head = sizeof(line->head[i]),
                                         .body = line->parts[i],
                                         .n_body = n_bytes };
    }
    return vp_channel_create(team->world, &link, &line->channel);
}

enum vp_status vp_team_create(struct vp_world *world, int n_blocks,
                              struct vp_team **out, struct vp_err *err)
{
    struct vp_team *team = calloc(1, sizeof(*team));
    enum vp_status st = VP_ERR_NOMEM;

    if (team) {
        team->world = world;
        team->n_ranks = vp_world_n_ranks(world);
        team->lead = vp_world_lead(world);
        team->ckpt = (struct vp_ckpt_team){
            .ctx = team,
            .is_lead = vp_world_is_mine(world, team->lead),
            .report_files = report_files,
            .collect_files = collect_files,
            .max_parts = n_blocks,
        };
        team->lines = calloc((size_t)team->n_ranks, sizeof(*team->lines));
        st = team->lines ? VP_OK : VP_ERR_NOMEM;
    }
    for (int r = 0; st == VP_OK && r < team->n_ranks; r++) {
        if (vp_world_is_mine(world, r))
            team->me = r;
        if (r != team->lead)
            st = connect_line(team, r);
    }
    if (st != VP_OK) {
        vp_team_free(team);
        return vp_err_set(err, st, "checkpoints: linking the processes failed");
    }
    *out = team;
    return VP_OK;
}

void vp_team_free(struct vp_team *team)
{
    if (!team)
        return;
    for (int r = 0; team->lines && r < team->n_ranks; r++)
        for (int i = 0; i < N_REPORTS; i++)
            free(team->lines[r].parts[i]);
    free(team->lines);
    free(team);
}

const struct vp_ckpt_team *vp_team_ckpt(struct vp_team *team)
{
    return team ? &team->ckpt : NULL;
}
