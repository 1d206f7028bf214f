/* What happens to the ranks of a job, as a list of events that a roster hears
 * of. */
#ifndef VP_TESTS_LIB_SCENARIO_H
#define VP_TESTS_LIB_SCENARIO_H

#include "job/diagnosis.h"

#define SECOND INT64_C(1000000000)

/* Something that happens to a rank: a line that it sends, or LOST. */
#define LOST "lost"

#define CUT_OFF "cut off" /* its host takes nothing */

#define FROZEN "frozen" /* the supervisor was, until now */

#define READY "ready" /* it is silent, and waits for a core */

struct job_event {
    double at;
    int rank;
    const char *line;
};

enum { MOST_EVENTS = 32 };

struct scenario {
    const char *name;
    int n_ranks;
    const char *hosts; /* a letter for each rank; '-': it never came */
    bool by_hand;
    struct job_event events[MOST_EVENTS];
    double judged;
    enum vp_outcome outcome;
    enum vp_cause cause;
    int rank;
    const char *host;
    int signal;
    const char *says; /* the first line */
};

#define RUNS "beat train 0 40 F 1 9 2 0 20 0"

void scenario_happen(struct vp_roster *roster, const struct job_event *event);

void scenario_arrive(struct vp_roster *roster, const struct scenario *scenario);

#endif
