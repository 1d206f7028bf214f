/* Text in memory, and reading of one file into it with checks of its UTF-8. */
#ifndef VP_DATA_TEXT_FILE_H
#define VP_DATA_TEXT_FILE_H

#include "base/status.h"
#include "data/skipped.h"

#include <stdbool.h>
#include <stdint.h>

/* More text than this is refused, because it is held in memory. */
#define VP_TEXT_MAX_BYTES (INT64_C(1) << 30)

struct vp_text {
    unsigned char *bytes;
    int64_t n_bytes;
    int64_t capacity;
    int n_files;
    int n_empty; /* empty files, included in n_files */
    struct vp_skipped skipped;
    bool keep_json;       /* keep whole lines of JSONL instead of their text */
    const char *json_key; /* key of the text in JSONL; NULL: "text" */

    /* Invalid UTF-8 that was replaced: */
    int64_t n_replaced; /* faults as utf8.h defines them */
    int n_replaced_files;
    char first_replaced[512]; /* "FILE, offset 12" */
};

/* Appends the file at `path`; `expect` is its approximate size in bytes. A byte
 * order mark at its start is dropped, and a newline is added if the file does
 * not end in one. NUL bytes and invalid UTF-8 are refused with their offset in
 * the file or, if `replace` is true, become U+FFFD; files of a known binary
 * format or in UTF-16 are refused in both cases. Files compressed by gzip or
 * zstd are decompressed, whatever their names. From JSONL, see
 * vp_text_is_jsonl(), only the string at `json_key` of each line is taken,
 * unless `keep_json` is set. */
enum vp_status vp_text_append(struct vp_text *text, const char *path,
                              int64_t expect, bool replace, struct vp_err *err);
/* Returns true if the name ends in .jsonl or .ndjson, optionally followed by
 * .gz or .zst. */
bool vp_text_is_jsonl(const char *path);
/* Returns the length of `path` without .gz or .zst at its end. */
size_t vp_text_stem(const char *path);
void vp_text_release(struct vp_text *text);

#endif
