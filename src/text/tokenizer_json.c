/* Reads tokenizer.json: WordPiece of BERT and byte-level BPE of GPT-2, Llama 3
 * and Qwen 2. Refuses every other type of component, because it would give
 * other ids. */
#include "text/internal.h"
#include "text/token_file.h"
#include "text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 8, MAX_CHARS = 100 };

/* A component of the tokenizer. null has no parts, an object is one part, and a
 * Sequence has several. */
struct component {
    const char *key;
    const json_t *parts[MAX_PARTS];
    int n;
};

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    return type ? type : "none";
}

static enum vp_status refuse(const struct component *component, int i,
                             const char *supported, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: type '%.48s' is not supported here; vpipe reads %s",
                      component->key, type_of(component->parts[i]), supported);
}

/* Reads the component `key` of `root`; a Sequence has its parts below
 * `list`. */
static enum vp_status find_component(const json_t *root, const char *key,
                                     const char *list,
                                     struct component *component,
                                     struct vp_err *err)
{
    const json_t *value = json_object_get(root, key), *parts;

    component->key = key;
    component->n = 0;
    if (!value || json_is_null(value))
        return VP_OK;
    if (!json_is_object(value))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is neither null nor an object; correct it", key);
    component->parts[component->n++] = value;
    if (strcmp(type_of(value), "Sequence") != 0)
        return VP_OK;
    parts = json_object_get(value, list);
    component->n = 0;
    if (!json_is_array(parts) || json_array_size(parts) > MAX_PARTS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: a Sequence needs a list '%s' of at most %d "
                          "parts; correct it",
                          key, list, MAX_PARTS);
    for (size_t i = 0; i < json_array_size(parts); i++)
        component->parts[component->n++] = json_array_get(parts, i);
    return VP_OK;
}

static bool is_part(const struct component *component, int i, const char *type)
{
    return i < component->n && strcmp(type_of(component->parts[i]), type) == 0;
}

static bool flag_of(const json_t *part, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(part, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* Returns a text, or NULL if it is missing or null. */
static const char *text_of(const json_t *part, const char *key)
{
    return json_string_value(json_object_get(part, key));
}

/* ---- WordPiece ---------------------------------------------------------- */

static enum vp_status take_bert(struct vp_tokenizer *tokenizer,
                                const json_t *root, struct vp_err *err)
{
    struct component normalizer, cut, decoder;
    struct vp_bert_rules *rules = &tokenizer->rules;
    const char *prefix;

    VP_TRY(find_component(root, "normalizer", "normalizers", &normalizer, err));
    VP_TRY(find_component(root, "pre_tokenizer", "pretokenizers", &cut, err));
    VP_TRY(find_component(root, "decoder", "decoders", &decoder, err));
    if (normalizer.n > 0 && !is_part(&normalizer, 0, "BertNormalizer"))
        return refuse(&normalizer, 0, "BertNormalizer with WordPiece", err);
    if (normalizer.n > 1)
        return refuse(&normalizer, 1, "one BertNormalizer", err);
    if (normalizer.n == 1) {
        const json_t *bert = normalizer.parts[0];

        rules->clean = flag_of(bert, "clean_text", true);
        rules->cjk = flag_of(bert, "handle_chinese_chars", true);
        rules->lower = flag_of(bert, "lowercase", true);
        rules->strip = flag_of(bert, "strip_accents", rules->lower);
    }
    if (!is_part(&cut, 0, "BertPreTokenizer"))
        return cut.n > 0
                   ? refuse(&cut, 0, "BertPreTokenizer with WordPiece", err)
                   : vp_err_set(err, VP_ERR_INVALID,
                                "pre_tokenizer: is missing; vpipe reads "
                                "BertPreTokenizer with WordPiece");
    if (cut.n > 1)
        return refuse(&cut, 1, "one BertPreTokenizer", err);
    if (decoder.n > 0 && !is_part(&decoder, 0, "WordPiece"))
        return refuse(&decoder, 0, "WordPiece", err);
    prefix = decoder.n > 0 ? text_of(decoder.parts[0], "prefix") : NULL;
    tokenizer->prefix = vp_arena_strdup(&tokenizer->arena,
                                        prefix ? prefix : "##");
    tokenizer->clean_up = decoder.n > 0 &&
                          flag_of(decoder.parts[0], "cleanup", true);
    return tokenizer->prefix ? VP_OK : VP_ERR_NOMEM;
}

static enum vp_status take_wordpiece(struct vp_tokenizer *tokenizer,
                                     const json_t *model, struct vp_err *err)
{
    const json_t *max = json_object_get(model, "max_input_chars_per_word");
    const char *unknown = text_of(model, "unk_token");
    const char *prefix = text_of(model, "continuing_subword_prefix");
    enum vp_status st;

    if (max && (!json_is_integer(max) || json_integer_value(max) < 1))
        return vp_err_set(err, VP_ERR_INVALID,
                          "model.max_input_chars_per_word: is not a whole "
                          "number from 1; correct it");
    st = vp_wordpiece_init(&tokenizer->wordpiece, &tokenizer->vocabulary,
                           unknown ? unknown : "[UNK]", prefix ? prefix : "##",
                           max ? (size_t)json_integer_value(max) : MAX_CHARS,
                           err);
    if (st == VP_ERR_INVALID)
        vp_err_prefix(err, "model");
    return st;
}

/* ---- BPE ---------------------------------------------------------------- */

static enum vp_status take_normalizer(struct vp_tokenizer *tokenizer,
                                      const json_t *root, struct vp_err *err)
{
    struct component normalizer;

    VP_TRY(find_component(root, "normalizer", "normalizers", &normalizer, err));
    if (normalizer.n > 1)
        return refuse(&normalizer, 1, "one NFC or null with BPE", err);
    if (normalizer.n == 1 && !is_part(&normalizer, 0, "NFC"))
        return refuse(&normalizer, 0, "NFC or null with BPE", err);
    tokenizer->nfc = normalizer.n == 1;
    return VP_OK;
}

/* Reads Split with one of the known expressions, followed by ByteLevel without
 * an expression of its own. */
static enum vp_status take_split(struct vp_tokenizer *tokenizer,
                                 const struct component *cut,
                                 struct vp_err *err)
{
    const json_t *split = cut->parts[0];
    const char *regex = text_of(json_object_get(split, "pattern"), "Regex");
    const char *behavior = text_of(split, "behavior");
    int known = VP_SPLIT_GPT2;

    while (regex && ++known < VP_SPLIT_COUNT)
        if (strcmp(regex, vp_split_regex((enum vp_split)known)) == 0)
            break;
    if (!regex || known == VP_SPLIT_COUNT)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: the pattern '%.200s' of Split is not supported; "
                          "vpipe reads those of Llama 3 and Qwen 2",
                          cut->key, regex ? regex : "(not a Regex)");
    if (!behavior || strcmp(behavior, "Isolated") != 0 ||
        flag_of(split, "invert", false))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: behavior '%.48s' of Split is not supported; "
                          "vpipe reads 'Isolated', not inverted",
                          cut->key, behavior ? behavior : "none");
    if (!is_part(cut, 1, "ByteLevel") ||
        flag_of(cut->parts[1], "use_regex", true) ||
        flag_of(cut->parts[1], "add_prefix_space", true))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: Split must be followed by ByteLevel with "
                          "use_regex and add_prefix_space false",
                          cut->key);
    tokenizer->split = (enum vp_split)known;
    return cut->n > 2 ? refuse(cut, 2, "Split and ByteLevel", err) : VP_OK;
}

static enum vp_status take_cut(struct vp_tokenizer *tokenizer,
                               const json_t *root, struct vp_err *err)
{
    struct component cut;

    VP_TRY(find_component(root, "pre_tokenizer", "pretokenizers", &cut, err));
    if (cut.n == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "pre_tokenizer: is missing; vpipe reads ByteLevel "
                          "with BPE");
    if (is_part(&cut, 0, "Split"))
        return take_split(tokenizer, &cut, err);
    if (!is_part(&cut, 0, "ByteLevel"))
        return refuse(&cut, 0, "ByteLevel, or Split and ByteLevel, with BPE",
                      err);
    if (cut.n > 1)
        return refuse(&cut, 1, "one ByteLevel", err);
    if (!flag_of(cut.parts[0], "use_regex", true))
        return vp_err_set(err, VP_ERR_INVALID,
                          "pre_tokenizer: use_regex false is not supported "
                          "without Split; vpipe reads true");
    tokenizer->split = VP_SPLIT_GPT2;
    tokenizer->prefix_space = flag_of(cut.parts[0], "add_prefix_space", true);
    return VP_OK;
}

/* Reads a merge: "a b" in old files, ["a", "b"] in new ones. */
static enum vp_status take_merge(struct vp_tokenizer *tokenizer,
                                 const json_t *merge, struct vp_err *err)
{
    const json_t *left = json_array_get(merge, 0);
    const json_t *right = json_array_get(merge, 1);
    const char *text = json_string_value(merge), *space;
    size_t n;

    if (json_is_string(left) && json_is_string(right) &&
        json_array_size(merge) == 2)
        return vp_tokenizer_add_merge(
            tokenizer, json_string_value(left), json_string_length(left),
            json_string_value(right), json_string_length(right), err);
    n = text ? json_string_length(merge) : 0;
    space = text ? memchr(text, ' ', n) : NULL;
    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - text)))
        return vp_err_set(err, VP_ERR_INVALID,
                          "is no pair of tokens; write [\"a\", \"b\"]");
    return vp_tokenizer_add_merge(tokenizer, text, (size_t)(space - text),
                                  space + 1, n - (size_t)(space + 1 - text),
                                  err);
}

static enum vp_status take_merges(struct vp_tokenizer *tokenizer,
                                  const json_t *model, struct vp_err *err)
{
    const json_t *merges = json_object_get(model, "merges");

    if (!json_is_array(merges))
        return vp_err_set(err, VP_ERR_INVALID,
                          "model.merges: is no list; write [[\"a\", \"b\"], "
                          "...]");
    for (size_t i = 0; i < json_array_size(merges); i++) {
        enum vp_status st = take_merge(tokenizer, json_array_get(merges, i),
                                       err);

        if (st == VP_ERR_INVALID)
            vp_err_prefix(err, "model.merges[%zu]", i);
        VP_TRY(st);
    }
    return VP_OK;
}

/* Returns true if every byte has a token. Hugging Face would encode a byte
 * without one as the unknown token, which vpipe does not support. */
static bool has_all_bytes(const struct vp_bpe *bpe)
{
    for (int byte = 0; byte < 256; byte++)
        if (bpe->byte_ids[byte] == VP_TOKEN_NONE)
            return false;
    return true;
}

static enum vp_status take_bpe(struct vp_tokenizer *tokenizer,
                               const json_t *model, struct vp_err *err)
{
    static const char *const texts[] = { "continuing_subword_prefix",
                                         "end_of_word_suffix" };
    const json_t *dropout = json_object_get(model, "dropout");

    for (size_t i = 0; i < VP_COUNT_OF(texts); i++)
        if (text_of(model, texts[i]) && text_of(model, texts[i])[0])
            return vp_err_set(err, VP_ERR_INVALID,
                              "model.%s: '%.48s' is not supported; vpipe reads "
                              "null",
                              texts[i], text_of(model, texts[i]));
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0.0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "model.dropout: is not supported; set it to null");
    if (flag_of(model, "byte_fallback", false))
        return vp_err_set(err, VP_ERR_INVALID,
                          "model.byte_fallback: is not supported; vpipe reads "
                          "byte-level BPE, whose value is false");
    tokenizer->ignore_merges = flag_of(model, "ignore_merges", false);
    vp_bpe_init(&tokenizer->bpe, &tokenizer->vocabulary);
    if (text_of(model, "unk_token") && !has_all_bytes(&tokenizer->bpe))
        return vp_err_set(err, VP_ERR_INVALID,
                          "model.unk_token: is not supported where a byte has "
                          "no token; set it to null");
    return take_merges(tokenizer, model, err);
}

/* ---- The file ----------------------------------------------------------- */

/* Returns VP_ERR_INVALID if a part of the component `key` has a type that is
 * not in `known`, which ends with NULL. */
static enum vp_status check_types(const json_t *root, const char *key,
                                  const char *list, const char *const *known,
                                  const char *supported, struct vp_err *err)
{
    struct component component;

    VP_TRY(find_component(root, key, list, &component, err));
    for (int i = 0; i < component.n; i++) {
        int k = 0;

        while (known[k] && !is_part(&component, i, known[k]))
            k++;
        if (!known[k])
            return refuse(&component, i, supported, err);
    }
    return VP_OK;
}

static enum vp_status take_added_tokens(struct vp_tokenizer *tokenizer,
                                        const json_t *root, struct vp_err *err)
{
    const json_t *list = json_object_get(root, "added_tokens");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        const json_t *id = json_object_get(token, "id");
        char key[48];

        snprintf(key, sizeof(key), "added_tokens[%zu]", i);
        if (!json_is_integer(id))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: has no whole number 'id'; write one", key);
        VP_TRY(vp_tokenizer_add_added(tokenizer, key, json_integer_value(id),
                                      token, err));
    }
    return VP_OK;
}

static enum vp_status take_model(struct vp_tokenizer *tokenizer,
                                 const json_t *root, struct vp_err *err)
{
    const json_t *model = json_object_get(root, "model");
    const char *type = text_of(model, "type");

    if (!json_is_object(model))
        return vp_err_set(err, VP_ERR_INVALID,
                          "has no object 'model'; give a tokenizer.json of "
                          "Hugging Face");
    if (!type && json_object_get(model, "merges"))
        type = "BPE"; /* old files have no type */
    tokenizer->is_bpe = type && strcmp(type, "BPE") == 0;
    if (!tokenizer->is_bpe && (!type || strcmp(type, "WordPiece") != 0))
        return vp_err_set(err, VP_ERR_INVALID,
                          "model: type '%.48s' is not supported; vpipe reads "
                          "WordPiece and BPE",
                          type ? type : "none");
    if (!json_is_object(json_object_get(model, "vocab")))
        return vp_err_set(err, VP_ERR_INVALID,
                          "model.vocab: is no object; write {\"token\": id}");
    if (tokenizer->is_bpe) {
        VP_TRY(take_normalizer(tokenizer, root, err));
        VP_TRY(take_cut(tokenizer, root, err));
    } else {
        VP_TRY(take_bert(tokenizer, root, err));
    }
    VP_TRY(vp_tokenizer_add_vocab(tokenizer, json_object_get(model, "vocab"),
                                  err));
    return tokenizer->is_bpe ? take_bpe(tokenizer, model, err)
                             : take_wordpiece(tokenizer, model, err);
}

static enum vp_status take_root(struct vp_tokenizer *tokenizer,
                                const json_t *root, struct vp_err *err)
{
    static const char *const ends[] = { "TemplateProcessing", "BertProcessing",
                                        "RobertaProcessing", "ByteLevel",
                                        NULL };
    static const char *const byte_level[] = { "ByteLevel", NULL };

    VP_TRY(take_model(tokenizer, root, err));
    /* vpipe does not run the post-processor, but refuses unknown types. */
    VP_TRY(check_types(root, "post_processor", "processors", ends,
                       "TemplateProcessing, BertProcessing, RobertaProcessing "
                       "and ByteLevel",
                       err));
    if (tokenizer->is_bpe)
        VP_TRY(check_types(root, "decoder", "decoders", byte_level,
                           "ByteLevel with BPE", err));
    return take_added_tokens(tokenizer, root, err);
}

enum vp_status vp_tokenizer_read_json(struct vp_tokenizer *tokenizer,
                                      const char *path, struct vp_err *err)
{
    enum vp_status st;
    json_t *root;

    tokenizer->from_json = true;
    VP_TRY(vp_token_file_json(path, &root, err));
    st = take_root(tokenizer, root, err);
    json_decref(root);
    if (st == VP_ERR_INVALID)
        vp_err_prefix(err, "%s", path);
    return st;
}
