/* Added tokens, special ones among them: they are searched for in the text
 * before it is split into words. */
#ifndef VP_TEXT_ADDED_H
#define VP_TEXT_ADDED_H

#include "text/trie.h"

/* Longest added token. Bounds the time of a search, which compares tokens at
 * every byte of a text. */
enum { VP_ADDED_BYTES_MAX = 256 };

struct vp_added_token {
    const char *bytes; /* for vp_added_add() only */
    size_t n_bytes;
    uint32_t id;
    bool special;
    bool strip_left, strip_right; /* a match includes the spaces on that side */
};

/* A set of added tokens. Initialise to zero. */
struct vp_added {
    struct vp_added_token *tokens;
    int n, capacity;
    bool begins[256];           /* a token begins with this byte */
    struct vp_vocabulary index; /* bytes of a token to its index in `tokens` */
    struct vp_trie trie;        /* the same, for vp_added_find() */
};

/* Adds a copy of a token, or replaces the token with the same bytes. Ignores a
 * token of 0 bytes. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_added_add(struct vp_added *added,
                            const struct vp_added_token *token);
/* Builds the trie. Call it after the last token and before the first search. */
enum vp_status vp_added_finish(struct vp_added *added, struct vp_err *err);
void vp_added_release(struct vp_added *added);

/* An added token in a text: [start, end), with stripped spaces. */
struct vp_added_match {
    const struct vp_added_token *token;
    const unsigned char *start, *end;
};

/* Finds the first token in [at, end), which is valid UTF-8; the longest one if
 * several begin at the same byte. `ordinary` ignores special tokens. Returns
 * false if there is none. */
bool vp_added_find(const struct vp_added *added, bool ordinary,
                   const unsigned char *at, const unsigned char *end,
                   struct vp_added_match *match_out);

#endif
