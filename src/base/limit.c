/* Job clocks and the time limits that they measure. */
#include "base/limit.h"

#include "base/clock.h"

#define TICK_NS (2 * VP_HEARTBEAT_MS * INT64_C(1000000))

bool vp_job_clock_tick(struct vp_job_clock *clock, int64_t now_ns)
{
    int64_t passed = clock->seen_ns ? now_ns - clock->seen_ns : 0;

    clock->seen_ns = now_ns;
    clock->ns += passed < TICK_NS ? passed : TICK_NS;
    if (passed <= VP_GAP_NS)
        return false;
    clock->resumed_ns = now_ns;
    return true;
}

struct vp_limit vp_limit_ms(int64_t ms)
{
    return (struct vp_limit){
        .length_ns = ms < INT64_MAX / 1000000 ? ms * 1000000 : INT64_MAX,
        .clock = { .seen_ns = vp_clock_ns() },
    };
}

void vp_limit_restart(struct vp_limit *limit)
{
    vp_job_clock_tick(&limit->clock, vp_clock_ns());
    limit->clock.ns = 0;
}

bool vp_limit_is_over_at(struct vp_limit *limit, int64_t now_ns)
{
    if (vp_job_clock_tick(&limit->clock, now_ns))
        limit->clock.ns = 0;
    return limit->clock.ns >= limit->length_ns;
}

bool vp_limit_is_over(struct vp_limit *limit)
{
    return vp_limit_is_over_at(limit, vp_clock_ns());
}

int64_t vp_limit_left_ns(const struct vp_limit *limit)
{
    int64_t left = limit->length_ns - limit->clock.ns;

    return left > 0 ? left : 0;
}

struct timespec vp_limit_next_look(const struct vp_limit *limit)
{
    int64_t left_ms = vp_limit_left_ns(limit) / 1000000 + 1;

    return vp_clock_after(
        (int)(left_ms < VP_HEARTBEAT_MS / 2 ? left_ms : VP_HEARTBEAT_MS / 2));
}

int vp_limit_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc != 0)
        return rc;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}
