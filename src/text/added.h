/* Added tokens: found in the text itself, before it is cut into words. Special
 * ones are among them. */
#ifndef VP_TEXT_ADDED_H
#define VP_TEXT_ADDED_H

#include "text/trie.h"

/* Every byte of a text may begin a token that is followed to its end: the length
 * of tokens bounds the time. */
enum { VP_ADDED_BYTES_MAX = 256 };

struct vp_added_token {
    const char *bytes; /* for vp_added_add() only */
    size_t n_bytes;
    uint32_t id;
    bool special;
    bool strip_left, strip_right; /* takes the spaces on that side */
};

/* All zero: none. */
struct vp_added {
    struct vp_added_token *tokens;
    int n, capacity;
    bool begins[256];           /* a token begins with this byte */
    struct vp_vocabulary index; /* their numbers in `tokens` */
    struct vp_trie trie;        /* the same */
};

/* Adds a copy of a token. One that is there already is replaced. VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_added_add(struct vp_added *added,
                            const struct vp_added_token *token);
/* After the last token, before the first search. */
enum vp_status vp_added_finish(struct vp_added *added, struct vp_err *err);
void vp_added_release(struct vp_added *added);

/* Where an added token is: the text before it ends at `start`. */
struct vp_added_match {
    const struct vp_added_token *token;
    const unsigned char *start, *end;
};

/* Finds the first token from `at` on, the longest one of those that begin at
 * the same place. `ordinary` passes over special tokens. False if there is
 * none. */
bool vp_added_find(const struct vp_added *added, bool ordinary,
                   const unsigned char *at, const unsigned char *end,
                   struct vp_added_match *match_out);

#endif
