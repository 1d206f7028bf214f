/* A string buffer that grows as text is added. */
#ifndef VP_BASE_STRBUF_H
#define VP_BASE_STRBUF_H

#include "base/status.h"

#include <stdbool.h>

struct vp_strbuf {
    char *at; /* n_bytes bytes and a NUL; NULL: nothing was added yet */
    size_t n_bytes, capacity;
    bool failed; /* out of memory: later additions were dropped */
};

#define VP_STRBUF_INIT \
    {                  \
        .at = NULL     \
    }

void vp_strbuf_add(struct vp_strbuf *buf, const char *bytes, size_t n_bytes);
void vp_strbuf_adds(struct vp_strbuf *buf, const char *text);
void vp_strbuf_addf(struct vp_strbuf *buf, const char *fmt, ...)
    VP_PRINTF(2, 3);

/* Returns the text so far, "" if empty; valid until the next call. */
const char *vp_strbuf_text(const struct vp_strbuf *buf);
/* Passes the text to the caller, which frees it, and empties `buf`. Returns
 * VP_ERR_NOMEM and releases the text if an addition has failed. */
enum vp_status vp_strbuf_detach(struct vp_strbuf *buf, char **text_out);
/* Empties the buffer and keeps its memory. */
void vp_strbuf_clear(struct vp_strbuf *buf);
void vp_strbuf_release(struct vp_strbuf *buf);

#endif
