#include "lib/tensorlib.h"

#include "lib/pipelinelib.h"

const int members_of[] = { 2, 4 };

struct setup group_of(const char *model, int members)
{
    struct setup setup = usual;

    setup.model = model;
    setup.members = members;
    setup.threads = 1;
    setup.n_steps = 3;
    return setup;
}

void cut_evenly(struct setup *setup, int n_stages, int *partition)
{
    int n = n_blocks_of(setup), each = n / n_stages;

    for (int s = 0; s < n_stages; s++)
        partition[s] = s + 1 < n_stages ? each : n - each * (n_stages - 1);
    setup->n_stages = n_stages;
    setup->partition = partition;
}
