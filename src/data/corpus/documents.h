/* Reads the documents of a text file from front to back: a text file is one
 * document, each line of JSON is one. Files may be compressed by gzip or zstd.
 * Memory depends on the longest document that cannot be cut, not on the file. */
#ifndef VP_DATA_CORPUS_DOCUMENTS_H
#define VP_DATA_CORPUS_DOCUMENTS_H

#include "text/batch_encoder.h"

/* A line of JSON, or text without a place to cut it at, has at most this. */
enum { VP_DOCUMENT_MAX_BYTES = 256 << 20 };

struct vp_document_options {
    const char *text_key; /* of texts in lines of JSON; NULL: "text" */
    bool replace;         /* NUL bytes and invalid UTF-8 become U+FFFD; false:
                             they are refused */
    bool keep_empty;      /* lines of JSON with an empty text are given out */
};

/* Some parts of documents in their order. Their ids, one after the other, are
 * those of the documents. */
struct vp_document_block {
    struct vp_text_span *spans;
    bool *begins; /* span i is the first one of a document */
    int n, capacity;
};

struct vp_document_reader;

/* Borrows everything; `tokenizer` says where text may be cut; NULL: behind any
 * LF. */
enum vp_status vp_document_reader_open(
    const char *path, const struct vp_tokenizer *tokenizer,
    const struct vp_document_options *options, struct vp_document_reader **out,
    struct vp_err *err);
void vp_document_reader_close(struct vp_document_reader *reader);

/* The next parts, valid until the next call. Documents without text are passed
 * over. VP_ERR_END: no more. Other errors name file, offset and line. */
enum vp_status vp_document_reader_next(struct vp_document_reader *reader,
                                       const struct vp_document_block **out,
                                       struct vp_err *err);
/* Bytes of the file, as it is stored, that were read so far. */
int64_t vp_document_reader_offset(const struct vp_document_reader *reader);

#endif
