/* Sequential reading of documents: a text file is one document, in JSONL each
 * line is a document. Files may be compressed by gzip or zstd. Documents are
 * divided into parts that can be encoded separately, so memory depends on the
 * longest part, not on the file. */
#ifndef VP_DATA_CORPUS_DOCUMENTS_H
#define VP_DATA_CORPUS_DOCUMENTS_H

#include "text/batch_encoder.h"

/* Longest line of JSONL, and longest text that cannot be divided. */
enum { VP_DOCUMENT_MAX_BYTES = 256 << 20 };

struct vp_document_options {
    const char *text_key; /* key of the text in JSONL; NULL: "text" */
    bool replace;         /* NUL bytes and invalid UTF-8 become U+FFFD; false:
                             they are refused */
    bool keep_empty;      /* return lines of JSONL with an empty text, too */
};

/* Consecutive parts of documents. The ids of the parts, concatenated, are those
 * of the documents. */
struct vp_document_block {
    struct vp_text_span *spans;
    bool *begins; /* span i is the first of a document */
    int n, capacity;
};

struct vp_document_reader;

/* Borrows `path`, `tokenizer` and the key. `tokenizer` determines where text
 * may be divided; NULL: after any LF. */
enum vp_status vp_document_reader_open(
    const char *path, const struct vp_tokenizer *tokenizer,
    const struct vp_document_options *options, struct vp_document_reader **out,
    struct vp_err *err);
void vp_document_reader_close(struct vp_document_reader *reader);

/* Reads the next block, valid until the next call. Documents without text are
 * skipped. Returns VP_ERR_END after the last. Other errors name file, offset
 * and line. */
enum vp_status vp_document_reader_next(struct vp_document_reader *reader,
                                       const struct vp_document_block **out,
                                       struct vp_err *err);
/* Returns the number of bytes read so far from the file as it is stored. */
int64_t vp_document_reader_offset(const struct vp_document_reader *reader);

#endif
