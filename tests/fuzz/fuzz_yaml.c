/* libFuzzer target: reads any bytes as a configuration. It is refused with one
 * printable line, or its explanation is itself an accepted configuration. */
#include "base/yaml.h"
#include "config/config.h"
#include "config/load.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_explained(const struct vp_config *config)
{
    struct vp_config again;
    struct vp_err err = { .text = "" };
    char *text;

    VP_BUG_ON(vp_config_explain(config, &text, &err) != VP_OK);
    VP_BUG_ON(vp_config_parse("again.yml", text, strlen(text), NULL, 0, &again,
                              &err) != VP_OK);
    VP_BUG_ON(again.stages != config->stages);
    vp_config_release(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vp_config config;
    struct vp_err err = { .text = "" };

    if (vp_config_parse("fuzz.yml", (const char *)data, size, NULL, 0, &config,
                        &err) == VP_OK)
        check_explained(&config);
    else
        VP_BUG_ON(!strstr(err.text, "; ") || !vp_yaml_printable(err.text));
    vp_config_release(&config);
    return 0;
}
