#include "lib/comparelib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const char small_text[] = "model_type: gpt2\nvocab: 64\nhidden: 32\n"
                          "layers: 2\nheads: 2\npositions: 16\n"
                          "seq_length: 16\nbatch_size: 4\ndropout: 0.0\n"
                          "tie_embeddings: false\ntotal_steps: 12\n"
                          "threads_per_stage: 1\nseed: 3\n";

void load_small(struct vp_config *out, const char *name, const char *more)
{
    struct vp_err err = { .text = "" };
    char text[1024];

    snprintf(text, sizeof(text), "%s%s", small_text, more);
    if (vp_config_parse(name, text, strlen(text), NULL, 0, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

char notices[4096];

void keep_notice(void *ctx, const char *line)
{
    size_t used = strlen(notices);

    (void)ctx;
    snprintf(notices + used, sizeof(notices) - used, "%s\n", line);
}
