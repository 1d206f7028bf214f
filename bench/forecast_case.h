/* Compares the forecast of a plan with training under this plan, in one
 * process: profile, search, forecast, then training steps. Functions end the
 * program with a line if something fails. */
#ifndef VP_BENCH_FORECAST_CASE_H
#define VP_BENCH_FORECAST_CASE_H

#include "lab.h"
#include "plan/search.h"
#include "series.h"

/* A model on a device with its measured profile; shared by all its cases. */
struct forecast_model;

struct forecast_device {
    const struct vp_backend_ops *backend; /* NULL: the CPU */
    int n_ranks; /* most ranks of a case; the profile is measured with this
                    number of ranks at work */
    bool shared; /* all ranks on one device */
    bool pinned; /* each rank to its own core */
    bool sleeps; /* kernels sleep: the least step counts, not the median, since
                    disturbances only lengthen it */
    int n_repeats; /* repetitions of a measurement; 0: the default */
};

/* Measures the profile of a model; *seconds_out is the time that took. */
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
    double room; /* memory of a rank: 0: the smallest plan, 1: the fastest plan
                    without a limit */
    bool swap;   /* the search may swap */
};

struct forecast_result {
    struct vp_search_result plan;     /* release it */
    int64_t limit;                    /* bytes of a rank */
    int64_t allocated[VP_MAX_STAGES]; /* per stage, by the trainer */
    int64_t all_allocated;            /* counted at the device */
    struct series seconds;            /* per step; a stream: per minibatch */
    double step; /* measured seconds of a step: the median */
    double idle; /* share, measured */
    struct vp_stage_costs measured[VP_MAX_STAGES]; /* means, in the pipeline */
    double replay; /* seconds of a step, simulated with `measured` */
};

/* Plans, forecasts and trains `n_rounds` measured steps. Returns false if there
 * is no plan with this schedule; nothing was run then. */
bool forecast_case_run(struct forecast_model *model,
                       const struct forecast_case *run, int n_rounds,
                       struct forecast_result *out);

/* Returns the number of stages whose allocated bytes differ from the forecast,
 * plus one if their sum differs from the bytes allocated on the device. */
int forecast_wrong_bytes(const struct forecast_result *result);

#endif
