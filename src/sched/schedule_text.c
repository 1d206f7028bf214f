/* Prints schedules as text, and the table of keys of their first line. */
#include "sched/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Actions ------------------------------------------------------------ */

const char *vp_action_kind_name(enum vp_action_kind kind)
{
    static const char *const names[] = {
        [VP_ACTION_F] = "F",
        [VP_ACTION_R] = "R",
        [VP_ACTION_B] = "B",
        [VP_ACTION_W] = "W",
        [VP_ACTION_SEND_ACT] = "SEND_ACT",
        [VP_ACTION_RECV_ACT] = "RECV_ACT",
        [VP_ACTION_SEND_GRAD] = "SEND_GRAD",
        [VP_ACTION_RECV_GRAD] = "RECV_GRAD",
        [VP_ACTION_REDUCE] = "REDUCE",
        [VP_ACTION_UPDATE] = "UPDATE",
        [VP_ACTION_SWAP_OUT] = "SWAP_OUT",
        [VP_ACTION_SWAP_FREE] = "SWAP_FREE",
        [VP_ACTION_SWAP_IN] = "SWAP_IN",
        [VP_ACTION_SWAP_READY] = "SWAP_READY",
    };

    return (size_t)kind < VP_COUNT_OF(names) ? names[kind] : "?";
}

int vp_action_print(const struct vp_action *action, char *text, size_t n_bytes)
{
    return snprintf(text, n_bytes, "%d%s%d", action->stage,
                    vp_action_kind_name(action->kind), action->mb);
}

/* ---- Schedules ---------------------------------------------------------- */

static bool is_message(enum vp_action_kind kind)
{
    return kind == VP_ACTION_SEND_ACT || kind == VP_ACTION_RECV_ACT ||
           kind == VP_ACTION_SEND_GRAD || kind == VP_ACTION_RECV_GRAD;
}

static void add_action(struct vp_strbuf *text,
                       const struct vp_schedule *schedule,
                       const struct vp_action *a, bool full)
{
    struct vp_action plain = *a;
    char name[48];

    plain.slot = plain.version = -1;
    vp_action_complete(schedule, &plain);
    vp_action_print(a, name, sizeof(name));
    vp_strbuf_addf(text, " %s", name);
    if (a->slot >= 0 && (full || a->slot != plain.slot))
        vp_strbuf_addf(text, "@%d", a->slot);
    if (a->version >= 0 && (full || a->version != plain.version))
        vp_strbuf_addf(text, "v%d", a->version);
}

enum { MAX_STAGES = 4096, MAX_SIZE = 1 << 20, MAX_NUMBER = 1 << 29 };

#define ALL(field, least, most) \
    offsetof(struct vp_schedule, field), false, false, least, most
#define FLAG(field) offsetof(struct vp_schedule, field), true, false, 0, 1
#define STAGE(field, least, most) \
    offsetof(struct vp_schedule_stage, field), false, true, least, most
#define STAGE_FLAG(field) \
    offsetof(struct vp_schedule_stage, field), true, true, 0, 1

const struct vp_schedule_key vp_schedule_keys[VP_TEXT_KEY_COUNT] = {
    [VP_TEXT_KEY_STAGES] = { "stages", ALL(n_stages, 1, MAX_STAGES) },
    [VP_TEXT_KEY_MINIBATCHES] = { "minibatches", ALL(n_mb, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_BEGIN] = { "begin", ALL(segment_begin, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_END] = { "end", ALL(segment_end, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_FIRST] = { "first", ALL(first_mb, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_DRAIN] = { "drain", FLAG(drain) },
    [VP_TEXT_KEY_SPLIT] = { "split", FLAG(split) },
    [VP_TEXT_KEY_FORWARD_ONLY] = { "forward_only", FLAG(forward_only) },
    [VP_TEXT_KEY_GLOBAL_NORM] = { "global_norm", FLAG(global_norm) },
    [VP_TEXT_KEY_RANK] = { "rank", STAGE(first_rank, 0, MAX_STAGES - 1) },
    [VP_TEXT_KEY_REPLICAS] = { "replicas", STAGE(n_replicas, 1, MAX_STAGES) },
    [VP_TEXT_KEY_DEPTH] = { "depth", STAGE(depth, 0, MAX_SIZE) },
    [VP_TEXT_KEY_RECOMPUTE] = { "recompute", STAGE_FLAG(recompute) },
    [VP_TEXT_KEY_SLOTS] = { "slots", STAGE(n_slots, 1, MAX_SIZE) },
    [VP_TEXT_KEY_ACT] = { "act", STAGE(n_act_bufs, 0, MAX_SIZE) },
    [VP_TEXT_KEY_GRAD] = { "grad", STAGE(n_grad_bufs, 0, MAX_SIZE) },
    [VP_TEXT_KEY_VERSIONS] = { "versions", STAGE(n_versions, 1, MAX_SIZE) },
    [VP_TEXT_KEY_EVERY] = { "every", STAGE(update_every, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_LAG] = { "lag", STAGE(version_lag, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_BASE] = { "base", STAGE(version_begin, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_PAST] = { "past", STAGE(version_past, 0, MAX_NUMBER) },
    [VP_TEXT_KEY_RECOMPUTED] = { "recomputed", STAGE(n_recomputed, 0, MAX_SIZE),
                                 .rare = true, .usual = 1 },
    [VP_TEXT_KEY_W_RECOMPUTED] = { "w_recomputed", STAGE_FLAG(w_recomputed),
                                   .rare = true },
    [VP_TEXT_KEY_SWAP_OUT] = { "swap_out", STAGE(n_swap_out, 0, MAX_SIZE),
                               .rare = true },
    [VP_TEXT_KEY_SWAP_IN] = { "swap_in", STAGE(n_swap_in, 0, MAX_SIZE),
                              .rare = true },
};

static int get(const struct vp_schedule_key *key, const void *from)
{
    const char *at = (const char *)from + key->offset;

    return key->is_bool ? *(const bool *)at : *(const int *)at;
}

/* Writes one value if all stages agree, otherwise "3,2,1". */
static void add_stage_key(struct vp_strbuf *text,
                          const struct vp_schedule *schedule,
                          const struct vp_schedule_key *key)
{
    int n = 1;

    for (int s = 1; s < schedule->n_stages; s++)
        if (get(key, &schedule->stages[s]) != get(key, &schedule->stages[0]))
            n = schedule->n_stages;
    for (int s = 0; s < n; s++)
        vp_strbuf_addf(text, "%s%d", s > 0 ? "," : "",
                       get(key, &schedule->stages[s]));
}

/* Returns true for a rare key whose values are all the usual ones: it is not
 * printed. */
static bool is_left_out(const struct vp_schedule *schedule,
                        const struct vp_schedule_key *key)
{
    bool usual = key->rare;

    for (int s = 0; usual && s < schedule->n_stages; s++)
        usual = get(key, &schedule->stages[s]) <= key->usual;
    return usual;
}

static void add_header(struct vp_strbuf *text,
                       const struct vp_schedule *schedule)
{
    vp_strbuf_addf(text, "schedule=%s", schedule->name);
    for (int i = 0; i < VP_TEXT_KEY_COUNT; i++) {
        const struct vp_schedule_key *key = &vp_schedule_keys[i];

        if (is_left_out(schedule, key))
            continue;
        vp_strbuf_addf(text, " %s=", key->name);
        if (key->per_stage)
            add_stage_key(text, schedule, key);
        else
            vp_strbuf_addf(text, "%d", get(key, schedule));
    }
    vp_strbuf_addf(text, "\n");
}

enum vp_status vp_schedule_print(const struct vp_schedule *schedule, int flags,
                                 char **text_out)
{
    struct vp_strbuf text = VP_STRBUF_INIT;

    if (!(flags & VP_PRINT_COMPUTE))
        add_header(&text, schedule);
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];

        vp_strbuf_addf(&text, "%d:", rank);
        for (int i = 0; i < list->n_actions; i++)
            if (!(flags & VP_PRINT_COMPUTE) ||
                !is_message(list->actions[i].kind))
                add_action(&text, schedule, &list->actions[i],
                           (flags & VP_PRINT_FULL) != 0);
        vp_strbuf_addf(&text, "\n");
    }
    return vp_strbuf_detach(&text, text_out);
}
