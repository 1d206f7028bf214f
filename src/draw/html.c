/* Escapes text for HTML and JSON, and hashes inline scripts for content
 * security policies. */
#include "draw/html.h"

#include "base/sha256.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 4096 };

static const char replacement[] = "\xef\xbf\xbd";

/* ---- Characters --------------------------------------------------------- */

/* html_escape() and json_escape() return the replacement of a byte; NULL: the
 * byte is written unchanged. */
static const char *html_escape(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\n':
    case '\t':
        return NULL;
    default:
        return c < 0x20 || c == 0x7f ? replacement : NULL;
    }
}

static const char *json_escape(unsigned char c)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '<':
        return "\\u003c";
    case '>':
        return "\\u003e";
    case '&':
        return "\\u0026";
    case '\n':
        return "\\n";
    case '\t':
        return "\\t";
    default:
        return c < 0x20 || c == 0x7f ? "\\ufffd" : NULL;
    }
}

/* Appends `n` bytes of well-formed UTF-8. */
static void add_valid(struct vp_strbuf *out, const char *at, size_t n,
                      const char *(*escape)(unsigned char))
{
    size_t plain = 0;

    for (size_t i = 0; i < n; i++) {
        const char *with = escape((unsigned char)at[i]);

        if (!with)
            continue;
        vp_strbuf_add(out, at + plain, i - plain);
        vp_strbuf_adds(out, with);
        plain = i + 1;
    }
    vp_strbuf_add(out, at + plain, n - plain);
}

static void add_text(struct vp_strbuf *out, const char *text,
                     const char *(*escape)(unsigned char))
{
    size_t n = strlen(text);

    while (n > 0) {
        struct vp_utf8_fault fault;
        size_t good = vp_utf8_check(VP_UTF8_ANY, (const unsigned char *)text, n,
                                    &fault);

        add_valid(out, text, good, escape);
        if (good == n)
            return;
        vp_strbuf_adds(out, replacement);
        text += good + fault.n_bytes;
        n -= good + fault.n_bytes;
    }
}

/* ---- Texts -------------------------------------------------------------- */

void vp_html_text(struct vp_strbuf *out, const char *text)
{
    add_text(out, text, html_escape);
}

void vp_html_textf(struct vp_strbuf *out, const char *fmt, ...)
{
    char text[MAX_TEXT];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    vp_html_text(out, text);
}

void vp_html_json(struct vp_strbuf *out, const char *text)
{
    vp_strbuf_adds(out, "\"");
    add_text(out, text, json_escape);
    vp_strbuf_adds(out, "\"");
}

void vp_html_number(struct vp_strbuf *out, double value, int digits)
{
    if (isfinite(value))
        vp_strbuf_addf(out, "%.*g", digits, value);
    else
        vp_strbuf_adds(out, "null");
}

/* ---- Hashes ------------------------------------------------------------- */

static void add_base64(struct vp_strbuf *out, const unsigned char *bytes,
                       size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned group = (unsigned)bytes[i] << 16;
        char four[4] = { 0, 0, '=', '=' };

        if (i + 1 < n)
            group |= (unsigned)bytes[i + 1] << 8;
        if (i + 2 < n)
            group |= bytes[i + 2];
        four[0] = digits[group >> 18];
        four[1] = digits[group >> 12 & 63];
        if (i + 1 < n)
            four[2] = digits[group >> 6 & 63];
        if (i + 2 < n)
            four[3] = digits[group & 63];
        vp_strbuf_add(out, four, sizeof(four));
    }
}

void vp_html_hash(struct vp_strbuf *out, const char *bytes, size_t n_bytes)
{
    unsigned char digest[VP_SHA256_BYTES];
    struct vp_sha256 sha;

    vp_sha256_init(&sha);
    vp_sha256_update(&sha, bytes, n_bytes);
    vp_sha256_final(&sha, digest);
    vp_strbuf_adds(out, "'sha256-");
    add_base64(out, digest, sizeof(digest));
    vp_strbuf_adds(out, "'");
}
