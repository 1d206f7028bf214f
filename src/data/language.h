/* A small generated language with structure worth learning.
 *
 *   sentence = clause STOP
 *   clause   = noun phrase(c) [PREP noun phrase] [OPEN_k clause CLOSE_k]
 *              VERB(c) [noun phrase]
 *   noun phrase(c) = [ADJ] NOUN(c)
 *
 * Every noun and verb belongs to one of four classes. The verb takes the class
 * of its subject, the first noun of the clause, and usually the subject's own
 * number within it; other nouns and whole clauses may stand between. A bracket
 * closes by its own kind. Both need memory beyond the previous word: with 96
 * ids a word costs 4.06 nats by frequency alone, 3.15 for who knows the word
 * before it, 2.5 for who knows the grammar.
 *
 * Translation: sentences in reverse order; in each, the main verb moves to the
 * end, before STOP; every word becomes its counterpart, n_words / 2 ids on.
 *
 * Sample i is the same for every seed: seeds choose orders, not contents. */
#ifndef VP_DATA_LANGUAGE_H
#define VP_DATA_LANGUAGE_H

#include <stdint.h>

enum {
    VP_LANGUAGE_CLASSES = 4,
    VP_LANGUAGE_BRACKETS = 2,
    VP_LANGUAGE_DEPTH = 2,     /* clauses inside clauses */
    VP_LANGUAGE_SENTENCES = 4, /* at most, on one side of a pair */
    /* Longest clause: eight words, and two brackets around the next. */
    VP_LANGUAGE_MAX_PAIR = VP_LANGUAGE_SENTENCES *
                           (8 + VP_LANGUAGE_DEPTH * (2 + 8) + 1),
    /* One word of each kind, and the special ids. */
    VP_LANGUAGE_MIN_VOCAB = 4 + 1 + 2 * VP_LANGUAGE_BRACKETS + 1 + 1 +
                            2 * VP_LANGUAGE_CLASSES,
};

/* Words first .. first + n - 1; ids of a kind stand together. */
struct vp_word_range {
    int32_t first, n;
};

struct vp_language {
    int32_t n_words; /* ids from VP_TOKEN_FIRST */
    int32_t stop;
    int32_t open[VP_LANGUAGE_BRACKETS], close[VP_LANGUAGE_BRACKETS];
    struct vp_word_range prep, adj;
    struct vp_word_range noun[VP_LANGUAGE_CLASSES], verb[VP_LANGUAGE_CLASSES];
};

/* Shares `vocab` ids, at least VP_LANGUAGE_MIN_VOCAB, out among the kinds. */
void vp_language_init(struct vp_language *language, int64_t vocab);

/* Whole sentences, cut after `n` ids. */
void vp_language_window(const struct vp_language *language, uint64_t sample,
                        int64_t n, int32_t *ids_out);

/* One to VP_LANGUAGE_SENTENCES sentences; returns their length, at most
 * VP_LANGUAGE_MAX_PAIR. */
int64_t vp_language_sentences(const struct vp_language *language,
                              uint64_t sample, int32_t *ids_out);

/* The translation of `n` ids of whole sentences; it has as many. */
void vp_language_translate(const struct vp_language *language,
                           const int32_t *ids, int64_t n, int32_t *ids_out);

#endif
