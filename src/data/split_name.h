/* Which split a file belongs to, by its name. */
#ifndef VP_DATA_SPLIT_NAME_H
#define VP_DATA_SPLIT_NAME_H

enum vp_split_name { VP_NAME_TRAIN, VP_NAME_VALID, VP_NAME_OTHER };

/* By the words of a name, which '.', '-' and '_' separate; digits at the end of
 * a word do not count, unless `valid` has them. `valid` is the word of the files
 * for evaluation; NULL: one of val, valid, validation, dev. Files with another of these words, or
 * with "test", are for neither split. All others are for training. */
enum vp_split_name vp_split_by_name(const char *name, const char *valid);

#endif
