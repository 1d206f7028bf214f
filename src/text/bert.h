/* Normalises text and splits it into words as BERT does, then encodes the words
 * with WordPiece. Results equal those of BertNormalizer and BertPreTokenizer of
 * Hugging Face. */
#ifndef VP_TEXT_BERT_H
#define VP_TEXT_BERT_H

#include "text/code_point.h"
#include "text/piece_cache.h"
#include "text/wordpiece.h"

struct vp_bert_rules {
    bool clean; /* drop control characters, replace every blank by a space */
    bool cjk;   /* each Chinese character is a word */
    bool strip; /* remove accents */
    bool lower; /* convert to lower case */
};

/* Memory of one thread that encodes. Initialise to zero. */
struct vp_bert_scratch {
    struct vp_code_points points;
    unsigned char *word;
    size_t capacity;
};

void vp_bert_scratch_release(struct vp_bert_scratch *scratch);

/* Calls `take` for each word of `text`, in order, until it fails; then returns
 * its status. `text` is valid UTF-8 without special tokens. For training: words
 * are split as in vp_bert_encode(). */
typedef enum vp_status (*vp_bert_word_fn)(void *ctx, const unsigned char *word,
                                          size_t n_bytes, size_t n_chars);
enum vp_status vp_bert_words(const struct vp_bert_rules *rules,
                             struct vp_bert_scratch *scratch,
                             const unsigned char *text, size_t n,
                             vp_bert_word_fn take, void *ctx);

/* Appends the ids of `text`, which is valid UTF-8 without special tokens.
 * Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_bert_encode(const struct vp_bert_rules *rules,
                              const struct vp_wordpiece *wordpiece,
                              struct vp_bert_scratch *scratch,
                              struct vp_piece_cache *cache,
                              const unsigned char *text, size_t n,
                              struct vp_ids *ids);

#endif
