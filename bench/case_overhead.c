/* Measures the cost of an action without its kernels: eight ranks whose kernels
 * do nothing. All else runs as usual: batches are read, messages sent, versions
 * advanced, every action is recorded and watched, every step reported. CPU time
 * is that of the whole process, so it includes the reader, the thread that runs
 * the trainer, and the time in which ranks fall asleep and wake up. */
#include "bench.h"
#include "no_work.h"

#include "base/clock.h"

#include <sys/resource.h>

enum { N_STAGES = 8, N_MB = 64 };

static enum vp_status no_launch(struct vp_exe *exe, enum vp_list list,
                                const struct vp_launch *launch,
                                struct vp_stream *stream)
{
    (void)exe;
    (void)list;
    (void)launch;
    (void)stream;
    return VP_OK;
}

static double cpu_seconds(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* Returns the number of actions in a run of `n_mb` minibatches. */
static double count_actions(const char *name, int n_mb)
{
    bool stream = vp_generator_find(name)->stream;
    struct vp_sched_config config = { .name = name,
                                      .n_stages = N_STAGES,
                                      .n_mb = stream ? n_mb : N_MB,
                                      .global_norm = !stream };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    double n;

    if (vp_schedule_make(&config, &schedule, &err) != VP_OK)
        lab_die("schedule", &err);
    n = stream ? schedule.n_actions : (double)schedule.n_actions * n_mb / N_MB;
    vp_schedule_release(&schedule);
    return n;
}

static void measure(struct bench *bench, const char *name, int n_mb)
{
    struct vp_backend_ops empty = vp_backend_cpu;
    struct lab_size size = { .vocab = 32,
                             .hidden = 8,
                             .layers = 4,
                             .heads = 1,
                             .seq = 8,
                             .batch = 1,
                             .labels = 8 };
    int partition[N_STAGES];
    struct lab_spec spec = { .size = size,
                             .schedule = name,
                             .n_stages = N_STAGES,
                             .partition = partition,
                             .n_mb = N_MB,
                             .backend = &empty };
    double n_actions = count_actions(name, n_mb);
    struct series cpu = { .n = 0 }, wall = { .n = 0 };
    char text[2][64];
    struct lab *lab;

    empty.launch = no_launch;
    empty.sum_squares = no_work_sum_squares;
    empty.update = no_work_update;
    lab_cut_evenly(&size, N_STAGES, partition);
    lab = lab_open(&spec);
    lab_run(lab, N_MB);
    for (int i = 0; i < bench->n_rounds; i++) {
        double start = cpu_seconds();
        double seconds = lab_run(lab, n_mb);

        series_add(&cpu, 1e6 * (cpu_seconds() - start) / n_actions);
        series_add(&wall, 1e6 * seconds / n_actions);
    }
    lab_close(lab);
    printf("{\"case\": \"overhead\", \"schedule\": \"%s\", \"ranks\": %d, "
           "\"actions\": %.0f, \"cpu_us_per_action\": %s, "
           "\"wall_us_per_action\": %s}\n",
           name, N_STAGES, n_actions, series_json(&cpu, text[0]),
           series_json(&wall, text[1]));
    fprintf(bench->table, "  %-10s CPU us per action (<= 3)  %s %s\n", name,
            series_text(&cpu, text[0]),
            bench_judge(bench, series_median(&cpu) <= 3.0));
}

void case_overhead(struct bench *bench)
{
    int n_mb = bench->n_mb ? bench->n_mb : 100 * N_MB;

    fprintf(bench->table, "overhead, %d ranks, empty kernels\n", N_STAGES);
    measure(bench, "1f1b", n_mb);
    measure(bench, "pipedream", n_mb);
}
