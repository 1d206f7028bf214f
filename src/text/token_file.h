/* Files of a tokenizer, whole. */
#ifndef VP_TEXT_TOKEN_FILE_H
#define VP_TEXT_TOKEN_FILE_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

enum { VP_TOKEN_FILE_MAX = 256 << 20 };

/* The bytes of a regular file and a NUL, to be freed by the caller. Messages
 * begin with "path: ". */
enum vp_status vp_token_file_read(const char *path, char **bytes_out,
                                  size_t *n_bytes_out, struct vp_err *err);

/* The same, as an object of JSON; the caller gives it up by json_decref(). */
enum vp_status vp_token_file_json(const char *path, json_t **out,
                                  struct vp_err *err);

#endif
