/* libFuzzer target: reads any bytes as token files. The first byte selects the
 * format, the next two are the length of the index, which follows; the rest is
 * the .bin. */
#include "token_input.h"

#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char folder[64];

static void write_file(const char *name, const uint8_t *bytes, size_t n)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    VP_BUG_ON(!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct vp_err err = { .text = "" };
    char path[128];
    size_t n_index;

    if (n < 3)
        return 0;
    if (!folder[0]) {
        snprintf(folder, sizeof(folder), "/dev/shm/vpipe-fuzz-%d", getpid());
        VP_BUG_ON(mkdir(folder, 0777) != 0);
    }
    n_index = (size_t)bytes[1] << 8 | bytes[2];
    n_index = n_index < n - 3 ? n_index : n - 3;
    snprintf(path, sizeof(path), "%s/x.bin", folder);
    write_file("x.bin", bytes + 3 + n_index, n - 3 - n_index);
    if (bytes[0] % 4 < 2) {
        snprintf(path, sizeof(path), "%s/x.idx", folder);
        write_file("x.idx", bytes + 3, n_index);
    }
    (void)token_fuzz_read(
        path, bytes[0] % 4 == 3 ? VP_FORMAT_NANOGPT : VP_FORMAT_AUTO,
        bytes[0] % 4 == 1, &err);
    snprintf(path, sizeof(path), "%s/x.idx", folder);
    unlink(path);
    return 0;
}
