/* BERT's way from text to words: clean, lower case, accents, punctuation; then
 * WordPiece. Equals BertNormalizer and BertPreTokenizer of Hugging Face. */
#ifndef VP_TEXT_BERT_H
#define VP_TEXT_BERT_H

#include "text/code_point.h"
#include "text/piece_cache.h"
#include "text/wordpiece.h"

struct vp_bert_rules {
    bool clean; /* drop controls, read every blank as a space */
    bool cjk;   /* Chinese characters are words */
    bool strip; /* no accents */
    bool lower;
};

/* What a thread needs to encode. All zero: nothing yet. */
struct vp_bert_scratch {
    struct vp_code_points points;
    unsigned char *word;
    size_t capacity;
};

void vp_bert_scratch_release(struct vp_bert_scratch *scratch);

/* Calls `take` for each word of valid UTF-8 without special tokens, in order,
 * until it fails. For training; words are cut as vp_bert_encode() does. */
typedef enum vp_status (*vp_bert_word_fn)(void *ctx, const unsigned char *word,
                                          size_t n_bytes, size_t n_chars);
enum vp_status vp_bert_words(const struct vp_bert_rules *rules,
                             struct vp_bert_scratch *scratch,
                             const unsigned char *text, size_t n,
                             vp_bert_word_fn take, void *ctx);

/* Appends the ids of valid UTF-8 without special tokens. VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_bert_encode(const struct vp_bert_rules *rules,
                              const struct vp_wordpiece *wordpiece,
                              struct vp_bert_scratch *scratch,
                              struct vp_piece_cache *cache,
                              const unsigned char *text, size_t n,
                              struct vp_ids *ids);

#endif
