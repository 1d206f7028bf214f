/* Cuts text into sentences for BERT.
 *
 * A sentence ends behind '.', '!', '?', their full-width forms or an ellipsis,
 * with quotes and brackets that close behind it, if white space follows and the
 * next character is neither a lower-case letter nor punctuation, or behind a
 * full-width mark at once. A single upper-case letter or one of a few
 * abbreviations before the '.' does not end one. A blank line ends a sentence
 * always. */
#ifndef VP_DATA_BERT_SENTENCES_H
#define VP_DATA_BERT_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

enum vp_sentence_style {
    VP_SENTENCES_AUTO,       /* see vp_sentence_style_of() */
    VP_SENTENCES_LINES,      /* every line is one */
    VP_SENTENCES_PARAGRAPHS, /* marks end one, and so do lines */
    VP_SENTENCES_WRAPPED,    /* marks end one, lines do not */
};

/* The style of a text by its beginning. Lines: few marks stand inside of lines.
 * Paragraphs: most lines end with a mark. Else the lines are wrapped. */
enum vp_sentence_style vp_sentence_style_of(const char *text, size_t n);

/* The next sentence of text[*at .. n), without white space at its ends. Moves
 * *at behind it. The text begins at the start of a line. `blank_out`: a blank
 * line stands before it. Returns false if no
 * more follows; then `blank_out` says whether one stands at the end. */
bool vp_sentence_next(const char *text, size_t n, enum vp_sentence_style style,
                      size_t *at, size_t *begin_out, size_t *end_out,
                      bool *blank_out);

#endif
