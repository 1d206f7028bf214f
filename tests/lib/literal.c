#include "lib/literal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void literal_open_stage(struct literal *lit, int s, int first,
                               int n_blocks)
{
    struct literal_stage *ls = &lit->stages[s];
    struct vp_stage_spec spec = { .first_block = first, .n_blocks = n_blocks };
    struct vp_stage_shape shape = { .n_slots = 1, .n_versions = MAX_ROUNDS };
    struct vp_stage_config config = vp_train_stage_config(
        lit->config, &lit->config->backend_config);
    struct vp_err err = { .text = "" };

    config.member = lit->members ? lit->members->me : 0;
    if (vp_stage_init(&ls->stage, &config, lit->backend,
                      &(struct vp_stage_choices){ .spec = spec }, &shape,
                      &err) != VP_OK ||
        vp_stage_allocate(&ls->stage, &err) != VP_OK)
        fail_msg("%s", err.text);
    ls->stage.members = lit->members;
    ls->n_floats = ls->stage.plan.sizes.n_bytes[VP_SPACE_GRAD] / 4;
    for (int r = 0; r < ls->n_replicas; r++)
        ls->grads[r] = calloc((size_t)ls->n_floats, sizeof(float));
    ls->out = new_message(&ls->stage,
                          ls->stage.plan.sizes.n_bytes[VP_SPACE_OUT]);
    ls->din = new_message(&ls->stage,
                          ls->stage.plan.sizes.n_bytes[VP_SPACE_DIN]);
}

void literal_close(struct literal *lit)
{
    for (int s = 0; s < lit->n_stages; s++) {
        struct literal_stage *ls = &lit->stages[s];

        free_message(&ls->stage, ls->out,
                     ls->stage.plan.sizes.n_bytes[VP_SPACE_OUT]);
        free_message(&ls->stage, ls->din,
                     ls->stage.plan.sizes.n_bytes[VP_SPACE_DIN]);
        vp_stage_release(&ls->stage);
        for (int r = 0; r < ls->n_replicas; r++)
            free(ls->grads[r]);
    }
    vp_batch_free(lit->batch);
    test_device()->close(lit->backend);
}

/* Returns the version by the rule of the design: in a segment that starts with
 * round b, round r uses version max(b, r - W). */
static int64_t literal_version(const struct literal *lit, int s, int m)
{
    const struct literal_stage *ls = &lit->stages[s];
    int round = m / ls->every;

    return round - ls->lag > ls->begin ? round - ls->lag : ls->begin;
}

static float literal_scale(const struct literal *lit)
{
    return lit->config->scale.start > 0.0f ? lit->config->scale.start : 1.0f;
}

/* Rounds the floats of a message to BF16 if messages are compressed. */
static void literal_send(const struct literal *lit,
                         struct vp_stage_message *message,
                         const struct vp_program *program,
                         const struct vp_boundary *boundary)
{
    for (int i = 0; lit->config->plan.compress && i < boundary->n_entries;
         i++) {
        const struct vp_boundary_value *entry = &boundary->entries[i];
        float *x = (float *)((char *)message->tensors + entry->offset);
        uint16_t bits;

        if (program->graph->values[entry->value].dtype != VP_DTYPE_F32)
            continue;
        for (int64_t k = 0; k < entry->n_bytes / 4; k++) {
            vp_dtype_round(VP_DTYPE_BF16, &bits, &x[k], 1);
            vp_dtype_expand(VP_DTYPE_BF16, &x[k], &bits, 1);
        }
    }
}

/* Runs forward of batch `m` of the training data. With `done` >= 0, of batch
 * `m` of the held-out data, on the newest weights after `done` minibatches. */
static void literal_forward(struct literal *lit, int m, int done,
                            float loss[VP_LOSS_COLS])
{
    struct literal_stage *last = &lit->stages[lit->n_stages - 1];
    bool eval = done >= 0;
    const struct vp_data *data = eval ? lit->config->eval_data
                                      : lit->config->data;
    struct vp_err err;

    assert_int_equal(vp_data_fill(data, (uint64_t)m, lit->batch, &err), VP_OK);
    for (int s = 0; s < lit->n_stages; s++) {
        struct literal_stage *ls = &lit->stages[s];
        struct vp_slot *slot = &ls->stage.slots[0];
        struct vp_launch_messages messages = { .out = ls->out };
        int in_round = m % ls->every;

        if (s == 0)
            vp_stage_load(&ls->stage, slot->message, lit->batch, (uint64_t)m);
        else
            slot->message = lit->stages[s - 1].out;
        slot->mb = (struct vp_mb){ .seed = lit->config->seed,
                                   .first_sample = lit->batch->first_sample,
                                   .loss_grad = literal_scale(lit),
                                   .accumulate = in_round >= ls->n_replicas,
                                   .train = !eval };
        ls->out->header = slot->message->header;
        slot->version = eval ? done / ls->every : literal_version(lit, s, m);
        vp_stage_run(&ls->stage, slot, VP_LIST_F, slot->version, eval,
                     &messages);
        vp_stage_wait(&ls->stage);
        literal_send(lit, ls->out, vp_stage_program(&ls->stage, slot),
                     &vp_stage_program(&ls->stage, slot)->out);
    }
    vp_stage_fetch_outputs(&last->stage, &last->stage.slots[0], eval);
    vp_stage_take_loss(&last->stage, &last->stage.slots[0], loss);
}

double literal_eval(struct literal *lit, int n, int done)
{
    double sum = 0.0, n_labels = 0.0;

    for (int m = 0; m < n; m++) {
        float loss[VP_LOSS_COLS];

        literal_forward(lit, m, done, loss);
        n_labels += loss[VP_LOSS_WEIGHT];
        sum += (double)loss[VP_LOSS_MEAN] * (double)loss[VP_LOSS_WEIGHT];
    }
    return sum / n_labels;
}

/* Skips an update whose gradients overflowed: the next version equals the
 * newest. */
static void literal_skip(struct vp_stage *stage)
{
    memcpy(vp_stage_weights(stage, stage->newest + 1),
           vp_stage_weights(stage, stage->newest),
           (size_t)stage->plan.sizes.n_bytes[VP_SPACE_PARAM]);
    stage->newest++;
    stage->scale.n_skipped++;
}

/* Adds up, over the members, gradients of which each member has a part. */
static void literal_add_parts(const struct literal *lit,
                              const struct literal_stage *ls)
{
    for (int i = 0; i < ls->stage.n_tensors; i++)
        if (ls->stage.tensor_params[i]->partial_grad)
            lit->members->sum(lit->members->ctx, NULL,
                              ls->stage.grads + ls->stage.tensors[i].grad,
                              ls->stage.tensors[i].n);
}

/* Updates a stage with the mean of a round's gradients, added in the order of
 * the replicas. */
static void literal_update(struct literal *lit, struct literal_stage *ls, int m)
{
    float mean = 1.0f / (float)ls->every;

    for (int64_t i = 0; i < ls->n_floats; i++) {
        float sum = ls->grads[0][i];

        for (int r = 1; r < ls->n_replicas; r++)
            sum += ls->grads[r][i];
        ls->stage.grads[i] = sum;
    }
    literal_add_parts(lit, ls);
    vp_stage_sum_grads(&ls->stage);
    vp_stage_wait_sums(&ls->stage);
    ls->norm = vp_optim_norm(ls->stage.tensors, ls->stage.n_tensors,
                             ls->stage.sums) /
               (double)literal_scale(lit) * (double)mean;
    if (isfinite(ls->norm)) {
        float lr = vp_lr_at(&lit->config->lr, m + 1);
        float scale = mean *
                      vp_optim_clip_scale(ls->norm,
                                          lit->config->optim.grad_clip) /
                      literal_scale(lit);

        vp_stage_measure(&ls->stage, lr, scale);
        vp_stage_set_ratios(&ls->stage);
        vp_stage_update(&ls->stage, lr, scale);
    } else {
        literal_skip(&ls->stage);
    }
    vp_stage_wait(&ls->stage);
}

static void literal_backward(struct literal *lit, int m)
{
    for (int s = lit->n_stages - 1; s >= 0; s--) {
        struct literal_stage *ls = &lit->stages[s];
        struct vp_slot *slot = &ls->stage.slots[0];
        struct vp_launch_messages messages = {
            .din = ls->din,
            .dout = s == lit->n_stages - 1 ? NULL : lit->stages[s + 1].din,
        };
        float *mine = ls->grads[m % ls->n_replicas];
        size_t n_bytes = (size_t)ls->n_floats * sizeof(float);

        memcpy(ls->stage.grads, mine, n_bytes);
        vp_stage_run(&ls->stage, slot, VP_LIST_B, slot->version, false,
                     &messages);
        vp_stage_wait(&ls->stage);
        if (s > 0)
            literal_send(lit, ls->din, vp_stage_program(&ls->stage, slot),
                         &vp_stage_program(&ls->stage, slot)->din);
        memcpy(mine, ls->stage.grads, n_bytes);
        if (m % ls->every == ls->every - 1)
            literal_update(lit, ls, m);
    }
}

void literal_open_member(struct literal *lit, const struct run *run,
                         const struct vp_train_config *config,
                         const struct async_case *c, const int *partition,
                         const struct vp_members *members)
{
    struct vp_err err = { .text = "" };
    int first = 0;

    memset(lit, 0, sizeof(*lit));
    lit->config = config;
    lit->n_stages = c->n_stages;
    lit->members = members;
    assert_int_equal(vp_backend_open(test_device(), &config->backend_config,
                                     &lit->backend, &err),
                     VP_OK);
    vp_device_attach(vp_backend_device(lit->backend));
    assert_int_equal(vp_batch_create(run->data, &lit->batch), VP_OK);
    for (int s = 0; s < c->n_stages; s++) {
        lit->stages[s].n_replicas = c->replicas[s];
        lit->stages[s].every = c->every[s];
        lit->stages[s].lag = c->lag[s];
        literal_open_stage(lit, s, first, partition[s]);
        first += partition[s];
    }
}

void literal_open(struct literal *lit, const struct run *run,
                  const struct vp_train_config *config,
                  const struct async_case *c, const int *partition)
{
    literal_open_member(lit, run, config, c, partition, NULL);
}

void literal_run(struct literal *lit, int first, int n, double *losses,
                 double *norms)
{
    for (int m = first; m < first + n; m++) {
        double square = 0.0;
        float loss[VP_LOSS_COLS];

        literal_forward(lit, m, -1, loss);
        losses[m] = (double)loss[VP_LOSS_MEAN];
        literal_backward(lit, m);
        for (int s = 0; s < lit->n_stages; s++)
            square += lit->stages[s].norm * lit->stages[s].norm;
        norms[m] = sqrt(square);
    }
}
