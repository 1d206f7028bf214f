/* Memory of a growing array of token ids. */
#include "text/ids.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_ids_reserve(struct vp_ids *ids, size_t n_more)
{
    size_t capacity;
    uint32_t *at;

    if (ids->capacity - ids->n >= n_more)
        return VP_OK;
    capacity = ids->n + ids->n / 2 + n_more + 64;
    at = realloc(ids->at, capacity * sizeof(*at));
    if (!at)
        return VP_ERR_NOMEM;
    ids->at = at;
    ids->capacity = capacity;
    return VP_OK;
}

void vp_ids_release(struct vp_ids *ids)
{
    free(ids->at);
    memset(ids, 0, sizeof(*ids));
}
