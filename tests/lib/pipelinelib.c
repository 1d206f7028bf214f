#include "lib/pipelinelib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- Random partitions -------------------------------------------------- */

uint32_t pipeline_draws;

int pipeline_draw(int n)
{
    struct vp_rng4 r = vp_rng(5, VP_RNG_TEST, 1, pipeline_draws++, 0, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

void random_partition(int *partition, int n_stages, int n_blocks)
{
    for (int s = 0; s < n_stages; s++) {
        int most = n_blocks - (n_stages - 1 - s);

        partition[s] = s == n_stages - 1 ? n_blocks : 1 + pipeline_draw(most);
        if (s < n_stages - 1 && partition[s] > 2 * n_blocks / (n_stages - s))
            partition[s] = 2 * n_blocks / (n_stages - s);
        n_blocks -= partition[s];
    }
}

int n_blocks_of(const struct setup *setup)
{
    struct vp_model_config sizes = small_sizes(setup);

    return (int)vp_model_find(setup->model)->n_blocks(&sizes);
}

/* ---- Swap --------------------------------------------------------------- */

void random_swap(struct setup *setup, struct swap *swap)
{
    static const double ratios[] = { 0.0, 0.4, 1.0, 1.0 };

    for (int s = 0; s < VP_MAX_STAGES; s++) {
        swap->ratios[s] = ratios[pipeline_draw(4)];
        swap->buffers[s] = 1 + pipeline_draw(5);
    }
    setup->swap_ratios = swap->ratios;
    setup->swap_buffers = pipeline_draw(3) ? swap->buffers : NULL;
    setup->swap_delay_us = 1 + 400 * pipeline_draw(2);
}

/* ---- Runs that stop early ----------------------------------------------- */

uint64_t train_until(const struct setup *setup, int64_t n, vp_step_fn fn,
                     int64_t *n_done)
{
    struct vp_err err = { .text = "" };
    struct run run;
    uint64_t hash;

    if (run_create(&run, setup, 0, &err) != VP_OK)
        fail_msg("%s", err.text);
    if (vp_trainer_run(run.trainer, n, fn, n_done, &err) != VP_OK)
        fail_msg("%s", err.text);
    hash = hash_weights(&run);
    run_free(&run);
    return hash;
}
