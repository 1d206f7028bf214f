/* Random damage to text files, for tests of parsers. */
#ifndef VP_TESTS_LIB_MUTATE_TEXT_H
#define VP_TESTS_LIB_MUTATE_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text_mutation {
    uint64_t seed;
    const char *special; /* characters that are inserted more often */
    uint32_t n_special;
    uint32_t most_edits;
    uint32_t most_bytes; /* that one edit removes or doubles */
};

/* Flips, replaces, removes, doubles and cuts bytes, as `round` decides. `bytes` has
 * memory for `room`. Returns the new length. */
size_t mutate_text(const struct text_mutation *how, uint32_t round, char *bytes,
                   size_t n, size_t room);

#endif
