/* Kinds of files that `vpipe data inspect` prints, one function each. */
#ifndef VP_TOOLS_INSPECT_H
#define VP_TOOLS_INSPECT_H

#include "data.h"
#include "text/tokenizer.h"

struct inspect_options {
    const char *file, *tokenizer_path, *text_key;
    const char *target;  /* line i of both files is a pair; NULL: one file */
    const char *lang[2]; /* of pairs in lines of JSON; NULL: no pairs */
    enum vp_data_format format;
    int64_t n_samples;
    bool help;
};

enum { INSPECT_TOKENS = 64, INSPECT_BYTES = 240 }; /* shown of a document */

/* One line, whatever the text holds: nothing in it can steer a terminal. */
void inspect_print_text(const char *bytes, size_t n);
/* Ids as text or, without a tokenizer, as numbers. `cut`: more follow. */
enum vp_status inspect_print_ids(const struct vp_tokenizer *tokenizer,
                                 const int32_t *ids, int64_t n, bool cut,
                                 struct vp_err *err);

/* BERT's shards, CHID files, parallel text. */
enum vp_status inspect_shard(const struct inspect_options *options,
                             const struct vp_tokenizer *tokenizer,
                             struct vp_err *err);
enum vp_status inspect_chid(const struct inspect_options *options,
                            const struct vp_tokenizer *tokenizer,
                            struct vp_err *err);
enum vp_status inspect_pairs(const struct inspect_options *options,
                             struct vp_err *err);

#endif
