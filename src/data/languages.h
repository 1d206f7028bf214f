/* Which two languages the files of a folder are in, by names such as
 * train.de-en.de and train.de-en.en. */
#ifndef VP_DATA_LANGUAGES_H
#define VP_DATA_LANGUAGES_H

#include "base/status.h"
#include "data/data_config.h"
#include "data/names.h"

enum { VP_LANGUAGE_NAME = 32 };

struct vp_languages {
    char source[VP_LANGUAGE_NAME], target[VP_LANGUAGE_NAME];
    /* As names have them between dots: "de-en" or, of files made for the other
     * direction, "en-de". */
    char pair[2 * VP_LANGUAGE_NAME];
};

/* True for "<split>.<a>-<b>.<a or b>", followed by `ending`, such as ".idx". */
bool vp_languages_is_name(const char *name, const char *ending);

/* The languages of the files <split>.<a>-<b>.<a or b><ending>: those that the
 * configuration names, else the only pair there is. */
enum vp_status vp_languages_find(const struct vp_data_config *config,
                                 const struct vp_names *names,
                                 const char *ending, struct vp_languages *out,
                                 struct vp_err *err);

#endif
