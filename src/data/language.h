/* A small generated language with a grammar that a model can learn: the source
 * of synthetic data.
 *
 *   sentence = clause STOP
 *   clause   = noun phrase(c) [PREP noun phrase] [OPEN_k clause CLOSE_k]
 *              VERB(c) [noun phrase]
 *   noun phrase(c) = [ADJ] NOUN(c)
 *
 * Every noun and verb belongs to one of four classes. The verb has the class of
 * its subject, the first noun of the clause, and usually the subject's number
 * within the class; other nouns and whole clauses may be between them. Brackets
 * match by kind. Both rules need memory beyond the previous word: with 96 ids
 * the loss per word is 4.06 nats for a predictor by frequency, 3.15 for one
 * that uses the previous word, 2.5 for one that uses the grammar.
 *
 * Translation: the order of sentences is reversed; in each, the main verb moves
 * to the end, before STOP; n_words / 2 is added to the id of every word, modulo
 * n_words.
 *
 * Sample i is the same for every seed: the seed of a run changes the order of
 * samples, not their content. */
#ifndef VP_DATA_LANGUAGE_H
#define VP_DATA_LANGUAGE_H

#include <stdint.h>

enum {
    VP_LANGUAGE_CLASSES = 4,
    VP_LANGUAGE_BRACKETS = 2,
    VP_LANGUAGE_DEPTH = 2,     /* clauses inside clauses */
    VP_LANGUAGE_SENTENCES = 4, /* maximum on one side of a pair */
    /* Longest clause: eight words, and two brackets around a nested clause. */
    VP_LANGUAGE_MAX_PAIR = VP_LANGUAGE_SENTENCES *
                           (8 + VP_LANGUAGE_DEPTH * (2 + 8) + 1),
    /* One word of each kind, and the special ids. */
    VP_LANGUAGE_MIN_VOCAB = 4 + 1 + 2 * VP_LANGUAGE_BRACKETS + 1 + 1 +
                            2 * VP_LANGUAGE_CLASSES,
};

/* The ids first .. first + n - 1 of one kind of words. */
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

/* Divides `vocab` ids, at least VP_LANGUAGE_MIN_VOCAB, among the kinds of
 * words. */
void vp_language_init(struct vp_language *language, int64_t vocab);

/* Writes sentences of `sample` up to exactly `n` ids; the last may be cut. */
void vp_language_window(const struct vp_language *language, uint64_t sample,
                        int64_t n, int32_t *ids_out);

/* Writes one to VP_LANGUAGE_SENTENCES sentences. Returns the number of ids, at
 * most VP_LANGUAGE_MAX_PAIR. */
int64_t vp_language_sentences(const struct vp_language *language,
                              uint64_t sample, int32_t *ids_out);

/* Writes the translation, `n` ids, of whole sentences with `n` ids. */
void vp_language_translate(const struct vp_language *language,
                           const int32_t *ids, int64_t n, int32_t *ids_out);

#endif
