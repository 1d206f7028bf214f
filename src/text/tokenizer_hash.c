/* Hashes everything that determines the ids of a text. */
#include "text/internal.h"
#include "text/tokenizer.h"

#include "base/sha256.h"

#include <string.h>

static void add_number(struct vp_sha256 *sha, uint64_t number)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    vp_sha256_update(sha, bytes, sizeof(bytes));
}

static void add_bytes(struct vp_sha256 *sha, const char *bytes, size_t n)
{
    add_number(sha, n);
    vp_sha256_update(sha, bytes, n);
}

static void add_vocabulary(struct vp_sha256 *sha,
                           const struct vp_vocabulary *vocabulary)
{
    add_number(sha, (uint64_t)vocabulary->n);
    for (int id = 0; id < vocabulary->n; id++) {
        const struct vp_token *token = &vocabulary->tokens[id];

        add_number(sha, !token->bytes ? 0
                                      : 1u | (unsigned)token->added << 1 |
                                            (unsigned)token->special << 2);
        if (token->bytes)
            add_bytes(sha, token->bytes, token->n_bytes);
    }
}

static void add_added(struct vp_sha256 *sha, const struct vp_added *added)
{
    add_number(sha, (uint64_t)added->n);
    for (int i = 0; i < added->n; i++) {
        const struct vp_added_token *token = &added->tokens[i];

        add_number(sha, (uint64_t)token->id << 2 |
                            (unsigned)token->strip_left << 1 |
                            (unsigned)token->strip_right);
    }
}

static void add_wordpiece(struct vp_sha256 *sha,
                          const struct vp_tokenizer *tokenizer)
{
    const struct vp_bert_rules *rules = &tokenizer->rules;

    add_number(sha, (unsigned)rules->clean | (unsigned)rules->cjk << 1 |
                        (unsigned)rules->strip << 2 |
                        (unsigned)rules->lower << 3);
    add_number(sha, (uint64_t)tokenizer->wordpiece.unknown);
    add_number(sha, (uint64_t)tokenizer->wordpiece.inside);
    add_number(sha, tokenizer->wordpiece.max_chars);
}

static void add_bpe(struct vp_sha256 *sha, const struct vp_tokenizer *tokenizer)
{
    const struct vp_bpe *bpe = &tokenizer->bpe;

    add_number(sha, (uint64_t)tokenizer->split << 3 |
                        (unsigned)tokenizer->nfc << 2 |
                        (unsigned)tokenizer->prefix_space << 1 |
                        (unsigned)tokenizer->ignore_merges);
    /* Slots depend only on the merges and their order. */
    for (uint32_t i = 0; i < bpe->n_slots; i++) {
        if (bpe->merges[i].pair == VP_BPE_NO_PAIR)
            continue;
        add_number(sha, bpe->merges[i].pair);
        add_number(sha,
                   (uint64_t)bpe->merges[i].rank << 32 | bpe->merges[i].id);
    }
}

void vp_tokenizer_hash(const struct vp_tokenizer *tokenizer,
                       unsigned char out[VP_SHA256_BYTES])
{
    struct vp_sha256 sha;

    vp_sha256_init(&sha);
    add_number(&sha, tokenizer->is_bpe);
    add_vocabulary(&sha, &tokenizer->vocabulary);
    add_added(&sha, &tokenizer->added);
    add_added(&sha, &tokenizer->added_later);
    if (tokenizer->is_bpe)
        add_bpe(&sha, tokenizer);
    else
        add_wordpiece(&sha, tokenizer);
    vp_sha256_final(&sha, out);
}
