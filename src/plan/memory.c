/* Memory of a stage as text. */
#include "plan/memory.h"

#include "base/memory.h"

#include <stdio.h>

void vp_memory_text(const struct vp_memory *m, char out[VP_MEMORY_TEXT])
{
    const struct {
        const char *name;
        int64_t n;
    } parts[] = {
        { "weights", m->weights }, { "gradients", m->gradients },
        { "moments", m->moments }, { "activations", m->activations },
        { "cache", m->cache },     { "boundary", m->boundary },
        { "work", m->work },
    };
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < VP_COUNT_OF(parts); i++) {
        char size[VP_BYTES_TEXT];

        if (parts[i].n == 0)
            continue;
        vp_bytes_text(parts[i].n, size, sizeof(size));
        snprintf(out + used, VP_MEMORY_TEXT - used, "%s%s %s",
                 used > 0 ? ", " : "", parts[i].name, size);
        used = strlen(out);
    }
}
