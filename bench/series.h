/* A few measurements of the same thing. */
#ifndef VP_BENCH_SERIES_H
#define VP_BENCH_SERIES_H

enum { SERIES_MAX = 64 };

struct series {
    double at[SERIES_MAX];
    int n;
};

/* Measurements beyond the last place are ignored. */
void series_add(struct series *series, double value);
/* 0 if there is none. */
double series_median(const struct series *series);
double series_min(const struct series *series);
double series_max(const struct series *series);
/* a / b, one by one: rounds are compared with themselves, so that a machine
 * that slows down for a while slows both. */
struct series series_ratio(const struct series *a, const struct series *b);
/* "12.34 (12.01..13.20)" */
const char *series_text(const struct series *series, char text[48]);
/* As JSON: [12.34, 12.01, 13.20] = median, least, most. */
const char *series_json(const struct series *series, char text[64]);

#endif
