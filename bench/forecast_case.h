/* A plan's forecast beside the run that follows it, in one process: profile,
 * search, forecast, then training steps under the same plan. What fails ends the
 * program with a line. */
#ifndef VP_BENCH_FORECAST_CASE_H
#define VP_BENCH_FORECAST_CASE_H

#include "lab.h"
#include "plan/search.h"
#include "series.h"

/* A model on a device with its measured profile; shared by all its cases. */
struct forecast_model;

struct forecast_device {
    const struct vp_backend_ops *backend; /* NULL: the CPU */
    int n_ranks; /* the most that a case has; the profile is measured with so
                    many at work */
    bool shared; /* all ranks on one device */
    bool pinned; /* each to a core of its own */
    bool sleeps; /* kernels sleep: the least step counts, not the median, since
                    disturbances only lengthen it */
    int n_repeats; /* of a measurement; 0: as many as usual */
};

/* Measures the profile. */
struct forecast_model *forecast_model_open(const struct lab_size *size,
                                           const struct forecast_device *device,
                                           double *seconds_out);
void forecast_model_close(struct forecast_model *model);
const struct vp_device_profile *forecast_model_profile(
    const struct forecast_model *model);

struct forecast_case {
    const char *schedule; /* "search": the search chooses it */
    int n_chunks;
    int n_stages;
    int n_mb;    /* per update */
    double room; /* memory of a rank: 0 the least that a plan fits, 1 what it
                    needs if nothing is recomputed */
    bool swap;   /* the search may swap */
};

struct forecast_result {
    struct vp_search_result plan;     /* release it */
    int64_t limit;                    /* bytes of a rank */
    int64_t allocated[VP_MAX_STAGES]; /* per stage, by the trainer */
    int64_t all_allocated;            /* counted at the device */
    struct series seconds;            /* of steps; a stream: of minibatches */
    double step; /* seconds of a step as measured, the median */
    double idle; /* share, measured */
    struct vp_stage_costs measured[VP_MAX_STAGES]; /* means, in the pipeline */
    double replay; /* seconds of a step, simulated with `measured` */
};

/* Plans, forecasts and trains `n_rounds` steps that count. False: no plan of this
 * schedule exists, and nothing was run. */
bool forecast_case_run(struct forecast_model *model,
                       const struct forecast_case *run, int n_rounds,
                       struct forecast_result *out);

/* Stages whose bytes are not those of the forecast; one more if the sum is not
 * what the device was asked for. */
int forecast_wrong_bytes(const struct forecast_result *result);

#endif
