#include "bench.h"

#include "comm/comm.h"
#include "job/processes.h"

/* Rank r is process r. */
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

/* The lead measures, all get its cut. */
static void cut(const struct lab_spec *spec, bool is_lead, int *partition)
{
    if (is_lead)
        lab_cut_measured(spec, partition);
    if (spec->world &&
        vp_world_share(spec->world, partition,
                       (size_t)spec->n_stages * sizeof(*partition),
                       VP_LIMIT_NEVER) != VP_OK)
        lab_die("worker",
                &(struct vp_err){ .text = "the processes lost each other" });
}

static void obey(struct lab *lab, const struct bench *bench, int n_mb,
                 const int *partition)
{
    char line[8];

    lab_run(lab, n_mb);
    printf("{\"ready\": \"%s\", \"partition\": [", bench->schedule);
    for (int s = 0; s < bench->n_stages; s++)
        printf("%s%d", s ? ", " : "", partition[s]);
    puts("]}");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        printf("{\"seconds\": %.6f}\n", lab_run(lab, n_mb));
        fflush(stdout);
    }
}

void case_worker(struct bench *bench)
{
    int n_mb = bench->n_mb ? bench->n_mb : 8;
    int partition[VP_MAX_STAGES] = { 0 };
    struct vp_processes self = vp_processes_find();
    struct lab_spec spec = { .size = bench->size,
                             .schedule = bench->schedule,
                             .n_stages = bench->n_stages,
                             .partition = partition,
                             .n_mb = n_mb };
    bool moves = false;
    struct vp_err err = { .text = "" };
    struct lab *lab;

    if (bench->n_stages > lab_n_blocks(&bench->size))
        lab_die("worker",
                &(struct vp_err){ .text = "more stages than blocks" });
    if (self.n > 1 && self.n != bench->n_stages)
        lab_die("worker", &(struct vp_err){ .text = "one process per stage" });
    spec.world = join(&self);
    cut(&spec, self.index == 0, partition);
    lab = lab_open(&spec);
    if (self.index == 0)
        obey(lab, bench, n_mb, partition);
    else if (vp_trainer_follow(lab_trainer(lab), NULL, &moves, &err) != VP_OK)
        lab_die("worker", &err);
    lab_close(lab);
    if (spec.world)
        vp_world_free(spec.world);
}
