#include "lib/op_modes.h"

const struct mode modes[] = {
    { 0 },           { .add = true }, { .eval = true }, { .in_place = true },
    { .no_din = 1 }, { .no_din = 2 },
};

void prepare(struct one_op *t, const struct mode *mode)
{
    struct vp_kargs *a = &t->args;

    t->mb.train = !mode->eval;
    t->mb.accumulate = mode->add;
    for (int k = 0; k < VP_MAX_IN; k++) {
        a->din_add[k] = mode->add;
        if (mode->no_din >> k & 1)
            a->din[k] = NULL;
        else if (mode->add && a->din[k])
            one_op_fill(t, a->din[k], t->n_in[k], 5, 32 + (uint32_t)k);
    }
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (mode->add && a->dpar[k])
            one_op_fill(t, a->dpar[k], t->n_par[k], 5, 40 + (uint32_t)k);
    if (!a->din[0])
        a->recomputed_out = NULL;
    if (mode->in_place && a->dz)
        a->dz = (void *)a->dout;
    if (mode->in_place && t->spec.kind == VP_OP_CROSS_ENTROPY)
        a->din[0] = (void *)a->in[0];
}

int written_by(const struct one_op *t, unsigned phases, struct written *w)
{
    static const char *const din[] = { "din0", "din1", "din2" };
    static const char *const dpar[] = { "dpar0", "dpar1", "dpar2" };
    const struct vp_kargs *a = &t->args;
    bool f = phases & PHASE_BIT(VP_PHASE_F);
    bool b = phases & PHASE_BIT(VP_PHASE_B) && one_op_kernel(t, VP_PHASE_B);
    bool weights = phases & PHASE_BIT(VP_PHASE_W) &&
                   one_op_kernel(t, VP_PHASE_W);
    int n = 0;

    if (f)
        w[n++] = (struct written){ "out", a->out, t->n_out,
                                   t->spec.kind == VP_OP_CROSS_ENTROPY };
    for (int k = 0; k < VP_MAX_AUX; k++)
        if (f && a->aux[k])
            w[n++] = (struct written){ "aux", a->aux[k], t->n_aux[k], false };
    if (b && a->dz)
        w[n++] = (struct written){ "dz", a->dz, t->n_out, false };
    if (b && a->recomputed_out)
        w[n++] = (struct written){ "again", a->recomputed_out, t->n_out,
                                   false };
    for (int k = 0; k < VP_MAX_IN; k++)
        if (b && a->din[k])
            w[n++] = (struct written){ din[k], a->din[k], t->n_in[k], false };
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (weights && a->dpar[k])
            w[n++] = (struct written){ dpar[k], a->dpar[k], t->n_par[k],
                                       false };
    return n;
}
