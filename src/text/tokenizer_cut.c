/* Finds places at which a long text may be cut and encoded in parts.
 *
 * No expression of split.h has a piece that continues after an LF with anything
 * but white space, and WordPiece splits at white space. GPT-2 takes all white
 * space as one piece at the end of a text, and all but its last character
 * elsewhere. So a cut leaves the pieces unchanged only behind a single LF
 * between visible characters. */
#include "text/tokenizer.h"

#include "text/code_point.h"
#include "text/internal.h"
#include "text/unicode.h"

#include <string.h>

/* Returns true if a token that is found in ordinary text may extend over an
 * LF. */
static bool reaches_over(const struct vp_added *added)
{
    for (int i = 0; i < added->n; i++) {
        const struct vp_added_token *token = &added->tokens[i];
        const struct vp_token *word = &added->index.tokens[i];

        if (!token->special && (token->strip_left || token->strip_right ||
                                memchr(word->bytes, '\n', word->n_bytes)))
            return true;
    }
    return false;
}

/* Returns the last code point before `end`. */
static uint32_t code_point_before(const unsigned char *start,
                                  const unsigned char *end)
{
    uint32_t c;

    do
        end--;
    while (end > start && (*end & 0xC0) == 0x80);
    vp_code_point_take(end, &c);
    return c;
}

/* Returns true if no tokenizer reads `c` as white space and BERT does not drop
 * it. */
static bool is_visible(uint32_t c)
{
    return c > ' ' &&
           !(vp_unicode_of(c) &
             (VP_UNICODE_SPACE | VP_UNICODE_BLANK | VP_UNICODE_REMOVED));
}

size_t vp_tokenizer_cut(const struct vp_tokenizer *tokenizer, const void *text,
                        size_t n)
{
    const unsigned char *start = text;
    uint32_t next;

    if ((tokenizer->is_bpe && tokenizer->prefix_space) ||
        reaches_over(&tokenizer->added) ||
        reaches_over(&tokenizer->added_later))
        return 0;
    for (size_t place = n; place-- > 2;) {
        if (start[place - 1] != '\n' ||
            !is_visible(code_point_before(start, start + place - 1)))
            continue;
        vp_code_point_take(start + place, &next);
        if (is_visible(next))
            return place;
    }
    return 0;
}
