/* Corpus BLEU as sacreBLEU 2 computes it with its default settings:
 * case:mixed|eff:no|tok:13a|smooth:exp.
 *
 *     struct vp_bleu_counts counts = { 0 };
 *     for each sentence: vp_bleu_add(&counts, hypothesis, &reference, 1);
 *     vp_bleu_score(&counts, &score);
 *     vp_bleu_text(&score, line, sizeof(line));
 *
 * Papineni et al., "BLEU: a method for automatic evaluation of machine
 * translation", ACL 2002; Post, "A call for clarity in reporting BLEU scores",
 * WMT 2018. */
#ifndef VP_DECODE_BLEU_H
#define VP_DECODE_BLEU_H

#include "base/strbuf.h"

#include <stdint.h>

enum { VP_BLEU_ORDERS = 4, VP_BLEU_TEXT = 160 };

/* Sums over sentences; index n is for n-grams of n + 1 words. Initialise to
 * zero. Sums of parts of a corpus may be added field by field. */
struct vp_bleu_counts {
    int64_t n_matches[VP_BLEU_ORDERS]; /* n-grams of hypotheses that are in a
                                          reference, clipped to their count in
                                          that reference */
    int64_t n_total[VP_BLEU_ORDERS];   /* n-grams of hypotheses */
    int64_t n_hypothesis;              /* words of hypotheses */
    int64_t n_reference; /* words of the references closest in length */
};

struct vp_bleu_result {
    double bleu; /* in percent, as are the precisions */
    double precision[VP_BLEU_ORDERS];
    double brevity_penalty;
    int64_t n_hypothesis, n_reference;
};

/* Adds a sentence with n_references >= 1 references; all are lines of UTF-8.
 * Returns VP_OK, or VP_ERR_NOMEM with the counts unchanged. */
enum vp_status vp_bleu_add(struct vp_bleu_counts *counts,
                           const char *hypothesis,
                           const char *const *references, int n_references);

void vp_bleu_score(const struct vp_bleu_counts *counts,
                   struct vp_bleu_result *result_out);

/* Writes the line that sacreBLEU prints, at most VP_BLEU_TEXT bytes:
 * BLEU = 81.87 100.0/100.0/100.0/100.0 (BP = 0.819 ratio = 0.833 hyp_len = 5
 * ref_len = 6) */
void vp_bleu_text(const struct vp_bleu_result *result, char *out,
                  size_t n_bytes);

/* Appends the words of a line to `out`, separated by single spaces: the 13a
 * tokenization of the evaluation script mteval-v13a.pl. Returns VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_bleu_tokenize(const char *line, struct vp_strbuf *out);

#endif
