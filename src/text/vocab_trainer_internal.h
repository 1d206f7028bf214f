/* The state of a vocabulary trainer, shared by training and writing. */
#ifndef VP_TEXT_VOCAB_TRAINER_INTERNAL_H
#define VP_TEXT_VOCAB_TRAINER_INTERNAL_H

#include "text/bert.h"
#include "text/pair_merger.h"
#include "text/vocab_options.h"
#include "text/vocabulary.h"
#include "text/word_count.h"

#define VP_VOCAB_PREFIX "##" /* prefix of tokens inside a word */

struct vp_vocab_merge {
    uint32_t left, right;
};

struct vp_vocab_trainer {
    struct vp_vocab_options options;
    struct vp_word_count words;
    struct vp_bert_rules rules;
    struct vp_bert_scratch scratch;
    struct vp_vocabulary vocabulary;
    struct vp_vocab_merge *merges;
    int n_merges, capacity; /* elements of `merges`: used, allocated */
};

#endif
