/* Keys of blocks, candidate sets for recomputation, and file names of
 * profiles. */
#include "plan/profile.h"

#include "base/sha256.h"
#include "graph/opdef.h"
#include "plan/stage_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys --------------------------------------------------------------- */

enum vp_status vp_profile_keys(const struct vp_graph *graph,
                               struct vp_block_key *keys_out)
{
    const struct vp_workload work = { .graphs = graph, .n_graphs = 1 };
    struct vp_stage_keys *keys;

    VP_TRY(vp_stage_keys_create(&work, &keys));
    for (int b = 0; b < graph->n_blocks; b++) {
        struct vp_stage_key key = vp_stage_key_block(keys, b);

        keys_out[b] = (struct vp_block_key){ key.low, key.high };
    }
    vp_stage_keys_free(keys);
    return VP_OK;
}

static double between(double a, double b, double share)
{
    return a + share * (b - a);
}

struct vp_profile_load vp_profile_load_of(
    const struct vp_device_profile *profile, int n_ranks)
{
    struct vp_profile_load low = { 1, 1.0, 1.0, 1.0 }, high = low;
    double share;

    if (profile->n_loads > 0 && profile->loads[0].n_ranks == 1)
        high = profile->loads[0];
    for (int i = 0; i < profile->n_loads && high.n_ranks < n_ranks; i++) {
        low = high;
        high = profile->loads[i];
    }
    if (high.n_ranks <= n_ranks)
        return (struct vp_profile_load){ n_ranks, high.f, high.b, high.update };
    share = (double)(n_ranks - low.n_ranks) / (high.n_ranks - low.n_ranks);
    return (struct vp_profile_load){
        .n_ranks = n_ranks,
        .f = between(low.f, high.f, share),
        .b = between(low.b, high.b, share),
        .update = between(low.update, high.update, share),
    };
}

const struct vp_profile_block *vp_profile_find(
    const struct vp_device_profile *profile, struct vp_block_key key)
{
    for (int i = 0; i < profile->n_blocks; i++)
        if (profile->blocks[i].key.low == key.low &&
            profile->blocks[i].key.high == key.high)
            return &profile->blocks[i];
    return NULL;
}

/* ---- Candidates --------------------------------------------------------- */

/* Returns true if another block reads the result of an operator, or none
 * does. */
static bool leaves_block(const struct vp_graph *graph, const struct vp_op *op)
{
    int last = graph->values[op->out].last_reader;

    return last == VP_NONE || graph->ops[last].block != op->block;
}

struct candidates {
    uint64_t *at;
    int n;
};

static void add_candidate(struct candidates *to, uint64_t set)
{
    if (set == 0 || to->n == VP_PROFILE_MAX_SETS)
        return;
    for (int i = 0; i < to->n; i++)
        if (to->at[i] == set)
            return;
    to->at[to->n++] = set;
}

/* From cheap to expensive: operators without matrix products; also attention;
 * also products that feed an activation; all operators whose results stay in
 * the block; all operators. */
int vp_profile_candidates(const struct vp_graph *graph, int block,
                          uint64_t sets_out[VP_PROFILE_MAX_SETS])
{
    const struct vp_block *at = &graph->blocks[block];
    uint64_t light = 0, attention = 0, activation = 0, inner = 0, all = 0;
    struct candidates out = { .at = sets_out };

    for (int i = 0; i < at->n_ops && i < 64; i++) {
        const struct vp_op *op = &graph->ops[at->first_op + i];
        uint64_t bit = UINT64_C(1) << i;

        all |= bit;
        if (leaves_block(graph, op))
            continue;
        inner |= bit;
        if (!vp_op_defs[op->kind].flops)
            light |= bit;
        if (op->kind == VP_OP_ATTENTION)
            attention |= bit;
        if (vp_op_has_dz(op))
            activation |= bit;
    }
    add_candidate(&out, light);
    if (attention)
        add_candidate(&out, light | attention);
    if (activation)
        add_candidate(&out, light | attention | activation);
    add_candidate(&out, inner);
    add_candidate(&out, all);
    return out.n;
}

/* ---- Files of profiles -------------------------------------------------- */

void vp_profile_name(const struct vp_device_profile *profile,
                     const struct vp_block_key *keys, int n_keys,
                     char out[VP_PROFILE_NAME])
{
    uint8_t digest[VP_SHA256_BYTES];
    struct vp_sha256 hash;
    int64_t numbers[] = { profile->precision, profile->batch, n_keys };

    vp_sha256_init(&hash);
    vp_sha256_update(&hash, profile->facts.device,
                     strlen(profile->facts.device));
    vp_sha256_update(&hash, numbers, sizeof(numbers));
    vp_sha256_update(&hash, keys, (size_t)n_keys * sizeof(*keys));
    vp_sha256_final(&hash, digest);
    for (int i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)digest[i]);
    snprintf(out + 32, VP_PROFILE_NAME - 32, ".json");
}

static bool differs(const char *a, const char *b)
{
    return a && b && a[0] && b[0] && strcmp(a, b) != 0;
}

const char *vp_profile_stale(const struct vp_device_profile *profile,
                             const struct vp_profile_facts *today)
{
    const struct vp_profile_facts *then = &profile->facts;
    const struct {
        const char *name, *then, *now;
    } facts[] = {
        { "device", then->device, today->device },
        { "driver", then->driver, today->driver },
        { "clocks", then->clocks, today->clocks },
        { "build", then->build, today->build },
        { "libraries", then->libraries, today->libraries },
    };

    for (size_t i = 0; i < VP_COUNT_OF(facts); i++)
        if (differs(facts[i].then, facts[i].now))
            return facts[i].name;
    return NULL;
}
