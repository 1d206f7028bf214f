/* Tokens are in an array by id; an open hash table (FNV-1a) finds ids by
 * bytes. */
#include "text/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_bytes(const char *bytes, size_t n)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001B3);
    return (uint32_t)(hash ^ hash >> 32);
}

void vp_vocabulary_release(struct vp_vocabulary *vocabulary)
{
    free(vocabulary->tokens);
    free(vocabulary->slots);
    vp_arena_release(&vocabulary->arena);
    memset(vocabulary, 0, sizeof(*vocabulary));
}

/* Returns the slot of the token, or the empty slot for it. */
static uint32_t find_slot(const struct vp_vocabulary *vocabulary,
                          const char *bytes, size_t n_bytes)
{
    uint32_t mask = vocabulary->n_slots - 1;
    uint32_t slot = hash_bytes(bytes, n_bytes) & mask;

    for (; vocabulary->slots[slot] != 0; slot = (slot + 1) & mask) {
        const struct vp_token *token =
            &vocabulary->tokens[vocabulary->slots[slot] - 1];

        if (token->n_bytes == n_bytes &&
            memcmp(token->bytes, bytes, n_bytes) == 0)
            break;
    }
    return slot;
}

static enum vp_status grow_slots(struct vp_vocabulary *vocabulary)
{
    uint32_t n_slots = vocabulary->n_slots ? 2 * vocabulary->n_slots : 1024;
    uint32_t *slots = calloc(n_slots, sizeof(*slots));

    if (!slots)
        return VP_ERR_NOMEM;
    free(vocabulary->slots);
    vocabulary->slots = slots;
    vocabulary->n_slots = n_slots;
    for (int id = 0; id < vocabulary->n; id++) {
        const struct vp_token *token = &vocabulary->tokens[id];

        if (token->bytes)
            slots[find_slot(vocabulary, token->bytes, token->n_bytes)] =
                (uint32_t)id + 1;
    }
    return VP_OK;
}

static enum vp_status grow_tokens(struct vp_vocabulary *vocabulary, int n)
{
    struct vp_token *tokens;
    int capacity = vocabulary->capacity;

    if (n > capacity) {
        capacity = n + n / 2 + 64;
        tokens = realloc(vocabulary->tokens,
                         (size_t)capacity * sizeof(*tokens));
        if (!tokens)
            return VP_ERR_NOMEM;
        vocabulary->tokens = tokens;
        vocabulary->capacity = capacity;
    }
    for (; vocabulary->n < n; vocabulary->n++)
        vocabulary->tokens[vocabulary->n] = (struct vp_token){ .bytes = NULL };
    return VP_OK;
}

/* Gives the token of `slot` another id, which is free. */
static void move_token(struct vp_vocabulary *vocabulary, uint32_t slot, int id)
{
    struct vp_token *old = &vocabulary->tokens[vocabulary->slots[slot] - 1];

    vocabulary->tokens[id] = *old;
    old->bytes = NULL;
    vocabulary->slots[slot] = (uint32_t)id + 1;
}

enum vp_status vp_vocabulary_add(struct vp_vocabulary *vocabulary,
                                 const char *bytes, size_t n_bytes, int64_t id,
                                 struct vp_err *err)
{
    uint32_t slot;
    char *copy;

    if (id < 0 || id >= VP_VOCABULARY_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "token id %" PRId64 " is not from 0 to %d; check the "
                          "file",
                          id, VP_VOCABULARY_MAX - 1);
    if (2 * (vocabulary->n_tokens + 1) > (int)vocabulary->n_slots)
        VP_TRY(grow_slots(vocabulary));
    if (id >= vocabulary->n)
        VP_TRY(grow_tokens(vocabulary, (int)id + 1));
    slot = find_slot(vocabulary, bytes, n_bytes);
    if (vocabulary->slots[slot] == (uint32_t)id + 1)
        return VP_OK;
    if (vocabulary->tokens[id].bytes)
        return vp_err_set(err, VP_ERR_INVALID,
                          "two tokens have the id %" PRId64 "; keep one", id);
    if (vocabulary->slots[slot] != 0) {
        move_token(vocabulary, slot, (int)id);
        return VP_OK;
    }
    copy = vp_arena_alloc(&vocabulary->arena, n_bytes + 1);
    if (!copy)
        return VP_ERR_NOMEM;
    memcpy(copy, bytes, n_bytes);
    vocabulary->tokens[id] = (struct vp_token){ .bytes = copy,
                                                .n_bytes = (uint32_t)n_bytes };
    vocabulary->slots[slot] = (uint32_t)id + 1;
    vocabulary->n_tokens++;
    return VP_OK;
}

int32_t vp_vocabulary_find(const struct vp_vocabulary *vocabulary,
                           const char *bytes, size_t n_bytes)
{
    if (vocabulary->n_slots == 0)
        return VP_TOKEN_NONE;
    return (int32_t)vocabulary->slots[find_slot(vocabulary, bytes, n_bytes)] -
           1;
}
