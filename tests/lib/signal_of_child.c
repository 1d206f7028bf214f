#include "lib/signal_of_child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int signal_of_child(void (*fn)(void *arg), void *arg, char *text, size_t n_text)
{
    int fds[2];
    int status;
    ssize_t got = 0;
    size_t n = 0;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = { 0, 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        /* A sanitizer or cmocka may have set handlers for these. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        fn(arg);
        _exit(0);
    }
    close(fds[1]);
    while (n + 1 < n_text && (got = read(fds[0], text + n, n_text - 1 - n)) > 0)
        n += (size_t)got;
    if (n_text > 0)
        text[n] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
