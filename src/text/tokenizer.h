/* Tokenizers of published models: WordPiece and byte-level BPE from the files
 * of Hugging Face. Ids equal those of its `tokenizers` library. */
#ifndef VP_TEXT_TOKENIZER_H
#define VP_TEXT_TOKENIZER_H

#include "base/sha256.h"
#include "base/strbuf.h"
#include "text/ids.h"
#include "text/special.h"

/* Immutable after it was opened: any number of threads may use it. */
struct vp_tokenizer;

/* Opens a tokenizer from one of these files, or from a folder with them:
 * tokenizer.json, else vocab.json with merges.txt, else vocab.txt. Also reads
 * tokenizer_config.json in the same folder, and no other file. Messages name
 * the file, the key and the unsupported value. */
enum vp_status vp_tokenizer_open(const char *path, struct vp_tokenizer **out,
                                 struct vp_err *err);
void vp_tokenizer_free(struct vp_tokenizer *tokenizer);

/* Returns the largest id + 1, added tokens included. */
int vp_tokenizer_size(const struct vp_tokenizer *tokenizer);

/* Returns the id of a special token, or -1. tokenizer_config.json names the
 * token; without it, usual names such as "[PAD]" and "<pad>" are tried. */
int32_t vp_tokenizer_special(const struct vp_tokenizer *tokenizer,
                             enum vp_special special);
/* Returns true if the token is marked as special. */
bool vp_tokenizer_is_special(const struct vp_tokenizer *tokenizer, uint32_t id);

/* Returns the token as written in the vocabulary; NULL if no token has this
 * id. */
const char *vp_tokenizer_token(const struct vp_tokenizer *tokenizer,
                               uint32_t id, size_t *n_bytes_out);

/* Writes the SHA-256 of everything that determines the ids of a text:
 * vocabulary, merges, rules. Caches of token ids use it as a key. */
void vp_tokenizer_hash(const struct vp_tokenizer *tokenizer,
                       unsigned char out[VP_SHA256_BYTES]);

/* Returns the last place before `n` at which ordinary text may be cut such that
 * the ids of both parts together are those of the whole: behind an LF without
 * other white space around it. `text` is valid UTF-8. Returns 0 if there is no
 * such place, and always for tokenizers that put a space before a text. */
size_t vp_tokenizer_cut(const struct vp_tokenizer *tokenizer, const void *text,
                        size_t n);

/* Appends the text of `n` ids to `out`, without special tokens if
 * `skip_special` is true. Ill-formed UTF-8 becomes U+FFFD. Returns
 * VP_ERR_INVALID if an id has no token. */
enum vp_status vp_tokenizer_decode(const struct vp_tokenizer *tokenizer,
                                   const uint32_t *ids, size_t n,
                                   bool skip_special, struct vp_strbuf *out,
                                   struct vp_err *err);

#endif
