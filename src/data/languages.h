/* Finds the two languages of a folder of parallel files by names such as
 * train.de-en.de and train.de-en.en. */
#ifndef VP_DATA_LANGUAGES_H
#define VP_DATA_LANGUAGES_H

#include "base/status.h"
#include "data/data_config.h"
#include "data/names.h"

enum { VP_LANGUAGE_NAME = 32 };

struct vp_languages {
    char source[VP_LANGUAGE_NAME], target[VP_LANGUAGE_NAME];
    /* The part of the file names between dots: "de-en" or, if the files were
     * made for the other direction, "en-de". */
    char pair[2 * VP_LANGUAGE_NAME];
};

/* True for "<split>.<a>-<b>.<a or b>", followed by `ending`, such as ".idx". */
bool vp_languages_is_name(const char *name, const char *ending);

/* Finds the languages of the files <split>.<a>-<b>.<a or b><ending>: those of
 * config->source_lang and target_lang, or the only pair of languages in the
 * folder. Returns an error if there is none or more than one. */
enum vp_status vp_languages_find(const struct vp_data_config *config,
                                 const struct vp_names *names,
                                 const char *ending, struct vp_languages *out,
                                 struct vp_err *err);

#endif
