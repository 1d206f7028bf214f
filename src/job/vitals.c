/* Reads the vitals of this process and detects progress from them. */
#include "job/vitals.h"

#include "base/blocking.h"
#include "base/cores.h"

#include <stdio.h>

enum {
    LONG_CALL_MS = 500, /* file operations from this length on are reported */
    PROGRESS_MS = 1000, /* core time that counts as progress: more than the
                           heartbeat itself uses */
};

static int64_t ms_in(const struct vp_blocking *call, int64_t now_ns,
                     int64_t resumed_ns)
{
    int64_t since = call->since_ns > resumed_ns ? call->since_ns : resumed_ns;

    /* 0 means that there is no such operation. */
    return now_ns > since ? (now_ns - since) / 1000000 + 1 : 1;
}

struct vp_vitals vp_vitals_read(int64_t now_ns, int64_t resumed_ns)
{
    struct vp_cores cores = vp_cores_read();
    struct vp_vitals out = { .n_calls = vp_blocking_count(),
                             .ran_ms = cores.ran_ns / 1000000,
                             .delayed_ms = cores.delayed_ns / 1000000 };
    char about[VP_JOB_PHASE_BYTES];
    struct vp_blocking call;

    vp_job_phase_get(about);
    snprintf(out.text, sizeof(out.text), "%s", about);
    if (vp_blocking_longest(VP_BLOCKING_PEERS, &call))
        out.wait_ms = ms_in(&call, now_ns, resumed_ns);
    if (vp_blocking_longest(VP_BLOCKING_FILE, &call))
        out.call_ms = ms_in(&call, now_ns, resumed_ns);
    if (out.call_ms >= LONG_CALL_MS)
        snprintf(out.text, sizeof(out.text), "%s", call.text);
    return out;
}

void vp_pace_note(struct vp_pace *pace, enum vp_job_phase phase,
                  const struct vp_vitals *vitals, int64_t now_ns)
{
    if (pace->phase == phase && pace->n_calls == vitals->n_calls &&
        vitals->wait_ms == 0 && vitals->ran_ms - pace->ran_ms < PROGRESS_MS)
        return;
    *pace = (struct vp_pace){ .phase = phase,
                              .n_calls = vitals->n_calls,
                              .ran_ms = vitals->ran_ms,
                              .moved_ns = now_ns };
}

void vp_vitals_add(struct vp_strbuf *out, enum vp_job_phase phase,
                   const struct vp_vitals *vitals)
{
    vp_strbuf_addf(out, "%s", vp_job_phase_phrase(phase));
    if (vitals->text[0])
        vp_strbuf_addf(out, ", %s", vitals->text);
    if (vitals->call_ms >= LONG_CALL_MS)
        vp_strbuf_addf(out, " for %.1f s", (double)vitals->call_ms * 1e-3);
    else if (vitals->wait_ms > 0)
        vp_strbuf_addf(out, ", waits for other ranks for %.1f s",
                       (double)vitals->wait_ms * 1e-3);
}
