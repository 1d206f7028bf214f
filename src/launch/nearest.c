#include "launch/nearest.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { MAX_WORD = 64 };

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;

    return m < c ? m : c;
}

/* Optimal string alignment: three rows of the usual table are enough. */
int vp_edit_distance(const char *a, const char *b)
{
    int n = (int)strnlen(a, MAX_WORD), m = (int)strnlen(b, MAX_WORD);
    int row[3][MAX_WORD];
    int *before = row[0], *last = row[1], *now = row[2];

    if (n == MAX_WORD || m == MAX_WORD)
        return INT_MAX;
    for (int j = 0; j <= m; j++)
        last[j] = j;
    for (int i = 1; i <= n; i++) {
        int *oldest = before;

        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int replace = last[j - 1] + (a[i - 1] != b[j - 1]);

            now[j] = min3(replace, last[j] + 1, now[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        before = last;
        last = now;
        now = oldest;
    }
    return last[m];
}

/* Lower case, '_' for '-'; false when the word is too long to be meant. */
static bool fold(const char *word, char out[MAX_WORD])
{
    for (int i = 0; i < MAX_WORD; i++) {
        char c = word[i];

        out[i] = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
        if (!c)
            return true;
    }
    return false;
}

/* One edit for every three letters, at least one. */
static int by_distance(const char *word, const char *const *names, int n_names)
{
    int limit = (int)strlen(word) / 3;
    int best = -1, best_edits = limit > 1 ? limit : 1;
    char name[MAX_WORD] = { 0 };

    for (int i = 0; i < n_names; i++) {
        int edits;

        if (!fold(names[i], name))
            continue;
        edits = vp_edit_distance(word, name);
        /* Strictly better, so that the first of equals wins; and never all
         * letters of a short name. */
        if ((edits < best_edits || (edits == best_edits && best < 0)) &&
            edits < (int)strlen(name)) {
            best = i;
            best_edits = edits;
        }
    }
    return best;
}

/* "batch" begins "batch_size", "num_hidden_layers" ends with "layers": the
 * longest shared part wins, among equals one at such an end. */
static int by_part(const char *word, const char *const *names, int n_names)
{
    size_t n_word = strlen(word), best_score = 0;
    char name[MAX_WORD] = { 0 };
    int best = -1;

    for (int i = 0; i < n_names; i++) {
        size_t n_name, n_part, score;
        const char *found;
        bool at_end;

        if (!fold(names[i], name))
            continue;
        n_name = strlen(name);
        n_part = n_word < n_name ? n_word : n_name;
        if (n_word < n_name) {
            found = strstr(name, word);
            at_end = found == name;
        } else {
            found = strstr(word, name);
            at_end = found && !found[n_name];
        }
        score = 2 * n_part + at_end;
        if (found && n_part >= 3 && score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

int vp_nearest(const char *word, const char *const *names, int n_names)
{
    char folded[MAX_WORD] = { 0 };
    int best;

    if (!fold(word, folded) || !folded[0])
        return -1;
    best = by_distance(folded, names, n_names);
    return best >= 0 ? best : by_part(folded, names, n_names);
}
