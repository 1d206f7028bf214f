#include "lib/sleepdevice.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { MAX_SLEEPERS = 4096 };

/* The program of every executable. */
static struct {
    pthread_mutex_t lock;
    struct {
        const struct vp_exe *exe; /* NULL: free */
        const struct vp_program *program;
    } at[MAX_SLEEPERS];
    double ns_per_flop, ns_per_weight;
} sleepers = { .lock = PTHREAD_MUTEX_INITIALIZER };

_Thread_local double sleep_slower;

static const struct vp_program *swap_sleeper(const struct vp_exe *find,
                                             const struct vp_exe *exe,
                                             const struct vp_program *program)
{
    const struct vp_program *found = NULL;

    pthread_mutex_lock(&sleepers.lock);
    for (int i = 0; i < MAX_SLEEPERS; i++)
        if (sleepers.at[i].exe == find) {
            found = sleepers.at[i].program;
            if (exe != find) {
                sleepers.at[i].exe = exe;
                sleepers.at[i].program = program;
            }
            break;
        }
    pthread_mutex_unlock(&sleepers.lock);
    return found;
}

static enum vp_status sleep_compile(struct vp_backend *backend,
                                    const struct vp_program *program,
                                    struct vp_exe **out, struct vp_err *err)
{
    VP_TRY(vp_backend_cpu.compile(backend, program, out, err));
    swap_sleeper(NULL, *out, program);
    return VP_OK;
}

static void sleep_exe_free(struct vp_exe *exe)
{
    if (exe)
        swap_sleeper(exe, NULL, NULL);
    vp_backend_cpu.exe_free(exe);
}

void sleep_ns(double ns)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += (double)until.tv_nsec;
    until.tv_sec += (time_t)(ns / 1e9);
    until.tv_nsec = (long)ns % 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) ==
           EINTR)
        ;
}

static double call_flops(const struct vp_program *program, enum vp_list list,
                         int first, int n)
{
    double flops = 0.0;

    for (int i = first; i < first + n; i++)
        flops += vp_op_flops(program->graph, program->calls[list][i].op,
                             program->calls[list][i].phase);
    return flops;
}

double sleep_list_ns(const struct vp_exe *exe, enum vp_list list)
{
    const struct vp_program *program = swap_sleeper(exe, exe, NULL);

    return sleepers.ns_per_flop *
           call_flops(program, list, 0, program->n_calls[list]);
}

static enum vp_status sleep_launch_part(struct vp_exe *exe, enum vp_list list,
                                        int first, int n,
                                        const struct vp_launch *launch,
                                        struct vp_stream *stream)
{
    const struct vp_program *program = swap_sleeper(exe, exe, NULL);

    (void)launch;
    (void)stream;
    sleep_ns(call_flops(program, list, first, n) * sleepers.ns_per_flop *
             (sleep_slower > 0.0 ? sleep_slower : 1.0));
    return VP_OK;
}

static enum vp_status sleep_launch(struct vp_exe *exe, enum vp_list list,
                                   const struct vp_launch *launch,
                                   struct vp_stream *stream)
{
    return sleep_launch_part(exe, list, 0,
                             swap_sleeper(exe, exe, NULL)->n_calls[list],
                             launch, stream);
}

static enum vp_status sleep_sum_squares(struct vp_backend *backend,
                                        struct vp_stream *stream,
                                        const struct vp_optim_tensor *tensors,
                                        int n_tensors, const float *data,
                                        double *sums_out)
{
    (void)backend;
    (void)stream;
    (void)tensors;
    (void)data;
    for (int i = 0; i < n_tensors; i++)
        sums_out[i] = 1.0;
    return VP_OK;
}

static enum vp_status sleep_update(struct vp_backend *backend,
                                   struct vp_stream *stream,
                                   const struct vp_optim_step *step)
{
    double n = 0.0;

    (void)backend;
    (void)stream;
    for (int i = 0; i < step->n_tensors; i++)
        n += (double)step->tensors[i].n;
    sleep_ns(n * sleepers.ns_per_weight);
    return VP_OK;
}

const struct vp_backend_ops *sleep_device(double ns_per_flop,
                                          double ns_per_weight)
{
    static struct vp_backend_ops ops;

    ops = vp_backend_cpu;
    ops.compile = sleep_compile;
    ops.exe_free = sleep_exe_free;
    ops.launch = sleep_launch;
    ops.launch_part = sleep_launch_part;
    ops.sum_squares = sleep_sum_squares;
    ops.update = sleep_update;
    sleepers.ns_per_flop = ns_per_flop;
    sleepers.ns_per_weight = ns_per_weight;
    return &ops;
}
