/* Reads JSON files of a Hugging Face folder, with a limit on their size. */
#ifndef VP_HF_JSON_H
#define VP_HF_JSON_H

#include "base/status.h"

#include <jansson.h>

/* Reads a file of at most `max_bytes` that holds an object. Refuses duplicate
 * keys. Messages are one line that begins with the path. Release with
 * json_decref(). */
enum vp_status vp_hf_json_read(const char *path, size_t max_bytes, json_t **out,
                               struct vp_err *err);
/* The same for bytes in memory; messages do not name a file. */
enum vp_status vp_hf_json_parse(const char *bytes, size_t n_bytes, json_t **out,
                                struct vp_err *err);

/* Replaces line ends and other control characters of a message by spaces. `err`
 * may be NULL. */
void vp_hf_one_line(struct vp_err *err);

#endif
