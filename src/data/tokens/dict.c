/* Reading and checking of fairseq's dictionaries. */
#include "data/tokens/dict.h"

#include "data/text_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define REMEDY "copy the dictionary anew"

struct symbol {
    const char *at;
    size_t n;
    int64_t line;
};

static int compare_symbols(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = memcmp(x->at, y->at, n);

    if (order != 0)
        return order;
    return x->n < y->n ? -1 : x->n > y->n;
}

static bool ends_in(const char *at, size_t n, const char *end)
{
    size_t n_end = strlen(end);

    return n >= n_end && memcmp(at + n - n_end, end, n_end) == 0;
}

/* Finds the symbol of a line. Returns false if the line has no count.
 * *overwrites: the line ends in " #fairseq:overwrite". */
static bool cut_line(const char *at, size_t n, struct symbol *out,
                     bool *overwrites)
{
    static const char flag[] = " #fairseq:overwrite";
    size_t n_digits = 0;

    while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\r'))
        n--;
    *overwrites = ends_in(at, n, flag);
    if (*overwrites)
        n -= sizeof(flag) - 1;
    while (n_digits < n && at[n - n_digits - 1] >= '0' &&
           at[n - n_digits - 1] <= '9')
        n_digits++;
    if (n_digits == 0 || n_digits > 18 || n < n_digits + 2 ||
        at[n - n_digits - 1] != ' ')
        return false;
    out->at = at;
    out->n = n - n_digits - 1;
    return true;
}

static enum vp_status read_lines(const char *path, const struct vp_text *text,
                                 struct symbol *symbols, int64_t *n_ids_out,
                                 struct vp_err *err)
{
    const char *at = (const char *)text->bytes, *end = at + text->n_bytes;
    int64_t n_lines = 0;
    size_t n_symbols = 0;

    for (; at < end; n_lines++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        bool overwrites;

        if (!cut_line(at, (size_t)(newline - at), &symbols[n_symbols],
                      &overwrites))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: line %lld: is not a symbol, a space and a "
                              "count; " REMEDY,
                              path, (long long)n_lines + 1);
        symbols[n_symbols].line = n_lines + 1;
        n_symbols += !overwrites;
        at = newline + 1;
    }
    qsort(symbols, n_symbols, sizeof(*symbols), compare_symbols);
    for (size_t i = 1; i < n_symbols; i++) {
        const struct symbol *twice = &symbols[i];

        if (compare_symbols(twice - 1, twice) == 0)
            return vp_err_set(
                err, VP_ERR_INVALID,
                "%s: line %lld: '%.*s' is in line %lld, too; " REMEDY, path,
                (long long)twice->line, twice->n < 80 ? (int)twice->n : 80,
                twice->at, (long long)twice[-1].line);
    }
    *n_ids_out = VP_DICT_FIRST + n_lines;
    return VP_OK;
}

enum vp_status vp_dict_read(const char *path, int64_t *n_ids_out,
                            struct vp_err *err)
{
    struct vp_text text = { 0 };
    struct symbol *symbols = NULL;
    int64_t n_lines = 0;
    enum vp_status st = vp_text_append(&text, path, 0, false, err);

    for (int64_t i = 0; st == VP_OK && i < text.n_bytes; i++)
        n_lines += text.bytes[i] == '\n';
    if (st == VP_OK) {
        symbols = calloc((size_t)n_lines + 1, sizeof(*symbols));
        st = symbols ? read_lines(path, &text, symbols, n_ids_out, err)
                     : vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    }
    free(symbols);
    vp_text_release(&text);
    return st;
}
