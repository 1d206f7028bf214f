/* A strict reader of Prometheus's text format 0.0.4, for tests. Beside the
 * syntax it checks the conventions: HELP and TYPE once, before the samples of a
 * family, which stand together; names with the prefix vpipe_; counters, and
 * only counters, end with _total; no sample twice. */
#ifndef VP_TESTS_LIB_PROM_TEXT_H
#define VP_TESTS_LIB_PROM_TEXT_H

#include <stdbool.h>

enum { PROM_MAX_FAMILIES = 128, PROM_MAX_NAME = 128, PROM_MAX_LINE = 1024 };

struct prom_text {
    char families[PROM_MAX_FAMILIES][PROM_MAX_NAME]; /* in order */
    int n_families, n_samples;
    bool helped, typed;          /* the last family has HELP, TYPE */
    char last[PROM_MAX_LINE];    /* last sample, without its value */
    char why[2 * PROM_MAX_LINE]; /* the error */
};

/* Checks the whole text. Returns false with the error in `text->why`. */
bool prom_check(const char *all, struct prom_text *text);

#endif
