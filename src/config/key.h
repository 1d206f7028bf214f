/* Operations on one row of the table of keys: set, print, describe, refuse. */
#ifndef VP_CONFIG_KEY_H
#define VP_CONFIG_KEY_H

#include "config/keys.h"

/* Returns the path in entry->text. A relative path starts at the entry's
 * folder, or at key `directory`. */
enum vp_status vp_entry_path(const struct vp_entry *entry,
                             struct vp_config *config, const char **out,
                             struct vp_err *err);

/* Returns true if the value is a file that is read: a placement, the folder of
 * the first weights, or a schedule that is a path. */
bool vp_key_names_file(const struct vp_key *key, const struct vp_entry *entry);
/* Sets the field, or refuses the entry with one line. An entry that names a
 * file is only checked; vp_key_read() also reads the file. */
enum vp_status vp_key_set(const struct vp_key *key,
                          const struct vp_entry *entry,
                          struct vp_config *config, struct vp_err *err);

/* Refuses an entry whose key is not in the table; the message names the nearest
 * key. */
enum vp_status vp_entry_unknown(const struct vp_entry *entry,
                                struct vp_err *err);

bool vp_key_is_list(const struct vp_key *key);

/* Prints the value as YAML, with absolute paths. Returns false if there is
 * nothing to print: the key is not set, or it only chooses defaults of
 * others. */
bool vp_key_print(const struct vp_key *key, const struct vp_config *config,
                  char *out, size_t n_bytes);

/* Writes the values that a key takes: "a whole number from 1 to 64", "one of a,
 * b, c". Lists the sizes if `config` has a model; `config` may be NULL. */
void vp_key_expects(const struct vp_key *key, const struct vp_config *config,
                    char *out, size_t n_bytes);

/* Writes the words that the key takes with every model: "a, b, c"; "" if it
 * takes none. */
void vp_key_words(const struct vp_key *key, char *out, size_t n_bytes);
/* Returns true if a value may be a path. */
bool vp_key_takes_path(const struct vp_key *key);

/* ---- Shared by the files of this header --------------------------------- */

#define VP_SHOWN_BYTES 80
#define VP_EXAMPLE_BYTES 160

/* Writes the value in quotes, for messages. A long one is shortened, at a UTF-8
 * character. */
void vp_entry_show(const struct vp_entry *entry, char out[VP_SHOWN_BYTES]);
/* Writes a valid line for the key, in the notation of the entry: "size:
 * base". */
void vp_entry_example(const struct vp_entry *entry, const struct vp_key *key,
                      char out[VP_EXAMPLE_BYTES]);
enum vp_status vp_entry_no_memory(const struct vp_entry *entry,
                                  struct vp_err *err);

/* Sets `err` to "<place>: key '<key>' must be <values>, not <value>;
 * <remedy>". */
enum vp_status vp_key_refuse(const struct vp_key *key,
                             const struct vp_entry *entry,
                             const struct vp_config *config,
                             struct vp_err *err);

/* Returns the number of a word that the key takes, or -1. */
int vp_key_find_word(const struct vp_key *key, const char *text);
/* Sets `field` to one number. Returns false if `text` is not a number of the
 * key's type and range. */
bool vp_key_set_number(const struct vp_key *key, const char *text, void *field);
bool vp_key_set_real(const struct vp_key *key, const char *text, void *field);

/* Sets a key whose value is a list; the list may be written without
 * brackets. */
enum vp_status vp_key_set_list(const struct vp_key *key,
                               const struct vp_entry *entry,
                               struct vp_config *config, struct vp_err *err);

#endif
