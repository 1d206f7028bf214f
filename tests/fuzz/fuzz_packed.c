/* libFuzzer target: reads any bytes as sentences of Megatron-LM. The first two
 * bytes are the length of the index, which follows; the rest is the .bin. */
#include "packed_input.h"

#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char stem[64];

static void write_file(const char *ending, const uint8_t *bytes, size_t n)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s%s", stem, ending);
    file = fopen(path, "wb");
    VP_BUG_ON(!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct vp_err err = { .text = "" };
    char path[128];
    size_t n_index;

    if (n < 2)
        return 0;
    snprintf(stem, sizeof(stem), "/dev/shm/vpipe-fuzz-packed-%d", getpid());
    n_index = (size_t)bytes[0] << 8 | bytes[1];
    n_index = n_index < n - 2 ? n_index : n - 2;
    write_file(".idx", bytes + 2, n_index);
    write_file(".bin", bytes + 2 + n_index, n - 2 - n_index);
    snprintf(path, sizeof(path), "%s.idx", stem);
    (void)packed_read(path, 0.5f, &err);
    return 0;
}
