/* Functions of `vpipe data inspect`, one for each kind of file. */
#ifndef VP_TOOLS_INSPECT_H
#define VP_TOOLS_INSPECT_H

#include "data.h"
#include "text/tokenizer.h"

struct inspect_options {
    const char *file, *tokenizer_path, *text_key;
    const char *target;  /* second file of pairs; NULL: there is one file */
    const char *lang[2]; /* keys of pairs in lines of JSON; NULL: no pairs */
    enum vp_data_format format;
    int64_t n_samples;
    bool help;
};

/* The part of a document that is printed. */
enum { INSPECT_TOKENS = 64, INSPECT_BYTES = 240 };

/* Prints one line. Control characters are escaped, so that no text can control
 * the terminal. */
void inspect_print_text(const char *bytes, size_t n);
/* Prints ids as text or, without a tokenizer, as numbers. `cut`: adds "...". */
enum vp_status inspect_print_ids(const struct vp_tokenizer *tokenizer,
                                 const int32_t *ids, int64_t n, bool cut,
                                 struct vp_err *err);

/* Print a BERT shard, a CHID file and parallel text. */
enum vp_status inspect_shard(const struct inspect_options *options,
                             const struct vp_tokenizer *tokenizer,
                             struct vp_err *err);
enum vp_status inspect_chid(const struct inspect_options *options,
                            const struct vp_tokenizer *tokenizer,
                            struct vp_err *err);
enum vp_status inspect_pairs(const struct inspect_options *options,
                             struct vp_err *err);

#endif
