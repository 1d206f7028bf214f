/* libFuzzer target: reads any bytes as a CHID file. */
#include "chid_input.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    int file = memfd_create("chid", 0);
    struct vp_err err = { .text = "" };
    char path[32];

    VP_BUG_ON(file < 0 || write(file, bytes, n) != (ssize_t)n);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    (void)chid_fuzz_read(path, &err);
    close(file);
    return 0;
}
