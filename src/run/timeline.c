/* Writes trace.json and timeline.svg, also early in a resumed run. */
#include "run/timeline.h"

#include "run/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char trace_name[] = "trace.json";
static const char picture_name[] = "timeline.svg";

/* Writes the picture if it is not NULL, otherwise the trace. */
static enum vp_status replace(const char *folder, const char *name,
                              const struct vp_trace *trace, const char *picture,
                              struct vp_err *err)
{
    char path[1024 + 16], part[1024 + 24];
    enum vp_status st;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(part, sizeof(part), "%s/%s.tmp", folder, name);
    st = picture ? vp_folder_write_text(part, picture, err)
                 : vp_trace_write_chrome(trace, part, err);
    if (st == VP_OK && rename(part, path) != 0)
        st = vp_err_write(err, path, errno);
    if (st != VP_OK)
        unlink(part);
    return st;
}

enum vp_status vp_timeline_write(const char *folder, struct vp_trace *trace,
                                 struct vp_err *err)
{
    char *picture = NULL;
    enum vp_status st;

    VP_TRY(replace(folder, trace_name, trace, NULL, err));
    vp_trace_keep_last(trace, vp_trace_some(trace));
    if (vp_trace_svg(trace, NULL, &picture) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "timeline: out of memory");
    st = replace(folder, picture_name, NULL, picture, err);
    free(picture);
    return st;
}

/* ---- A live run --------------------------------------------------------- */

static void remove_file(const char *folder, const char *name)
{
    char path[1024 + 16];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
}

void vp_timeline_renew(struct vp_timeline *timeline,
                       const struct vp_config *config,
                       const struct vp_run_summary *summary)
{
    int group = config->accumulation_steps;

    remove_file(summary->output, trace_name);
    remove_file(summary->output, picture_name);
    timeline->due = summary->resumed +
                    (vp_trace_enough(summary->n_ranks) + group - 1) / group;
}

bool vp_timeline_is_due(const struct vp_timeline *timeline, int64_t step)
{
    return timeline->due > 0 && step >= timeline->due;
}

enum vp_status vp_timeline_draw(struct vp_timeline *timeline,
                                const struct vp_run_summary *summary,
                                struct vp_trainer *trainer, int64_t step,
                                struct vp_err *err)
{
    struct vp_trace trace;
    enum vp_status st;

    if (!vp_timeline_is_due(timeline, step))
        return VP_OK;
    timeline->due = 0;
    VP_TRY(vp_trainer_trace(trainer, summary->schedule, &trace, err));
    st = vp_timeline_write(summary->output, &trace, err);
    vp_trace_release(&trace);
    return st;
}
