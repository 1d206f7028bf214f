/* A JSON scanner that allocates nothing and needs one pass per line. */
#include "data/jsonl.h"

#include <stdint.h>
#include <string.h>

/* State of the scan of one line. */
struct scan {
    const unsigned char *line;
    size_t at, n;
    int depth;
    const char *cause; /* cause of the first fault; NULL: none yet */
    const char *const *keys;
    int n_keys;
    size_t found, n_found; /* offset and length of the string at `keys` */
    bool is_found;
};

/* Keeps the first cause. Returns false. */
static bool fail(struct scan *s, const char *cause)
{
    if (!s->cause)
        s->cause = cause;
    return false;
}

/* Skips spaces. Returns the next byte, or -1 at the end. */
static int peek(struct scan *s)
{
    while (s->at < s->n && strchr(" \t\r\n", s->line[s->at]) &&
           s->line[s->at] != '\0')
        s->at++;
    return s->at < s->n ? s->line[s->at] : -1;
}

static bool take(struct scan *s, int mark, const char *cause)
{
    if (peek(s) != mark)
        return fail(s, cause);
    s->at++;
    return true;
}

static bool is_hex(int byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
           (byte >= 'A' && byte <= 'F');
}

/* Scans a string; sets offset and length of the text between its quotes. */
static bool take_string(struct scan *s, size_t *at_out, size_t *n_out)
{
    if (!take(s, '"', "a string in quotes belongs here"))
        return false;
    *at_out = s->at;
    for (; s->at < s->n && s->line[s->at] != '"'; s->at++) {
        if (s->line[s->at] < ' ')
            return fail(s, "a control character in a string");
        if (s->line[s->at] != '\\')
            continue;
        s->at++;
        if (s->at == s->n || s->line[s->at] == '\0' ||
            !strchr("\"\\/bfnrtu", s->line[s->at]))
            return fail(s, "an unknown escape");
        for (int k = 1; s->line[s->at] == 'u' && k <= 4; k++)
            if (s->at + (size_t)k >= s->n ||
                !is_hex(s->line[s->at + (size_t)k]))
                return fail(s, "\\u without four digits");
    }
    *n_out = s->at - *at_out;
    if (s->at == s->n)
        return fail(s, "the line ends inside a string");
    s->at++;
    return true;
}

/* Scans a number, true, false or null. Numbers are not checked strictly. */
static bool take_word(struct scan *s)
{
    static const char *const words[] = { "true", "false", "null" };
    size_t begin = s->at;

    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);

        if (s->n - s->at >= n && memcmp(s->line + s->at, words[i], n) == 0) {
            s->at += n;
            return true;
        }
    }
    if (s->at < s->n && s->line[s->at] == '-')
        s->at++;
    if (s->at == s->n || s->line[s->at] < '0' || s->line[s->at] > '9')
        return fail(s, "a value belongs here");
    while (s->at < s->n && s->line[s->at] != '\0' &&
           strchr("0123456789+-.eE", s->line[s->at]))
        s->at++;
    return s->at > begin;
}

static bool take_value(struct scan *s, int level);

static bool is_key(const struct scan *s, size_t at, size_t n, int level)
{
    return level >= 0 && level < s->n_keys && n == strlen(s->keys[level]) &&
           memcmp(s->line + at, s->keys[level], n) == 0;
}

/* Stores the string at `keys`. Returns false if there is one already. */
static bool store_found(struct scan *s, size_t at, size_t n)
{
    if (s->is_found)
        return fail(s, "the key occurs twice");
    s->is_found = true;
    s->found = at;
    s->n_found = n;
    return true;
}

/* level: index in `keys` of the key to find in this object; -1: none. */
static bool take_object(struct scan *s, int level)
{
    size_t at = 0, n = 0;

    if (!take(s, '{', "an object belongs here"))
        return false;
    if (peek(s) == '}') {
        s->at++;
        return true;
    }
    for (;;) {
        bool wanted;

        if (peek(s) == -1)
            return fail(s, "the line ends inside an object");
        if (!take_string(s, &at, &n) || !take(s, ':', "':' belongs here"))
            return false;
        wanted = is_key(s, at, n, level);
        peek(s);
        if (wanted && level + 1 == s->n_keys) {
            if (!take_string(s, &at, &n) || !store_found(s, at, n))
                return false;
        } else if (!take_value(s, wanted ? level + 1 : -1)) {
            return false;
        }
        if (peek(s) != ',')
            return take(s, '}', "',' or '}' belongs here");
        s->at++;
    }
}

static bool take_array(struct scan *s)
{
    s->at++;
    if (peek(s) == ']') {
        s->at++;
        return true;
    }
    for (;;) {
        if (!take_value(s, -1))
            return false;
        if (peek(s) != ',')
            return take(s, ']', "',' or ']' belongs here");
        s->at++;
    }
}

static bool take_value(struct scan *s, int level)
{
    size_t at, n;
    bool ok;

    if (s->depth == VP_JSONL_DEPTH)
        return fail(s, "arrays and objects are nested too deeply");
    s->depth++;
    switch (peek(s)) {
    case '{':
        ok = take_object(s, level);
        break;
    case '[':
        ok = take_array(s);
        break;
    case '"':
        ok = take_string(s, &at, &n);
        break;
    default:
        ok = take_word(s);
    }
    s->depth--;
    return ok;
}

bool vp_jsonl_find(const unsigned char *line, size_t n, const char *const *keys,
                   int n_keys, size_t *at_out, size_t *n_out,
                   struct vp_jsonl_fault *fault)
{
    struct scan s = { .line = line, .n = n, .keys = keys, .n_keys = n_keys };
    bool ok = take_object(&s, 0);

    if (ok && peek(&s) != -1)
        ok = fail(&s, "one object belongs in a line, and nothing behind it");
    if (ok && !s.is_found) {
        s.at = 0;
        ok = fail(&s, "has no such key");
    }
    *fault = (struct vp_jsonl_fault){ s.at, s.cause };
    *at_out = s.found;
    *n_out = s.n_found;
    return ok;
}

/* ---- Characters --------------------------------------------------------- */

static uint32_t hex_at(const unsigned char *digits)
{
    uint32_t code = 0;

    for (int i = 0; i < 4; i++)
        code = code << 4 |
               (uint32_t)(digits[i] <= '9' ? digits[i] - '0'
                                           : (digits[i] | 0x20) - 'a' + 10);
    return code;
}

static size_t put_code(uint32_t code, unsigned char *out)
{
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0x00, 0xC0, 0xE0, 0xF0 };

    for (size_t i = n; i-- > 1; code >>= 6)
        out[i] = (unsigned char)(0x80 | (code & 0x3F));
    out[0] = (unsigned char)(first[n] | code);
    return n;
}

/* Reads the code point of "\uXXXX" at `s`, together with a second "\uXXXX" if
 * the first is a high surrogate. Returns the number of bytes used. *code_out is
 * 0 if they are not a character. */
static size_t read_code(const unsigned char *s, size_t n, uint32_t *code_out)
{
    uint32_t code = hex_at(s + 2), low;

    *code_out = code >= 0xD800 && code < 0xE000 ? 0 : code;
    if (code < 0xD800 || code >= 0xDC00 || n < 12 || s[6] != '\\' ||
        s[7] != 'u')
        return 6;
    low = hex_at(s + 8);
    if (low < 0xDC00 || low >= 0xE000)
        return 6;
    *code_out = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    return 12;
}

bool vp_jsonl_unescape(const unsigned char *string, size_t n, bool replace,
                       unsigned char *out, size_t *n_out,
                       struct vp_jsonl_fault *fault)
{
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    size_t n_written = 0;

    for (size_t i = 0; i < n;) {
        const char *escape;
        uint32_t code;
        size_t used;

        if (string[i] != '\\') {
            out[n_written++] = string[i++];
            continue;
        }
        if (string[i + 1] != 'u') {
            escape = strchr(escapes, string[i + 1]);
            out[n_written++] = escape ? (unsigned char)escape[1]
                                      : string[i + 1];
            i += 2;
            continue;
        }
        used = read_code(string + i, n - i, &code);
        if (code == 0 && !replace) {
            *fault = (struct vp_jsonl_fault){
                i, "is a NUL character or half of a surrogate pair"
            };
            return false;
        }
        n_written += put_code(code ? code : 0xFFFD, out + n_written);
        i += used;
    }
    *n_out = n_written;
    return true;
}
