/* Tokens and their ids, as a file has them. */
#ifndef VP_TEXT_VOCABULARY_H
#define VP_TEXT_VOCABULARY_H

#include "base/memory.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Ids are below this. */
enum { VP_VOCABULARY_MAX = 1 << 20, VP_TOKEN_NONE = -1 };

struct vp_token {
    const char *bytes; /* NULL: no token has this id */
    uint32_t n_bytes;
    bool added;   /* not of the model: found in the text itself only */
    bool special; /* marked as special */
};

/* All zero: empty. */
struct vp_vocabulary {
    struct vp_token *tokens; /* n, by id */
    int n;                   /* the largest id + 1 */
    int n_tokens;            /* ids that have a token */
    int capacity;
    uint32_t *slots; /* hash table of id + 1; 0: empty */
    uint32_t n_slots;
    struct vp_arena arena;
};

void vp_vocabulary_release(struct vp_vocabulary *vocabulary);

/* Adds a copy of a token. A token that is there already gets the new id.
 * VP_ERR_INVALID if `id` is not in range or belongs to another token. */
enum vp_status vp_vocabulary_add(struct vp_vocabulary *vocabulary,
                                 const char *bytes, size_t n_bytes, int64_t id,
                                 struct vp_err *err);

/* The id of a token, or VP_TOKEN_NONE. */
int32_t vp_vocabulary_find(const struct vp_vocabulary *vocabulary,
                           const char *bytes, size_t n_bytes);

#endif
