/* Runs a function in a child process and returns the signal that ended it. */
#ifndef VP_TESTS_LIB_SIGNAL_OF_CHILD_H
#define VP_TESTS_LIB_SIGNAL_OF_CHILD_H

#include <signal.h>
#include <stddef.h>

/* Runs `fn(arg)` in a child process. Returns the signal that ended it, 0 for
 * none. `text` gets its stderr if n_text > 0. */
int signal_of_child(void (*fn)(void *arg), void *arg, char *text,
                    size_t n_text);

#endif
