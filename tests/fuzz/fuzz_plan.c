/* libFuzzer target: reads any bytes as a plan. An accepted plan is printed as
 * text that parses to the same plan. */
#include "plan/plan_json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print(const struct vp_plan *plan, char **text_out)
{
    int64_t n_blocks = 0;

    for (int s = 0; s < vp_plan_n_stages(plan); s++)
        n_blocks += plan->partition[s];
    VP_BUG_ON(n_blocks < 1);
    VP_BUG_ON(vp_plan_print(plan, (int)n_blocks, NULL, text_out) != VP_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vp_arena arena = { NULL };
    struct vp_err err = { .text = "" };
    struct vp_plan plan, again;
    char *first, *second;

    if (vp_plan_parse((const char *)data, size, "fuzz.json", &arena, &plan,
                      &err) != VP_OK) {
        VP_BUG_ON(!strstr(err.text, "; "));
    } else if (plan.partition) {
        print(&plan, &first);
        VP_BUG_ON(vp_plan_parse(first, strlen(first), "first", &arena, &again,
                                &err) != VP_OK);
        print(&again, &second);
        VP_BUG_ON(strcmp(first, second) != 0);
        free(first);
        free(second);
    }
    vp_arena_release(&arena);
    return 0;
}
