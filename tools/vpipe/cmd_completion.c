/* vpipe completion: prints completion scripts for shells. All of them contain
 * the same rows, made from the tables of commands, options and keys. */
#include "commands.h"

#include "base/strbuf.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

/* The scripts in completion/, with the line "@DATA@" in place of the rows. */
extern const char vp_completion_bash[], vp_completion_zsh[],
    vp_completion_fish[];
extern const size_t vp_completion_bash_bytes, vp_completion_zsh_bytes,
    vp_completion_fish_bytes;

static const struct tool_flag flags[] = {
    { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]) };
const struct tool_options cmd_completion_options = { flags, N_FLAGS };

/* ---- Rows --------------------------------------------------------------- */

/* Appends the kind of an option's value, as in `operand` of struct
 * tool_command; in addition "text": nothing can be completed, "key": KEY=VALUE,
 * "-": no value. */
static void add_value_kind(struct vp_strbuf *out, const char *value)
{
    static const char *const kinds[][2] = {
        { "DIR", "folder" }, { "FOLDER", "folder" }, { "FILE", "file" },
        { "PATH", "file" },  { "KEY=VALUE", "key" },
    };

    if (!value) {
        vp_strbuf_adds(out, "-");
        return;
    }
    for (size_t i = 0; i < VP_COUNT_OF(kinds); i++)
        if (strcmp(value, kinds[i][0]) == 0) {
            vp_strbuf_adds(out, kinds[i][1]);
            return;
        }
    if (!strchr(value, '|') || strchr(value, '[')) {
        vp_strbuf_adds(out, "text");
        return;
    }
    vp_strbuf_adds(out, "word ");
    for (; *value; value++)
        vp_strbuf_addf(out, "%c", *value == '|' ? ' ' : *value);
}

static void add_options(struct vp_strbuf *out, const char *command,
                        const struct tool_options *options)
{
    for (int i = 0; options && i < options->n_flags; i++) {
        const struct tool_flag *flag = &options->flags[i];

        if (!flag->meaning)
            continue;
        vp_strbuf_addf(out, "option\t%s\t%s\t%s\t", command, flag->name,
                       flag->value ? flag->value : "-");
        add_value_kind(out, flag->value);
        vp_strbuf_addf(out, "\t%s\n", flag->meaning);
    }
}

/* `prefix`: "" or "data ". */
static void add_commands(struct vp_strbuf *out, const char *prefix,
                         const struct tool_command *table)
{
    char name[64];

    for (; table->name; table++) {
        snprintf(name, sizeof(name), "%s%s", prefix, table->name);
        vp_strbuf_addf(out, "command\t%s\t%s\t%s\n", name, table->operand,
                       table->meaning);
        add_options(out, name, table->options);
    }
}

static void add_keys(struct vp_strbuf *out)
{
    struct vp_key_help help;

    for (int i = 0; vp_config_key_help(i, &help); i++) {
        vp_strbuf_addf(out, "key\t%s\t%s\t%s\t%s\t", help.name, help.group,
                       help.type, help.fallback);
        vp_strbuf_addf(out, "%s",
                       help.words[0] ? "word "
                       : help.path   ? "file"
                                     : "text");
        for (const char *c = help.words; *c; c++)
            if (*c != ',')
                vp_strbuf_addf(out, "%c", *c);
        vp_strbuf_addf(out, "\t%s\n", help.meaning);
    }
}

static void add_rows(struct vp_strbuf *out)
{
    add_commands(out, "", tool_commands);
    add_commands(out, "data ", data_commands);
    add_keys(out);
}

/* ---- Scripts ------------------------------------------------------------ */

/* Prints text for use inside single quotes of sh, or of fish, which has the
 * escapes \' and \\ there. */
static void print_quoted(const char *rows, bool fish)
{
    for (; *rows; rows++) {
        if (*rows == '\'')
            fputs(fish ? "\\'" : "'\\''", stdout);
        else if (*rows == '\\' && fish)
            fputs("\\\\", stdout);
        else
            putchar(*rows);
    }
}

static void print_script(const char *script, size_t n_bytes, const char *rows,
                         bool fish)
{
    static const char mark[] = "@DATA@\n";
    size_t n = 0;

    while (n < n_bytes && strncmp(script + n, mark, sizeof(mark) - 1) != 0)
        n++;
    VP_BUG_ON(n == n_bytes);
    fwrite(script, 1, n, stdout);
    print_quoted(rows, fish);
    n += sizeof(mark) - 1;
    fwrite(script + n, 1, n_bytes - n, stdout);
}

static int print_for(const char *shell)
{
    struct vp_strbuf rows = VP_STRBUF_INIT;
    int status = TOOL_OK;

    add_rows(&rows);
    if (rows.failed) {
        fprintf(stderr, "vpipe completion: out of memory\n");
        status = TOOL_FAILED;
    } else if (strcmp(shell, "bash") == 0) {
        print_script(vp_completion_bash, vp_completion_bash_bytes,
                     vp_strbuf_text(&rows), false);
    } else if (strcmp(shell, "zsh") == 0) {
        print_script(vp_completion_zsh, vp_completion_zsh_bytes,
                     vp_strbuf_text(&rows), false);
    } else if (strcmp(shell, "fish") == 0) {
        print_script(vp_completion_fish, vp_completion_fish_bytes,
                     vp_strbuf_text(&rows), true);
    } else if (strcmp(shell, "data") == 0) {
        fputs(vp_strbuf_text(&rows), stdout);
    } else {
        status = tool_usage_error("vpipe completion: unknown shell '%.48s'; "
                                  "write bash, zsh, fish or data",
                                  shell);
    }
    vp_strbuf_release(&rows);
    return status;
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe completion bash|zsh|fish|data\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Prints a script that makes a shell complete commands, options, "
               "keys after --set, their values, and files. The installation of "
               "vpipe includes these scripts; without it write for example "
               "'source <(vpipe completion bash)'.\n\n"
               "data prints the rows that all scripts contain, one per line, "
               "columns separated by tabs: commands, options, keys.\n\n"
               "Options:\n");
    help_flags(flags, N_FLAGS);
}

int cmd_completion(int argc, char **argv)
{
    struct tool_args args = { .command = "vpipe completion",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    const char *value;

    switch (args_next(&args, &value)) {
    case ARGS_END:
        return tool_usage_error("vpipe completion: no shell; write for example "
                                "'vpipe completion bash'");
    case ARGS_BAD:
        return TOOL_USAGE;
    case ARGS_PLAIN:
        if (args.at < argc)
            return tool_usage_error("vpipe completion: unexpected argument "
                                    "'%.48s'; name one shell",
                                    argv[args.at]);
        return print_for(value);
    default:
        print_help();
        return TOOL_OK;
    }
}
