#include "runtime/rank/box.h"

/* An action in one word, so that nobody reads half of it: 32 bits minibatch,
 * 12 peer + 1, 8 stage, 8 kind + 1, 1 evaluation. */
enum { PEER_AT = 32, STAGE_AT = 44, KIND_AT = 52, EVAL_AT = 60 };

static uint64_t pack(const struct vp_action *action, int32_t mb, bool eval)
{
    return (uint64_t)(uint32_t)mb | (uint64_t)(action->peer + 1) << PEER_AT |
           (uint64_t)action->stage << STAGE_AT |
           (uint64_t)(action->kind + 1) << KIND_AT | (uint64_t)eval << EVAL_AT;
}

static struct vp_action unpack(uint64_t word)
{
    return (struct vp_action){
        .kind = (enum vp_action_kind)((word >> KIND_AT & 0xFF) - 1),
        .stage = (int)(word >> STAGE_AT & 0xFF),
        .mb = (int)(uint32_t)word,
        .peer = (int)(word >> PEER_AT & 0xFFF) - 1,
        .slot = -1,
        .version = -1,
        .msg = -1,
    };
}

static bool is_action(uint64_t word)
{
    uint64_t kind = word >> KIND_AT & 0xFF;

    return kind > 0 && kind <= VP_ACTION_KIND_COUNT;
}

void vp_box_begin(struct vp_box *box, const struct vp_action *action,
                  int32_t mb, bool eval, int64_t now_ns)
{
    atomic_store_explicit(&box->since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&box->doing, pack(action, mb, eval),
                          memory_order_release);
}

void vp_box_end(struct vp_box *box)
{
    long long n = atomic_load_explicit(&box->n_actions, memory_order_relaxed);
    uint64_t word = atomic_load_explicit(&box->doing, memory_order_relaxed);

    atomic_store_explicit(&box->last[n % VP_BOX_LAST], word,
                          memory_order_relaxed);
    atomic_store_explicit(&box->n_actions, n + 1, memory_order_release);
}

void vp_box_rest(struct vp_box *box)
{
    atomic_store_explicit(&box->doing, 0, memory_order_release);
}

struct vp_doing vp_box_read(const struct vp_box *box)
{
    uint64_t word = atomic_load_explicit(&box->doing, memory_order_acquire);
    struct vp_doing out = {
        .idle = !is_action(word),
        .since_ns = atomic_load(&box->since_ns),
        .waits_ns = atomic_load(&box->waits_ns),
        .n_actions = atomic_load(&box->n_actions),
    };

    if (out.idle)
        return out;
    out.action = unpack(word);
    out.eval = word >> EVAL_AT & 1;
    return out;
}

bool vp_box_last(const struct vp_box *box, int64_t i, struct vp_action *out)
{
    int64_t n = atomic_load(&box->n_actions);
    uint64_t word;

    if (i < 0 || i >= n || i < n - VP_BOX_LAST)
        return false;
    word = atomic_load(&box->last[i % VP_BOX_LAST]);
    if (!is_action(word))
        return false;
    *out = unpack(word);
    return true;
}
