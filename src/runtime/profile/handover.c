/* Times messages between two threads of a process. */
#include "runtime/profile/handover.h"

#include "base/clock.h"
#include "comm/comm.h"
#include "runtime/profile/median.h"

#include <pthread.h>

/* The sender computes for this time before each message, so that the receiver
 * really waits: a sleeping thread notices later than one that still polls. */
enum { N_MESSAGES = 48, COMPUTE_NS = 500000 };

struct pair {
    struct vp_world *world;
    struct vp_channel *channel;
    double seconds[N_MESSAGES];
    enum vp_status status; /* status of the receiver */
};

static void *receive(void *arg)
{
    struct pair *pair = arg;
    void *buffer;

    for (int j = 0; j < N_MESSAGES && pair->status == VP_OK; j++) {
        pair->status = vp_channel_wait(pair->channel, (uint64_t)j,
                                       VP_LIMIT_NEVER, &buffer);
        if (pair->status != VP_OK)
            break;
        pair->seconds[j] = vp_clock_seconds(*(int64_t *)buffer, vp_clock_ns());
        vp_channel_release(pair->channel, (uint64_t)j);
    }
    return NULL;
}

static enum vp_status send_all(struct pair *pair)
{
    for (int j = 0; j < N_MESSAGES; j++) {
        int64_t until = vp_clock_ns() + COMPUTE_NS;
        void *buffer;

        VP_TRY(vp_channel_acquire(pair->channel, (uint64_t)j, VP_LIMIT_NEVER,
                                  &buffer));
        while (vp_clock_ns() < until)
            ;
        *(int64_t *)buffer = vp_clock_ns();
        vp_channel_post(pair->channel, (uint64_t)j, 0);
    }
    return VP_OK;
}

static enum vp_status measure(struct pair *pair)
{
    pthread_t receiver;
    enum vp_status st;

    if (pthread_create(&receiver, NULL, receive, pair) != 0)
        return VP_ERR_NOMEM;
    st = send_all(pair);
    if (st != VP_OK)
        vp_world_abort(pair->world, st, NULL);
    pthread_join(receiver, NULL);
    return st != VP_OK ? st : pair->status;
}

enum vp_status vp_handover_measure(double *seconds_out)
{
    static const int sender = 0;
    int64_t sent_ns[2];
    struct pair pair = { .status = VP_OK };
    struct vp_buffer buffers[2];
    struct vp_link link = { .receiver = 1,
                            .senders = &sender,
                            .n_senders = 1,
                            .n_buffers = 2,
                            .buffers = buffers };
    enum vp_status st;

    for (int i = 0; i < 2; i++)
        buffers[i] = (struct vp_buffer){ .self = &sent_ns[i],
                                         .head = &sent_ns[i],
                                         .n_head = sizeof(sent_ns[i]) };
    VP_TRY(vp_world_create(2, &pair.world));
    st = vp_channel_create(pair.world, &link, &pair.channel);
    if (st == VP_OK)
        st = measure(&pair);
    vp_world_free(pair.world);
    if (st == VP_OK)
        *seconds_out = vp_median(pair.seconds, N_MESSAGES);
    return st;
}
