/* Indexes `.idx` beside `.bin`: where each sequence of token ids begins.
 *
 *          Megatron-LM              fairseq (mmap)       fairseq (legacy)
 *   0      "MMIDIDX\0\0"            the same             "TNTIDX\0\0"
 *   then   u64 version 1            the same             the same
 *   then   u8 type                  the same             u64 type, u64 its bytes
 *   then   u64 n sequences          u64 n                u64 n, u64 s
 *   then   u64 length of documents
 *   then   i32 sizes[n]             the same             i64 dimensions[n + 1]
 *   then   i64 pointers[n], bytes   the same             i64 offsets[n + 1], ids
 *   then   i64 documents[]                               i64 sizes[s]
 *   then   i8 modes[n], optional
 *
 * The first two are told apart by the size of the file. In files of both
 * programs the sequences follow each other without gaps, which is checked where
 * entries are read. The numbers in a legacy `.bin` are ids plus 1. */
#ifndef VP_DATA_TOKENS_INDEX_H
#define VP_DATA_TOKENS_INDEX_H

#include "data/file_set.h"
#include "data/tokens/item.h"

enum vp_index_layout {
    VP_INDEX_MEGATRON,
    VP_INDEX_FAIRSEQ,
    VP_INDEX_LEGACY,
};

struct vp_token_index {
    int file; /* of the index, in its set */
    enum vp_index_layout layout;
    enum vp_item item;
    int64_t n_sequences;
    int64_t n_documents;  /* where there are none: as sequences */
    int64_t n_tokens;     /* up to the end of the last sequence */
    int64_t sizes_at;     /* offsets in the index */
    int64_t pointers_at;  /* legacy: of the offsets */
    int64_t documents_at; /* 0: none */
};

/* Checks the header, the first MiB of entries and the last one against a
 * `.bin` of `bin_bytes`. */
enum vp_status vp_token_index_open(struct vp_file_set *set, int file,
                                   int64_t bin_bytes,
                                   struct vp_token_index *out,
                                   struct vp_err *err);

/* Reads where sequence `i` begins, in tokens from the start of the `.bin`; for
 * n_sequences: where the last one ends. */
enum vp_status vp_token_index_begin(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t i, int64_t *begin_out,
                                    struct vp_err *err);
/* The same for a document. The end of a document is where the next begins. */
enum vp_status vp_token_index_document(struct vp_file_set *set,
                                       const struct vp_token_index *index,
                                       int64_t document, int64_t *begin_out,
                                       struct vp_err *err);
/* Reads with which sequence a document begins; of n_documents: n_sequences. */
enum vp_status vp_token_index_first(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t document, int64_t *sequence_out,
                                    struct vp_err *err);
/* The same for `n` documents from `document` on, which must not fall. */
enum vp_status vp_token_index_firsts(struct vp_file_set *set,
                                     const struct vp_token_index *index,
                                     int64_t document, int64_t n,
                                     int64_t *sequences_out,
                                     struct vp_err *err);
/* Reads the lengths of `n` sequences from `first` on, and checks that they
 * follow each other. */
enum vp_status vp_token_index_sizes(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t first, int64_t n,
                                    int64_t *sizes_out, struct vp_err *err);

#endif
