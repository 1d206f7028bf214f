/* Sentence pairs as text, byte by byte:
 *
 *   <split>.<source> and <split>.<target>          line i of both is a pair
 *   <split>.<source>-<target>.<language>           the same
 *   *.tsv                                          source, a tab, target
 *   *.jsonl, *.ndjson                              {"translation": {"de": "...",
 *                                                  "en": "..."}}, or the same
 *                                                  without "translation"
 *
 * Each also compressed, with .gz or .zst behind its name. Splits are train, and
 * one of split_name.h. Pairs with an empty side are left out. */
#ifndef VP_DATA_PARALLEL_H
#define VP_DATA_PARALLEL_H

#include "data/names.h"

/* True if the folder with these names holds files of the first two kinds for
 * training, or any of the others. */
bool vp_parallel_is_in(const struct vp_names *names);
/* True for the name of a file that holds both languages. */
bool vp_parallel_is_file(const char *name);

#endif
