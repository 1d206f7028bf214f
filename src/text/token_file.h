/* Reads a file of a tokenizer as a whole, as bytes or JSON. */
#ifndef VP_TEXT_TOKEN_FILE_H
#define VP_TEXT_TOKEN_FILE_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

enum { VP_TOKEN_FILE_MAX = 256 << 20 };

/* Reads a regular file of at most VP_TOKEN_FILE_MAX bytes. A NUL follows the
 * bytes; the caller frees them. Messages begin with "path: ". */
enum vp_status vp_token_file_read(const char *path, char **bytes_out,
                                  size_t *n_bytes_out, struct vp_err *err);

/* Reads a JSON object, which the caller releases with json_decref(). */
enum vp_status vp_token_file_json(const char *path, json_t **out,
                                  struct vp_err *err);

#endif
