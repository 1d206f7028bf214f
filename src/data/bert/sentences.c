/* Detection of sentence ends, and of how a text is divided into lines. */
#include "data/bert/sentences.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_letter(char c)
{
    return is_upper(c) || is_lower(c) || (unsigned char)c >= 0x80;
}

/* Returns the length of the string of the list that is at text[at], or 0. */
static size_t match(const char *text, size_t n, size_t at,
                    const char *const *strings, size_t n_strings)
{
    for (size_t i = 0; i < n_strings; i++) {
        size_t length = strlen(strings[i]);

        if (length <= n - at && memcmp(text + at, strings[i], length) == 0)
            return length;
    }
    return 0;
}

/* Ideographic full stop, full-width '!' and '?'. */
static size_t match_wide_mark(const char *text, size_t n, size_t at)
{
    static const char *const marks[] = { "\xE3\x80\x82", "\xEF\xBC\x81",
                                         "\xEF\xBC\x9F" };

    return (unsigned char)text[at] >= 0x80 ? match(text, n, at, marks, 3) : 0;
}

static size_t match_mark(const char *text, size_t n, size_t at)
{
    static const char *const ellipsis[] = { "\xE2\x80\xA6" };
    char c = text[at];

    if (c == '.' || c == '!' || c == '?')
        return 1;
    return c == '\xE2' ? match(text, n, at, ellipsis, 1) : 0;
}

/* Quotes and brackets that may follow a mark. */
static size_t match_closing(const char *text, size_t n, size_t at)
{
    static const char *const closing[] = {
        "\"",
        "'",
        ")",
        "]",
        "\xE2\x80\x9D",
        "\xE2\x80\x99",
        "\xC2\xBB",
        "\xE3\x80\x8D",
        "\xE3\x80\x8F",
        "\xEF\xBC\x89",
        "\xE2\x80\x9C",
    };

    return match(text, n, at, closing, sizeof(closing) / sizeof(closing[0]));
}

/* Returns true if the word before the '.' at `at` is an abbreviation. */
static bool is_abbreviation(const char *text, size_t begin, size_t at)
{
    static const char *const words[] = { "Mr", "Mrs", "Ms",  "Dr",  "Prof",
                                         "St", "vs",  "No",  "Fig", "Vol",
                                         "Jr", "Sr",  "Bd",  "Nr",  "bzw",
                                         "ca", "cf",  "vgl", "Inc", "Ltd" };
    size_t first = at, n;

    while (first > begin && is_letter(text[first - 1]))
        first--;
    n = at - first;
    if (n == 1 && is_upper(text[first]))
        return true;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == n && memcmp(text + first, words[i], n) == 0)
            return true;
    return false;
}

/* Returns the offset after the marks and closing characters at text[at]. Sets
 * *wide_out if one of them is full-width. */
static size_t skip_marks(const char *text, size_t n, size_t at, bool *wide_out)
{
    size_t length;

    while (at < n) {
        length = match_mark(text, n, at);
        if (length == 0) {
            length = match_wide_mark(text, n, at);
            *wide_out = *wide_out || length > 0;
        }
        if (length == 0)
            length = match_closing(text, n, at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

/* Returns the offset after the marks at `at` if they end the sentence that
 * began at `begin`, otherwise 0. *next_out: where the search continues. */
static size_t end_at_mark(const char *text, size_t n, size_t begin, size_t at,
                          size_t *next_out)
{
    bool wide = match_wide_mark(text, n, at) > 0;
    size_t end, next;

    *next_out = at + 1;
    if (!wide && match_mark(text, n, at) == 0)
        return 0;
    end = skip_marks(text, n, at, &wide);
    *next_out = end;
    if (wide || end == n)
        return end;
    if (!is_space(text[end]))
        return 0;
    if (text[at] == '.' && end == at + 1 && is_abbreviation(text, begin, at))
        return 0;
    for (next = end; next < n && is_space(text[next]); next++)
        ;
    if (next < n && (is_lower(text[next]) || strchr(",;:.!?", text[next])))
        return 0;
    return end;
}

/* ---- The style ---------------------------------------------------------- */

/* Returns true if the line text[begin .. end) ends with a mark. */
static bool ends_with_mark(const char *text, size_t begin, size_t end)
{
    while (end > begin &&
           (is_space(text[end - 1]) || match_closing(text, end, end - 1) == 1))
        end--;
    if (end == begin)
        return false;
    return match_mark(text, end, end - 1) == 1 ||
           (end - begin >= 3 && (match_wide_mark(text, end, end - 3) == 3 ||
                                 match_mark(text, end, end - 3) == 3 ||
                                 match_closing(text, end, end - 3) == 3));
}

/* Returns the number of sentences that end inside of the line. */
static size_t count_inner(const char *text, size_t begin, size_t end)
{
    size_t n = 0, start = begin, next;

    for (size_t i = begin; i < end; i = next) {
        size_t stop = end_at_mark(text, end, start, i, &next);

        if (stop == 0)
            continue;
        while (stop < end && is_space(text[stop]))
            stop++;
        n += stop < end;
        start = next = stop;
    }
    return n;
}

enum vp_sentence_style vp_sentence_style_of(const char *text, size_t n)
{
    size_t n_lines = 0, n_ended = 0, n_inner = 0;

    for (size_t begin = 0, end; begin < n; begin = end + 1) {
        const char *newline = memchr(text + begin, '\n', n - begin);

        end = newline ? (size_t)(newline - text) : n;
        while (begin < end && is_space(text[begin]))
            begin++;
        if (begin == end)
            continue;
        n_lines++;
        n_ended += ends_with_mark(text, begin, end);
        n_inner += count_inner(text, begin, end);
    }
    if (10 * n_inner < n_lines)
        return VP_SENTENCES_LINES;
    return 2 * n_ended >= n_lines ? VP_SENTENCES_PARAGRAPHS
                                  : VP_SENTENCES_WRAPPED;
}

/* ---- Cutting ------------------------------------------------------------ */

/* Returns the offset after the white space at `at`. Sets *blank_out if that
 * includes a blank line. The text begins after a newline. */
static size_t skip_space(const char *text, size_t n, size_t at, bool *blank_out)
{
    int n_newlines = at == 0;

    for (; at < n && is_space(text[at]); at++)
        n_newlines += text[at] == '\n';
    *blank_out = n_newlines > 1;
    return at;
}

/* Returns true if text[at] is a newline that ends a sentence. */
static bool ends_at_space(const char *text, size_t n,
                          enum vp_sentence_style style, size_t at)
{
    bool blank;

    if (text[at] != '\n')
        return false;
    if (style != VP_SENTENCES_WRAPPED)
        return true;
    skip_space(text, n, at, &blank);
    return blank;
}

bool vp_sentence_next(const char *text, size_t n, enum vp_sentence_style style,
                      size_t *at, size_t *begin_out, size_t *end_out,
                      bool *blank_out)
{
    size_t begin, end, next;

    begin = skip_space(text, n, *at, blank_out);
    *at = begin;
    if (begin == n)
        return false;
    for (end = begin; end < n; end = next) {
        size_t stop = 0;

        next = end + 1;
        if (ends_at_space(text, n, style, end))
            break;
        /* Handles a run of marks at once, so that a long run takes linear
         * time. */
        if (style != VP_SENTENCES_LINES)
            stop = end_at_mark(text, n, begin, end, &next);
        if (stop > 0) {
            end = stop;
            break;
        }
    }
    *at = end;
    while (end > begin && is_space(text[end - 1]))
        end--;
    *begin_out = begin;
    *end_out = end;
    return true;
}
