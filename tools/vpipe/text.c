/* Prints text, numbers and tables. On a terminal, lines that are too long are
 * broken between words, and tables between columns. */
#include "tool.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_WIDTH = 20 };

int tool_line_width(FILE *out)
{
    int width = tool_width(out, INT_MAX) - 1; /* the last column wraps */

    return width > LEAST_WIDTH ? width : LEAST_WIDTH;
}

/* ---- Lines -------------------------------------------------------------- */

/* Returns the number of characters up to the next possible break; "12.5 %" is
 * one word. */
static int word_length(const char *text)
{
    size_t n = strcspn(text, " \n");

    while (text[n] == ' ' && text[n + 1] == '%')
        n += 1 + strcspn(text + n + 1, " \n");
    return (int)n;
}

static void wrap(FILE *out, const char *text, int width, int indent)
{
    int column = 0;
    bool fresh = true; /* nothing but the indentation is on this line */

    while (*text) {
        int gap = (int)strspn(text, " ");
        int word = word_length(text + gap);

        if (!fresh && word > 0 && column + gap + word > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else {
            fprintf(out, "%*s", word > 0 ? gap : 0, "");
            column += gap;
        }
        fprintf(out, "%.*s", word, text + gap);
        column += word;
        fresh = fresh && word == 0;
        text += gap + word;
        if (*text == '\n') {
            fputc('\n', out);
            column = 0;
            fresh = true;
            text++;
        }
    }
}

void tool_print(FILE *out, int width, int indent, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    wrap(out, text, width > 0 ? width : tool_line_width(out), indent);
    free(text);
}

/* ---- Numbers for people ------------------------------------------------- */

void tool_count_text(double value, char *out, size_t n_bytes)
{
    static const char units[] = "kMGT";
    int unit = -1;

    while (fabs(value) >= 999.5 && unit < (int)sizeof(units) - 2) {
        value /= 1000.0;
        unit++;
    }
    if (unit < 0)
        snprintf(out, n_bytes, "%.0f", value);
    else
        snprintf(out, n_bytes, "%.*f%c", value < 99.95 ? 1 : 0, value,
                 units[unit]);
}

void tool_flops_text(double flops, char *out, size_t n_bytes)
{
    double giga = flops * 1e-9;

    if (giga < 999.95)
        snprintf(out, n_bytes, "%.1f GFLOP", giga);
    else
        snprintf(out, n_bytes, "%.1f TFLOP", giga * 1e-3);
}

void tool_time_text(double seconds, char *out, size_t n_bytes)
{
    long long s = seconds < 1e12 ? llround(seconds) : 0;

    if (s >= 86400)
        snprintf(out, n_bytes, "%lldd %02lldh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(out, n_bytes, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60,
                 s % 60);
    else
        snprintf(out, n_bytes, "%lld:%02lld", s / 60, s % 60);
}

/* ---- Tables ------------------------------------------------------------- */

static int widest_line(const char *text)
{
    int widest = 0;

    while (*text) {
        int n = (int)strcspn(text, "\n");

        widest = n > widest ? n : widest;
        text += n + (text[n] == '\n');
    }
    return widest;
}

/* Returns true if all lines have a space at `at`, or end before it. */
static bool is_blank(const char *text, int at)
{
    while (*text) {
        int n = (int)strcspn(text, "\n");

        if (at < n && text[at] != ' ')
            return false;
        text += n + (text[n] == '\n');
    }
    return true;
}

/* Returns the end of the column that starts at `from`: the next spaces that all
 * lines have in common. */
static int column_end(const char *text, int from, int widest)
{
    int at = from;

    while (at < widest && is_blank(text, at))
        at++;
    while (at < widest && !is_blank(text, at))
        at++;
    return at;
}

/* Prints characters `from` to `to` of all lines. If `from` is not 0, prints the
 * first `key` characters of the line before them. */
static void print_part(FILE *out, const char *text, int key, int from, int to)
{
    while (*text) {
        int n = (int)strcspn(text, "\n"), last = to < n ? to : n;

        if (from > 0)
            fprintf(out, "%.*s", key < n ? key : n, text);
        while (last > from && text[last - 1] == ' ')
            last--;
        if (last > from)
            fprintf(out, "%.*s", last - from, text + from);
        fputc('\n', out);
        text += n + (text[n] == '\n');
    }
}

void tool_table(FILE *out, int width, const char *text)
{
    int widest = widest_line(text);
    int key = column_end(text, 0, widest), from = 0;

    width = width > 0 ? width : tool_line_width(out);
    if (widest <= width) {
        fputs(text, out);
        return;
    }
    while (from < widest) {
        int columns = width - (from > 0 ? key : 0);
        int to = column_end(text, from, widest), next = to;

        while (next < widest && next - from <= columns) {
            to = next;
            next = column_end(text, to, widest);
        }
        to = next - from <= columns ? next : to;
        print_part(out, text, key, from, to);
        if (to < widest)
            fputc('\n', out);
        from = to;
    }
}

static char *table_text;
static size_t n_table_text;

FILE *tool_table_begin(FILE *out)
{
    FILE *table = open_memstream(&table_text, &n_table_text);

    return table ? table : out; /* out of memory: prints without breaks */
}

void tool_table_end(FILE *table, FILE *out)
{
    if (table == out)
        return;
    if (fclose(table) == 0)
        tool_table(out, 0, table_text);
    free(table_text);
    table_text = NULL;
}
