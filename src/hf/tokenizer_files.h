/* Writes the tokenizer files of an export. Private to hf. */
#ifndef VP_HF_TOKENIZER_FILES_H
#define VP_HF_TOKENIZER_FILES_H

#include "hf/write_config.h"

/* Copies the tokenizer files to the folder `path`, and adds a
 * tokenizer_config.json if AutoTokenizer needs it. *n_out: number of copied
 * files, 0 if there is no tokenizer. */
enum vp_status vp_hf_tokenizer_files(const char *path,
                                     const struct vp_hf_write *with, int *n_out,
                                     struct vp_err *err);

#endif
