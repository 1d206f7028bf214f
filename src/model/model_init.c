/* Initial weights: a value depends on the seed, the tensor's name and the
 * element alone, so no partition and no order of creation changes it. */
#include "model/model.h"
#include "model/normal.h"

#include <math.h>
#include <string.h>

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xCBF29CE484222325u;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    return hash;
}

/* Returns the position number of the first row of a table. fairseq numbers
 * positions from pad + 1; the embedding operator that reads the table has the
 * padding id. */
static int64_t first_position(const struct vp_graph *graph, vp_par par)
{
    for (int i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].kind == VP_OP_EMBED && graph->ops[i].par[1] == par)
            return (int64_t)graph->ops[i].attr.pad + 1;
    return 0;
}

/* fairseq's form: all sines, then all cosines, frequencies from 1 down to
 * 1/10000; an odd last column is zero. `first`: the position of row 0. */
static void init_sinusoid(const struct vp_param *param, int64_t first,
                          int64_t begin, int64_t n, float *out)
{
    int64_t half = param->cols / 2;
    double step = half > 1 ? log(10000.0) / (double)(half - 1) : 0.0;

    for (int64_t i = 0; i < n; i++) {
        int64_t row = (begin + i) / param->cols,
                col = (begin + i) % param->cols;
        double angle = (double)(first + row) *
                       exp(-step * (double)(col % (half > 0 ? half : 1)));

        if (col >= 2 * half)
            out[i] = 0.0f;
        else
            out[i] = (float)(col < half ? sin(angle) : cos(angle));
    }
}

/* The parts follow each other; the numbers of each depend on its own name. */
static void init_normal(const struct vp_param *param, uint64_t seed,
                        int64_t begin, int64_t n, float *out)
{
    int64_t at = 0;

    for (int i = 0; i < param->n_parts; i++) {
        const struct vp_part *part = &param->part[i];
        struct vp_shape shape = vp_param_whole(param, i);
        int64_t end = at + shape.rows * shape.cols;
        int64_t from = at > begin ? at : begin;
        int64_t to = end < begin + n ? end : begin + n;
        const struct vp_normal normal = { .seed = seed,
                                          .name = hash_name(part->name),
                                          .std = param->init_std };

        if (from < to)
            vp_normal_fill(&normal, from - at, to - from, out + (from - begin));
        at = end;
    }
}

void vp_param_init_range(const struct vp_graph *graph, vp_par par,
                         uint64_t seed, int64_t begin, int64_t n, float *out)
{
    const struct vp_param *param = &graph->params[par];

    switch (param->init) {
    case VP_INIT_ZERO:
        memset(out, 0, (size_t)n * sizeof(*out));
        break;
    case VP_INIT_ONE:
        for (int64_t i = 0; i < n; i++)
            out[i] = 1.0f;
        break;
    case VP_INIT_NORMAL:
        init_normal(param, seed, begin, n, out);
        break;
    case VP_INIT_SINUSOID:
        init_sinusoid(param, first_position(graph, par), begin, n, out);
        break;
    }
}

void vp_param_init(const struct vp_graph *graph, vp_par par, uint64_t seed,
                   float *out)
{
    vp_param_init_range(graph, par, seed, 0,
                        vp_param_whole_count(&graph->params[par]), out);
}
