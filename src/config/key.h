/* What is done with one row of the table of keys. */
#ifndef VP_CONFIG_KEY_H
#define VP_CONFIG_KEY_H

#include "config/keys.h"

/* "path" as the entry means it: relative to its folder. */
enum vp_status vp_entry_path(const struct vp_entry *entry,
                             struct vp_config *config, const char **out,
                             struct vp_err *err);

/* True for a placement file, the folder of first weights, and for a schedule that
 * is a path. */
bool vp_key_names_file(const struct vp_key *key, const struct vp_entry *entry);
/* Sets the field, or refuses with one line. An entry that names a file is only
 * checked: see key_file.h. */
enum vp_status vp_key_set(const struct vp_key *key,
                          const struct vp_entry *entry,
                          struct vp_config *config, struct vp_err *err);

/* Refuses an entry whose key is not in the table, with the nearest one. */
enum vp_status vp_entry_unknown(const struct vp_entry *entry,
                                struct vp_err *err);

bool vp_key_is_list(const struct vp_key *key);

/* The value as YAML, paths absolute; false when there is nothing to write: not
 * set, or a row that only chooses defaults. */
bool vp_key_print(const struct vp_key *key, const struct vp_config *config,
                  char *out, size_t n_bytes);

/* "a whole number from 1 to 64", "one of a, b, c". Sizes are listed if the
 * model is known. */
void vp_key_expects(const struct vp_key *key, const struct vp_config *config,
                    char *out, size_t n_bytes);

/* "a, b, c": the words that the key takes whatever the model is; "" if it takes
 * none. */
void vp_key_words(const struct vp_key *key, char *out, size_t n_bytes);
/* True if a value may be a path. */
bool vp_key_takes_path(const struct vp_key *key);

/* ---- Shared by the files of this header --------------------------------- */

#define VP_SHOWN_BYTES 80
#define VP_EXAMPLE_BYTES 160

/* The value in quotes, shortened to what fits a line without cutting a UTF-8
 * character. */
void vp_entry_show(const struct vp_entry *entry, char out[VP_SHOWN_BYTES]);
/* A good line in place of the entry. */
void vp_entry_example(const struct vp_entry *entry, const struct vp_key *key,
                      char out[VP_EXAMPLE_BYTES]);
enum vp_status vp_entry_no_memory(const struct vp_entry *entry,
                                  struct vp_err *err);

/* "place: key must be this, not that; remedy". */
enum vp_status vp_key_refuse(const struct vp_key *key,
                             const struct vp_entry *entry,
                             const struct vp_config *config,
                             struct vp_err *err);

/* Number of a word that the key takes, or -1. */
int vp_key_find_word(const struct vp_key *key, const char *text);
/* One number of the key's type and range; false if `text` is none. */
bool vp_key_set_number(const struct vp_key *key, const char *text, void *field);
bool vp_key_set_real(const struct vp_key *key, const char *text, void *field);

/* Keys whose value is a list, or may be written without the brackets. */
enum vp_status vp_key_set_list(const struct vp_key *key,
                               const struct vp_entry *entry,
                               struct vp_config *config, struct vp_err *err);

#endif
