/* The case `worker` of bench_pipeline: trains when a script asks for it. */
#include "bench.h"

#include "comm/comm.h"
#include "forecast.h"
#include "job/processes.h"

#include <string.h>

/* Joins the other processes; rank r is process r. */
static struct vp_world *join(const struct vp_processes *self)
{
    int processes[VP_MAX_STAGES];
    struct vp_world *world = NULL;
    struct vp_err err = { .text = "" };

    for (int r = 0; r < VP_MAX_STAGES; r++)
        processes[r] = r;
    if (self->n > 1 &&
        vp_world_join("mpi", self, self->n, processes, &world, &err) != VP_OK)
        lab_die("worker", &err);
    return world;
}

/* Returns the seconds of the fastest of three updates after a first one. */
static double try_cut(const struct lab_spec *spec, const int *partition)
{
    struct lab_spec tried = *spec;
    double least = 0.0;
    struct lab *lab;

    tried.partition = partition;
    lab = lab_open(&tried);
    lab_run(lab, spec->n_mb);
    for (int i = 0; i < 3; i++) {
        double seconds = lab_run(lab, spec->n_mb);

        least = i == 0 || seconds < least ? seconds : least;
    }
    lab_close(lab);
    return least;
}

/* Cuts by measured times and by FLOPs, and keeps the faster cut. */
static void cut_by_trial(const struct lab_spec *spec, int *partition)
{
    int by_flops[VP_MAX_STAGES];

    lab_cut_measured(spec, partition);
    lab_cut_by_flops(spec, by_flops);
    if (memcmp(partition, by_flops,
               (size_t)spec->n_stages * sizeof(*partition)) != 0 &&
        try_cut(spec, by_flops) < try_cut(spec, partition))
        memcpy(partition, by_flops,
               (size_t)spec->n_stages * sizeof(*partition));
}

/* The lead cuts; all processes get its partition. */
static void cut(const struct lab_spec *spec, bool is_lead, int *partition)
{
    if (spec->n_stages == 1)
        partition[0] = lab_n_blocks(&spec->size);
    else if (is_lead && !spec->world)
        cut_by_trial(spec, partition);
    else if (is_lead)
        lab_cut_measured(spec, partition);
    if (spec->world &&
        vp_world_share(spec->world, partition,
                       (size_t)spec->n_stages * sizeof(*partition),
                       VP_LIMIT_NEVER) != VP_OK)
        lab_die("worker",
                &(struct vp_err){ .text = "the processes lost each other" });
}

/* Trains once for each line on stdin, and prints a line of JSON per run. */
static void run_on_request(struct lab *lab, const struct lab_spec *spec)
{
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct forecast forecast;
    char line[8];

    lab_run(lab, spec->n_mb);
    printf("{\"ready\": \"%s\", \"partition\": [", spec->schedule);
    for (int s = 0; s < spec->n_stages; s++)
        printf("%s%d", s ? ", " : "", spec->partition[s]);
    puts("]}");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("{\"seconds\": %.6f", lab_run(lab, spec->n_mb));
        if (!spec->world) {
            forecast_costs(lab_trainer(lab), spec->n_mb, costs);
            forecast = forecast_run(spec->schedule, spec->n_stages, spec->n_mb,
                                    costs);
            printf(", \"simulated\": %.6f, \"simulated_speedup\": %.6f",
                   forecast.seconds, forecast.speedup);
        }
        puts("}");
        fflush(stdout);
    }
}

static void run_copies_on_request(const struct bench *bench, int n_mb)
{
    struct lab *copies[VP_MAX_STAGES];
    int n = bench->n_copies;
    char line[8];

    if (n > VP_MAX_STAGES)
        lab_die("worker", &(struct vp_err){ .text = "too many copies" });
    bench_open_copies(bench, bench->schedule, n, n_mb, copies);
    lab_run_together(copies, n, n_mb);
    printf("{\"ready\": \"%d copies\"}\n", n);
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("{\"seconds\": %.6f}\n", lab_run_together(copies, n, n_mb));
        fflush(stdout);
    }
    for (int i = 0; i < n; i++)
        lab_close(copies[i]);
}

void case_worker(struct bench *bench)
{
    int n_mb = bench->n_mb ? bench->n_mb : 8;
    int n_stages = bench->n_stages ? bench->n_stages : 1;
    int partition[VP_MAX_STAGES] = { 0 };
    struct vp_processes self = vp_processes_find();
    struct lab_spec spec = bench_spec(bench, bench->schedule, n_stages,
                                      partition, n_mb);
    enum vp_followed followed;
    struct vp_err err = { .text = "" };
    struct lab *lab;

    if (bench->n_copies > 0) {
        run_copies_on_request(bench, n_mb);
        return;
    }
    if (n_stages > lab_n_blocks(&bench->size))
        lab_die("worker",
                &(struct vp_err){ .text = "more stages than blocks" });
    if (self.n > 1 && self.n != n_stages)
        lab_die("worker", &(struct vp_err){ .text = "one process per stage" });
    spec.world = join(&self);
    cut(&spec, self.index == 0, partition);
    lab = lab_open(&spec);
    if (self.index == 0)
        run_on_request(lab, &spec);
    else if (vp_trainer_follow(lab_trainer(lab), NULL, &followed, &err) !=
             VP_OK)
        lab_die("worker", &err);
    lab_close(lab);
    if (spec.world)
        vp_world_free(spec.world);
}
