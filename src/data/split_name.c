/* Split of a file by the words in its name. */
#include "data/split_name.h"

#include <stdbool.h>
#include <string.h>

static bool is_word(const char *at, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(at, word, n) == 0;
}

static bool is_one_of(const char *at, size_t n, const char *const *words)
{
    while (*words && !is_word(at, n, *words))
        words++;
    return *words;
}

enum vp_split_name vp_split_by_name(const char *name, const char *valid)
{
    static const char *const valid_words[] = { "val", "valid", "validation",
                                               "dev", NULL };
    static const char *const other_words[] = { "test", NULL };
    enum vp_split_name split = VP_NAME_TRAIN;

    for (size_t n; *name; name += n + (name[n] != '\0')) {
        size_t n_word = n = strcspn(name, "._-");

        while (n_word > 0 && name[n_word - 1] >= '0' && name[n_word - 1] <= '9')
            n_word--;
        if (valid && (is_word(name, n, valid) || is_word(name, n_word, valid)))
            return VP_NAME_VALID;
        if (is_one_of(name, n_word, valid_words))
            split = valid ? VP_NAME_OTHER : VP_NAME_VALID;
        else if (is_one_of(name, n_word, other_words))
            split = VP_NAME_OTHER;
    }
    return split;
}
