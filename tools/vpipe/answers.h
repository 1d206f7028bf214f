/* Prints generated texts on stdout in the order of their prompts, each part as
 * soon as it is final. */
#ifndef VP_TOOLS_ANSWERS_H
#define VP_TOOLS_ANSWERS_H

#include "base/strbuf.h"
#include "text/tokenizer.h"

struct answer {
    struct vp_ids ids; /* ids that are part of the text */
    struct vp_strbuf text;
    struct vp_strbuf numbers; /* the ids as "5 17 300" */
    size_t n_ready;           /* bytes of the output that no later id changes */
    size_t n_printed;         /* bytes of the output printed so far */
    bool ended;
};

struct answers {
    const struct vp_tokenizer *tokenizer; /* NULL: print_ids must be true */
    bool print_ids;                       /* print ids instead of texts */
    const char *stop; /* a text ends before this string; NULL: none */
    struct answer *at;
    int64_t n;
    int64_t current; /* the first text that has not ended: it is printed while
                        it grows, later ones after it has ended */
};

enum vp_status answers_init(struct answers *answers, int64_t n,
                            struct vp_err *err);
void answers_release(struct answers *answers);

/* Adds an id to text `k`. Sets *stop_out to true if the text contains `stop`,
 * from which on it is cut off. Special tokens and ids that the tokenizer does
 * not have add no text. */
enum vp_status answers_add(struct answers *answers, int64_t k, int32_t id,
                           bool *stop_out, struct vp_err *err);
/* Ends text `k`: the rest of it and a newline are printed. */
void answers_end(struct answers *answers, int64_t k);

#endif
