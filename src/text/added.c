#include "text/added.h"

#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_added_add(struct vp_added *added,
                            const struct vp_added_token *token)
{
    struct vp_added_token *tokens;
    int i = 0;

    if (token->n_bytes == 0)
        return VP_OK;
    while (i < added->n &&
           (added->tokens[i].n_bytes != token->n_bytes ||
            memcmp(added->tokens[i].bytes, token->bytes, token->n_bytes) != 0))
        i++;
    if (i == added->capacity) {
        tokens = realloc(added->tokens, (size_t)(2 * i + 8) * sizeof(*tokens));
        if (!tokens)
            return VP_ERR_NOMEM;
        added->tokens = tokens;
        added->capacity = 2 * i + 8;
    }
    added->tokens[i] = *token;
    if (i == added->n)
        added->n++;
    added->begins[(unsigned char)token->bytes[0]] = true;
    return VP_OK;
}

void vp_added_release(struct vp_added *added)
{
    free(added->tokens);
    memset(added, 0, sizeof(*added));
}

static const struct vp_added_token *longest_at(const struct vp_added *added,
                                               const unsigned char *at,
                                               const unsigned char *end)
{
    const struct vp_added_token *best = NULL;

    for (int i = 0; i < added->n; i++) {
        const struct vp_added_token *token = &added->tokens[i];

        if (token->n_bytes <= (size_t)(end - at) &&
            (!best || token->n_bytes > best->n_bytes) &&
            memcmp(token->bytes, at, token->n_bytes) == 0)
            best = token;
    }
    return best;
}

/* The start of the spaces that end at `at`. */
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
        /* Its bytes are passed over as a whole: Hugging Face does not look for
         * other tokens inside it. */
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
