/* libFuzzer target: reads any bytes as a plan file and as a placement. Each is
 * refused with a remedy, or all values are in their ranges. */
#include "base/json.h"
#include "config/placement.h"
#include "config/plan_file.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef enum vp_status (*take_fn)(const char *path,
                                  const struct vp_yaml_node *root,
                                  const char *via, struct vp_config *config,
                                  struct vp_err *err);

static bool in_range(const struct vp_int_list *list, int min, int max)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i] < min || list->at[i] > max)
            return false;
    return true;
}

static void check(const struct vp_config *config)
{
    VP_BUG_ON(!in_range(&config->partition, 1, 100000));
    VP_BUG_ON(!in_range(&config->replicas, 1, 1024));
    VP_BUG_ON(!in_range(&config->ranks, 0, config->ranks.n - 1));
    VP_BUG_ON(!in_range(&config->warmup_depths, 0, 1000));
    for (int i = 0; i < config->recompute_ratio.n; i++)
        VP_BUG_ON(!(config->recompute_ratio.at[i] >= 0.0 &&
                    config->recompute_ratio.at[i] <= 1.0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const take_fn take[] = { vp_plan_file_take, vp_placement_take };

    for (size_t i = 0; i < VP_COUNT_OF(take); i++) {
        struct vp_config config = { .mp_size = 1 };
        struct vp_err err = { .text = "" };
        const struct vp_yaml_node *root;
        enum vp_status st = vp_json_parse("fuzz.json", (const char *)data, size,
                                          &config.arena, &root, &err);

        if (st == VP_OK)
            st = take[i]("fuzz.json", root, "fuzz.yml:1", &config, &err);
        if (st == VP_OK)
            check(&config);
        else
            VP_BUG_ON(!strstr(err.text, "; "));
        vp_config_release(&config);
    }
    return 0;
}
