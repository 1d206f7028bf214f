#include "lib/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void scenario_happen(struct vp_roster *roster, const struct job_event *event)
{
    int64_t now = (int64_t)(event->at * 1e9);
    struct vp_message message;

    if (strcmp(event->line, LOST) == 0) {
        vp_roster_lose(roster, event->rank, now);
    } else if (strcmp(event->line, READY) == 0) {
        roster->ranks[event->rank].is_ready = true;
    } else if (strcmp(event->line, FROZEN) == 0) {
        vp_roster_restart(roster, now);
    } else if (strcmp(event->line, CUT_OFF) == 0) {
        roster->ranks[event->rank].cut_off = true;
    } else {
        assert_true(vp_message_parse(event->line, &message));
        vp_roster_hear(roster, event->rank, &message, now);
    }
}

void scenario_arrive(struct vp_roster *roster, const struct scenario *scenario)
{
    for (int r = 0; r < scenario->n_ranks; r++) {
        struct vp_message message = { .kind = VP_MESSAGE_HELLO };

        if (scenario->hosts[r] == '-')
            continue;
        message.hello = (struct vp_hello){ .rank = r,
                                           .pid = 100 + r,
                                           .host = { scenario->hosts[r] } };
        vp_roster_hear(roster, r, &message, SECOND / 10);
    }
}
