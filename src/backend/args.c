/* Turns the (space, offset) pairs of a call into the addresses that kernels
 * take. */
#include "backend/args.h"

static void *address(const struct vp_launch *launch, struct vp_ref ref)
{
    if (ref.space == VP_SPACE_NONE)
        return NULL;
    return (char *)launch->base[ref.space] + ref.offset;
}

void vp_kargs_resolve(const struct vp_graph *graph, const struct vp_call *call,
                      const struct vp_launch *launch, struct vp_kargs *args)
{
    *args = (struct vp_kargs){ .graph = graph,
                               .op = call->op,
                               .mb = launch->mb,
                               .members = launch->members };
    for (int i = 0; i < VP_MAX_IN; i++) {
        args->in[i] = address(launch, call->in[i]);
        args->din[i] = address(launch, call->din[i]);
        args->din_add[i] = call->din_add[i];
    }
    for (int i = 0; i < VP_MAX_AUX; i++)
        args->aux[i] = address(launch, call->aux[i]);
    for (int i = 0; i < VP_MAX_PARAM; i++) {
        args->par[i] = address(launch, call->par[i]);
        args->dpar[i] = address(launch, call->dpar[i]);
    }
    args->out = address(launch, call->out);
    args->dout = address(launch, call->dout);
    args->dz = address(launch, call->dz);
    args->recomputed_out = address(launch, call->recomputed_out);
    args->scratch = address(launch, call->scratch);
}
