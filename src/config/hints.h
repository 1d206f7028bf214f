/* Names of other programs, and what takes their place here. */
#ifndef VP_CONFIG_HINTS_H
#define VP_CONFIG_HINTS_H

#include <stdbool.h>
#include <stddef.h>

/* Where the name stands. */
enum vp_hint_place {
    VP_HINT_FILE, /* a key of a configuration file: "lr: 0.1" */
    VP_HINT_SET,  /* a key of --set: "lr=0.1" */
    VP_HINT_FLAG, /* an option of a command that takes --set: "--lr" */
};

/* Writes the remedy for a name that is not known there: "use 'learning_rate'",
 * "use '--set learning_rate=...'". The keys of a configuration count as names
 * where an option is wanted. Upper case and '-' for '_' do not count as
 * differences. False if the name is not in the table. */
bool vp_hint(enum vp_hint_place place, const char *name, char *out,
             size_t n_bytes);

/* The same for a word that `key` does not take: "use 'cuda'" for gpu. */
bool vp_hint_word(const char *key, const char *word, char *out, size_t n_bytes);

/* The i-th name of the table, and in `key_out` the key that it is a value of
 * (NULL: it is a key or an option); NULL after the last. */
const char *vp_hint_at(int i, const char **key_out);

#endif
