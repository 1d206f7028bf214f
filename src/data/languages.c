/* Parses names of parallel files and chooses a pair of languages. */
#include "data/languages.h"

#include <stdio.h>
#include <string.h>

/* The parts of "<split>.<a>-<b>.<a or b>". */
struct parts {
    const char *a, *b; /* pointers into the name */
    size_t n_a, n_b;
    bool first; /* the file is in language a */
};

static bool cut_name(const char *name, const char *ending, struct parts *out)
{
    size_t n = strlen(name), n_end = strlen(ending);
    const char *end = name + n - n_end, *dot, *dash;

    if (n <= n_end || strcmp(end, ending) != 0)
        return false;
    for (dot = end - 1; dot > name && *dot != '.'; dot--)
        ;
    out->b = dot;
    for (out->a = dot - 1; out->a > name && *out->a != '.'; out->a--)
        ;
    if (dot <= name || out->a <= name)
        return false;
    out->a++; /* "<split>." is before it */
    dash = memchr(out->a, '-', (size_t)(dot - out->a));
    if (!dash)
        return false;
    out->n_a = (size_t)(dash - out->a);
    out->b = dash + 1;
    out->n_b = (size_t)(dot - out->b);
    n = (size_t)(end - dot - 1); /* length of the file's language */
    out->first = n == out->n_a && memcmp(dot + 1, out->a, n) == 0;
    return out->n_a > 0 && out->n_b > 0 && out->n_a < VP_LANGUAGE_NAME &&
           out->n_b < VP_LANGUAGE_NAME &&
           (out->first || (n == out->n_b && memcmp(dot + 1, out->b, n) == 0));
}

bool vp_languages_is_name(const char *name, const char *ending)
{
    struct parts parts;

    return cut_name(name, ending, &parts);
}

static bool is_text(const char *at, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(at, text, n) == 0;
}

/* Returns true if the file has the configured languages, in any order. */
static bool is_wanted(const struct vp_data_config *config,
                      const struct parts *parts)
{
    const char *source = config->source_lang, *target = config->target_lang;

    if (!source || !target)
        return (!source || is_text(parts->a, parts->n_a, source)) &&
               (!target || is_text(parts->b, parts->n_b, target));
    return (is_text(parts->a, parts->n_a, source) &&
            is_text(parts->b, parts->n_b, target)) ||
           (is_text(parts->a, parts->n_a, target) &&
            is_text(parts->b, parts->n_b, source));
}

static enum vp_status fail_none(const struct vp_data_config *config,
                                const char *ending, struct vp_err *err)
{
    bool asked = config->source_lang || config->target_lang;

    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: no files <split>.<source>-<target>.<language>%s%s; "
                      "%sset data_dir to their folder",
                      config->path, ending,
                      asked ? " of these source_lang and target_lang" : "",
                      asked ? "change these, or " : "");
}

enum vp_status vp_languages_find(const struct vp_data_config *config,
                                 const struct vp_names *names,
                                 const char *ending, struct vp_languages *out,
                                 struct vp_err *err)
{
    struct parts parts, found = { .a = NULL };

    for (size_t i = 0; i < names->n; i++) {
        if (!cut_name(names->name[i], ending, &parts) ||
            !is_wanted(config, &parts))
            continue;
        if (found.a &&
            (parts.n_a != found.n_a || parts.n_b != found.n_b ||
             memcmp(parts.a, found.a, parts.n_a + 1 + parts.n_b) != 0))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: holds files of %.*s and of %.*s; set "
                              "source_lang and target_lang",
                              config->path, (int)(found.n_a + 1 + found.n_b),
                              found.a, (int)(parts.n_a + 1 + parts.n_b),
                              parts.a);
        found = parts;
    }
    if (!found.a)
        return fail_none(config, ending, err);
    snprintf(out->pair, sizeof(out->pair), "%.*s",
             (int)(found.n_a + 1 + found.n_b), found.a);
    snprintf(out->source, sizeof(out->source), "%.*s", (int)found.n_a, found.a);
    snprintf(out->target, sizeof(out->target), "%.*s", (int)found.n_b, found.b);
    /* Files made for the other direction can be used, too. */
    if (config->source_lang && strcmp(out->source, config->source_lang) != 0) {
        char source[VP_LANGUAGE_NAME];

        memcpy(source, out->target, sizeof(source));
        memcpy(out->target, out->source, sizeof(source));
        memcpy(out->source, source, sizeof(source));
    }
    return VP_OK;
}
