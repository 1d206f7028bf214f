/* libFuzzer target: reads any bytes as the manifest of a checkpoint with a
 * valid checksum. Its content is refused with one line, or describes a possible
 * state of a run. */
#include "ckpt/manifest.h"
#include "run/checkpoint_facts.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Declared here because only src/ckpt may include the header of libxxhash. */
uint64_t XXH3_64bits(const void *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_BLOCKS = 3, TAIL_BYTES = 64 };

static void check_progress(const struct vp_manifest *manifest)
{
    struct vp_progress progress = { .step = manifest->step };
    struct vp_block_state blocks[N_BLOCKS];
    struct vp_err err = { .text = "" };

    if (vp_checkpoint_facts_progress(manifest->facts, "fuzz", N_BLOCKS,
                                     &progress, blocks, &err) != VP_OK) {
        VP_BUG_ON(!strstr(err.text, "; ") || strchr(err.text, '\n'));
        return;
    }
    VP_BUG_ON(progress.minibatch < manifest->step);
    for (int b = 0; b < N_BLOCKS; b++)
        VP_BUG_ON(blocks[b].past < 0 || blocks[b].past > blocks[b].updates ||
                  blocks[b].updates > manifest->step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + TAIL_BYTES);
    struct vp_manifest manifest;
    struct vp_err err = { .text = "" };
    size_t n = size;

    VP_BUG_ON(!text);
    memcpy(text, data, size);
    n += (size_t)snprintf(text + size, TAIL_BYTES,
                          ",\n  \"checksum\": \"%016llx\"\n}\n",
                          (unsigned long long)XXH3_64bits(data, size));
    if (vp_manifest_parse(text, n, &manifest, &err) == VP_OK) {
        check_progress(&manifest);
        vp_manifest_release(&manifest);
    } else {
        VP_BUG_ON(!err.text[0] || strchr(err.text, '\n'));
    }
    free(text);
    return 0;
}
