/* Searches for added tokens with a trie; a table of first bytes skips most of
 * the text. */
#include "text/added.h"

#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_added_add(struct vp_added *added,
                            const struct vp_added_token *token)
{
    struct vp_added_token *tokens;
    int32_t i = vp_vocabulary_find(&added->index, token->bytes, token->n_bytes);

    if (token->n_bytes == 0)
        return VP_OK;
    if (i != VP_TOKEN_NONE) {
        added->tokens[i] = *token;
        return VP_OK;
    }
    if (added->n == added->capacity) {
        int capacity = 2 * added->n + 8;

        tokens = realloc(added->tokens, (size_t)capacity * sizeof(*tokens));
        if (!tokens)
            return VP_ERR_NOMEM;
        added->tokens = tokens;
        added->capacity = capacity;
    }
    VP_TRY(vp_vocabulary_add(&added->index, token->bytes, token->n_bytes,
                             added->n, NULL));
    added->tokens[added->n++] = *token;
    added->begins[(unsigned char)token->bytes[0]] = true;
    return VP_OK;
}

enum vp_status vp_added_finish(struct vp_added *added, struct vp_err *err)
{
    vp_trie_release(&added->trie);
    return vp_trie_init(&added->trie, &added->index, err);
}

void vp_added_release(struct vp_added *added)
{
    free(added->tokens);
    vp_vocabulary_release(&added->index);
    vp_trie_release(&added->trie);
    memset(added, 0, sizeof(*added));
}

static const struct vp_added_token *longest_at(const struct vp_added *added,
                                               const unsigned char *at,
                                               const unsigned char *end)
{
    int32_t i;

    if (vp_trie_longest(&added->trie, VP_TRIE_ROOT, at, (size_t)(end - at),
                        &i) == 0)
        return NULL;
    return &added->tokens[i];
}

/* Returns the start of the spaces that end at `at`. */
static const unsigned char *spaces_before(const unsigned char *from,
                                          const unsigned char *at)
{
    while (at > from) {
        const unsigned char *last = at - 1;
        uint32_t c;

        while ((*last & 0xC0) == 0x80)
            last--;
        vp_code_point_take(last, &c);
        if (!(vp_unicode_of(c) & VP_UNICODE_SPACE))
            break;
        at = last;
    }
    return at;
}

static const unsigned char *spaces_behind(const unsigned char *at,
                                          const unsigned char *end)
{
    while (at < end) {
        uint32_t c;
        size_t k = vp_code_point_take(at, &c);

        if (!(vp_unicode_of(c) & VP_UNICODE_SPACE))
            break;
        at += k;
    }
    return at;
}

bool vp_added_find(const struct vp_added *added, bool ordinary,
                   const unsigned char *at, const unsigned char *end,
                   struct vp_added_match *match_out)
{
    const unsigned char *from = at;

    if (added->n == 0)
        return false;
    while (at < end) {
        const struct vp_added_token *token;

        if (!added->begins[*at] || !(token = longest_at(added, at, end))) {
            at++;
            continue;
        }
        /* Skips all its bytes: Hugging Face does not search for other tokens
         * inside it. */
        if (token->special && ordinary) {
            at += token->n_bytes;
            continue;
        }
        match_out->token = token;
        match_out->start = token->strip_left ? spaces_before(from, at) : at;
        at += token->n_bytes;
        match_out->end = token->strip_right ? spaces_behind(at, end) : at;
        return true;
    }
    return false;
}
