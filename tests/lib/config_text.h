/* Configurations as text in a folder of their own, which a test must leave as
 * it was. */
#ifndef VP_TESTS_LIB_CONFIG_TEXT_H
#define VP_TESTS_LIB_CONFIG_TEXT_H

#include "config/config.h"
#include "lib/textfile.h"

/* ---- Helpers: all files live in one temporary folder -------------------- */

int enter_config_folder(void **state);

int leave_config_folder(void **state);

/* Loads `yaml` as a.yml, with at most one --set; the message is "" if all is
 * well. */
enum vp_status load_text(const char *yaml, const char *set,
                         struct vp_config *out, struct vp_err *err);

void load_ok(const char *yaml, const char *set, struct vp_config *out);

/* ---- Refused configurations --------------------------------------------- */

extern const char gpt2_json[];

/* ---- Accepted configurations -------------------------------------------- */

extern const char everything[];

#endif
