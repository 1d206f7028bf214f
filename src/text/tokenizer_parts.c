/* Vocabulary, merges and added tokens, as the readers of file formats add
 * them. */
#include "text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_tokenizer_add_vocab(struct vp_tokenizer *tokenizer,
                                      const json_t *vocab, struct vp_err *err)
{
    /* jansson's iterators do not accept const objects. */
    json_t *object = (json_t *)(uintptr_t)vocab;

    for (void *at = json_object_iter(object); at;
         at = json_object_iter_next(object, at)) {
        const char *token = json_object_iter_key(at);
        const json_t *id = json_object_iter_value(at);

        if (!json_is_integer(id))
            return vp_err_set(err, VP_ERR_INVALID,
                              "token '%.48s' has no whole number as id; write "
                              "{\"token\": id}",
                              token);
        VP_TRY(vp_vocabulary_add(&tokenizer->vocabulary, token, strlen(token),
                                 json_integer_value(id), err));
    }
    return VP_OK;
}

/* Writes the id of the token `left``right`, or VP_TOKEN_NONE. Returns VP_OK or
 * VP_ERR_NOMEM. */
static enum vp_status find_merged(const struct vp_tokenizer *tokenizer,
                                  const char *left, size_t n_left,
                                  const char *right, size_t n_right,
                                  int32_t *id_out)
{
    char few[256], *merged = few;

    if (n_left + n_right > sizeof(few))
        merged = malloc(n_left + n_right);
    if (!merged)
        return VP_ERR_NOMEM;
    memcpy(merged, left, n_left);
    memcpy(merged + n_left, right, n_right);
    *id_out = vp_vocabulary_find(&tokenizer->vocabulary, merged,
                                 n_left + n_right);
    if (merged != few)
        free(merged);
    return VP_OK;
}

enum vp_status vp_tokenizer_add_merge(struct vp_tokenizer *tokenizer,
                                      const char *left, size_t n_left,
                                      const char *right, size_t n_right,
                                      struct vp_err *err)
{
    const struct vp_vocabulary *vocabulary = &tokenizer->vocabulary;
    int32_t a = vp_vocabulary_find(vocabulary, left, n_left);
    int32_t b = vp_vocabulary_find(vocabulary, right, n_right);
    int32_t merged;

    VP_TRY(find_merged(tokenizer, left, n_left, right, n_right, &merged));
    if (a == VP_TOKEN_NONE || b == VP_TOKEN_NONE || merged == VP_TOKEN_NONE)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the vocabulary lacks %s of merge '%.*s %.*s'; give "
                          "the vocabulary of these merges",
                          a == VP_TOKEN_NONE   ? "the first token"
                          : b == VP_TOKEN_NONE ? "the second token"
                                               : "the result",
                          (int)(n_left < 48 ? n_left : 48), left,
                          (int)(n_right < 48 ? n_right : 48), right);
    return vp_bpe_add(&tokenizer->bpe, (uint32_t)a, (uint32_t)b,
                      (uint32_t)merged);
}

enum vp_status vp_tokenizer_mark_special(struct vp_tokenizer *tokenizer,
                                         const char *bytes, size_t n_bytes,
                                         struct vp_err *err)
{
    int32_t id = vp_vocabulary_find(&tokenizer->vocabulary, bytes, n_bytes);

    if (id == VP_TOKEN_NONE)
        return VP_OK;
    return vp_tokenizer_add_token(tokenizer, bytes, n_bytes, id,
                                  (struct vp_added_flags){ .special = true },
                                  err);
}

/* Returns a flag of an added token; false if it is missing. */
static bool has_flag(const json_t *token, const char *name)
{
    return json_is_true(json_object_get(token, name));
}

enum vp_status vp_tokenizer_add_added(struct vp_tokenizer *tokenizer,
                                      const char *key, int64_t id,
                                      const json_t *token, struct vp_err *err)
{
    const json_t *content = json_object_get(token, "content");
    struct vp_added_flags flags = {
        .special = has_flag(token, "special"),
        .strip_left = has_flag(token, "lstrip"),
        .strip_right = has_flag(token, "rstrip"),
        .later = has_flag(token, "normalized"),
    };
    bool normalises = tokenizer->is_bpe
                          ? tokenizer->nfc
                          : tokenizer->rules.clean || tokenizer->rules.lower ||
                                tokenizer->rules.strip || tokenizer->rules.cjk;

    if (!json_is_string(content))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: has no text 'content'; write {\"content\": "
                          "\"...\"}",
                          key);
    if (has_flag(token, "single_word"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s '%.48s': single_word is not supported; set it to "
                          "false",
                          key, json_string_value(content));
    if (flags.later && normalises)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s '%.48s': normalized is not supported beside a "
                          "normalizer; set it to false",
                          key, json_string_value(content));
    return vp_tokenizer_add_token(tokenizer, json_string_value(content),
                                  json_string_length(content), id, flags, err);
}
