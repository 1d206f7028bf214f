/* Planning a configuration: its workload, the device's profile, the memory of
 * its ranks, and the search for a plan. Needs no device. */
#ifndef VP_RUN_PLANNING_H
#define VP_RUN_PLANNING_H

#include "config/config.h"
#include "plan/planner.h"

#define VP_PROFILE_SYNTHETIC "synthetic"
#define VP_PROFILE_MEASURED "measured"

struct vp_planning_options {
    /* A file, VP_PROFILE_SYNTHETIC or VP_PROFILE_MEASURED: now, on this machine.
     * NULL: key `profile`, else one that was measured here, else synthetic. */
    const char *profile;
    bool measure;   /* in place of synthetic: this machine is measured */
    int64_t memory; /* bytes of a rank; 0: memory_limit, else the device's */
    int n_stages;   /* 0: the configuration's */
    bool keep_schedule, keep_partition, keep_recompute;
    bool swap; /* activations may wait in memory of the host */
};

struct vp_planning;

/* `config` must outlive the planning. */
enum vp_status vp_planning_open(const struct vp_config *config,
                                const struct vp_planning_options *options,
                                struct vp_planning **out, struct vp_err *err);
void vp_planning_close(struct vp_planning *planning);

struct vp_search *vp_planning_search(const struct vp_planning *planning);
const struct vp_search_input *vp_planning_input(
    const struct vp_planning *planning);
const struct vp_device_profile *vp_planning_profile(
    const struct vp_planning *planning);
const struct vp_graph *vp_planning_graph(const struct vp_planning *planning);
/* One line about the profile: where it comes from, what it stands for. */
const char *vp_planning_note(const struct vp_planning *planning);
/* Bytes of a rank; 0: no limit. */
int64_t vp_planning_memory(const struct vp_planning *planning);
/* Samples of a minibatch. */
int64_t vp_planning_batch(const struct vp_planning *planning);

/* Another memory limit for all ranks, and other rates of links and host copies
 * (1: as measured). */
void vp_planning_set_memory(struct vp_planning *planning, int64_t bytes);
enum vp_status vp_planning_scale_links(struct vp_planning *planning,
                                       double factor);

/* The plan as JSON, to be freed: without what the machine decides, and with its
 * forecast, so that the key `partition` can name its file. */
enum vp_status vp_planning_print(const struct vp_planning *planning,
                                 const struct vp_search_result *result,
                                 char **text_out);

/* ---- The dial (planning_dial.c) ------------------------------------------- */

/* The best plan for a limit. */
struct vp_dial_point {
    int64_t bytes;         /* of a rank */
    double per_mb, bubble; /* seconds, share */
    double recomputed;     /* seconds of recomputation, share of all work */
    char schedule[32];     /* "zb-v", "interleaved x2" */
};

enum { VP_DIAL_MAX = 16 };

/* From the least memory that fits upwards, until more does not help; a point is
 * never slower than one before. Returns their number in `*n_out`. */
enum vp_status vp_planning_dial(struct vp_planning *planning,
                                struct vp_dial_point points[VP_DIAL_MAX],
                                int *n_out, struct vp_err *err);
/* The dial as a drawing, to be freed. `chosen`: a limit to mark; 0: none. */
enum vp_status vp_planning_dial_svg(const struct vp_dial_point *points, int n,
                                    const char *title, int64_t batch,
                                    int64_t chosen, char **text_out);
/* "interleaved x2": a schedule with its chunks. */
void vp_planning_schedule_text(const struct vp_plan *plan, char *out,
                               size_t n_bytes);

#endif
