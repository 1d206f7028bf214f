/* A text that grows while it is written. */
#ifndef VP_BASE_STRBUF_H
#define VP_BASE_STRBUF_H

#include "base/status.h"

#include <stdbool.h>

struct vp_strbuf {
    char *at; /* n_bytes bytes and a NUL; NULL: nothing was added yet */
    size_t n_bytes, capacity;
    bool failed; /* out of memory: what was added since is missing */
};

#define VP_STRBUF_INIT \
    {                  \
        .at = NULL     \
    }

void vp_strbuf_add(struct vp_strbuf *buf, const char *bytes, size_t n_bytes);
void vp_strbuf_adds(struct vp_strbuf *buf, const char *text);
void vp_strbuf_addf(struct vp_strbuf *buf, const char *fmt, ...)
    VP_PRINTF(2, 3);

/* The text so far, "" if there is none; valid until the next call. */
const char *vp_strbuf_text(const struct vp_strbuf *buf);
/* Gives the text to the caller, who frees it, and leaves `buf` empty.
 * VP_ERR_NOMEM if an addition failed: the text is released. */
enum vp_status vp_strbuf_detach(struct vp_strbuf *buf, char **text_out);
/* Empties it; the memory stays for what is added next. */
void vp_strbuf_clear(struct vp_strbuf *buf);
void vp_strbuf_release(struct vp_strbuf *buf);

#endif
