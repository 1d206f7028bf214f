/* A trie over the bytes of a vocabulary's tokens: finds the longest token at
 * the start of a text. */
#ifndef VP_TEXT_TRIE_H
#define VP_TEXT_TRIE_H

#include "text/vocabulary.h"

/* Nodes are numbered; the root is 0. A hash table maps (node, byte) to the
 * child node. */
struct vp_trie {
    struct vp_trie_edge *edges; /* n_slots */
    uint32_t n_slots, n_nodes;
    int32_t *ids; /* by node: its token, or VP_TOKEN_NONE */
};

enum { VP_TRIE_ROOT = 0, VP_TRIE_NOWHERE = -1 };

/* Returns VP_ERR_INVALID if the vocabulary is too large, or VP_ERR_NOMEM. Does
 * not refer to `vocabulary` later. */
enum vp_status vp_trie_init(struct vp_trie *trie,
                            const struct vp_vocabulary *vocabulary,
                            struct vp_err *err);
void vp_trie_release(struct vp_trie *trie);

/* Returns the node that `n` bytes lead to from `node`, or VP_TRIE_NOWHERE. */
int32_t vp_trie_walk(const struct vp_trie *trie, int32_t node,
                     const unsigned char *bytes, size_t n);

/* Finds the longest token whose bytes after `node` are the start of `bytes`,
 * and writes its id. Returns the number of bytes matched; 0 if there is
 * none. */
size_t vp_trie_longest(const struct vp_trie *trie, int32_t node,
                       const unsigned char *bytes, size_t n, int32_t *id_out);

#endif
