/* Configurations as text, in a temporary folder. A test must remove files that
 * leave_config_folder() does not know. */
#ifndef VP_TESTS_LIB_CONFIG_TEXT_H
#define VP_TESTS_LIB_CONFIG_TEXT_H

#include "config/config.h"
#include "lib/textfile.h"

/* ---- Files in one temporary folder -------------------------------------- */

int enter_config_folder(void **state);

int leave_config_folder(void **state);

/* Writes `yaml` to a.yml and loads it with at most one --set. The message is ""
 * on success. */
enum vp_status load_text(const char *yaml, const char *set,
                         struct vp_config *out, struct vp_err *err);

void load_ok(const char *yaml, const char *set, struct vp_config *out);

/* ---- Refused configurations --------------------------------------------- */

extern const char gpt2_json[];

/* ---- Accepted configurations -------------------------------------------- */

extern const char everything[];

#endif
