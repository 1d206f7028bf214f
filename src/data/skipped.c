/* Counts of skipped files by kind, and their text for messages. */
#include "data/skipped.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { N_SHOWN = 10 };

static int find(const struct vp_skipped *skipped, const char *kind)
{
    int i = 0;

    while (i < skipped->n_kinds && strcmp(skipped->kind[i].name, kind) != 0)
        i++;
    return i;
}

int64_t vp_skipped_count(const struct vp_skipped *skipped, const char *kind)
{
    int i = find(skipped, kind);

    return i < skipped->n_kinds ? skipped->kind[i].n : 0;
}

void vp_skipped_add_kind(struct vp_skipped *skipped, const char *kind)
{
    int i = find(skipped, kind);

    skipped->n_files++;
    if (i == VP_SKIPPED_KINDS)
        return; /* only counted in n_files: part of "others" */
    if (i == skipped->n_kinds) {
        VP_BUG_ON(strlen(kind) >= VP_SKIPPED_NAME);
        snprintf(skipped->kind[i].name, VP_SKIPPED_NAME, "%s", kind);
        skipped->kind[i].n = 0;
        skipped->n_kinds++;
    }
    skipped->kind[i].n++;
}

void vp_skipped_add(struct vp_skipped *skipped, const char *file_name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-";
    const char *dot = strrchr(file_name, '.');
    size_t n = dot ? strlen(dot) : 0;

    if (!dot)
        vp_skipped_add_kind(skipped, "no extension");
    else if (n > 1 && n < VP_SKIPPED_NAME && strspn(dot + 1, plain) == n - 1)
        vp_skipped_add_kind(skipped, dot);
    else
        vp_skipped_add_kind(skipped, "other names");
}

/* Returns true if kind `i` is printed before kind `j`. */
static int precedes(const struct vp_skipped *skipped, int i, int j)
{
    if (skipped->kind[i].n != skipped->kind[j].n)
        return skipped->kind[i].n > skipped->kind[j].n;
    return strcmp(skipped->kind[i].name, skipped->kind[j].name) < 0;
}

void vp_skipped_print(const struct vp_skipped *skipped, char *out,
                      size_t n_bytes)
{
    int64_t n_others = skipped->n_files;
    size_t n = 0;

    out[0] = '\0';
    for (int place = 0; place < skipped->n_kinds && place < N_SHOWN; place++) {
        int i = 0, n_before;

        /* Find the kind with exactly `place` kinds before it. */
        for (;; i++) {
            n_before = 0;
            for (int j = 0; j < skipped->n_kinds; j++)
                n_before += precedes(skipped, j, i);
            if (n_before == place)
                break;
        }
        if (n < n_bytes)
            n += (size_t)snprintf(out + n, n_bytes - n, "%s%s %lld",
                                  place > 0 ? ", " : "", skipped->kind[i].name,
                                  (long long)skipped->kind[i].n);
        n_others -= skipped->kind[i].n;
    }
    if (n_others > 0 && n < n_bytes)
        snprintf(out + n, n_bytes - n, ", others %lld", (long long)n_others);
}
