/* libFuzzer target: reads any bytes as an HDF5 shard. */
#include "shard_input.h"

/* libhdf5 leaks some memory when it gives up on a damaged file. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    fuzz_hdf5(bytes, n);
    return 0;
}
