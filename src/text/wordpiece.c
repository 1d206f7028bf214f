/* Greedy longest match with the trie of the vocabulary. */
#include "text/wordpiece.h"

#include <string.h>

enum vp_status vp_wordpiece_init(struct vp_wordpiece *wordpiece,
                                 const struct vp_vocabulary *vocabulary,
                                 const char *unknown, const char *prefix,
                                 size_t max_chars, struct vp_err *err)
{
    memset(wordpiece, 0, sizeof(*wordpiece));
    wordpiece->max_chars = max_chars;
    wordpiece->unknown = vp_vocabulary_find(vocabulary, unknown,
                                            strlen(unknown));
    if (wordpiece->unknown == VP_TOKEN_NONE)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the vocabulary has no token '%.48s' for unknown "
                          "words; add it",
                          unknown);
    VP_TRY(vp_trie_init(&wordpiece->trie, vocabulary, err));
    wordpiece->inside = vp_trie_walk(&wordpiece->trie, VP_TRIE_ROOT,
                                     (const unsigned char *)prefix,
                                     strlen(prefix));
    return VP_OK;
}

void vp_wordpiece_release(struct vp_wordpiece *wordpiece)
{
    vp_trie_release(&wordpiece->trie);
}

/* Appends the ids of a word. Returns false if no token matches the rest of the
 * word; the ids before it stay appended. */
static bool cut_word(const struct vp_wordpiece *wordpiece,
                     const unsigned char *word, size_t n, struct vp_ids *ids)
{
    int32_t node = VP_TRIE_ROOT, id = VP_TOKEN_NONE;

    while (n > 0) {
        size_t k = node == VP_TRIE_NOWHERE
                       ? 0
                       : vp_trie_longest(&wordpiece->trie, node, word, n, &id);

        if (k == 0)
            return false;
        ids->at[ids->n++] = (uint32_t)id;
        word += k;
        n -= k;
        node = wordpiece->inside;
    }
    return true;
}

enum vp_status vp_wordpiece_encode(const struct vp_wordpiece *wordpiece,
                                   const unsigned char *word, size_t n_bytes,
                                   size_t n_chars, struct vp_ids *ids)
{
    size_t before = ids->n;

    if (n_chars > wordpiece->max_chars)
        n_bytes = 0;
    VP_TRY(vp_ids_reserve(ids, n_bytes + 1));
    if (n_bytes == 0 || !cut_word(wordpiece, word, n_bytes, ids)) {
        ids->n = before;
        ids->at[ids->n++] = (uint32_t)wordpiece->unknown;
    }
    return VP_OK;
}
