/* Packs actions into words that can be written and read atomically. */
#include "runtime/rank/blackbox.h"

/* An action in one word, so that a reader never sees half of one: 32 bits
 * minibatch, 12 bits peer + 1, 8 bits stage, 8 bits kind + 1, 1 bit
 * evaluation. */
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

void vp_blackbox_begin(struct vp_blackbox *blackbox,
                       const struct vp_action *action, int32_t mb, bool eval,
                       int64_t now_ns)
{
    atomic_store_explicit(&blackbox->since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&blackbox->doing, pack(action, mb, eval),
                          memory_order_release);
}

int vp_blackbox_set_peer(struct vp_blackbox *blackbox, int peer)
{
    const uint64_t mask = (uint64_t)0xFFF << PEER_AT;
    uint64_t word = atomic_load_explicit(&blackbox->doing,
                                         memory_order_relaxed);

    if (is_action(word))
        atomic_store_explicit(&blackbox->doing,
                              (word & ~mask) |
                                  ((uint64_t)(peer + 1) << PEER_AT & mask),
                              memory_order_release);
    return (int)((word & mask) >> PEER_AT) - 1;
}

void vp_blackbox_end(struct vp_blackbox *blackbox)
{
    long long n = atomic_load_explicit(&blackbox->n_actions,
                                       memory_order_relaxed);
    uint64_t word = atomic_load_explicit(&blackbox->doing,
                                         memory_order_relaxed);

    atomic_store_explicit(&blackbox->last[n % VP_BLACKBOX_LAST], word,
                          memory_order_relaxed);
    atomic_store_explicit(&blackbox->n_actions, n + 1, memory_order_release);
}

void vp_blackbox_rest(struct vp_blackbox *blackbox)
{
    atomic_store_explicit(&blackbox->doing, 0, memory_order_release);
}

struct vp_doing vp_blackbox_read(const struct vp_blackbox *blackbox)
{
    uint64_t word = atomic_load_explicit(&blackbox->doing,
                                         memory_order_acquire);
    struct vp_doing out = {
        .idle = !is_action(word),
        .since_ns = atomic_load(&blackbox->since_ns),
        .waits_ns = atomic_load(&blackbox->waits_ns),
        .n_actions = atomic_load(&blackbox->n_actions),
    };

    if (out.idle)
        return out;
    out.action = unpack(word);
    out.eval = word >> EVAL_AT & 1;
    return out;
}

bool vp_blackbox_last(const struct vp_blackbox *blackbox, int64_t i,
                      struct vp_action *out)
{
    int64_t n = atomic_load(&blackbox->n_actions);
    uint64_t word;

    if (i < 0 || i >= n || i < n - VP_BLACKBOX_LAST)
        return false;
    word = atomic_load(&blackbox->last[i % VP_BLACKBOX_LAST]);
    if (!is_action(word))
        return false;
    *out = unpack(word);
    return true;
}
