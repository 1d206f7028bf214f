/* libFuzzer target: reads any bytes as compressed text, and as a line of
 * JSON. */
#include "base/utf8.h"
#include "data/byte_stream.h"
#include "data/jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Reads a stream up to its end or 16 MiB, unless it is refused with one
 * line. */
static void read_stream(const uint8_t *bytes, size_t n)
{
    static unsigned char out[1 << 16];
    int file = memfd_create("stream", 0);
    struct vp_byte_stream *stream = NULL;
    struct vp_err err = { .text = "" };
    size_t n_read = 1;
    enum vp_status st;
    char path[32];

    VP_BUG_ON(file < 0 || write(file, bytes, n) != (ssize_t)n);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    st = vp_byte_stream_open(path, &stream, &err);
    for (int i = 0; st == VP_OK && n_read > 0 && i < 256; i++)
        st = vp_byte_stream_read(stream, out, sizeof(out), &n_read, &err);
    if (st != VP_OK)
        VP_BUG_ON(!strstr(err.text, "; ") || strchr(err.text, '\n'));
    vp_byte_stream_close(stream);
    close(file);
}

/* Finds a string in a line of JSON: it is valid UTF-8 and not longer than in
 * the line. */
static void read_line(const uint8_t *bytes, size_t n)
{
    static const char *const keys[] = { "text", "en" };
    struct vp_utf8_fault bad;

    if (vp_utf8_check(VP_UTF8_TEXT, bytes, n, &bad) != n)
        return;
    for (int n_keys = 1; n_keys <= 2; n_keys++) {
        struct vp_jsonl_fault fault = { 0, NULL };
        size_t at, n_string, n_out;
        unsigned char *line = malloc(n + 1);

        VP_BUG_ON(!line);
        memcpy(line, bytes, n);
        if (!vp_jsonl_find(line, n, keys, n_keys, &at, &n_string, &fault)) {
            VP_BUG_ON(!fault.cause || fault.at > n);
        } else if (vp_jsonl_unescape(line + at, n_string, true, line, &n_out,
                                     &fault)) {
            VP_BUG_ON(n_out > n_string);
            VP_BUG_ON(vp_utf8_check(VP_UTF8_TEXT, line, n_out, &bad) != n_out);
        }
        free(line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    read_stream(bytes, n);
    read_line(bytes, n);
    return 0;
}
