/* Reads an index `.idx` of a `.bin`: where each sequence of token ids begins.
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
 * The first two are distinguished by the size of the file. In files of both
 * programs there are no gaps between sequences, which is checked where entries
 * are read. The numbers in a legacy `.bin` are ids plus 1. */
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
    int file; /* number of the index in its file set */
    enum vp_index_layout layout;
    enum vp_item item;
    int64_t n_sequences;
    int64_t n_documents;  /* n_sequences if the index has no documents */
    int64_t n_tokens;     /* up to the end of the last sequence */
    int64_t sizes_at;     /* file offset of the sizes */
    int64_t pointers_at;  /* file offset of the pointers; legacy: offsets */
    int64_t documents_at; /* file offset of the documents; 0: none */
};

/* Reads an index. Checks the header, the first MiB of entries and the last
 * entry against a `.bin` of `bin_bytes`. */
enum vp_status vp_token_index_open(struct vp_file_set *set, int file,
                                   int64_t bin_bytes,
                                   struct vp_token_index *out,
                                   struct vp_err *err);

/* Reads where sequence `i` begins, in tokens from the start of the `.bin`. For
 * i = n_sequences this is the end of the last sequence. */
enum vp_status vp_token_index_begin(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t i, int64_t *begin_out,
                                    struct vp_err *err);
/* The same for a document. A document ends where the next begins. */
enum vp_status vp_token_index_document(struct vp_file_set *set,
                                       const struct vp_token_index *index,
                                       int64_t document, int64_t *begin_out,
                                       struct vp_err *err);
/* Reads the first sequence of a document; for n_documents: n_sequences. */
enum vp_status vp_token_index_first(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t document, int64_t *sequence_out,
                                    struct vp_err *err);
/* The same for `n` documents from `document` on. Refuses descending numbers. */
enum vp_status vp_token_index_firsts(struct vp_file_set *set,
                                     const struct vp_token_index *index,
                                     int64_t document, int64_t n,
                                     int64_t *sequences_out,
                                     struct vp_err *err);
/* Reads the lengths of `n` sequences from `first` on, and checks that there are
 * no gaps between them. */
enum vp_status vp_token_index_sizes(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t first, int64_t n,
                                    int64_t *sizes_out, struct vp_err *err);

#endif
