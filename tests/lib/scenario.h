/* Scenarios for tests of diagnoses: a list of events of the ranks of a job,
 * which are reported to a roster. */
#ifndef VP_TESTS_LIB_SCENARIO_H
#define VP_TESTS_LIB_SCENARIO_H

#include "job/diagnosis.h"

#define SECOND INT64_C(1000000000)

/* Events besides lines that a rank sends. LOST: its connection has closed. */
#define LOST "lost"

#define CUT_OFF "cut off" /* its host cannot be reached */

#define FROZEN "frozen" /* the supervisor itself was stopped until now */

#define READY "ready" /* it sends nothing because it waits for a core */

struct job_event {
    double at;
    int rank;
    const char *line;
};

enum { MOST_EVENTS = 32 };

struct scenario {
    const char *name;
    int n_ranks;
    const char *hosts; /* a letter per rank; '-': the rank never came */
    bool by_hand;
    struct job_event events[MOST_EVENTS];
    double judged;
    enum vp_outcome outcome;
    enum vp_cause cause;
    int rank;
    const char *host;
    int signal;
    const char *says; /* first line of the message */
};

#define RUNS "beat train 0 40 F 1 9 2 0 20 0"

/* Reports an event to the roster. */
void scenario_happen(struct vp_roster *roster, const struct job_event *event);

/* Reports the arrival of all ranks of the scenario. */
void scenario_arrive(struct vp_roster *roster, const struct scenario *scenario);

#endif
