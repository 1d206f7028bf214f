/* libFuzzer target: reads any bytes as vocab.txt. */
#include "token_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    token_folder_write("vocab.txt", bytes, n);
    token_folder_try();
    return 0;
}
