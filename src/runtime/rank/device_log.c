/* Records when an asynchronous device ran the actions of its rank. */
#include "runtime/rank/device_log.h"

#include "runtime/rank/internal.h"
#include "runtime/rank/watch_count.h"

#include <stdlib.h>

/* Maximum number of actions that a rank can be ahead of its device without
 * losing times. */
enum { MAX_AHEAD = 512 };

struct entry {
    struct vp_trace_event event;
    int64_t summed_ns; /* the part that adds gradients of replicas */
    double flops;
    bool timed; /* the device has work to do; false: a message */
    struct vp_event *begin, *end;
};

struct vp_device_log {
    /* Numbers of the first entry not yet recorded, and of the next one. */
    int64_t first, next;
    int64_t last_ns; /* end of the last recorded action; 0: there is none */
    /* Wait time of the rank at the start of the current action. */
    int64_t waited_ns;
    struct entry entries[MAX_AHEAD];
};

enum vp_status vp_device_log_create(struct vp_device *device,
                                    struct vp_device_log **out)
{
    struct vp_device_log *log;
    enum vp_status st = VP_OK;

    if (!vp_device_is_async(device))
        return VP_OK;
    log = calloc(1, sizeof(*log));
    if (!log)
        return VP_ERR_NOMEM;
    for (int i = 0; i < MAX_AHEAD && st == VP_OK; i++) {
        st = vp_event_create_timed(device, &log->entries[i].begin);
        if (st == VP_OK)
            st = vp_event_create_timed(device, &log->entries[i].end);
    }
    if (st != VP_OK) {
        vp_device_log_free(log);
        return st;
    }
    *out = log;
    return VP_OK;
}

void vp_device_log_free(struct vp_device_log *log)
{
    for (int i = 0; log && i < MAX_AHEAD; i++) {
        vp_event_free(log->entries[i].begin);
        vp_event_free(log->entries[i].end);
    }
    free(log);
}

static struct entry *entry_at(struct vp_device_log *log, int64_t i)
{
    return &log->entries[i % MAX_AHEAD];
}

static bool is_message(enum vp_action_kind kind)
{
    return kind == VP_ACTION_SEND_ACT || kind == VP_ACTION_RECV_ACT ||
           kind == VP_ACTION_SEND_GRAD || kind == VP_ACTION_RECV_GRAD;
}

/* Returns true for waits of the device for a copy of swapped values. */
static bool is_wait(enum vp_action_kind kind)
{
    return kind == VP_ACTION_SWAP_FREE || kind == VP_ACTION_SWAP_READY;
}

/* ---- Recording what the device has done --------------------------------- */

static int64_t within(int64_t ns, int64_t most)
{
    return ns < 0 ? 0 : ns < most ? ns : most;
}

/* A send takes no device time; a receive takes the time until `begin_ns`. */
static void record_message(struct vp_rank *rank, struct entry *entry,
                           int64_t begin_ns)
{
    struct vp_device_log *log = rank->device_log;
    struct vp_trace_event *event = &entry->event;
    bool receives = event->kind == VP_ACTION_RECV_ACT ||
                    event->kind == VP_ACTION_RECV_GRAD;

    event->start_ns = log->last_ns;
    event->end_ns = receives ? begin_ns : log->last_ns;
    event->wait_ns = event->end_ns - event->start_ns;
    if (receives)
        vp_watch_count_receive(rank, event);
    log->last_ns = event->end_ns;
    vp_recorder_add(rank->recorder, *event);
}

/* Stages of a rank may overlap on the device; the record shows one after the
 * other. */
static void record_action(struct vp_rank *rank, struct entry *entry,
                          int64_t begin_ns, int64_t end_ns)
{
    struct vp_device_log *log = rank->device_log;
    struct vp_trace_event *event = &entry->event;
    int64_t ns;

    event->start_ns = begin_ns;
    event->end_ns = end_ns > begin_ns ? end_ns : begin_ns;
    ns = event->end_ns - event->start_ns;
    event->wait_ns = is_wait(event->kind) ? ns : within(event->wait_ns, ns);
    vp_watch_count_work(rank, event,
                        within(entry->summed_ns, ns - event->wait_ns));
    rank->flops += entry->flops;
    log->last_ns = event->end_ns;
    vp_recorder_add(rank->recorder, *event);
}

/* Returns the number of the next entry with work for the device; log->next if
 * there is none. */
static int64_t next_timed(struct vp_device_log *log)
{
    int64_t i = log->first;

    while (i < log->next && !entry_at(log, i)->timed)
        i++;
    return i;
}

/* Records the next action and the messages before it. Returns false if the
 * device has not finished it. */
static bool record_next(struct vp_rank *rank)
{
    struct vp_device_log *log = rank->device_log;
    int64_t i = next_timed(log), begin_ns, end_ns, idle_ns;
    struct entry *entry = entry_at(log, i);

    if (i == log->next || !vp_event_time(entry->end, &end_ns) ||
        !vp_event_time(entry->begin, &begin_ns))
        return false;
    if (log->last_ns == 0)
        log->last_ns = begin_ns;
    begin_ns = begin_ns > log->last_ns ? begin_ns : log->last_ns;
    idle_ns = begin_ns - log->last_ns;
    for (; log->first < i; log->first++)
        record_message(rank, entry_at(log, log->first), begin_ns);
    record_action(rank, entry, begin_ns, end_ns);
    rank->wait_ns += idle_ns + entry->event.wait_ns;
    log->first++;
    return true;
}

/* ---- Calls of the rank -------------------------------------------------- */

void vp_device_log_begin(struct vp_rank *rank, const struct vp_action *action)
{
    struct vp_device_log *log = rank->device_log;

    if (!log || is_message(action->kind))
        return;
    log->waited_ns = rank->waited_ns;
    vp_event_record(entry_at(log, log->next)->begin,
                    stage_of(rank, action)->stage.stream);
}

void vp_device_log_end(struct vp_rank *rank, const struct vp_action *action,
                       const struct vp_trace_event *event)
{
    struct vp_device_log *log = rank->device_log;
    struct entry *entry = entry_at(log, log->next);

    entry->event = *event;
    entry->event.wait_ns = rank->waited_ns - log->waited_ns;
    entry->summed_ns = rank->summed_ns;
    entry->flops = rank->action_flops;
    entry->timed = !is_message(action->kind);
    if (entry->timed)
        vp_event_record(entry->end, stage_of(rank, action)->stage.stream);
    log->next++;
    while (record_next(rank))
        ;
    /* Drops the oldest entry in place of waiting: the record has a gap. */
    if (log->next - log->first == MAX_AHEAD)
        log->first++;
}

int64_t vp_device_log_catch_up(struct vp_rank *rank)
{
    if (!rank->device_log)
        return 0;
    while (record_next(rank))
        ;
    return rank->device_log->last_ns;
}

void vp_device_log_flush(struct vp_rank *rank)
{
    struct vp_device_log *log = rank->device_log;

    if (!log)
        return;
    while (record_next(rank))
        ;
    for (; log->first < log->next; log->first++)
        if (!entry_at(log, log->first)->timed && log->last_ns > 0)
            record_message(rank, entry_at(log, log->first), log->last_ns);
    log->last_ns = 0;
}
