/* Converts ids back to text. */
#include "text/internal.h"

#include "base/utf8.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* ---- WordPiece ---------------------------------------------------------- */

/* Replacements of Hugging Face's decoder, applied to each token in this
 * order. */
static const char *const replacements[][2] = {
    { " .", "." },     { " ?", "?" },           { " !", "!" },
    { " ,", "," },     { " ' ", "'" },          { " n't", "n't" },
    { " 'm", "'m" },   { " do not", " don't" }, { " 's", "'s" },
    { " 've", "'ve" }, { " 're", "'re" },
};

/* Replaces every `from` by `to`, which is not longer. Returns the new
 * length. */
static size_t replace_all(char *text, size_t n, const char *from,
                          const char *to)
{
    size_t n_from = strlen(from), n_to = strlen(to), out = 0, i = 0;

    while (i < n) {
        if (n - i >= n_from && memcmp(text + i, from, n_from) == 0) {
            memcpy(text + out, to, n_to);
            out += n_to;
            i += n_from;
        } else {
            text[out++] = text[i++];
        }
    }
    return out;
}

/* Appends a token with the space before it, or without its prefix. */
static void add_word(const struct vp_tokenizer *tokenizer,
                     const struct vp_token *token, bool first,
                     struct vp_strbuf *out)
{
    size_t start = out->n_bytes, n_prefix = strlen(tokenizer->prefix), n;
    const char *bytes = token->bytes;
    size_t n_bytes = token->n_bytes;

    if (!first && n_bytes >= n_prefix &&
        memcmp(bytes, tokenizer->prefix, n_prefix) == 0) {
        bytes += n_prefix;
        n_bytes -= n_prefix;
    } else if (!first) {
        vp_strbuf_add(out, " ", 1);
    }
    vp_strbuf_add(out, bytes, n_bytes);
    if (!tokenizer->clean_up || out->failed)
        return;
    n = out->n_bytes - start;
    for (size_t i = 0; i < VP_COUNT_OF(replacements); i++)
        n = replace_all(out->at + start, n, replacements[i][0],
                        replacements[i][1]);
    out->n_bytes = start + n;
    out->at[out->n_bytes] = '\0';
}

/* ---- BPE ---------------------------------------------------------------- */

/* Appends `bytes` with U+FFFD for ill-formed UTF-8. All tokens are checked
 * together, because a character may be split between two of them. */
static enum vp_status add_repaired(const struct vp_strbuf *bytes,
                                   struct vp_strbuf *out)
{
    const unsigned char *at = (const unsigned char *)vp_strbuf_text(bytes);
    unsigned char *repaired;

    if (vp_utf8_is_valid(VP_UTF8_ANY, at, bytes->n_bytes)) {
        vp_strbuf_add(out, (const char *)at, bytes->n_bytes);
        return VP_OK;
    }
    repaired = malloc(3 * bytes->n_bytes);
    if (!repaired)
        return VP_ERR_NOMEM;
    vp_strbuf_add(
        out, (char *)repaired,
        vp_utf8_replace(VP_UTF8_ANY, at, bytes->n_bytes, repaired, NULL));
    free(repaired);
    return VP_OK;
}

/* ---- Both --------------------------------------------------------------- */

static enum vp_status add_tokens(const struct vp_tokenizer *tokenizer,
                                 const uint32_t *ids, size_t n,
                                 bool skip_special, struct vp_strbuf *out,
                                 struct vp_err *err)
{
    const struct vp_vocabulary *vocabulary = &tokenizer->vocabulary;
    bool first = true;

    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= (uint32_t)vocabulary->n ||
            !vocabulary->tokens[ids[i]].bytes)
            return vp_err_set(err, VP_ERR_INVALID,
                              "id %u is no token; the vocabulary has %d ids: "
                              "decode with the tokenizer that encoded the text",
                              (unsigned)ids[i], vocabulary->n);
        if (skip_special && vp_tokenizer_is_special(tokenizer, ids[i]))
            continue;
        if (tokenizer->is_bpe)
            vp_strbuf_add(out, tokenizer->decoded[ids[i]].bytes,
                          tokenizer->decoded[ids[i]].n_bytes);
        else
            add_word(tokenizer, &vocabulary->tokens[ids[i]], first, out);
        first = false;
    }
    return VP_OK;
}

enum vp_status vp_tokenizer_decode(const struct vp_tokenizer *tokenizer,
                                   const uint32_t *ids, size_t n,
                                   bool skip_special, struct vp_strbuf *out,
                                   struct vp_err *err)
{
    struct vp_strbuf bytes = VP_STRBUF_INIT;
    enum vp_status st;

    if (tokenizer->is_bpe) {
        st = add_tokens(tokenizer, ids, n, skip_special, &bytes, err);
        if (st == VP_OK && !bytes.failed)
            st = add_repaired(&bytes, out);
    } else {
        st = add_tokens(tokenizer, ids, n, skip_special, out, err);
    }
    if (st == VP_OK && (bytes.failed || out->failed))
        st = vp_err_set(err, VP_ERR_NOMEM,
                        "out of memory while decoding; close other programs");
    vp_strbuf_release(&bytes);
    return st;
}
