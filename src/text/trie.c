/* Edges of the trie are in one open hash table, which is sized before the first
 * token is added. */
#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

struct vp_trie_edge {
    uint32_t from; /* node << 8 | byte */
    uint32_t to;   /* 0: an empty slot, as no edge leads to the root */
};

enum { MAX_NODES = 1 << 24 };

static uint32_t slot_of(const struct vp_trie *trie, uint32_t from)
{
    return (uint32_t)(from * UINT64_C(0x9E3779B97F4A7C15) >> 32) &
           (trie->n_slots - 1);
}

static struct vp_trie_edge *find_edge(const struct vp_trie *trie, uint32_t from)
{
    uint32_t slot = slot_of(trie, from);

    while (trie->edges[slot].to != 0 && trie->edges[slot].from != from)
        slot = (slot + 1) & (trie->n_slots - 1);
    return &trie->edges[slot];
}

static void add_token(struct vp_trie *trie, const struct vp_token *token,
                      int32_t id)
{
    uint32_t node = VP_TRIE_ROOT;

    for (uint32_t i = 0; i < token->n_bytes; i++) {
        uint32_t from = node << 8 | (unsigned char)token->bytes[i];
        struct vp_trie_edge *edge = find_edge(trie, from);

        if (edge->to == 0) {
            trie->ids[trie->n_nodes] = VP_TOKEN_NONE;
            *edge = (struct vp_trie_edge){ from, trie->n_nodes++ };
        }
        node = edge->to;
    }
    trie->ids[node] = id;
}

enum vp_status vp_trie_init(struct vp_trie *trie,
                            const struct vp_vocabulary *vocabulary,
                            struct vp_err *err)
{
    size_t n_nodes = 1;

    memset(trie, 0, sizeof(*trie));
    for (int id = 0; id < vocabulary->n; id++)
        if (vocabulary->tokens[id].bytes)
            n_nodes += vocabulary->tokens[id].n_bytes;
    if (n_nodes > MAX_NODES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the tokens have %zu bytes, more than %d; give a "
                          "smaller vocabulary",
                          n_nodes, MAX_NODES);
    trie->n_slots = 1024;
    while (trie->n_slots < 2 * n_nodes)
        trie->n_slots *= 2;
    trie->edges = calloc(trie->n_slots, sizeof(*trie->edges));
    trie->ids = malloc(n_nodes * sizeof(*trie->ids));
    if (!trie->edges || !trie->ids) {
        vp_trie_release(trie);
        return VP_ERR_NOMEM;
    }
    trie->ids[0] = VP_TOKEN_NONE;
    trie->n_nodes = 1;
    for (int id = 0; id < vocabulary->n; id++)
        if (vocabulary->tokens[id].bytes)
            add_token(trie, &vocabulary->tokens[id], id);
    return VP_OK;
}

void vp_trie_release(struct vp_trie *trie)
{
    free(trie->edges);
    free(trie->ids);
    memset(trie, 0, sizeof(*trie));
}

int32_t vp_trie_walk(const struct vp_trie *trie, int32_t node,
                     const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        node = (int32_t)find_edge(trie, (uint32_t)node << 8 | bytes[i])->to;
        if (node == 0)
            return VP_TRIE_NOWHERE;
    }
    return node;
}

size_t vp_trie_longest(const struct vp_trie *trie, int32_t node,
                       const unsigned char *bytes, size_t n, int32_t *id_out)
{
    size_t longest = 0;

    for (size_t i = 0; i < n; i++) {
        node = (int32_t)find_edge(trie, (uint32_t)node << 8 | bytes[i])->to;
        if (node == 0)
            break;
        if (trie->ids[node] != VP_TOKEN_NONE) {
            longest = i + 1;
            *id_out = trie->ids[node];
        }
    }
    return longest;
}
