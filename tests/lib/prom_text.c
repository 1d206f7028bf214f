#include "lib/prom_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool prom_fails(struct prom_text *text, const char *why,
                       const char *line)
{
    snprintf(text->why, sizeof(text->why), "%s: %.900s", why, line);
    return false;
}

static size_t prom_name(const char *at, bool colons)
{
    size_t n = 0;

    while (isalpha((unsigned char)at[n]) || at[n] == '_' ||
           (colons && at[n] == ':') || (n > 0 && isdigit((unsigned char)at[n])))
        n++;
    return n;
}

static bool prom_ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Checks "# HELP name text" or "# TYPE name kind". */
static bool prom_comment(struct prom_text *text, const char *line)
{
    bool help = strncmp(line, "# HELP ", 7) == 0;
    char name[PROM_MAX_NAME];
    const char *at = line + 7;
    size_t n;

    if (!help && strncmp(line, "# TYPE ", 7) != 0)
        return prom_fails(text, "neither HELP nor TYPE", line);
    n = prom_name(at, true);
    if (n == 0 || n >= sizeof(name) || at[n] != ' ' || !at[n + 1])
        return prom_fails(text, "no name and text", line);
    memcpy(name, at, n);
    name[n] = '\0';
    at += n + 1;
    if (help) {
        for (int i = 0; i < text->n_families; i++)
            if (strcmp(text->families[i], name) == 0)
                return prom_fails(text, "a family twice", line);
        if (text->n_families == PROM_MAX_FAMILIES)
            return prom_fails(text, "too many families", line);
        if (text->n_families > 0 && !text->last[0])
            return prom_fails(text, "a family without samples before", line);
        snprintf(text->families[text->n_families++], PROM_MAX_NAME, "%s", name);
        text->helped = true;
        text->typed = false;
        text->last[0] = '\0';
        return strncmp(name, "vpipe_", 6) == 0 ||
               prom_fails(text, "prefix", line);
    }
    if (!text->helped || text->typed ||
        strcmp(text->families[text->n_families - 1], name) != 0)
        return prom_fails(text, "TYPE is not behind its HELP", line);
    text->typed = true;
    if (strcmp(at, "counter") != 0 && strcmp(at, "gauge") != 0)
        return prom_fails(text, "an unexpected type", line);
    return (strcmp(at, "counter") == 0) == prom_ends_with(name, "_total") ||
           prom_fails(text, "a counter ends with _total", line);
}

/* Checks {name="value",...}. Returns its length, 0 if it is malformed. */
static size_t prom_labels(const char *at)
{
    size_t n = 1;

    for (;;) {
        size_t name = prom_name(at + n, false);

        if (name == 0 || at[n + name] != '=' || at[n + name + 1] != '"')
            return 0;
        n += name + 2;
        while (at[n] && at[n] != '"') {
            if (at[n] == '\\' && !strchr("\\\"n", at[n + 1]))
                return 0;
            n += at[n] == '\\' ? 2 : 1;
        }
        if (at[n++] != '"')
            return 0;
        if (at[n] == '}')
            return n + 1;
        if (at[n++] != ',')
            return 0;
    }
}

static bool prom_sample(struct prom_text *text, const char *line)
{
    size_t n = prom_name(line, true), labels = 0;
    char *end;

    if (!text->typed || strlen(text->families[text->n_families - 1]) != n ||
        strncmp(text->families[text->n_families - 1], line, n) != 0)
        return prom_fails(text, "a sample outside of its family", line);
    if (line[n] == '{') {
        labels = prom_labels(line + n);
        if (labels == 0)
            return prom_fails(text, "labels", line);
    }
    n += labels;
    if (line[n] != ' ' || n >= sizeof(text->last))
        return prom_fails(text, "no value", line);
    if (strlen(text->last) == n && strncmp(text->last, line, n) == 0)
        return prom_fails(text, "a sample twice", line);
    snprintf(text->last, sizeof(text->last), "%.*s", (int)n, line);
    strtod(line + n + 1, &end);
    text->n_samples++;
    return (end != line + n + 1 && *end == '\0' &&
            !isspace((unsigned char)line[n + 1])) ||
           prom_fails(text, "not a number", line);
}

bool prom_check(const char *all, struct prom_text *text)
{
    char line[PROM_MAX_LINE];

    memset(text, 0, sizeof(*text));
    if (!*all || all[strlen(all) - 1] != '\n')
        return prom_fails(text, "does not end with a line end", "");
    while (*all) {
        size_t n = strcspn(all, "\n");

        if (n == 0 || n >= sizeof(line))
            return prom_fails(text, "an empty or long line", "");
        memcpy(line, all, n);
        line[n] = '\0';
        all += n + 1;
        if (!(line[0] == '#' ? prom_comment(text, line)
                             : prom_sample(text, line)))
            return false;
    }
    return text->last[0] || prom_fails(text, "ends without a sample", "");
}
