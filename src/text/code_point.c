/* Memory of a growing array of code points. */
#include "text/code_point.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_code_points_reserve(struct vp_code_points *points,
                                      size_t n_more)
{
    size_t capacity = points->capacity;
    uint32_t *at;

    if (capacity - points->n >= n_more)
        return VP_OK;
    capacity = 2 * (points->n + n_more) + 64;
    at = realloc(points->at, capacity * sizeof(*at));
    if (!at)
        return VP_ERR_NOMEM;
    points->at = at;
    points->capacity = capacity;
    return VP_OK;
}

void vp_code_points_release(struct vp_code_points *points)
{
    free(points->at);
    memset(points, 0, sizeof(*points));
}
