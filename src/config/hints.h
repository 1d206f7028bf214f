/* Names of keys and options of other programs, and their counterparts in
 * vpipe. */
#ifndef VP_CONFIG_HINTS_H
#define VP_CONFIG_HINTS_H

#include <stdbool.h>
#include <stddef.h>

/* Where the user wrote the name. */
enum vp_hint_place {
    VP_HINT_FILE, /* a key of a configuration file: "lr: 0.1" */
    VP_HINT_SET,  /* a key of --set: "lr=0.1" */
    VP_HINT_FLAG, /* an option of a command that takes --set: "--lr" */
};

/* Writes the remedy for an unknown key or option: "use 'learning_rate'", "use
 * '--set learning_rate=...'". For an option, keys of a configuration are found
 * as well. Ignores upper case, and '-' for '_'. Returns false if the name is
 * not in the table. */
bool vp_hint(enum vp_hint_place place, const char *name, char *out,
             size_t n_bytes);

/* The same for a value that `key` does not take: "use 'cuda'" for gpu. */
bool vp_hint_word(const char *key, const char *word, char *out, size_t n_bytes);

/* Returns the i-th name of the table; NULL after the last. *key_out is the key
 * that the name is a value of; NULL if the name is a key or an option. */
const char *vp_hint_at(int i, const char **key_out);

#endif
