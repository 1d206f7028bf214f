/* Decides by the name of a file whether it is for training or evaluation. */
#ifndef VP_DATA_SPLIT_NAME_H
#define VP_DATA_SPLIT_NAME_H

/* VP_NAME_OTHER: for neither training nor evaluation. */
enum vp_split_name { VP_NAME_TRAIN, VP_NAME_VALID, VP_NAME_OTHER };

/* Splits the name into words at '.', '-' and '_' and returns VP_NAME_VALID if
 * one of them is `valid` or, if `valid` is NULL, one of val, valid, validation
 * and dev. Returns VP_NAME_OTHER if another of these words or "test" is in the
 * name, otherwise VP_NAME_TRAIN. Digits at the end of a word are ignored,
 * unless `valid` has them. */
enum vp_split_name vp_split_by_name(const char *name, const char *valid);

#endif
