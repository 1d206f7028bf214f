/* BLEU of a corpus as sacreBLEU 2 computes it, with its default settings:
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

/* Sums over sentences; [n] is for sequences of n + 1 words. All zero: empty.
 * Sums of parts of a corpus may be added field by field. */
struct vp_bleu_counts {
    int64_t n_matches[VP_BLEU_ORDERS]; /* found in a reference, each at most as
                                          often as it is there */
    int64_t n_total[VP_BLEU_ORDERS];   /* in the hypotheses */
    int64_t n_hypothesis;              /* words */
    int64_t n_reference; /* words of the references closest in length */
};

struct vp_bleu_result {
    double bleu; /* in percent, as all precisions */
    double precision[VP_BLEU_ORDERS];
    double brevity_penalty;
    int64_t n_hypothesis, n_reference;
};

/* Adds a sentence; it and its references, at least one, are lines of UTF-8.
 * VP_OK, or VP_ERR_NOMEM: the counts are as before. */
enum vp_status vp_bleu_add(struct vp_bleu_counts *counts,
                           const char *hypothesis,
                           const char *const *references, int n_references);

void vp_bleu_score(const struct vp_bleu_counts *counts,
                   struct vp_bleu_result *result_out);

/* Writes the line that sacreBLEU prints, VP_BLEU_TEXT bytes at most:
 * BLEU = 81.87 100.0/100.0/100.0/100.0 (BP = 0.819 ratio = 0.833 hyp_len = 5
 * ref_len = 6) */
void vp_bleu_text(const struct vp_bleu_result *result, char *out,
                  size_t n_bytes);

/* Appends the words of a line to `out`, with one space between them: the
 * tokenization 13a of the evaluation script mteval-v13a.pl. VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_bleu_tokenize(const char *line, struct vp_strbuf *out);

#endif
