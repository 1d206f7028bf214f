/* Finds out if --set decides the plan of a run. */
#include "config/load.h"
#include "config/planned_keys.h"

#include <string.h>

bool vp_config_sets_plan(const struct vp_config *config)
{
    for (int i = 0; vp_planned_keys[i]; i++)
        if (strcmp(vp_config_place(config, vp_planned_keys[i]), "--set") == 0)
            return true;
    return false;
}
