/* Text in memory, and reading one file to its end. */
#ifndef VP_DATA_TEXT_FILE_H
#define VP_DATA_TEXT_FILE_H

#include "base/status.h"
#include "data/skipped.h"

#include <stdbool.h>
#include <stdint.h>

/* Text is held in memory; more than this is refused. */
#define VP_TEXT_MAX_BYTES (INT64_C(1) << 30)

struct vp_text {
    unsigned char *bytes;
    int64_t n_bytes;
    int64_t capacity;
    int n_files;
    int n_empty; /* of n_files */
    struct vp_skipped skipped;
    bool keep_json;       /* lines of JSON are left as they are */
    const char *json_key; /* of the text in lines of JSON; NULL: "text" */

    /* What was not UTF-8 and was replaced: */
    int64_t n_replaced; /* faults as utf8.h defines them */
    int n_replaced_files;
    char first_replaced[512]; /* "FILE, offset 12" */
};

/* Appends the file at `path`, of which the caller knows that it is about
 * `expect` bytes long. A byte order mark of UTF-8 at its start is left out, and
 * a newline is added if the file does not end in one. NUL bytes and invalid
 * UTF-8 are refused with their offset in the file or, if `replace` is true,
 * become U+FFFD; files of a known binary format or in UTF-16 are refused in both
 * cases. Files that gzip or zstd compressed are decompressed, whatever their
 * names. Of lines of JSON only the text is taken, see vp_text_is_jsonl(). */
enum vp_status vp_text_append(struct vp_text *text, const char *path,
                              int64_t expect, bool replace, struct vp_err *err);
/* True if the name ends in .jsonl or .ndjson, and .gz or .zst may follow. */
bool vp_text_is_jsonl(const char *path);
/* The length of a name without .gz or .zst at its end. */
size_t vp_text_stem(const char *path);
void vp_text_release(struct vp_text *text);

#endif
