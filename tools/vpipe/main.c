/* vpipe: the command-line tool. */
#include "tool.h"

#include "launch/nearest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *meaning;
} commands[] = {
    { "train", cmd_train, "train a model from a configuration file" },
    { "compare", cmd_compare, "several configurations on the same data" },
    { "schedule", cmd_schedule, "print, prove, time and draw a schedule" },
    { "trace", cmd_trace, "show what the ranks of a run did and when" },
    { "info", cmd_info, "this build and this machine" },
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
    fputs("vpipe trains Transformers whose layers form a pipeline.\n\n"
          "usage: vpipe COMMAND [argument...]\n"
          "       vpipe COMMAND --help\n"
          "       vpipe --help | --version\n\n"
          "commands:\n",
          out);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].meaning);
    fputs("\nexit status: 0 ok, 1 the job failed, 2 bad usage or "
          "configuration,\n3 interrupted by a signal\n\n"
          "start with: vpipe train configs/bert_tiny.yml\n",
          out);
}

static int unknown_command(const char *word)
{
    const char *names[N_COMMANDS];
    int best;

    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    best = vp_nearest(word, names, N_COMMANDS);
    if (best >= 0)
        return tool_usage_error("vpipe: unknown command '%.48s'; did you mean "
                                "'%s'?",
                                word, names[best]);
    return tool_usage_error("vpipe: unknown command '%.48s'; 'vpipe --help' "
                            "lists the commands",
                            word);
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    if (!word) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        strcmp(word, "help") == 0) {
        print_help(stdout);
        return TOOL_OK;
    }
    if (strcmp(word, "--version") == 0) {
        puts("vpipe " VP_VERSION);
        return TOOL_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(word, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return unknown_command(word);
}

/* The first files that are opened must not become stdin, stdout or stderr, or
 * what is printed ends up in them. Without /dev/null the root folder holds the
 * place: writing to it is an error. */
static void reserve_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            (void)!open("/", O_RDONLY);
}

/* A full disk behind stdout must not look like success. */
static int close_output(int status)
{
    int error = tool_output_error();

    if (error == 0 || status != TOOL_OK)
        return status;
    fprintf(stderr, "vpipe: cannot write the output: %s; %s\n", strerror(error),
            vp_write_remedy(error));
    return TOOL_FAILED;
}

int main(int argc, char **argv)
{
    reserve_standard_descriptors();
    /* Beyond the limit of ulimit -f writing is an error, not the end. */
    signal(SIGXFSZ, SIG_IGN);
    tool_set_program(argv[0]);
    return close_output(run(argc, argv));
}
