/* Moves swapped values to the host and back. Four orders are kept, each by one
 * line below:
 *
 *   F before its copy out     the copy out before the next F of its buffer
 *   a buffer's last reader before the next copy into it
 *   the copy in before R, B and W
 *
 * The copy in follows the copy out because SWAP_FREE comes before SWAP_IN. */
#include "runtime/stage/stage.h"

/* Returns the maximum number of bytes that a minibatch swaps. */
static int64_t most_bytes(const struct vp_stage *stage)
{
    return stage->plan.sizes.n_bytes[VP_SPACE_SWAPPED];
}

static size_t bytes_of(const struct vp_stage *stage, const struct vp_slot *slot)
{
    return (size_t)vp_stage_program(stage, slot)->n_bytes[VP_SPACE_SWAPPED];
}

static void *ring_at(void *const *ring, int n, int own)
{
    return n > 0 ? ring[own % n] : NULL;
}

void vp_stage_take_buffers(const struct vp_stage *stage, struct vp_slot *slot,
                           int own)
{
    const struct vp_stage_shape *shape = &stage->plan.shape;

    slot->recomputed = ring_at(stage->recomputed, shape->n_recomputed, own);
    slot->swap_out = ring_at(stage->swap_out, shape->n_swap_out, own);
    slot->swap_in = ring_at(stage->swap_in, shape->n_swap_in, own);
}

enum vp_status vp_stage_swap_allocate(struct vp_stage *stage)
{
    int n_slots = stage->plan.shape.n_slots;

    if (most_bytes(stage) == 0)
        return VP_OK;
    VP_TRY(vp_device_host_alloc(stage->device,
                                (size_t)(n_slots * most_bytes(stage)),
                                &stage->swap_host));
    for (int i = 0; i < n_slots; i++) {
        struct vp_slot *slot = &stage->slots[i];

        slot->swap_host = (char *)stage->swap_host + i * most_bytes(stage);
        VP_TRY(vp_copy_init(stage->device, &slot->left));
        VP_TRY(vp_copy_init(stage->device, &slot->back));
    }
    for (int i = 0; i < 2; i++) {
        VP_TRY(vp_copier_create(stage->device, &stage->copier[i]));
        if (stage->config.swap_delay_us > 0)
            vp_copier_disturb(stage->copier[i], stage->config.swap_delay_us,
                              i == 0);
    }
    return VP_OK;
}

void vp_stage_swap_release(struct vp_stage *stage)
{
    for (int i = 0; i < 2; i++)
        vp_copier_free(stage->copier[i]);
    for (int i = 0; stage->swap_host && i < stage->plan.shape.n_slots; i++) {
        vp_copy_release(&stage->slots[i].left);
        vp_copy_release(&stage->slots[i].back);
    }
    vp_device_host_free(stage->device, stage->swap_host);
    stage->swap_host = NULL;
}

enum vp_status vp_stage_swap_out(struct vp_stage *stage, struct vp_slot *slot)
{
    struct vp_copier *out = stage->copier[0];

    if (!out)
        return VP_OK; /* the selected operators save nothing */
    VP_TRY(vp_copier_follow(out, stage->stream)); /* after F */
    return vp_copier_begin(out, &slot->left, slot->swap_host, slot->swap_out,
                           bytes_of(stage, slot));
}

enum vp_status vp_stage_swap_free(struct vp_stage *stage,
                                  const struct vp_slot *slot)
{
    return vp_copy_wait(&slot->left, stage->stream, stage->config.timeout_ms);
}

enum vp_status vp_stage_swap_in(struct vp_stage *stage, struct vp_slot *slot)
{
    struct vp_copier *in = stage->copier[1];

    if (!in)
        return VP_OK;
    VP_TRY(vp_copier_follow(in, stage->stream)); /* after the last reader */
    return vp_copier_begin(in, &slot->back, slot->swap_in, slot->swap_host,
                           bytes_of(stage, slot));
}

enum vp_status vp_stage_swap_ready(struct vp_stage *stage,
                                   const struct vp_slot *slot)
{
    return vp_copy_wait(&slot->back, stage->stream, stage->config.timeout_ms);
}
