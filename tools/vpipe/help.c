/* Tables for people: options and configuration keys, 80 columns wide. */
#include "tool.h"

#include "launch/config.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 79, INDENT = 24 };

/* Breaks `text` between words; so much of the first line is taken. */
static void print_wrapped(const char *text, int column)
{
    if (column < INDENT)
        column += printf("%*s", INDENT - column, "");
    while (*text) {
        int n = (int)strcspn(text, " ");

        if (column > INDENT && column + 1 + n > WIDTH)
            column = printf("\n%*s", INDENT, "") - 1;
        else if (column > INDENT)
            column += printf(" ");
        column += printf("%.*s", n, text);
        text += n;
        text += *text == ' ';
    }
    putchar('\n');
}

void help_flags(const struct tool_flag *flags, int n_flags)
{
    for (int i = 0; i < n_flags; i++) {
        int column;

        if (!flags[i].meaning)
            continue;
        column = printf("  %s%s%s", flags[i].name, flags[i].value ? " " : "",
                        flags[i].value ? flags[i].value : "");
        print_wrapped(flags[i].meaning, column);
    }
}

static void print_key(const struct vp_key_help *help)
{
    const char *fallback = help->fallback;
    const char *word = strcmp(fallback, "(required)") == 0 ? "" : "default: ";
    char text[512];
    int n = (int)strlen(fallback);

    /* "(by size)" reads better without the brackets. */
    if (fallback[0] == '(') {
        fallback++;
        n -= 2;
    }
    snprintf(text, sizeof(text), "%s; %s%.*s", help->type, word, n, fallback);
    print_wrapped(help->meaning, printf("  %s", help->name));
    print_wrapped(text, 0);
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
