/* 13a tokenization: a sequence of substitutions over the whole line. Each one
 * reads one buffer and writes another, so that it does not match its own
 * output. All substitutions concern ASCII only and work on bytes. */
#include "decode/bleu.h"

#include <stdbool.h>
#include <string.h>

/* Returns the length of the white space at `at` in bytes, 0 if there is none.
 * The code points are those of Python's str.isspace(). */
static size_t space_at(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;

    if ((c[0] >= 0x09 && c[0] <= 0x0D) || (c[0] >= 0x1C && c[0] <= 0x20))
        return 1;
    if (c[0] == 0xC2) /* U+0085, U+00A0 */
        return c[1] == 0x85 || c[1] == 0xA0 ? 2 : 0;
    if (c[0] == 0xE1) /* U+1680 */
        return c[1] == 0x9A && c[2] == 0x80 ? 3 : 0;
    if (c[0] == 0xE2 && c[1] == 0x80) /* U+2000 to 200A, 2028, 2029, 202F */
        return (c[2] >= 0x80 && c[2] <= 0x8A) || c[2] == 0xA8 || c[2] == 0xA9 ||
                       c[2] == 0xAF
                   ? 3
                   : 0;
    if (c[0] == 0xE2 && c[1] == 0x81) /* U+205F */
        return c[2] == 0x9F ? 3 : 0;
    if (c[0] == 0xE3) /* U+3000 */
        return c[1] == 0x80 && c[2] == 0x80 ? 3 : 0;
    return 0;
}

/* Returns the length of a line without the white space at its end. */
static size_t length_without_end(const char *line)
{
    size_t n = 0, at = 0;

    while (line[at]) {
        size_t n_space = space_at(line + at);

        at += n_space ? n_space : 1;
        if (!n_space)
            n = at;
    }
    return n;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_stop(char c)
{
    return c == '.' || c == ',';
}

/* Returns true for a space and ASCII punctuation except ' , - and . */
static bool is_symbol(char c)
{
    return (c >= 0x20 && c <= 0x26) || (c >= 0x28 && c <= 0x2B) || c == 0x2F ||
           (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
           (c >= 0x7B && c <= 0x7E);
}

/* Appends `in` to `out`, with `to` for every `from`. */
static void replace(const char *in, const char *from, const char *to,
                    struct vp_strbuf *out)
{
    const char *found;

    for (; (found = strstr(in, from)); in = found + strlen(from)) {
        vp_strbuf_add(out, in, (size_t)(found - in));
        vp_strbuf_adds(out, to);
    }
    vp_strbuf_adds(out, in);
}

/* The following steps append `in` to `out` and put spaces around some bytes. */

static void split_symbols(const char *in, struct vp_strbuf *out)
{
    for (; *in; in++) {
        const char spaced[] = { ' ', *in, ' ' };

        if (is_symbol(*in))
            vp_strbuf_add(out, spaced, sizeof(spaced));
        else
            vp_strbuf_add(out, in, 1);
    }
}

/* Separates a period or comma that does not follow a digit. */
static void split_behind_other(const char *in, struct vp_strbuf *out)
{
    while (*in) {
        const char spaced[] = { in[0], ' ', in[1], ' ' };

        if (!is_digit(in[0]) && is_stop(in[1])) {
            vp_strbuf_add(out, spaced, sizeof(spaced));
            in += 2;
        } else {
            vp_strbuf_add(out, in++, 1);
        }
    }
}

/* Separates a period or comma that does not precede a digit. */
static void split_before_other(const char *in, struct vp_strbuf *out)
{
    while (*in) {
        const char spaced[] = { ' ', in[0], ' ', in[1] };

        if (is_stop(in[0]) && in[1] && !is_digit(in[1])) {
            vp_strbuf_add(out, spaced, sizeof(spaced));
            in += 2;
        } else {
            vp_strbuf_add(out, in++, 1);
        }
    }
}

/* Separates a dash that follows a digit. */
static void split_dashes(const char *in, struct vp_strbuf *out)
{
    while (*in) {
        const char spaced[] = { in[0], ' ', '-', ' ' };

        if (is_digit(in[0]) && in[1] == '-') {
            vp_strbuf_add(out, spaced, sizeof(spaced));
            in += 2;
        } else {
            vp_strbuf_add(out, in++, 1);
        }
    }
}

static void add_words(const char *in, struct vp_strbuf *out)
{
    const char *between = "";

    while (*in) {
        size_t n = space_at(in);

        if (n) {
            in += n;
            continue;
        }
        while (in[n] && !space_at(in + n))
            n++;
        vp_strbuf_adds(out, between);
        vp_strbuf_add(out, in, n);
        in += n;
        between = " ";
    }
}

/* Replaces `text` by `next`; keeps `failed` if either has it. */
static void replace_text(struct vp_strbuf *text, struct vp_strbuf next)
{
    next.failed = next.failed || text->failed;
    vp_strbuf_release(text);
    *text = next;
}

enum vp_status vp_bleu_tokenize(const char *line, struct vp_strbuf *out)
{
    static const struct {
        const char *from, *to;
    } pairs[] = { { "<skipped>", "" }, { "-\n", "" },    { "\n", " " },
                  { "&quot;", "\"" },  { "&amp;", "&" }, { "&lt;", "<" },
                  { "&gt;", ">" } };
    static void (*const steps[])(const char *, struct vp_strbuf *) = {
        split_symbols, split_behind_other, split_before_other, split_dashes
    };
    struct vp_strbuf text = VP_STRBUF_INIT;

    vp_strbuf_adds(&text, " ");
    vp_strbuf_add(&text, line, length_without_end(line));
    for (size_t i = 0; i < VP_COUNT_OF(pairs); i++) {
        struct vp_strbuf next = VP_STRBUF_INIT;

        replace(vp_strbuf_text(&text), pairs[i].from, pairs[i].to, &next);
        replace_text(&text, next);
    }
    vp_strbuf_adds(&text, " ");
    for (size_t i = 0; i < VP_COUNT_OF(steps); i++) {
        struct vp_strbuf next = VP_STRBUF_INIT;

        steps[i](vp_strbuf_text(&text), &next);
        replace_text(&text, next);
    }
    add_words(vp_strbuf_text(&text), out);
    out->failed = out->failed || text.failed;
    vp_strbuf_release(&text);
    return out->failed ? VP_ERR_NOMEM : VP_OK;
}
