#include "lib/modellib.h"

#include <stdio.h>
#include <stdlib.h>

const char *golden(const char *name)
{
    static char path[8][512];
    static int turn;
    const char *files = getenv("VP_TEST_FILES");

    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof(path[turn]), "%s/tests/golden/%s",
             files ? files : VP_SOURCE_DIR, name);
    return path[turn];
}

void ignore(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

void open_model(const char *path, const char *const *sets, struct model *out)
{
    struct vp_err err = { .text = "" };
    int n = 0;

    while (sets && sets[n])
        n++;
    if (vp_model_source_open(path, NULL, NULL, &out->source, &err) != VP_OK ||
        vp_model_source_config(out->source, sets, n, &out->config, &err) !=
            VP_OK)
        fail_msg("%s", err.text);
}

void close_model(struct model *model)
{
    vp_config_release(&model->config);
    vp_model_source_close(model->source);
}
