/* Splits text into sentences for BERT.
 *
 * A mark is '.', '!', '?', one of their full-width forms or an ellipsis. A
 * sentence ends after a mark, including closing quotes and brackets, if white
 * space follows and the next character is neither a lower-case letter nor
 * punctuation; after a full-width mark it always ends. It does not end after a
 * '.' that follows a single upper-case letter or one of a few abbreviations. A
 * blank line always ends a sentence. */
#ifndef VP_DATA_BERT_SENTENCES_H
#define VP_DATA_BERT_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

enum vp_sentence_style {
    VP_SENTENCES_AUTO,       /* see vp_sentence_style_of() */
    VP_SENTENCES_LINES,      /* every line is a sentence */
    VP_SENTENCES_PARAGRAPHS, /* marks and line ends end a sentence */
    VP_SENTENCES_WRAPPED,    /* only marks end a sentence, not line ends */
};

/* Returns the style of a text, detected from its first `n` bytes: lines, if few
 * sentences end inside of lines; paragraphs, if most lines end with a mark;
 * otherwise wrapped. */
enum vp_sentence_style vp_sentence_style_of(const char *text, size_t n);

/* Finds the next sentence of text[*at .. n) and sets its bounds without white
 * space at both ends; moves *at to its end. text[0] must be the start of a
 * line. Sets *blank_out if a blank line is before the sentence. Returns false
 * if there are no more sentences; then *blank_out is for the end of the
 * text. */
bool vp_sentence_next(const char *text, size_t n, enum vp_sentence_style style,
                      size_t *at, size_t *begin_out, size_t *end_out,
                      bool *blank_out);

#endif
