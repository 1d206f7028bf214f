/* Encoding one text: repair UTF-8, find added tokens, normalise, split into
 * pieces, encode each piece. */
#include "text/encoder.h"

#include "base/utf8.h"

#include "text/byte_alphabet.h"
#include "text/internal.h"
#include "text/unicode.h"

#include <stdlib.h>

/* A growing array of bytes. */
struct buffer {
    unsigned char *at;
    size_t n, capacity;
};

struct vp_encoder {
    const struct vp_tokenizer *tokenizer;
    struct vp_piece_cache cache;
    struct vp_bert_scratch bert;
    struct vp_bpe_scratch bpe;
    struct vp_code_points points;
    struct buffer repaired, normal, prefixed, letters;
};

/* Empties the buffer and makes room for `n` bytes. */
static enum vp_status buffer_clear(struct buffer *buffer, size_t n)
{
    buffer->n = 0;
    if (buffer->capacity >= n)
        return VP_OK;
    free(buffer->at);
    buffer->capacity = 0;
    buffer->at = malloc(2 * n);
    if (!buffer->at)
        return VP_ERR_NOMEM;
    buffer->capacity = 2 * n;
    return VP_OK;
}

enum vp_status vp_encoder_create(const struct vp_tokenizer *tokenizer,
                                 struct vp_encoder **out)
{
    struct vp_encoder *encoder = calloc(1, sizeof(*encoder));

    if (!encoder)
        return VP_ERR_NOMEM;
    encoder->tokenizer = tokenizer;
    if (vp_piece_cache_init(&encoder->cache) != VP_OK) {
        free(encoder);
        return VP_ERR_NOMEM;
    }
    *out = encoder;
    return VP_OK;
}

void vp_encoder_free(struct vp_encoder *encoder)
{
    if (!encoder)
        return;
    vp_piece_cache_release(&encoder->cache);
    vp_bert_scratch_release(&encoder->bert);
    vp_bpe_scratch_release(&encoder->bpe);
    vp_code_points_release(&encoder->points);
    free(encoder->repaired.at);
    free(encoder->normal.at);
    free(encoder->prefixed.at);
    free(encoder->letters.at);
    free(encoder);
}

/* ---- BPE ---------------------------------------------------------------- */

/* Writes the id of the token that equals the whole piece, or VP_TOKEN_NONE. */
static enum vp_status find_whole(struct vp_encoder *encoder,
                                 const unsigned char *piece, size_t n,
                                 int32_t *id_out)
{
    const struct vp_vocabulary *vocabulary = &encoder->tokenizer->vocabulary;
    struct buffer *letters = &encoder->letters;

    VP_TRY(buffer_clear(letters, 2 * n));
    for (size_t i = 0; i < n; i++)
        letters->n += vp_code_point_put(vp_byte_alphabet_char(piece[i]),
                                        letters->at + letters->n);
    *id_out = vp_vocabulary_find(vocabulary, (char *)letters->at, letters->n);
    if (*id_out != VP_TOKEN_NONE && vocabulary->tokens[*id_out].added)
        *id_out = VP_TOKEN_NONE;
    return VP_OK;
}

static enum vp_status add_piece(struct vp_encoder *encoder,
                                const unsigned char *piece, size_t n,
                                struct vp_ids *ids)
{
    const struct vp_tokenizer *tokenizer = encoder->tokenizer;
    int32_t whole = VP_TOKEN_NONE;

    if (tokenizer->ignore_merges)
        VP_TRY(find_whole(encoder, piece, n, &whole));
    if (whole == VP_TOKEN_NONE)
        return vp_bpe_encode(&tokenizer->bpe, &encoder->bpe, piece, n, ids);
    ids->at[ids->n++] = (uint32_t)whole;
    return VP_OK;
}

static enum vp_status add_pieces(struct vp_encoder *encoder,
                                 const unsigned char *text,
                                 const unsigned char *end, struct vp_ids *ids)
{
    enum vp_split split = encoder->tokenizer->split;

    while (text < end) {
        const unsigned char *next = vp_split_next(split, text, end);
        size_t n = (size_t)(next - text), before = ids->n;
        struct vp_piece_key key;

        VP_TRY(vp_ids_reserve(ids, VP_PIECE_IDS));
        if (n > VP_PIECE_BYTES) {
            VP_TRY(add_piece(encoder, text, n, ids));
        } else {
            key = vp_piece_key_of(text, n);
            if (!vp_piece_cache_get(&encoder->cache, &key, ids)) {
                VP_TRY(add_piece(encoder, text, n, ids));
                vp_piece_cache_put(&encoder->cache, &key, ids->at + before,
                                   ids->n - before);
            }
        }
        text = next;
    }
    return VP_OK;
}

/* ---- Normal forms ------------------------------------------------------- */

/* Returns true if the text is certainly in NFC. */
static bool is_stable(const unsigned char *at, const unsigned char *end)
{
    uint32_t c;

    while (at < end) {
        at += vp_code_point_take(at, &c);
        if (c >= 0x80 && vp_unicode_of(c) & VP_UNICODE_UNSTABLE)
            return false;
    }
    return true;
}

/* Converts [*text_io, *end_io) to NFC in a buffer of the encoder. Leaves both
 * unchanged if the text is in NFC already. */
static enum vp_status compose(struct vp_encoder *encoder,
                              const unsigned char **text_io,
                              const unsigned char **end_io)
{
    struct vp_code_points *points = &encoder->points;
    const unsigned char *at = *text_io, *end = *end_io;
    uint32_t c;

    if (is_stable(at, end))
        return VP_OK;
    points->n = 0;
    while (at < end) {
        at += vp_code_point_take(at, &c);
        VP_TRY(vp_unicode_add_nfd(points, c));
    }
    VP_TRY(vp_unicode_sort_marks(points));
    vp_unicode_compose_all(points);
    VP_TRY(buffer_clear(&encoder->normal, VP_CODE_POINT_BYTES * points->n));
    for (size_t i = 0; i < points->n; i++)
        encoder->normal.n += vp_code_point_put(
            points->at[i], encoder->normal.at + encoder->normal.n);
    *text_io = encoder->normal.at;
    *end_io = encoder->normal.at + encoder->normal.n;
    return VP_OK;
}

/* Copies the text with a space in front, unless it begins with one. */
static enum vp_status prepend_space(struct vp_encoder *encoder,
                                    const unsigned char **text_io,
                                    const unsigned char **end_io)
{
    size_t n = (size_t)(*end_io - *text_io);

    if (**text_io == ' ')
        return VP_OK;
    VP_TRY(buffer_clear(&encoder->prefixed, n + 1));
    encoder->prefixed.at[0] = ' ';
    memcpy(encoder->prefixed.at + 1, *text_io, n);
    *text_io = encoder->prefixed.at;
    *end_io = encoder->prefixed.at + n + 1;
    return VP_OK;
}

/* ---- A text ------------------------------------------------------------- */

/* Appends the ids of text without added tokens. */
static enum vp_status add_plain(struct vp_encoder *encoder,
                                const unsigned char *text,
                                const unsigned char *end, struct vp_ids *ids)
{
    const struct vp_tokenizer *tokenizer = encoder->tokenizer;

    if (text == end)
        return VP_OK;
    if (!tokenizer->is_bpe)
        return vp_bert_encode(&tokenizer->rules, &tokenizer->wordpiece,
                              &encoder->bert, &encoder->cache, text,
                              (size_t)(end - text), ids);
    if (tokenizer->nfc)
        VP_TRY(compose(encoder, &text, &end));
    if (tokenizer->prefix_space)
        VP_TRY(prepend_space(encoder, &text, &end));
    return add_pieces(encoder, text, end, ids);
}

/* Appends the ids of the added tokens of one set and of the text between them.
 * `later` selects the second set, whose tokens are searched in the text that
 * the first set leaves. */
static enum vp_status add_around(struct vp_encoder *encoder, bool later,
                                 bool ordinary, const unsigned char *text,
                                 const unsigned char *end, struct vp_ids *ids)
{
    const struct vp_added *added = later ? &encoder->tokenizer->added_later
                                         : &encoder->tokenizer->added;
    struct vp_added_match match;
    bool found;

    do {
        const unsigned char *stop = end;

        found = vp_added_find(added, ordinary, text, end, &match);
        if (found)
            stop = match.start;
        if (later)
            VP_TRY(add_plain(encoder, text, stop, ids));
        else
            VP_TRY(add_around(encoder, true, ordinary, text, stop, ids));
        if (found) {
            VP_TRY(vp_ids_reserve(ids, 1));
            ids->at[ids->n++] = match.token->id;
            text = match.end;
        }
    } while (found);
    return VP_OK;
}

enum vp_status vp_encoder_add(struct vp_encoder *encoder, const void *text,
                              size_t n, bool ordinary, struct vp_ids *ids)
{
    const unsigned char *at = text;

    if (!vp_utf8_is_valid(VP_UTF8_ANY, at, n)) {
        VP_TRY(buffer_clear(&encoder->repaired, 3 * n));
        n = vp_utf8_replace(VP_UTF8_ANY, at, n, encoder->repaired.at, NULL);
        at = encoder->repaired.at;
    }
    return add_around(encoder, false, ordinary, at, at + n, ids);
}
