/* Plans a configuration: puts together its workload, the profile of the device,
 * the memory of its ranks, and the search for a plan. Needs no device. */
#ifndef VP_RUN_PLANNING_H
#define VP_RUN_PLANNING_H

#include "config/config.h"
#include "plan/planner.h"

#define VP_PROFILE_SYNTHETIC "synthetic"
#define VP_PROFILE_MEASURED "measured"

struct vp_planning_options {
    /* A file, VP_PROFILE_SYNTHETIC, or VP_PROFILE_MEASURED (measure this
     * machine now). NULL: key `profile`, otherwise the stored profile of this
     * machine, otherwise synthetic. */
    const char *profile;
    bool measure; /* measure this machine instead of a synthetic profile */
    int64_t
        memory;   /* bytes per rank; 0: memory_limit, or the device's memory */
    int n_stages; /* 0: the configuration's */
    bool keep_schedule, keep_partition, keep_recompute;
    bool swap; /* activations may be swapped to host memory */
};

struct vp_planning;

/* Borrows `config` until vp_planning_close(). */
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
/* Returns one line about the profile: its source and the device it
 * describes. */
const char *vp_planning_note(const struct vp_planning *planning);
/* Returns the bytes per rank; 0: no limit. */
int64_t vp_planning_memory(const struct vp_planning *planning);
/* Returns the samples of a minibatch. */
int64_t vp_planning_batch(const struct vp_planning *planning);

/* Set another memory limit for all ranks, and scale the rates of links and host
 * copies (1: as measured). */
void vp_planning_set_memory(struct vp_planning *planning, int64_t bytes);
enum vp_status vp_planning_scale_links(struct vp_planning *planning,
                                       double factor);

/* Prints the plan as JSON, which the caller frees: without devices and
 * transports, and with its forecast, so that key `partition` accepts the
 * file. */
enum vp_status vp_planning_print(const struct vp_planning *planning,
                                 const struct vp_search_result *result,
                                 char **text_out);

/* ---- The dial (planning_dial.c) ------------------------------------------- */

/* The best plan for one memory limit. */
struct vp_dial_point {
    int64_t bytes;         /* memory limit per rank */
    double per_mb, bubble; /* seconds per minibatch; share */
    double recomputed;     /* share of recomputation in all work */
    char schedule[32];     /* "zb-v", "interleaved x2" */
};

enum { VP_DIAL_MAX = 16 };

/* Makes points from the smallest memory that fits upwards, until more memory
 * gains nothing; no point is slower than the one before. Writes their number to
 * `*n_out`. */
enum vp_status vp_planning_dial(struct vp_planning *planning,
                                struct vp_dial_point points[VP_DIAL_MAX],
                                int *n_out, struct vp_err *err);
/* Draws the dial as SVG, which the caller frees. `chosen` is a limit to mark;
 * 0: none. */
enum vp_status vp_planning_dial_svg(const struct vp_dial_point *points, int n,
                                    const char *title, int64_t batch,
                                    int64_t chosen, char **text_out);
/* Writes the name of a schedule with its chunks: "interleaved x2". */
void vp_planning_schedule_text(const struct vp_plan *plan, char *out,
                               size_t n_bytes);

#endif
