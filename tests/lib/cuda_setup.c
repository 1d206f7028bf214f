#include "lib/cuda_setup.h"

#include "backend/cpu/fast.h"
#include "lib/gpulib.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 16 };

struct vp_pool *cuda_pool;

static void setup_thread(void *ctx, int thread)
{
    (void)ctx;
    vp_cpu_thread_setup(thread);
}

int start_gpu(void **state)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    (void)state;
    if (!gpu_start()) {
        print_error("the plugin has no functions for tests\n");
        return -1;
    }
    n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
    vp_cpu_thread_setup(0);
    return vp_pool_create((int)n, setup_thread, NULL, &cuda_pool) == VP_OK ? 0
                                                                           : -1;
}

int stop_gpu(void **state)
{
    (void)state;
    vp_pool_free(cuda_pool);
    gpu_stop();
    return 0;
}

size_t most_scratch(const struct vp_graph *graph, const struct vp_op *op)
{
    struct vp_backend_config config = { .device = 0 };
    size_t most = 0;

    for (int phase = 0; phase < VP_PHASE_COUNT; phase++) {
        size_t n = gpu.ops->scratch_bytes(&config, graph, op,
                                          (enum vp_phase)phase);

        most = n > most ? n : most;
    }
    return most;
}

int tiny(void)
{
    const char *text = getenv("VP_TINY");

    return text ? (int)strtol(text, NULL, 10) : 0;
}
