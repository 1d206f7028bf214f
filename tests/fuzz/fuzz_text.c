/* libFuzzer target: reads any bytes as a text file. The file is accepted if and
 * only if the slow decoder of the tests finds no fault, and the text read
 * equals its output. */
#include "data/foreign.h"
#include "data/walk.h"

#include "lib/utf8lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Writes the expected text to `out`, which has room for n + 1 bytes: without a
 * byte order mark, with a newline at the end. Returns its length. */
static size_t expect(const unsigned char *bytes, size_t n, unsigned char *out)
{
    if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
        bytes += 3;
        n -= 3;
    }
    memcpy(out, bytes, n);
    if (n > 0 && out[n - 1] != '\n')
        out[n++] = '\n';
    return n;
}

static void check(const char *path, bool replace, const unsigned char *want,
                  size_t n_want, bool refused)
{
    struct vp_text text;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_text_read(path, replace, &text, &err);

    if (refused || n_want == 0) {
        VP_BUG_ON(st != VP_ERR_INVALID);
        VP_BUG_ON(!strstr(err.text, "; ") || strchr(err.text, '\n'));
    } else {
        VP_BUG_ON(st != VP_OK || text.n_bytes != (int64_t)n_want);
        VP_BUG_ON(memcmp(text.bytes, want, n_want) != 0);
    }
    vp_text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    int file = memfd_create("text", 0);
    unsigned char *good = malloc(3 * n + 1), *want = malloc(3 * n + 1);
    int64_t n_faults = 0;
    size_t n_good, n_want;
    char path[32];

    /* Compressed input is left to fuzz_stream.c. */
    if (n >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B)
        n = 0;
    if (n >= 4 && ((bytes[0] & 0xF0) == 0x50 || bytes[0] == 0x28) &&
        (memcmp(bytes + 1, "\xB5\x2F\xFD", 3) == 0 ||
         memcmp(bytes + 1, "\x2A\x4D\x18", 3) == 0))
        n = 0;
    VP_BUG_ON(file < 0 || !good || !want);
    VP_BUG_ON(write(file, bytes, n) != (ssize_t)n);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    n_good = slow_replace(bytes, n, good, &n_faults);
    n_want = expect(good, n_good, want);
    check(path, false, want, n_want, n_faults > 0);
    check(path, true, want, n_want,
          n_faults > 0 && vp_foreign_by_head(bytes, n));
    close(file);
    free(good);
    free(want);
    return 0;
}
