/* vpipe: the command-line tool. Runs the command that argv[1] names. */
#include "tool.h"

#include "commands.h"
#include "run/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_help(FILE *out)
{
    char config[PATH_MAX];

    tool_print(out, help_width(out), 0,
               "vpipe trains Transformers whose layers form a pipeline.\n\n"
               "usage: vpipe COMMAND [argument...]\n"
               "       vpipe help [COMMAND]\n"
               "       vpipe --help | --version\n\n"
               "commands:\n");
    tool_print_commands(out, tool_commands);
    tool_print(out, help_width(out), 0,
               "\nexit status: 0 ok, 1 the job failed, 2 bad usage or "
               "configuration, 3 interrupted by a signal\n\n");
    tool_find_config("bert_tiny.yml", config, sizeof(config));
    fputs("start with: ", out);
    vp_command_write_word(out, tool_program());
    fputs(" train ", out);
    vp_command_write_word(out, config);
    fputc('\n', out);
}

static int unknown_command(const char *word)
{
    const char *nearest = tool_nearest_command(tool_commands, word);

    if (nearest)
        return tool_usage_error("vpipe: unknown command '%.48s'; did you mean "
                                "'%s'?",
                                word, nearest);
    if (strcmp(word, "version") == 0 || strcmp(word, "-v") == 0 ||
        strcmp(word, "-V") == 0)
        return tool_usage_error("vpipe: unknown command '%s'; did you mean "
                                "'--version'?",
                                word);
    return tool_usage_error("vpipe: unknown command '%.48s'; 'vpipe --help' "
                            "lists the commands",
                            word);
}

static int run_command(int argc, char **argv)
{
    const struct tool_command *command = tool_find_command(tool_commands,
                                                           argv[0]);

    if (command)
        return command->run(argc, argv);
    return unknown_command(argv[0]);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
           strcmp(word, "help") == 0;
}

/* "vpipe help train" is "vpipe train --help". */
static int run_help(int argc, char **argv)
{
    char *words[] = { argv[0], "--help", NULL };

    if (argc > 1)
        return tool_usage_error("vpipe help: unexpected argument '%.48s'; name "
                                "one command",
                                argv[1]);
    if (argc == 1 && !is_help(argv[0]))
        return run_command(2, words);
    print_help(stdout);
    return TOOL_OK;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (is_help(argv[1]))
        return run_help(argc - 2, argv + 2);
    if (strcmp(argv[1], "--version") == 0) {
        puts("vpipe " VP_VERSION);
        return TOOL_OK;
    }
    return run_command(argc - 1, argv + 1);
}

/* Opens closed standard descriptors, so that no file that is opened later
 * becomes stdin, stdout or stderr and receives printed text. Without /dev/null
 * opens the root folder, to which writing is an error. */
static void reserve_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            (void)!open("/", O_RDONLY);
}

/* Returns TOOL_FAILED instead of TOOL_OK if stdout could not be written, for
 * example to a full disk. A reader that has closed the pipe is no error. */
static int close_output(int status)
{
    int error = tool_output_error();

    if (error == 0 || error == EPIPE || status != TOOL_OK)
        return status;
    fprintf(stderr, "vpipe: cannot write the output: %s; %s\n", strerror(error),
            vp_write_remedy(error));
    return TOOL_FAILED;
}

int main(int argc, char **argv)
{
    reserve_standard_descriptors();
    /* Beyond the limit of ulimit -f write() then fails with EFBIG. */
    signal(SIGXFSZ, SIG_IGN);
    tool_set_program(argv[0]);
    return close_output(run(argc, argv));
}
