/* Source of sentence pairs as text; each byte is a token. Files:
 *
 *   <split>.<source> and <split>.<target>          line i of both is a pair
 *   <split>.<source>-<target>.<language>           the same
 *   *.tsv                                          source, a tab, target
 *   *.jsonl, *.ndjson                              {"translation": {"de": "...",
 *                                                  "en": "..."}}, or the same
 *                                                  without "translation"
 *
 * Each may be compressed, with .gz or .zst after its name. <split> is "train"
 * or a word of split_name.h. Pairs with an empty side are left out. */
#ifndef VP_DATA_PARALLEL_H
#define VP_DATA_PARALLEL_H

#include "data/names.h"

/* Returns true if a folder with these names holds training files of the first
 * two kinds, or any file of the others. */
bool vp_parallel_is_in(const struct vp_names *names);
/* Returns true if `name` is one of a file with both languages. */
bool vp_parallel_is_file(const char *name);

#endif
