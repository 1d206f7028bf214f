/* Initial weights: a value depends on the seed, the tensor's name and the
 * element alone, so no partition and no order of creation changes it. */
#include "base/rng.h"
#include "model/model.h"

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

/* Note [init]. Logarithm, cosine and sine come from series in exactly rounded
 * operations, so that weights have the same bits with every mathematical
 * library. They are good to 3e-9, less than a float shows. */
static double series(const double *c, int n, double x)
{
    double sum = c[n - 1];

    for (int i = n - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* The natural logarithm of x in (0, 1). */
static double log_unit(double x)
{
    static const double atanh2[] = { 2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9 };
    const uint64_t root_half = 0x3FE6A09E667F3BCDu; /* bits of sqrt(1/2) */
    uint64_t bits, shifted;
    double m, s;
    int exponent;

    /* x = 2^exponent m with m in [sqrt(1/2), sqrt(2)). */
    memcpy(&bits, &x, sizeof(bits));
    shifted = bits - root_half + ((uint64_t)1024 << 52);
    exponent = (int)(shifted >> 52) - 1024;
    bits = (shifted & 0xFFFFFFFFFFFFFu) + root_half;
    memcpy(&m, &bits, sizeof(m));
    s = (m - 1.0) / (m + 1.0);
    return exponent * 0.6931471805599453 + s * series(atanh2, 5, s * s);
}

/* Cosine and sine of the angle 2 pi (turn + 0.5) / 2^32. */
static void cos_sin(uint32_t turn, double *cos_out, double *sin_out)
{
    static const double cosine[] = { 1.0,        -1.0 / 2,    1.0 / 24,
                                     -1.0 / 720, 1.0 / 40320, -1.0 / 3628800 };
    static const double sine[] = { 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040,
                                   1.0 / 362880 };
    const int64_t quarter_turn = (int64_t)1 << 30;
    /* The nearest quarter turn, and x in +- pi / 4 from there. */
    int64_t quarter = ((int64_t)turn + quarter_turn / 2) / quarter_turn;
    double x = ((double)(turn - quarter * quarter_turn) + 0.5) *
               (6.283185307179586 / 4294967296.0);
    double c = series(cosine, 6, x * x), s = x * series(sine, 5, x * x);
    double near = quarter & 1 ? s : c, far = quarter & 1 ? c : s;

    *cos_out = (quarter + 1) & 2 ? -near : near;
    *sin_out = quarter & 2 ? -far : far;
}

/* Four normal numbers by Box and Muller. */
static void normal4(uint64_t seed, uint64_t name, int64_t group, double *out)
{
    struct vp_rng4 bits = vp_rng(seed, VP_RNG_INIT, (uint32_t)name,
                                 (uint32_t)group,
                                 (uint32_t)((uint64_t)group >> 32), name);

    for (int i = 0; i < 4; i += 2) {
        double radius = sqrt(-2.0 * log_unit(vp_rng_unit(bits.v[i])));

        cos_sin(bits.v[i + 1], &out[i], &out[i + 1]);
        out[i] *= radius;
        out[i + 1] *= radius;
    }
}

static void init_normal(const char *part, int64_t n, float std, uint64_t seed,
                        float *out)
{
    uint64_t name = hash_name(part);
    double z[4];

    for (int64_t i = 0; i < n; i += 4) {
        normal4(seed, name, i / 4, z);
        for (int64_t j = 0; j < 4 && i + j < n; j++)
            out[i + j] = (float)(std * z[j]);
    }
}

/* The position number of a table's first row. fairseq numbers positions from
 * pad + 1; the embedding that reads the table knows the padding id. */
static int64_t first_position(const struct vp_graph *graph, vp_par par)
{
    for (int i = 0; i < graph->n_ops; i++)
        if (graph->ops[i].kind == VP_OP_EMBED && graph->ops[i].par[1] == par)
            return (int64_t)graph->ops[i].attr.pad + 1;
    return 0;
}

/* fairseq's form: all sines, then all cosines, frequencies from 1 down to
 * 1/10000; an odd last column is zero. */
static void init_sinusoid(const struct vp_param *param, int64_t first,
                          float *out)
{
    int64_t half = param->cols / 2;
    double step = half > 1 ? log(10000.0) / (double)(half - 1) : 0.0;

    for (int64_t row = 0; row < param->rows; row++) {
        float *x = out + row * param->cols;

        memset(x, 0, (size_t)param->cols * sizeof(*x));
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)(first + row) * exp(-step * (double)i);

            x[i] = (float)sin(angle);
            x[half + i] = (float)cos(angle);
        }
    }
}

void vp_param_init(const struct vp_graph *graph, vp_par par, uint64_t seed,
                   float *out)
{
    const struct vp_param *param = &graph->params[par];
    int64_t n = vp_param_whole_count(param), at = 0;

    switch (param->init) {
    case VP_INIT_ZERO:
        memset(out, 0, (size_t)n * sizeof(*out));
        break;
    case VP_INIT_ONE:
        for (int64_t i = 0; i < n; i++)
            out[i] = 1.0f;
        break;
    case VP_INIT_NORMAL:
        for (int i = 0; i < param->n_parts; i++) {
            struct vp_shape part = vp_param_whole(param, i);

            init_normal(param->part[i].name, part.rows * part.cols,
                        param->init_std, seed, out + at);
            at += part.rows * part.cols;
        }
        break;
    case VP_INIT_SINUSOID:
        init_sinusoid(param, first_position(graph, par), out);
        break;
    }
}
