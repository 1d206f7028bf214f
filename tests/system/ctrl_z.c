/* Runs a command in a new terminal, like a shell with job control:
 *   ctrl_z SECONDS FILE LINES COMMAND ARGUMENT...
 * types Ctrl-Z when FILE has LINES lines, waits until the command is stopped,
 * continues it in the foreground SECONDS later, and exits with its exit status.
 * The output of the command goes to stdout. Prints an error and exits with 99 if
 * the command was not stopped, or if FILE grew while it was. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WRONG = 99, TURN_MS = 20, LIMIT_MS = 60 * 1000, CTRL_Z = 26 };

static void pause_ms(int ms)
{
    struct timespec pause = { .tv_sec = ms / 1000,
                              .tv_nsec = ms % 1000 * 1000000L };

    nanosleep(&pause, NULL);
}

static void die(const char *why)
{
    fprintf(stderr, "ctrl_z: %s\n", why);
    exit(WRONG);
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int n = 0, c;

    while (file && (c = getc(file)) != EOF)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

static long long size_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (long long)info.st_size : -1;
}

/* ---- The shell, inside of the terminal ---------------------------------- */

/* Gives the terminal to `pid` and waits until it stops or ends. */
static int wait_in_foreground(pid_t pid)
{
    int status = 0;

    tcsetpgrp(STDIN_FILENO, pid);
    while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
    tcsetpgrp(STDIN_FILENO, getpgrp());
    return status;
}

static int run_shell(int seconds, const char *file, char **command)
{
    long long before;
    int status;
    pid_t pid;

    signal(SIGTTOU, SIG_IGN);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        tcsetpgrp(STDIN_FILENO, getpid());
        signal(SIGTTOU, SIG_DFL);
        execvp(command[0], command);
        _exit(127);
    }
    setpgid(pid, pid);
    status = wait_in_foreground(pid);
    if (!WIFSTOPPED(status))
        die("the command was not stopped");
    pause_ms(500); /* for messages in transit */
    before = size_of(file);
    pause_ms(seconds * 1000);
    if (size_of(file) != before)
        die("the job went on while it was stopped");
    kill(-pid, SIGCONT);
    status = wait_in_foreground(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- The user, outside of the terminal ---------------------------------- */

/* Copies the output of the terminal to stdout until it ends, and types Ctrl-Z
 * once. */
static void show(int terminal, const char *file, int n_lines)
{
    struct pollfd polled = { .fd = terminal, .events = POLLIN };
    const char key = CTRL_Z;
    char text[4096];
    int typed = 0;

    for (int ms = 0; typed || ms < LIMIT_MS; ms += TURN_MS) {
        if (poll(&polled, 1, TURN_MS) > 0) {
            ssize_t n = read(terminal, text, sizeof(text));

            if (n <= 0)
                return;
            fwrite(text, 1, (size_t)n, stdout);
        }
        if (!typed && count_lines(file) >= n_lines)
            typed = write(terminal, &key, 1) == 1;
    }
}

int main(int argc, char **argv)
{
    int terminal, status;
    pid_t shell;

    if (argc < 5)
        die("usage: ctrl_z SECONDS FILE LINES COMMAND ARGUMENT...");
    shell = forkpty(&terminal, NULL, NULL, NULL);
    if (shell < 0)
        die("no terminal");
    if (shell == 0)
        exit(run_shell((int)strtol(argv[1], NULL, 10), argv[2], argv + 4));
    show(terminal, argv[2], (int)strtol(argv[3], NULL, 10));
    close(terminal); /* sends SIGHUP if the shell still runs */
    if (waitpid(shell, &status, 0) != shell || !WIFEXITED(status))
        die("the shell was killed");
    return WEXITSTATUS(status);
}
