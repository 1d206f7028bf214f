/* What a tokenizer is made of, and the parts that open one. */
#ifndef VP_TEXT_INTERNAL_H
#define VP_TEXT_INTERNAL_H

#include "text/added.h"
#include "text/bert.h"
#include "text/bpe.h"
#include "text/special.h"
#include "text/split.h"

struct vp_tokenizer {
    bool is_bpe;    /* else WordPiece */
    bool from_json; /* tokenizer.json says all; the configuration only roles */
    struct vp_vocabulary vocabulary; /* added tokens included */
    /* Tokens that are looked for in the text: first these, then, in what is
     * left, those that Hugging Face looks for in normalised text. */
    struct vp_added added, added_later;
    int32_t special[VP_SPECIAL_COUNT];
    struct vp_arena arena;

    /* WordPiece */
    struct vp_bert_rules rules;
    struct vp_wordpiece wordpiece;
    const char *prefix; /* of tokens inside a word: "##" */
    bool clean_up;      /* decoding takes spaces before "." and others away */

    /* BPE */
    struct vp_bpe bpe;
    enum vp_split split;
    bool nfc;                 /* normalise first */
    bool prefix_space;        /* a text begins with a space */
    bool ignore_merges;       /* a piece that is a token is not merged */
    struct vp_token *decoded; /* the bytes of tokens, by id */
};

/* Readers of one form each. They fill an empty tokenizer. Messages begin with
 * the path of the file. */
enum vp_status vp_tokenizer_read_json(struct vp_tokenizer *tokenizer,
                                      const char *path, struct vp_err *err);
enum vp_status vp_tokenizer_read_bpe(struct vp_tokenizer *tokenizer,
                                     const char *vocab_path,
                                     const char *merges_path,
                                     struct vp_err *err);
enum vp_status vp_tokenizer_read_wordpiece(struct vp_tokenizer *tokenizer,
                                           const char *path,
                                           struct vp_err *err);
/* tokenizer_config.json: case, accents, names of special tokens. */
enum vp_status vp_tokenizer_read_config(struct vp_tokenizer *tokenizer,
                                        const char *path, struct vp_err *err);

/* Adds a token that is looked for in the text. One that the vocabulary lacks is
 * added to it. */
struct vp_added_flags {
    bool special, strip_left, strip_right;
    bool later; /* in what the other tokens leave */
};
enum vp_status vp_tokenizer_add_token(struct vp_tokenizer *tokenizer,
                                      const char *bytes, size_t n_bytes,
                                      int64_t id, struct vp_added_flags flags,
                                      struct vp_err *err);

#endif
