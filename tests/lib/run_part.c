#include "lib/run_part.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

int run_part(const struct CMUnitTest *tests, size_t n)
{
    const char *text = getenv("VP_TEST_PART");
    struct CMUnitTest part[64];
    unsigned which = 1, n_parts = 1;
    size_t n_part = 0;

    if (text && sscanf(text, "%u/%u", &which, &n_parts) != 2)
        return 1;
    for (size_t i = which - 1; i < n && n_part < VP_COUNT_OF(part);
         i += n_parts)
        part[n_part++] = tests[i];
    cmocka_set_test_filter(getenv("VP_TEST_FILTER"));
    return _cmocka_run_group_tests("tests", part, n_part, NULL, NULL);
}
