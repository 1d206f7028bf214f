/* Tokenizers of published models: WordPiece and byte-level BPE from the files
 * of Hugging Face. Ids equal those of its `tokenizers` library. */
#ifndef VP_TEXT_TOKENIZER_H
#define VP_TEXT_TOKENIZER_H

#include "base/sha256.h"
#include "base/strbuf.h"
#include "text/ids.h"
#include "text/special.h"

/* Never changes after it was opened: any number of threads may use it. */
struct vp_tokenizer;

/* Opens a folder with tokenizer.json, vocab.json and merges.txt, or vocab.txt,
 * the first of these that is there; or one of the files. tokenizer_config.json
 * beside it is read as well. No other file is opened. Messages name the file,
 * the key and what is not supported. */
enum vp_status vp_tokenizer_open(const char *path, struct vp_tokenizer **out,
                                 struct vp_err *err);
void vp_tokenizer_free(struct vp_tokenizer *tokenizer);

/* The largest id + 1, added tokens included. */
int vp_tokenizer_size(const struct vp_tokenizer *tokenizer);

/* Its id, or -1: tokenizer_config.json says which token it is, else the usual
 * names are looked for. */
int32_t vp_tokenizer_special(const struct vp_tokenizer *tokenizer,
                             enum vp_special special);
/* Whether the token is marked as special. */
bool vp_tokenizer_is_special(const struct vp_tokenizer *tokenizer, uint32_t id);

/* The token as the vocabulary has it; NULL if no token has this id. */
const char *vp_tokenizer_token(const struct vp_tokenizer *tokenizer,
                               uint32_t id, size_t *n_bytes_out);

/* SHA-256 of what decides the ids of a text: vocabulary, merges, rules. For
 * keys of files that hold ids. */
void vp_tokenizer_hash(const struct vp_tokenizer *tokenizer,
                       unsigned char out[VP_SHA256_BYTES]);

/* The last place before `n` at which ordinary text may be cut: the ids of both
 * parts are together those of the whole. `text` is valid UTF-8. Returns 0 if
 * there is none, and always for tokenizers that put a space before a text.
 * It is a place behind an LF that stands alone between other characters. */
size_t vp_tokenizer_cut(const struct vp_tokenizer *tokenizer, const void *text,
                        size_t n);

/* Appends the text of the ids to `out`. Ill-formed UTF-8 becomes U+FFFD.
 * VP_ERR_INVALID if an id has no token. */
enum vp_status vp_tokenizer_decode(const struct vp_tokenizer *tokenizer,
                                   const uint32_t *ids, size_t n,
                                   bool skip_special, struct vp_strbuf *out,
                                   struct vp_err *err);

#endif
