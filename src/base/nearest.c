/* Words are compared by edit distance first, then by a shared part. */
#include "base/nearest.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORD = 64 };

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;

    return m < c ? m : c;
}

/* Optimal string alignment distance; only three rows of its table are kept. */
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

/* Copies `word` in lower case and with '_' for '-'. Returns false if it does
 * not fit. */
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

/* Returns the name with the fewest edits, or -1. Allows one edit for every
 * three letters of `word`, and at least one. */
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
        /* The first of equals wins. A short name whose letters would all be
         * replaced is not near. */
        if ((edits < best_edits || (edits == best_edits && best < 0)) &&
            edits < (int)strlen(name)) {
            best = i;
            best_edits = edits;
        }
    }
    return best;
}

/* Returns a name that contains `word` or is contained in it, or -1. The longest
 * shared part wins; among equals, `word` at the start of the name ("batch" of
 * "batch_size") or the name at the end of `word` ("layers" of
 * "num_hidden_layers"). */
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

/* ---- Files -------------------------------------------------------------- */

/* A component of a path: bytes [begin, end). */
struct part {
    size_t begin, end;
};

/* Finds the first component that does not exist. */
static bool find_missing(const char *path, struct part *out)
{
    char prefix[PATH_MAX];
    struct part part = { 0, 0 };

    do {
        part.begin = part.end + strspn(path + part.end, "/");
        part.end = part.begin + strcspn(path + part.begin, "/");
        if (part.end == part.begin || part.end >= sizeof(prefix))
            return false;
        memcpy(prefix, path, part.end);
        prefix[part.end] = '\0';
    } while (access(prefix, F_OK) == 0);
    *out = part;
    return true;
}

/* Returns the start of the extension, or the end of a name without one. */
static const char *extension_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && dot > name ? dot : name + strlen(name);
}

/* Returns the edits between two file names, or INT_MAX if they are not near:
 * more than one edit for every three letters. A common extension is ignored. A
 * name that begins with `word` is near: "plan" and "plan.json". */
static int count_edits(const char *word, const char *name)
{
    char a[MAX_WORD], b[MAX_WORD];
    int n, limit, edits;

    if (!fold(word, a) || !fold(name, b))
        return INT_MAX;
    if (strcmp(extension_of(a), extension_of(b)) == 0) {
        a[extension_of(a) - a] = '\0';
        b[extension_of(b) - b] = '\0';
    }
    n = (int)strlen(a);
    limit = n >= 6 ? n / 3 : 1;
    edits = vp_edit_distance(a, b);
    if (edits <= limit && edits < (int)strlen(b))
        return edits;
    return n >= 3 && strncmp(a, b, (size_t)n) == 0 ? limit + 1 : INT_MAX;
}

/* Writes the name in `folder` nearest to `word`; of equals, the first in
 * alphabetical order. Returns false if none is near. */
static bool nearest_file(const char *folder, const char *word,
                         char out[NAME_MAX + 1])
{
    DIR *dir = opendir(folder);
    int best = INT_MAX;
    struct dirent *file;

    while (dir && (file = readdir(dir))) {
        const char *name = file->d_name;
        int edits = name[0] == '.' && word[0] != '.' ? INT_MAX
                                                     : count_edits(word, name);

        if (edits > best || edits == INT_MAX ||
            (edits == best && strcmp(name, out) > 0))
            continue;
        best = edits;
        snprintf(out, NAME_MAX + 1, "%s", name);
    }
    if (dir)
        closedir(dir);
    return best < INT_MAX;
}

bool vp_nearest_path(const char *path, char *out, size_t n_bytes)
{
    char folder[PATH_MAX], word[NAME_MAX + 1], name[NAME_MAX + 1];
    char meant[PATH_MAX], rest[PATH_MAX];
    struct part part;

    if (!find_missing(path, &part) || part.end - part.begin > NAME_MAX)
        return false;
    snprintf(folder, sizeof(folder), "%.*s", (int)part.begin, path);
    snprintf(word, sizeof(word), "%.*s", (int)(part.end - part.begin),
             path + part.begin);
    snprintf(rest, sizeof(rest), "%s", path + part.end);
    if (!nearest_file(part.begin > 0 ? folder : ".", word, name) ||
        strcmp(name, word) == 0 || /* a dangling symbolic link */
        (size_t)snprintf(meant, sizeof(meant), "%s%s%s", folder, name, rest) >=
            sizeof(meant))
        return false;
    /* Later components may be misspelt too. If they cannot be corrected, the
     * result ends at the corrected one, which still helps the user. */
    if (access(meant, F_OK) != 0 && vp_nearest_path(meant, out, n_bytes))
        return true;
    if (access(meant, F_OK) != 0)
        meant[part.begin + strlen(name)] = '\0';
    return (size_t)snprintf(out, n_bytes, "%s", meant) < n_bytes;
}

const char *vp_path_remedy(const char *path, const char *otherwise,
                           char out[VP_PATH_REMEDY_BYTES])
{
    char meant[VP_PATH_REMEDY_BYTES - 32];

    if (vp_nearest_path(path, meant, sizeof(meant)))
        snprintf(out, VP_PATH_REMEDY_BYTES, "did you mean '%s'?", meant);
    else
        snprintf(out, VP_PATH_REMEDY_BYTES, "%s", otherwise);
    return out;
}
