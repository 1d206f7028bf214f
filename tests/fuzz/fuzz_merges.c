/* libFuzzer target: reads any bytes as merges.txt beside a small vocab.json. If
 * the input has a byte 0xFF, the part before it is vocab.json and the part
 * after it merges.txt. */
#include "token_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char vocab[] =
    "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abc\":5,\"aa\":6,"
    "\"aaa\":7,\"\xC4\xA0\":8,\"\xC4\xA0"
    "a\":9,\"t\":10,\"e\":11,\"te\":12,\"s\":13,\"st\":14,\"<|endoftext|>\":15,"
    "\"\xC4\xA0\xC4\xA0\":16}";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *cut = n > 0 ? memchr(bytes, 0xFF, n) : NULL;

    if (cut) {
        token_folder_write("vocab.json", bytes, (size_t)(cut - bytes));
        token_folder_write("merges.txt", cut + 1,
                           n - (size_t)(cut + 1 - bytes));
    } else {
        token_folder_write("vocab.json", vocab, sizeof(vocab) - 1);
        token_folder_write("merges.txt", bytes, n);
    }
    token_folder_try();
    return 0;
}
