/* Where the time of a GPU goes: while a profile is taken, calls are launched one
 * by one between events, and what they took is added up by kind. */
#include "backend/cuda/profile.h"

#include "graph/opdef.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MARKS = 4096 };

struct vp_cuda_profile {
    struct vp_profile_row rows[VP_PROFILE_ROWS];
    int n_rows;
    cudaEvent_t marks[MAX_MARKS + 1];
    struct vp_profile_row *at[MAX_MARKS]; /* what lies before mark i + 1 */
    int n_marks;
};

static int64_t value_bytes(const struct vp_kargs *args, vp_val v, const void *p)
{
    return v == VP_NONE || !p ? 0 : vp_value_bytes(args->graph, v);
}

/* Every tensor once: what a call cannot do without moving. */
static double bytes_of(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_op *op = args->op;
    int64_t n = 0;

    for (int i = 0; i < VP_MAX_IN; i++) {
        n += value_bytes(args, op->in[i], args->din[i]);
        if (call->phase == VP_PHASE_F ||
            vp_op_defs[op->kind].needs_b & (VP_NEED_IN0 << i))
            n += value_bytes(args, op->in[i], args->in[i]);
    }
    n += value_bytes(args, op->out,
                     call->phase == VP_PHASE_F ? args->out : args->dout);
    return (double)n;
}

static struct vp_profile_row *find_row(struct vp_cuda_profile *profile,
                                       const char *name)
{
    for (int i = 0; i < profile->n_rows; i++)
        if (strcmp(profile->rows[i].name, name) == 0)
            return &profile->rows[i];
    if (profile->n_rows == VP_PROFILE_ROWS)
        return &profile->rows[VP_PROFILE_ROWS - 1];
    snprintf(profile->rows[profile->n_rows].name, sizeof(profile->rows[0].name),
             "%s", name);
    return &profile->rows[profile->n_rows++];
}

static void name_run(const struct vp_cuda_call *calls, int n, char *name,
                     size_t size)
{
    size_t at = 0;

    name[0] = '\0';
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(name + at, size - at, "%s%s.%c", i ? " " : "",
                               vp_op_defs[calls[i].args.op->kind].name,
                               "FBW"[calls[i].phase]);
}

void vp_cuda_profile_begin_list(struct vp_cuda_profile *profile,
                                cudaStream_t stream)
{
    profile->n_marks = 0;
    cudaEventRecord(profile->marks[0], stream);
}

void vp_cuda_profile_mark(struct vp_cuda_profile *profile,
                          const struct vp_cuda_call *calls, int n,
                          const char *other, cudaStream_t stream)
{
    struct vp_profile_row *row;
    char name[sizeof(profile->rows[0].name)];

    if (profile->n_marks == MAX_MARKS)
        return;
    if (!other)
        name_run(calls, n, name, sizeof(name));
    row = find_row(profile, other ? other : name);
    row->count++;
    for (int i = 0; i < n; i++) {
        row->flops += vp_op_flops(calls[i].args.graph, calls[i].args.op,
                                  calls[i].phase);
        row->bytes += bytes_of(&calls[i]);
    }
    profile->at[profile->n_marks++] = row;
    cudaEventRecord(profile->marks[profile->n_marks], stream);
}

void vp_cuda_profile_end_list(struct vp_cuda_profile *profile)
{
    cudaEventSynchronize(profile->marks[profile->n_marks]);
    for (int i = 0; i < profile->n_marks; i++) {
        float ms = 0.0f;

        cudaEventElapsedTime(&ms, profile->marks[i], profile->marks[i + 1]);
        profile->at[i]->seconds += (double)ms / 1e3;
    }
}

VP_EXPORT enum vp_status vp_cuda_profile_begin(struct vp_backend *backend);

enum vp_status vp_cuda_profile_begin(struct vp_backend *backend)
{
    struct vp_cuda_profile *profile = calloc(1, sizeof(*profile));

    if (!profile)
        return VP_ERR_NOMEM;
    cudaSetDevice(backend->cuda.device);
    for (int i = 0; i <= MAX_MARKS; i++)
        cudaEventCreate(&profile->marks[i]);
    backend->profile = profile;
    return VP_OK;
}

VP_EXPORT int vp_cuda_profile_end(struct vp_backend *backend,
                                  struct vp_profile_row *rows_out);

int vp_cuda_profile_end(struct vp_backend *backend,
                        struct vp_profile_row *rows_out)
{
    struct vp_cuda_profile *profile = backend->profile;
    int n = profile->n_rows;

    memcpy(rows_out, profile->rows, (size_t)n * sizeof(*rows_out));
    for (int i = 0; i <= MAX_MARKS; i++)
        cudaEventDestroy(profile->marks[i]);
    free(profile);
    backend->profile = NULL;
    return n;
}
