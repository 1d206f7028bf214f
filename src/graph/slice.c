/* Slices of parameters: shapes, and copies between slices and whole tensors. */
#include "graph/slice.h"

#include <string.h>

int64_t vp_slice_first(const struct vp_param *param, int member)
{
    switch (param->slice.axis) {
    case VP_SLICE_ROWS:
        return member * param->part[0].rows;
    case VP_SLICE_COLS:
        return member * param->cols;
    default:
        return 0;
    }
}

/* Runs of elements that lie together in the slice and in the whole. */
struct runs {
    int64_t n;          /* sections, or sections of all rows */
    int64_t length;     /* elements of a slice of one */
    int64_t whole;      /* elements of one */
    int64_t first;      /* of the slice, within one */
    int64_t n_elements; /* of the slice that are in the whole */
};

static struct runs find_runs(const struct vp_param *param, int part, int member,
                             int n_members)
{
    struct vp_shape shape = vp_param_whole(param, part);
    int64_t sections = param->slice.n_sections;
    int64_t n = param->part[part].rows * param->cols, left;
    struct runs runs = { 1, n, n, 0, n };

    if (param->slice.axis == VP_SLICE_NONE || n_members == 1)
        return runs;
    runs.n = param->slice.axis == VP_SLICE_ROWS ? sections
                                                : sections * shape.rows;
    runs.length = n / runs.n;
    runs.whole = shape.rows * shape.cols / runs.n;
    runs.first = member * runs.length;
    left = runs.whole - runs.first;
    runs.n_elements = left < 0 ? 0 : left < runs.length ? left : runs.length;
    return runs;
}

void vp_slice_take(const struct vp_param *param, int part, int member,
                   int n_members, const float *whole, float *slice)
{
    struct runs runs = find_runs(param, part, member, n_members);

    for (int64_t i = 0; i < runs.n; i++) {
        float *to = slice + i * runs.length;

        if (runs.n_elements > 0)
            memcpy(to, whole + i * runs.whole + runs.first,
                   (size_t)runs.n_elements * sizeof(*to));
        memset(to + runs.n_elements, 0,
               (size_t)(runs.length - runs.n_elements) * sizeof(*to));
    }
}

void vp_slice_put(const struct vp_param *param, int part, int member,
                  int n_members, const float *slice, float *whole)
{
    struct runs runs = find_runs(param, part, member, n_members);

    for (int64_t i = 0; runs.n_elements > 0 && i < runs.n; i++)
        memcpy(whole + i * runs.whole + runs.first, slice + i * runs.length,
               (size_t)runs.n_elements * sizeof(*whole));
}
