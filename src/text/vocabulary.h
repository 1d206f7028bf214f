/* The tokens of a vocabulary and their ids, with lookup in both directions. */
#ifndef VP_TEXT_VOCABULARY_H
#define VP_TEXT_VOCABULARY_H

#include "base/memory.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    VP_VOCABULARY_MAX = 1 << 20, /* ids are below it */
    VP_TOKEN_NONE = -1
};

struct vp_token {
    const char *bytes; /* NULL: no token has this id */
    uint32_t n_bytes;
    bool added;   /* not in the model's vocabulary: an added token only */
    bool special; /* marked as special */
};

/* Initialise to zero. */
struct vp_vocabulary {
    struct vp_token *tokens; /* by id */
    int n;                   /* the largest id + 1 */
    int n_tokens;            /* ids that have a token */
    int capacity;
    uint32_t *slots; /* hash table of id + 1; 0: empty */
    uint32_t n_slots;
    struct vp_arena arena;
};

void vp_vocabulary_release(struct vp_vocabulary *vocabulary);

/* Adds a copy of a token. A token that was added before gets the new id.
 * Returns VP_ERR_INVALID if `id` is out of range or belongs to another token,
 * or VP_ERR_NOMEM, without a message. */
enum vp_status vp_vocabulary_add(struct vp_vocabulary *vocabulary,
                                 const char *bytes, size_t n_bytes, int64_t id,
                                 struct vp_err *err);

/* Returns the id of a token, or VP_TOKEN_NONE. */
int32_t vp_vocabulary_find(const struct vp_vocabulary *vocabulary,
                           const char *bytes, size_t n_bytes);

#endif
