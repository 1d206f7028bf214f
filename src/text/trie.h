/* The tokens of a vocabulary by their bytes: finds the longest one that a text
 * begins with. */
#ifndef VP_TEXT_TRIE_H
#define VP_TEXT_TRIE_H

#include "text/vocabulary.h"

/* Nodes are numbered from the root, 0. The child of a node by a byte is found
 * in a hash table. */
struct vp_trie {
    struct vp_trie_edge *edges; /* n_slots */
    uint32_t n_slots, n_nodes;
    int32_t *ids; /* of nodes; VP_TOKEN_NONE: no token ends there */
};

enum { VP_TRIE_ROOT = 0, VP_TRIE_NOWHERE = -1 };

/* VP_ERR_INVALID if the vocabulary is too large. */
enum vp_status vp_trie_init(struct vp_trie *trie,
                            const struct vp_vocabulary *vocabulary,
                            struct vp_err *err);
void vp_trie_release(struct vp_trie *trie);

/* The node that the bytes lead to from `node`, or VP_TRIE_NOWHERE. */
int32_t vp_trie_walk(const struct vp_trie *trie, int32_t node,
                     const unsigned char *bytes, size_t n);

/* The longest token, of one byte or more, that begins at `bytes`, counted from
 * `node`. Returns its number of bytes; 0: there is none. */
size_t vp_trie_longest(const struct vp_trie *trie, int32_t node,
                       const unsigned char *bytes, size_t n, int32_t *id_out);

#endif
