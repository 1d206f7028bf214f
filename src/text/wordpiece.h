/* WordPiece: takes the longest token at the start of a word, then the longest
 * token at the start of the rest, and so on. */
#ifndef VP_TEXT_WORDPIECE_H
#define VP_TEXT_WORDPIECE_H

#include "text/ids.h"
#include "text/trie.h"

struct vp_wordpiece {
    struct vp_trie trie;
    int32_t inside;   /* trie node of "##", the prefix of tokens inside a
                         word */
    int32_t unknown;  /* id of the unknown token */
    size_t max_chars; /* longer words become the unknown token */
};

/* Returns VP_ERR_INVALID if `unknown` is not in the vocabulary or if the
 * vocabulary is too large, or VP_ERR_NOMEM. */
enum vp_status vp_wordpiece_init(struct vp_wordpiece *wordpiece,
                                 const struct vp_vocabulary *vocabulary,
                                 const char *unknown, const char *prefix,
                                 size_t max_chars, struct vp_err *err);
void vp_wordpiece_release(struct vp_wordpiece *wordpiece);

/* Appends the ids of a word of `n_chars` code points; the unknown token if no
 * sequence of tokens fits. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_wordpiece_encode(const struct vp_wordpiece *wordpiece,
                                   const unsigned char *word, size_t n_bytes,
                                   size_t n_chars, struct vp_ids *ids);

#endif
