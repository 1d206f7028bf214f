/* Prints help: options and configuration keys. */
#include "tool.h"

#include "config/config.h"

#include <stdio.h>
#include <string.h>

/* In less than NARROW columns, meanings are printed below names. */
enum { WIDTH = 79, INDENT = 24, NARROW = 60, NARROW_INDENT = 6 };

int help_width(FILE *out)
{
    int width = tool_line_width(out);

    return width < WIDTH ? width : WIDTH;
}

static void print_row(const char *name, const char *meaning)
{
    int width = help_width(stdout);
    int indent = width < NARROW ? NARROW_INDENT : INDENT;

    if (width >= NARROW && strlen(name) < INDENT)
        tool_print(stdout, width, indent, "%-*s%s\n", indent, name, meaning);
    else
        tool_print(stdout, width, indent, "%s%s%*s%s\n", name,
                   name[0] ? "\n" : "", indent, "", meaning);
}

void help_flags(const struct tool_flag *flags, int n_flags)
{
    for (int i = 0; i < n_flags; i++) {
        char name[64];

        if (!flags[i].meaning)
            continue;
        snprintf(name, sizeof(name), "  %s%s%s", flags[i].name,
                 flags[i].value ? " " : "",
                 flags[i].value ? flags[i].value : "");
        print_row(name, flags[i].meaning);
    }
}

static void print_key(const struct vp_key_help *help)
{
    const char *fallback = help->fallback;
    const char *word = strcmp(fallback, "(required)") == 0 ? "" : "default: ";
    char name[64], text[512];
    int n = (int)strlen(fallback);

    /* Defaults such as "(by size)" are printed without the brackets. */
    if (fallback[0] == '(') {
        fallback++;
        n -= 2;
    }
    snprintf(name, sizeof(name), "  %s", help->name);
    snprintf(text, sizeof(text), "%s; %s%.*s", help->type, word, n, fallback);
    print_row(name, help->meaning);
    print_row("", text);
}

void help_keys(void)
{
    struct vp_key_help help;
    const char *group = "";

    for (int i = 0; vp_config_key_help(i, &help); i++) {
        if (strcmp(group, help.group) != 0)
            printf("\nKeys: %s\n", help.group);
        group = help.group;
        print_key(&help);
    }
}
