/* libFuzzer target: reads any bytes as tokenizer.json. */
#include "token_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    token_folder_write("tokenizer.json", bytes, n);
    token_folder_try();
    return 0;
}
