/* The regular expressions by hand: a piece is found from the classes of its
 * first characters, without backtracking. */
#include "text/split.h"

#include "text/unicode.h"

#include <stdbool.h>

enum {
    LETTER = VP_UNICODE_LETTER,
    NUMBER = VP_UNICODE_NUMBER,
    SPACE = VP_UNICODE_SPACE,
    KINDS = LETTER | NUMBER | SPACE, /* 0: any other kind of character */
};

/* GPT-2:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
#define AFTER_DIGITS \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BEFORE_DIGITS               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|" \
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"

static const struct {
    const char *regex;
    int max_digits;
} patterns[VP_SPLIT_COUNT] = {
    [VP_SPLIT_GPT2] = { NULL, 0 },
    [VP_SPLIT_LLAMA3] = { BEFORE_DIGITS "\\p{N}{1,3}" AFTER_DIGITS, 3 },
    [VP_SPLIT_QWEN2] = { BEFORE_DIGITS "\\p{N}" AFTER_DIGITS, 1 },
};

const char *vp_split_regex(enum vp_split split)
{
    return patterns[split].regex;
}

/* Returns the kind of the character at `at`, and writes its end. */
static unsigned kind_at(const unsigned char *at, const unsigned char **end_out)
{
    uint32_t c;

    *end_out = at + vp_code_point_take(at, &c);
    return vp_unicode_of(c) & KINDS;
}

/* Returns the first place from `at` on with a character of another kind. */
static const unsigned char *skip_kind(unsigned kind, const unsigned char *at,
                                      const unsigned char *end)
{
    const unsigned char *next;

    while (at < end && kind_at(at, &next) == kind)
        at = next;
    return at;
}

static bool is_either(unsigned char byte, unsigned char lower, bool any_case)
{
    return byte == lower || (any_case && byte == lower - 'a' + 'A');
}

/* Returns the end of a contraction ('s, 't, 're, 've, 'm, 'll, 'd) that begins
 * at `at`, or NULL. `any_case` also accepts upper case, and U+017F, which folds
 * to s. */
static const unsigned char *contraction(const unsigned char *at,
                                        const unsigned char *end, bool any_case)
{
    static const unsigned char one[] = "stmd", two[][2] = { "re", "ve", "ll" };

    if (*at != '\'' || end - at < 2)
        return NULL;
    for (int i = 0; one[i]; i++)
        if (is_either(at[1], one[i], any_case))
            return at + 2;
    if (end - at < 3)
        return NULL;
    for (int i = 0; i < 3; i++)
        if (is_either(at[1], two[i][0], any_case) &&
            is_either(at[2], two[i][1], any_case))
            return at + 3;
    if (any_case && at[1] == 0xC5 && at[2] == 0xBF)
        return at + 3;
    return NULL;
}

/* Returns the end of a piece of spaces: the whole run at the end of the text,
 * else the run without its last character, which may belong to the next
 * word. */
static const unsigned char *spaces(const unsigned char *at,
                                   const unsigned char *end)
{
    const unsigned char *stop = skip_kind(SPACE, at, end), *last = stop;

    if (stop == end)
        return stop;
    do
        last--;
    while ((*last & 0xC0) == 0x80);
    return last > at ? last : stop;
}

static const unsigned char *next_gpt2(const unsigned char *at,
                                      const unsigned char *end)
{
    const unsigned char *next = contraction(at, end, false), *word;
    unsigned kind;

    if (next)
        return next;
    kind = kind_at(at, &next);
    if (*at == ' ' && next < end) {
        kind = kind_at(next, &word);
        if (kind != SPACE)
            return skip_kind(kind, word, end);
    }
    if (kind != SPACE)
        return skip_kind(kind, next, end);
    return spaces(at, end);
}

static bool is_line_end(unsigned char byte)
{
    return byte == '\r' || byte == '\n';
}

/* Returns the end of a piece of spaces: behind the last line end of the run, or
 * as spaces() if the run has none. */
static const unsigned char *lines(const unsigned char *at,
                                  const unsigned char *end)
{
    const unsigned char *stop = skip_kind(SPACE, at, end);

    for (const unsigned char *last = stop; last > at; last--)
        if (is_line_end(last[-1]))
            return last;
    return spaces(at, end);
}

static const unsigned char *next_llama3(int max_digits, const unsigned char *at,
                                        const unsigned char *end)
{
    const unsigned char *next = contraction(at, end, true), *word;
    unsigned kind;

    if (next)
        return next;
    kind = kind_at(at, &next);
    if (kind == LETTER)
        return skip_kind(LETTER, next, end);
    if (kind == NUMBER) {
        for (int n = 1; n < max_digits && next < end; n++) {
            if (kind_at(next, &word) != NUMBER)
                break;
            next = word;
        }
        return next;
    }
    /* Any other character starts the piece of the letters that follow it. */
    if (!is_line_end(*at) && next < end && kind_at(next, &word) == LETTER)
        return skip_kind(LETTER, word, end);
    if (*at == ' ' && next < end && kind_at(next, &word) == 0) {
        next = word;
        kind = 0;
    }
    if (kind == SPACE)
        return lines(at, end);
    next = skip_kind(0, next, end);
    while (next < end && is_line_end(*next))
        next++;
    return next;
}

const unsigned char *vp_split_next(enum vp_split split, const unsigned char *at,
                                   const unsigned char *end)
{
    if (split == VP_SPLIT_GPT2)
        return next_gpt2(at, end);
    return next_llama3(patterns[split].max_digits, at, end);
}
