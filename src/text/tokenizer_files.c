/* Reads vocab.txt of WordPiece, and vocab.json with merges.txt of BPE. */
#include "text/internal.h"

#include "base/utf8.h"
#include "text/token_file.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHARS = 100 }; /* longer words become the unknown token */

static enum vp_status not_utf8(const char *path, size_t at, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: byte %zu is not UTF-8; give the vocabulary's text",
                      path, at);
}

/* ---- vocab.txt ---------------------------------------------------------- */

/* Returns the length of a line without the spaces at its end. */
static size_t trim_end(const char *line, size_t n)
{
    while (n > 0) {
        size_t k = n - 1;
        uint32_t c;

        while (((unsigned char)line[k] & 0xC0) == 0x80)
            k--;
        vp_code_point_take((const unsigned char *)line + k, &c);
        if (!(vp_unicode_of(c) & VP_UNICODE_SPACE))
            break;
        n = k;
    }
    return n;
}

static enum vp_status add_lines(struct vp_vocabulary *vocabulary,
                                const char *path, const char *text, size_t n,
                                struct vp_err *err)
{
    const char *end = text + n;
    int64_t id = 0;

    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        enum vp_status st;

        if (!stop)
            stop = end;
        st = vp_vocabulary_add(vocabulary, text,
                               trim_end(text, (size_t)(stop - text)), id, err);
        if (st == VP_ERR_INVALID)
            vp_err_prefix(err, "%s:%" PRId64, path, id + 1);
        VP_TRY(st);
        id++;
        text = stop + (stop < end);
    }
    return VP_OK;
}

enum vp_status vp_tokenizer_read_wordpiece(struct vp_tokenizer *tokenizer,
                                           const char *path, struct vp_err *err)
{
    static const char *const specials[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                            "[MASK]" };
    enum vp_status st = VP_OK;
    char *text;
    struct vp_utf8_fault fault;
    size_t n, good;

    tokenizer->rules = (struct vp_bert_rules){ true, true, true, true };
    tokenizer->prefix = "##";
    tokenizer->clean_up = true;
    VP_TRY(vp_token_file_read(path, &text, &n, err));
    good = vp_utf8_check(VP_UTF8_ANY, (unsigned char *)text, n, &fault);
    if (good < n)
        st = not_utf8(path, good, err);
    if (st == VP_OK)
        st = add_lines(&tokenizer->vocabulary, path, text, n, err);
    free(text);
    VP_TRY(st);
    st = vp_wordpiece_init(&tokenizer->wordpiece, &tokenizer->vocabulary,
                           "[UNK]", tokenizer->prefix, MAX_CHARS, err);
    if (st != VP_OK)
        vp_err_prefix(err, "%s", path);
    for (size_t i = 0; st == VP_OK && i < VP_COUNT_OF(specials); i++)
        st = vp_tokenizer_mark_special(tokenizer, specials[i],
                                       strlen(specials[i]), err);
    return st;
}

/* ---- vocab.json and merges.txt ------------------------------------------ */

/* Adds the merge "left right" of a line. */
static enum vp_status add_merge_line(struct vp_tokenizer *tokenizer,
                                     const char *line, size_t n,
                                     struct vp_err *err)
{
    const char *space = memchr(line, ' ', n);
    size_t n_left;

    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - line)))
        return vp_err_set(err, VP_ERR_INVALID,
                          "a merge is two tokens with one space between them; "
                          "check the line");
    n_left = (size_t)(space - line);
    return vp_tokenizer_add_merge(tokenizer, line, n_left, space + 1,
                                  n - n_left - 1, err);
}

static enum vp_status add_merges(struct vp_tokenizer *tokenizer,
                                 const char *path, const char *text, size_t n,
                                 struct vp_err *err)
{
    static const char version[] = "#version";
    const char *end = text + n;

    for (int64_t line = 1; text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t k;

        if (!stop)
            stop = end;
        k = (size_t)(stop - text);
        if (k > 0 && text[k - 1] == '\r')
            k--;
        if (k < sizeof(version) - 1 ||
            memcmp(text, version, sizeof(version) - 1) != 0) {
            enum vp_status st = add_merge_line(tokenizer, text, k, err);

            if (st == VP_ERR_INVALID)
                vp_err_prefix(err, "%s:%" PRId64, path, line);
            VP_TRY(st);
        }
        text = stop + (stop < end);
    }
    return VP_OK;
}

static enum vp_status read_merges(struct vp_tokenizer *tokenizer,
                                  const char *path, struct vp_err *err)
{
    enum vp_status st;
    char *text;
    struct vp_utf8_fault fault;
    size_t n, good;

    VP_TRY(vp_token_file_read(path, &text, &n, err));
    good = vp_utf8_check(VP_UTF8_ANY, (unsigned char *)text, n, &fault);
    st = good < n ? not_utf8(path, good, err)
                  : add_merges(tokenizer, path, text, n, err);
    free(text);
    return st;
}

enum vp_status vp_tokenizer_read_bpe(struct vp_tokenizer *tokenizer,
                                     const char *vocab_path,
                                     const char *merges_path,
                                     struct vp_err *err)
{
    static const char end_of_text[] = "<|endoftext|>";
    enum vp_status st;
    json_t *json;

    tokenizer->is_bpe = true;
    tokenizer->split = VP_SPLIT_GPT2;
    VP_TRY(vp_token_file_json(vocab_path, &json, err));
    st = vp_tokenizer_add_vocab(tokenizer, json, err);
    json_decref(json);
    if (st == VP_ERR_INVALID)
        vp_err_prefix(err, "%s", vocab_path);
    VP_TRY(st);
    vp_bpe_init(&tokenizer->bpe, &tokenizer->vocabulary);
    VP_TRY(read_merges(tokenizer, merges_path, err));
    return vp_tokenizer_mark_special(tokenizer, end_of_text,
                                     sizeof(end_of_text) - 1, err);
}
