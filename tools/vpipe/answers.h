/* Generated texts on stdout, one after the other, as soon as they are known. */
#ifndef VP_TOOLS_ANSWERS_H
#define VP_TOOLS_ANSWERS_H

#include "base/strbuf.h"
#include "text/tokenizer.h"

struct answer {
    struct vp_ids ids; /* that are part of the text */
    struct vp_strbuf text;
    struct vp_strbuf numbers; /* "5 17 300" */
    size_t n_ready;   /* bytes that no later id changes, of what is printed */
    size_t n_printed; /* of them */
    bool ended;
};

struct answers {
    const struct vp_tokenizer *tokenizer; /* NULL: print_ids is true */
    bool print_ids;                       /* and not texts */
    const char *stop; /* a text ends before this; NULL: not asked for */
    struct answer *at;
    int64_t n;
    int64_t current; /* the first that has not ended: it is printed as it grows,
                        those behind it when they are its successors */
};

enum vp_status answers_init(struct answers *answers, int64_t n,
                            struct vp_err *err);
void answers_release(struct answers *answers);

/* Adds an id to text `k`. Sets *stop_out to true if the text has come to `stop`,
 * which is cut off. Ids that the tokenizer lacks or has as special tokens have no
 * text. */
enum vp_status answers_add(struct answers *answers, int64_t k, int32_t id,
                           bool *stop_out, struct vp_err *err);
/* Text `k` gets no more ids: prints all of it, and a line end. */
void answers_end(struct answers *answers, int64_t k);

#endif
