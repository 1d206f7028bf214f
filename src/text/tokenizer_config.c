/* Reads tokenizer_config.json: settings that vocab.txt and merges.txt cannot
 * express, and the names of special tokens. Other keys are ignored. */
#include "text/internal.h"
#include "text/token_file.h"
#include "text/tokenizer_parts.h"

#include "base/value.h"

#include <string.h>

static const struct {
    const char *key;
    enum vp_special special;
} roles[] = {
    { "pad_token", VP_SPECIAL_PAD },   { "unk_token", VP_SPECIAL_UNKNOWN },
    { "cls_token", VP_SPECIAL_CLS },   { "sep_token", VP_SPECIAL_SEP },
    { "mask_token", VP_SPECIAL_MASK }, { "bos_token", VP_SPECIAL_BEGIN },
    { "eos_token", VP_SPECIAL_END },
};

/* Reads a flag; writes `otherwise` if it is missing or null. */
static enum vp_status take_flag(const json_t *config, const char *key,
                                bool otherwise, bool *out, struct vp_err *err)
{
    const json_t *value = json_object_get(config, key);

    if (value && !json_is_null(value) && !json_is_boolean(value))
        return vp_err_set(err, VP_ERR_INVALID,
                          "key '%s' is neither true nor false; correct it",
                          key);
    *out = json_is_boolean(value) ? json_is_true(value) : otherwise;
    return VP_OK;
}

static enum vp_status take_rules(struct vp_bert_rules *rules,
                                 const json_t *config, struct vp_err *err)
{
    VP_TRY(take_flag(config, "do_lower_case", true, &rules->lower, err));
    VP_TRY(
        take_flag(config, "strip_accents", rules->lower, &rules->strip, err));
    return take_flag(config, "tokenize_chinese_chars", true, &rules->cjk, err);
}

/* Reads a special token: a text, or an object with a text 'content'. `mark`
 * also adds it to the tokens that are searched for in a text. */
static enum vp_status take_role(struct vp_tokenizer *tokenizer,
                                enum vp_special special, const json_t *value,
                                bool mark, struct vp_err *err)
{
    const char *text;

    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (!json_is_string(value))
        return VP_OK;
    text = json_string_value(value);
    tokenizer->special[special] = vp_vocabulary_find(
        &tokenizer->vocabulary, text, json_string_length(value));
    return mark ? vp_tokenizer_mark_special(tokenizer, text,
                                            json_string_length(value), err)
                : VP_OK;
}

/* {"50256": {"content": "<|endoftext|>", ...}} */
static enum vp_status take_added(struct vp_tokenizer *tokenizer,
                                 json_t *decoder, struct vp_err *err)
{
    for (void *at = json_object_iter(decoder); at;
         at = json_object_iter_next(decoder, at)) {
        int64_t id;

        if (!vp_text_to_i64(json_object_iter_key(at), &id))
            return vp_err_set(err, VP_ERR_INVALID,
                              "added_tokens_decoder: '%.48s' is no id; write a "
                              "number",
                              json_object_iter_key(at));
        VP_TRY(vp_tokenizer_add_added(tokenizer, "added_tokens_decoder", id,
                                      json_object_iter_value(at), err));
    }
    return VP_OK;
}

static enum vp_status take_config(struct vp_tokenizer *tokenizer,
                                  json_t *config, struct vp_err *err)
{
    bool from_json = tokenizer->from_json;

    if (!from_json && !tokenizer->is_bpe)
        VP_TRY(take_rules(&tokenizer->rules, config, err));
    if (!from_json && tokenizer->is_bpe)
        VP_TRY(take_flag(config, "add_prefix_space", false,
                         &tokenizer->prefix_space, err));
    if (!from_json)
        VP_TRY(take_added(
            tokenizer, json_object_get(config, "added_tokens_decoder"), err));
    for (size_t i = 0; i < VP_COUNT_OF(roles); i++)
        VP_TRY(take_role(tokenizer, roles[i].special,
                         json_object_get(config, roles[i].key), !from_json,
                         err));
    return VP_OK;
}

enum vp_status vp_tokenizer_read_config(struct vp_tokenizer *tokenizer,
                                        const char *path, struct vp_err *err)
{
    enum vp_status st;
    json_t *config;

    VP_TRY(vp_token_file_json(path, &config, err));
    st = take_config(tokenizer, config, err);
    json_decref(config);
    if (st == VP_ERR_INVALID)
        vp_err_prefix(err, "%s", path);
    return st;
}
