/* Profiles of a GPU: durations of its kernels, either of CUDA graphs as they
 * are replayed, which shows how busy the GPU is, or call by call, added up in
 * rows by kind. */
#include "backend/cuda/profile/profile.h"

#include "backend/cuda/profile/kernels.h"
#include "backend/cuda/profile/traffic.h"
#include "graph/opdef.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LABELS = 1 << 16, LONG_GAP_NS = 10000 };

/* A profile that is being taken. */
struct vp_cuda_profile {
    struct vp_profile out;
    struct vp_profile_row *at[MAX_LABELS]; /* by label; [0]: none */
    int n_labels;
};

/* There is one profile, because kernels are recorded for the whole process. */
static struct vp_cuda_profile taken;

/* ---- Rows --------------------------------------------------------------- */

static struct vp_profile_row *find_row(struct vp_profile *profile,
                                       const char *name)
{
    for (int i = 0; i < profile->n_rows; i++)
        if (strcmp(profile->rows[i].name, name) == 0)
            return &profile->rows[i];
    return NULL;
}

/* Finds or adds a row. When the table is full, the last row is shared by all
 * other names. */
static struct vp_profile_row *get_row(struct vp_profile *profile,
                                      const char *name,
                                      enum vp_profile_kind kind)
{
    struct vp_profile_row *row = find_row(profile, name);

    if (row || profile->n_rows == VP_PROFILE_ROWS)
        return row ? row : &profile->rows[VP_PROFILE_ROWS - 1];
    row = &profile->rows[profile->n_rows++];
    snprintf(row->name, sizeof(row->name), "%s", name);
    row->kind = kind;
    return row;
}

static void name_calls(const struct vp_cuda_call *calls, int n, char *name,
                       size_t size)
{
    size_t at = 0;

    name[0] = '\0';
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(name + at, size - at, "%s%s.%c", i ? " " : "",
                               vp_op_defs[calls[i].args.op->kind].name,
                               "FBW"[calls[i].phase]);
}

static void name_product(const struct vp_product *p, char *name, size_t size)
{
    snprintf(name, size, "product %lldx%lldx%lld %c%c%s%s%s%s", (long long)p->m,
             (long long)p->n, (long long)p->k, p->a_t ? 'T' : 'N',
             p->b_t ? 'T' : 'N', p->type_out == p->type ? "" : " to floats",
             p->bias ? " bias" : "", p->gelu ? " gelu" : "",
             p->add ? " add" : "");
}

struct vp_profile_row *vp_cuda_profile_find(struct vp_profile *profile,
                                            const struct vp_product *product)
{
    char name[sizeof(profile->rows[0].name)];

    name_product(product, name, sizeof(name));
    return find_row(profile, name);
}

/* ---- Labels ------------------------------------------------------------- */

int vp_cuda_profile_push(struct vp_cuda_profile *profile)
{
    if (!profile || profile->n_labels == MAX_LABELS)
        return 0;
    vp_cuda_kernels_push((uint32_t)profile->n_labels);
    return profile->n_labels++;
}

static void add(struct vp_cuda_profile *profile, int label,
                struct vp_profile_row *row, double flops, double n_bytes)
{
    profile->at[label] = row;
    row->count++;
    row->flops += flops;
    row->bytes += n_bytes;
}

void vp_cuda_profile_pop_calls(struct vp_cuda_profile *profile, int label,
                               const struct vp_cuda_call *calls, int n)
{
    char name[sizeof(profile->out.rows[0].name)];
    bool attention = calls[0].args.op->kind == VP_OP_ATTENTION;
    double flops = 0.0;

    if (label == 0)
        return;
    vp_cuda_kernels_pop();
    name_calls(calls, n, name, sizeof(name));
    for (int i = 0; attention && i < n; i++)
        flops += vp_op_flops(calls[i].args.graph, calls[i].args.op,
                             calls[i].phase);
    add(profile, label,
        get_row(&profile->out, name,
                attention ? VP_PROFILE_BOTH : VP_PROFILE_MEMORY),
        flops, vp_cuda_traffic(calls, n));
}

void vp_cuda_profile_pop_product(struct vp_cuda_profile *profile, int label,
                                 const struct vp_product *product)
{
    char name[sizeof(profile->out.rows[0].name)];

    if (label == 0)
        return;
    vp_cuda_kernels_pop();
    name_product(product, name, sizeof(name));
    add(profile, label, get_row(&profile->out, name, VP_PROFILE_PRODUCT),
        2.0 * (double)product->m * (double)product->n * (double)product->k,
        0.0);
}

void vp_cuda_profile_pop_gelu(struct vp_cuda_profile *profile, int label,
                              const struct vp_gelu_grad *grad)
{
    char name[sizeof(profile->out.rows[0].name)];

    if (label == 0)
        return;
    vp_cuda_kernels_pop();
    snprintf(name, sizeof(name), "product %lldx%lldx%lld NN gelu",
             (long long)grad->cols, (long long)grad->rows,
             (long long)grad->depth);
    add(profile, label, get_row(&profile->out, name, VP_PROFILE_BOTH),
        2.0 * (double)grad->rows * (double)grad->cols * (double)grad->depth,
        0.0);
}

void vp_cuda_profile_pop_other(struct vp_cuda_profile *profile, int label,
                               const char *name, double n_bytes)
{
    if (label == 0)
        return;
    vp_cuda_kernels_pop();
    add(profile, label, get_row(&profile->out, name, VP_PROFILE_MEMORY), 0.0,
        n_bytes);
}

/* ---- Recording ---------------------------------------------------------- */

/* Skips the prefix of a mangled C++ name, which is the same for many
 * kernels. */
static void name_kernel(const struct vp_cuda_span *span, char *name,
                        size_t size)
{
    const char *from = span->name ? span->name : "?";

    snprintf(name, size, "%s", from + strspn(from, "_ZN0123456789"));
}

/* Counts gaps longer than LONG_GAP_NS, and keeps the longest. */
static void note_gap(struct vp_profile *out, const struct vp_cuda_span *before,
                     const struct vp_cuda_span *after, int64_t ns)
{
    struct vp_profile_gap *gaps = out->gaps;
    double seconds = (double)ns * 1e-9;
    int i = VP_PROFILE_GAPS - 1;

    out->n_gaps += ns > LONG_GAP_NS;
    if (seconds <= gaps[i].seconds)
        return;
    for (; i > 0 && gaps[i - 1].seconds < seconds; i--)
        gaps[i] = gaps[i - 1];
    gaps[i].seconds = seconds;
    name_kernel(before, gaps[i].before, sizeof(gaps[i].before));
    name_kernel(after, gaps[i].after, sizeof(gaps[i].after));
}

/* Adds up the time in which at least one kernel runs: kernels may overlap. */
static void add_up(struct vp_profile *out, const struct vp_cuda_span *spans,
                   size_t n)
{
    const struct vp_cuda_span *last = spans; /* ends last, so far */
    int64_t idle = 0;

    out->n_kernels = (int)n;
    if (n == 0)
        return;
    for (size_t i = 1; i < n; i++) {
        int64_t gap = spans[i].start_ns - last->end_ns;

        if (gap > 0) {
            note_gap(out, last, &spans[i], gap);
            idle += gap;
        }
        if (spans[i].end_ns > last->end_ns)
            last = &spans[i];
    }
    out->window = (double)(last->end_ns - spans[0].start_ns) * 1e-9;
    out->busy = out->window - (double)idle * 1e-9;
}

/* Starts a profile. `by_call`: calls are launched one by one, and `rows` are
 * filled; else lists run as usual. `cupti`: as in vp_cuda_kernels_begin(). */
VP_EXPORT enum vp_status vp_cuda_profile_begin(struct vp_backend *backend,
                                               void *cupti, bool by_call,
                                               struct vp_err *err);

enum vp_status vp_cuda_profile_begin(struct vp_backend *backend, void *cupti,
                                     bool by_call, struct vp_err *err)
{
    memset(&taken, 0, sizeof(taken));
    taken.n_labels = 1;
    taken.at[0] = get_row(&taken.out, "other", VP_PROFILE_OTHER);
    VP_TRY(vp_cuda_kernels_begin(cupti, by_call, err));
    backend->cuda.profile = by_call ? &taken : NULL;
    return VP_OK;
}

/* Ends the profile, and returns it in `profile_out`. */
VP_EXPORT enum vp_status vp_cuda_profile_end(struct vp_backend *backend,
                                             struct vp_profile *profile_out,
                                             struct vp_err *err);

enum vp_status vp_cuda_profile_end(struct vp_backend *backend,
                                   struct vp_profile *profile_out,
                                   struct vp_err *err)
{
    struct vp_cuda_span *spans = NULL;
    enum vp_status st;
    size_t n = 0;

    backend->cuda.profile = NULL;
    st = vp_cuda_kernels_end(&spans, &n, err);
    for (size_t i = 0; i < n; i++)
        taken.at[spans[i].label]->seconds += (double)(spans[i].end_ns -
                                                      spans[i].start_ns) *
                                             1e-9;
    add_up(&taken.out, spans, n);
    free(spans);
    *profile_out = taken.out;
    return st;
}
