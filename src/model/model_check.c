/* Refuses impossible sizes before anything is built. Messages are
 * "<configuration key>: <cause>; <remedy>". */
#include "base/rng.h"
#include "model/model.h"

#include <inttypes.h>
#include <math.h>

/* Rows and ids are int32 on every device. A tensor of more than 2^40 numbers
 * (4 TiB) is taken for a mistake. */
#define MAX_ROWS INT32_MAX
#define MAX_LAYERS 65536
#define MAX_ELEMENTS ((int64_t)1 << 40)

static bool is_translation(const struct vp_model *model)
{
    return model->task == VP_TASK_TRANSLATION;
}

static enum vp_status check_range(const char *key, int64_t value, int64_t low,
                                  int64_t high, struct vp_err *err)
{
    if (value >= low && value <= high)
        return VP_OK;
    return vp_err_refuse(err, key,
                         "%s: %" PRId64 " is not possible; use %" PRId64
                         " to %" PRId64,
                         key, value, low, high);
}

static enum vp_status check_rate(const char *key, float p, struct vp_err *err)
{
    if (!(p >= 0.0f && p < 1.0f))
        return vp_err_refuse(
            err, key,
            "%s: %g is not a probability below 1; use 0 to turn "
            "it off, 0.1 is usual",
            key, (double)p);
    return VP_OK;
}

/* Dropout compares 8 bits per element: a rate that rounds to 256/256 would drop
 * all. */
static enum vp_status check_dropout(const char *key, float p,
                                    struct vp_err *err)
{
    VP_TRY(check_rate(key, p, err));
    if (vp_dropout_threshold(p) > 255)
        return vp_err_refuse(
            err, key, "%s: %g would drop every element; use 0.99 or less", key,
            (double)p);
    return VP_OK;
}

/* Members of a tensor-parallel group have equal numbers of heads and of
 * features of the feed-forward layer. */
static enum vp_status check_members(const struct vp_model_config *c,
                                    struct vp_err *err)
{
    if (c->n_members <= 1)
        return VP_OK;
    if (c->heads % c->n_members != 0)
        return vp_err_refuse(err, "mp_size heads",
                             "mp_size: %d ranks cannot share %" PRId64
                             " heads; use a divisor of heads",
                             c->n_members, c->heads);
    if (c->ffn % c->n_members != 0)
        return vp_err_refuse(err, "mp_size ffn",
                             "mp_size: %d ranks cannot share ffn %" PRId64
                             "; use a divisor of ffn",
                             c->n_members, c->ffn);
    if (c->vocab < c->n_members)
        return vp_err_refuse(err, "mp_size vocab",
                             "mp_size: %d ranks cannot share a vocabulary of "
                             "%" PRId64 "; use a smaller one",
                             c->n_members, c->vocab);
    return VP_OK;
}

static enum vp_status check_sizes(const struct vp_model *model,
                                  const struct vp_model_config *c,
                                  struct vp_err *err)
{
    VP_TRY(check_range("vocab", c->vocab, 2, MAX_ROWS, err));
    VP_TRY(check_range("hidden", c->hidden, 1, MAX_ROWS / 3, err));
    VP_TRY(check_range("layers", c->layers, 1, MAX_LAYERS, err));
    if (is_translation(model))
        VP_TRY(check_range("decoder_layers", c->decoder_layers, 1, MAX_LAYERS,
                           err));
    VP_TRY(check_range("heads", c->heads, 1, c->hidden, err));
    if (c->hidden % c->heads != 0)
        return vp_err_refuse(err, "heads hidden",
                             "heads: %" PRId64
                             " heads do not divide hidden %" PRId64
                             "; use a divisor of hidden, or a hidden that "
                             "is a multiple of %" PRId64,
                             c->heads, c->hidden, c->heads);
    VP_TRY(check_range("ffn", c->ffn, 1, MAX_ROWS, err));
    VP_TRY(check_members(c, err));
    VP_TRY(check_range("positions", c->positions, 1, MAX_ROWS, err));
    if (model->task == VP_TASK_MASKED_LM)
        VP_TRY(check_range("types", c->types, 1, MAX_ROWS, err));
    return check_range("pad_id", c->pad, 0, c->vocab - 1, err);
}

static enum vp_status check_scalars(const struct vp_model_config *c,
                                    struct vp_err *err)
{
    VP_TRY(check_dropout("dropout", c->dropout, err));
    VP_TRY(check_dropout("attention_dropout", c->attention_dropout, err));
    VP_TRY(check_rate("label_smoothing", c->label_smoothing, err));
    if (!(c->eps > 0.0f) || !isfinite(c->eps))
        return vp_err_refuse(
            err, "norm_eps",
            "norm_eps: %g is not a positive number; 1e-5 is usual",
            (double)c->eps);
    switch (c->act) {
    case VP_ACT_RELU:
    case VP_ACT_GELU_ERF:
    case VP_ACT_GELU_TANH:
        return VP_OK;
    default:
        return vp_err_refuse(
            err, "activation",
            "activation: %d is no activation of a feed-forward layer; "
            "use relu, gelu or gelu_tanh",
            (int)c->act);
    }
}

/* Checks the encoder's or the decoder's input: `len` positions per sample. */
static enum vp_status check_sequence(const struct vp_model_config *c,
                                     int64_t batch, int64_t len,
                                     struct vp_err *err)
{
    VP_TRY(check_range("seq_length", len, 1, MAX_ROWS, err));
    if (len > c->positions)
        return vp_err_refuse(err, "seq_length positions",
                             "seq_length: %" PRId64
                             " is longer than the model's "
                             "%" PRId64 " positions; shorten it or raise "
                             "positions",
                             len, c->positions);
    if (batch > MAX_ROWS / len)
        return vp_err_refuse(err, "batch_size",
                             "batch_size: %" PRId64 " samples of %" PRId64
                             " tokens are more than 2^31 rows; use a smaller "
                             "batch_size",
                             batch, len);
    return VP_OK;
}

static enum vp_status check_dims(const struct vp_model *model,
                                 const struct vp_model_config *c,
                                 const struct vp_dims *d, struct vp_err *err)
{
    VP_TRY(check_range("batch_size", d->batch, 1, MAX_ROWS, err));
    VP_TRY(check_sequence(c, d->batch, d->seq, err));
    if (is_translation(model))
        VP_TRY(check_sequence(c, d->batch, d->tgt_seq, err));
    else if (d->tgt_seq != 0)
        return vp_err_refuse(
            err, "model_type",
            "model_type: %s has no decoder for target sentences; "
            "use translation",
            model->name);
    return check_range("max_pred", d->n_labels, 0,
                       d->batch * (is_translation(model) ? d->tgt_seq : d->seq),
                       err);
}

static enum vp_status check_elements(const char *key, int64_t rows,
                                     int64_t cols, struct vp_err *err)
{
    int64_t n;

    if (vp_mul_i64(rows, cols, &n) && n <= MAX_ELEMENTS)
        return VP_OK;
    return vp_err_refuse(err, key,
                         "%s: a tensor of %" PRId64 " x %" PRId64 " numbers is "
                         "larger than 4 TiB; use a smaller %s",
                         key, rows, cols, key);
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

enum vp_status vp_model_check(const struct vp_model *model,
                              const struct vp_model_config *config,
                              const struct vp_dims *dims, struct vp_err *err)
{
    const struct vp_model_config *c = config;
    int64_t rows, widest;

    if (model->custom) /* its operators check their own sizes */
        return VP_OK;
    VP_TRY(check_sizes(model, c, err));
    VP_TRY(check_scalars(c, err));
    VP_TRY(check_dims(model, c, dims, err));
    VP_TRY(check_elements("hidden", 3 * c->hidden, c->hidden, err));
    VP_TRY(check_elements("vocab", c->vocab, c->hidden, err));
    VP_TRY(check_elements("ffn", c->ffn, c->hidden, err));
    VP_TRY(check_elements("positions", c->positions, c->hidden, err));
    VP_TRY(check_elements("types", c->types, c->hidden, err));
    rows = dims->batch * max64(dims->seq, dims->tgt_seq);
    widest = max64(max64(c->ffn, c->vocab), 3 * c->hidden);
    return check_elements("batch_size", rows, widest, err);
}
