/* Text of a model by its tokenizer, or by bytes. */
#include "run/model_text.h"

#include "base/utf8.h"
#include "text/encoder.h"

#include <stdlib.h>

enum {
    N_BYTES = 256,
    FAIRSEQ_FIRST = 4, /* ids below are special tokens of fairseq */
};

struct vp_model_text {
    struct vp_tokenizer *tokenizer; /* NULL: bytes */
    struct vp_encoder *encoder;
    int32_t first;     /* id of token 0 or byte 0 */
    int32_t end;       /* appended to each encoded line; -1: none */
    struct vp_ids ids; /* buffer for decoding */
};

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "out of memory for texts; close other programs");
}

/* Returns true if the model was trained on bytes: a run on plain text, or a
 * vocabulary of that size. */
static bool is_bytes(const struct vp_config *config)
{
    return config->sizes.pad == VP_TOKEN_PAD &&
           (config->data_dir ||
            config->sizes.vocab == VP_TOKEN_FIRST + N_BYTES);
}

enum vp_status vp_model_text_open(const struct vp_config *config, int32_t end,
                                  struct vp_model_text **out,
                                  struct vp_err *err)
{
    struct vp_model_text *text;
    enum vp_status st = VP_OK;

    *out = NULL;
    if (!config->tokenizer && !is_bytes(config))
        return VP_OK;
    text = calloc(1, sizeof(*text));
    if (!text)
        return no_memory(err);
    text->end = end;
    if (!config->tokenizer)
        text->first = VP_TOKEN_FIRST;
    else if (config->model->task == VP_TASK_TRANSLATION && config->data_dir &&
             config->sizes.pad != VP_TOKEN_PAD)
        text->first = FAIRSEQ_FIRST;
    if (config->tokenizer)
        st = vp_tokenizer_open(config->tokenizer, &text->tokenizer, err);
    if (st == VP_OK && config->tokenizer &&
        vp_encoder_create(text->tokenizer, &text->encoder) != VP_OK)
        st = no_memory(err);
    if (st != VP_OK) {
        vp_model_text_free(text);
        return st;
    }
    *out = text;
    return VP_OK;
}

void vp_model_text_free(struct vp_model_text *text)
{
    if (!text)
        return;
    vp_ids_release(&text->ids);
    vp_encoder_free(text->encoder);
    vp_tokenizer_free(text->tokenizer);
    free(text);
}

int32_t vp_model_text_end(const struct vp_model_text *text)
{
    return text->tokenizer
               ? vp_tokenizer_special(text->tokenizer, VP_SPECIAL_END)
               : -1;
}

enum vp_status vp_model_text_encode(struct vp_model_text *text,
                                    const char *bytes, size_t n_bytes,
                                    struct vp_ids *ids)
{
    ids->n = 0;
    if (text->tokenizer) {
        VP_TRY(vp_encoder_add(text->encoder, bytes, n_bytes, false, ids));
    } else {
        VP_TRY(vp_ids_reserve(ids, n_bytes));
        for (size_t i = 0; i < n_bytes; i++)
            ids->at[ids->n++] = (unsigned char)bytes[i];
    }
    for (size_t i = 0; i < ids->n; i++)
        ids->at[i] += (uint32_t)text->first;
    if (text->end < 0)
        return VP_OK;
    VP_TRY(vp_ids_reserve(ids, 1));
    ids->at[ids->n++] = (uint32_t)text->end;
    return VP_OK;
}

static enum vp_status add_bytes(const struct vp_ids *ids, struct vp_strbuf *out)
{
    unsigned char *bytes = malloc(4 * ids->n + 1), *valid = bytes + ids->n;

    if (!bytes)
        return VP_ERR_NOMEM;
    for (size_t i = 0; i < ids->n; i++)
        bytes[i] = (unsigned char)ids->at[i];
    vp_strbuf_add(out, (const char *)valid,
                  vp_utf8_replace(VP_UTF8_TEXT, bytes, ids->n, valid, NULL));
    free(bytes);
    return VP_OK;
}

/* Keeps the ids that have a text, converted to ids of the tokenizer or to
 * bytes. */
static enum vp_status choose_ids(struct vp_model_text *text, const int32_t *ids,
                                 int n_ids)
{
    struct vp_ids *kept = &text->ids;
    size_t n_bytes;

    kept->n = 0;
    VP_TRY(vp_ids_reserve(kept, (size_t)n_ids));
    for (int i = 0; i < n_ids; i++) {
        int32_t id = ids[i] - text->first;

        if (id >= 0 &&
            (text->tokenizer ? vp_tokenizer_token(text->tokenizer, (uint32_t)id,
                                                  &n_bytes) != NULL
                             : id < N_BYTES))
            kept->at[kept->n++] = (uint32_t)id;
    }
    return VP_OK;
}

enum vp_status vp_model_text_decode(struct vp_model_text *text,
                                    const int32_t *ids, int n_ids,
                                    struct vp_strbuf *out, struct vp_err *err)
{
    size_t start = out->n_bytes;

    if (choose_ids(text, ids, n_ids) != VP_OK)
        return no_memory(err);
    if (text->tokenizer)
        VP_TRY(vp_tokenizer_decode(text->tokenizer, text->ids.at, text->ids.n,
                                   true, out, err));
    else if (add_bytes(&text->ids, out) != VP_OK)
        return no_memory(err);
    if (out->failed)
        return no_memory(err);
    for (size_t i = start; i < out->n_bytes; i++)
        if (out->at[i] == '\n' || out->at[i] == '\r')
            out->at[i] = ' ';
    return VP_OK;
}
