/* A series of measurements of the same quantity. */
#ifndef VP_BENCH_SERIES_H
#define VP_BENCH_SERIES_H

enum { SERIES_MAX = 64 };

struct series {
    double at[SERIES_MAX];
    int n;
};

/* Adds a measurement; ignored if the series is full. */
void series_add(struct series *series, double value);
/* Return 0 for an empty series. */
double series_median(const struct series *series);
double series_min(const struct series *series);
double series_max(const struct series *series);
/* Returns a / b round by round, so that a change of the machine's speed affects
 * both. */
struct series series_ratio(const struct series *a, const struct series *b);
/* Writes "12.34 (12.01..13.20)": median, least, most. Returns `text`. */
const char *series_text(const struct series *series, char text[48]);
/* Writes the same as JSON: [12.34, 12.01, 13.20]. Returns `text`. */
const char *series_json(const struct series *series, char text[64]);

#endif
