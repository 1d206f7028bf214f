/* The contents of a tokenizer, and the readers of its file formats. Private to
 * this folder. */
#ifndef VP_TEXT_INTERNAL_H
#define VP_TEXT_INTERNAL_H

#include "text/added.h"
#include "text/bert.h"
#include "text/bpe.h"
#include "text/special.h"
#include "text/split.h"

struct vp_tokenizer {
    bool is_bpe;    /* else WordPiece */
    bool from_json; /* read from tokenizer.json; tokenizer_config.json then
                       only names the special tokens */
    struct vp_vocabulary vocabulary; /* added tokens included */
    /* `added` is searched for in the text first, then `added_later` in the
     * rest: the tokens that Hugging Face searches for in normalised text. */
    struct vp_added added, added_later;
    int32_t special[VP_SPECIAL_COUNT];
    struct vp_arena arena;

    /* WordPiece */
    struct vp_bert_rules rules;
    struct vp_wordpiece wordpiece;
    const char *prefix; /* prefix of tokens inside a word: "##" */
    bool clean_up;      /* decoding removes spaces before "." and others */

    /* BPE */
    struct vp_bpe bpe;
    enum vp_split split;
    bool nfc;                 /* normalise to NFC first */
    bool prefix_space;        /* put a space before each text */
    bool ignore_merges;       /* a piece that is a token needs no merges */
    struct vp_token *decoded; /* by id: the bytes that tokens stand for */
};

/* Each reader fills an empty tokenizer from one file format. Messages begin
 * with the path of the file. */
enum vp_status vp_tokenizer_read_json(struct vp_tokenizer *tokenizer,
                                      const char *path, struct vp_err *err);
enum vp_status vp_tokenizer_read_bpe(struct vp_tokenizer *tokenizer,
                                     const char *vocab_path,
                                     const char *merges_path,
                                     struct vp_err *err);
enum vp_status vp_tokenizer_read_wordpiece(struct vp_tokenizer *tokenizer,
                                           const char *path,
                                           struct vp_err *err);
/* Adds the settings of tokenizer_config.json: case, accents, names of special
 * tokens. */
enum vp_status vp_tokenizer_read_config(struct vp_tokenizer *tokenizer,
                                        const char *path, struct vp_err *err);

struct vp_added_flags {
    bool special, strip_left, strip_right; /* see vp_added_token */
    bool later; /* adds to `added_later`, not to `added` */
};
/* Adds an added token, and adds it to the vocabulary if it is not there.
 * Returns VP_ERR_INVALID if it is longer than VP_ADDED_BYTES_MAX or has another
 * id. */
enum vp_status vp_tokenizer_add_token(struct vp_tokenizer *tokenizer,
                                      const char *bytes, size_t n_bytes,
                                      int64_t id, struct vp_added_flags flags,
                                      struct vp_err *err);

#endif
