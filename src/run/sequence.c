/* Parses and checks sequences of token ids, and puts them into batches. */
#include "run/sequence.h"

#include <stdbool.h>
#include <stdlib.h>

enum vp_status vp_sequence_check(const struct vp_model_config *sizes, int64_t k,
                                 const int32_t *ids, int64_t n,
                                 struct vp_err *err)
{
    if (n < 1 || n > sizes->positions)
        return vp_err_set(err, VP_ERR_INVALID,
                          "sequence %lld has %lld ids; the model takes 1 to "
                          "%lld",
                          (long long)k + 1, (long long)n,
                          (long long)sizes->positions);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= sizes->vocab)
            return vp_err_set(err, VP_ERR_INVALID,
                              "sequence %lld: %d is no id of the model; its "
                              "ids are 0 to %lld",
                              (long long)k + 1, ids[i],
                              (long long)sizes->vocab - 1);
    return VP_OK;
}

static bool is_separator(char c)
{
    return c == ' ' || c == ',' || c == '\t' || c == '\r';
}

static enum vp_status take_id(const char **at, const char *end, int32_t *out,
                              struct vp_err *err)
{
    const char *start = *at;
    int64_t id = 0;

    while (*at < end && **at >= '0' && **at <= '9' && id <= INT32_MAX)
        id = 10 * id + (*(*at)++ - '0');
    if (*at == start || id > INT32_MAX ||
        (*at < end && !is_separator(**at) && **at != ':'))
        return vp_err_set(err, VP_ERR_INVALID,
                          "'%.*s' is no token id; write numbers, for example "
                          "5,6,7",
                          (int)(end - start < 24 ? end - start : 24), start);
    *out = (int32_t)id;
    return VP_OK;
}

enum vp_status vp_sequence_parse(const char *text, size_t n_bytes, int32_t *ids,
                                 struct vp_sequence *out, struct vp_err *err)
{
    const char *at = text, *end = text + n_bytes;
    struct vp_sequence sequence = { .ids = ids };
    int64_t n = 0;

    while (at < end) {
        if (*at == ':' && !sequence.target) {
            sequence.n_ids = n;
            sequence.target = ids + n;
            at++;
        } else if (is_separator(*at)) {
            at++;
        } else {
            VP_TRY(take_id(&at, end, &ids[n], err));
            n++;
        }
    }
    *(sequence.target ? &sequence.n_target : &sequence.n_ids) = n -
                                                                sequence.n_ids;
    *out = sequence;
    return VP_OK;
}

enum vp_status vp_sequence_batch_init(const struct vp_dims *dims,
                                      struct vp_batch *batch,
                                      struct vp_err *err)
{
    *batch = (struct vp_batch){ .bucket = 0 };
    for (int role = 0; role < VP_ROLE_COUNT; role++) {
        size_t n = (size_t)vp_dims_role(dims, (enum vp_role)role);

        batch->array[role] = calloc(n + 1, sizeof(int32_t));
        if (!batch->array[role])
            return vp_err_set(err, VP_ERR_NOMEM, "a batch: out of memory");
    }
    return VP_OK;
}

enum vp_status vp_sequence_batch_resize(struct vp_batch *batch,
                                        enum vp_role role, int64_t n,
                                        struct vp_err *err)
{
    free(batch->array[role]);
    batch->array[role] = calloc((size_t)n + 1, sizeof(int32_t));
    return batch->array[role]
               ? VP_OK
               : vp_err_set(err, VP_ERR_NOMEM, "a batch: out of memory");
}

void vp_sequence_batch_release(struct vp_batch *batch)
{
    for (int role = 0; role < VP_ROLE_COUNT; role++)
        free(batch->array[role]);
}

static void put_row(int32_t *row, const int32_t *ids, int64_t n, int64_t length,
                    int32_t fill)
{
    for (int64_t t = 0; t < length; t++)
        row[t] = t < n ? ids[t] : fill;
}

void vp_sequence_put(const struct vp_sequence *sequence,
                     const struct vp_dims *dims, int32_t pad, int64_t i,
                     struct vp_batch *batch)
{
    int32_t *mask = batch->array[VP_ROLE_MASK] + i * dims->seq;

    put_row(batch->array[VP_ROLE_TOKENS] + i * dims->seq, sequence->ids,
            sequence->n_ids, dims->seq, pad);
    for (int64_t t = 0; t < dims->seq; t++)
        mask[t] = t < sequence->n_ids;
    if (dims->tgt_seq > 0)
        put_row(batch->array[VP_ROLE_TARGET_TOKENS] + i * dims->tgt_seq,
                sequence->target, sequence->n_target, dims->tgt_seq, pad);
}
