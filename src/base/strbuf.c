/* Memory of a string buffer doubles when it is full; the first failure is kept
 * in the buffer, so that callers check once. */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1024 };

/* Makes room for `n_bytes` more and the NUL. */
static bool reserve(struct vp_strbuf *buf, size_t n_bytes)
{
    size_t capacity = buf->capacity > 0 ? buf->capacity : FIRST_BYTES;
    char *at;

    if (buf->failed)
        return false;
    while (capacity - buf->n_bytes <= n_bytes)
        capacity *= 2;
    if (capacity == buf->capacity)
        return true;
    at = realloc(buf->at, capacity);
    if (!at) {
        buf->failed = true;
        return false;
    }
    buf->at = at;
    buf->capacity = capacity;
    return true;
}

void vp_strbuf_add(struct vp_strbuf *buf, const char *bytes, size_t n_bytes)
{
    if (!reserve(buf, n_bytes))
        return;
    memcpy(buf->at + buf->n_bytes, bytes, n_bytes);
    buf->n_bytes += n_bytes;
    buf->at[buf->n_bytes] = '\0';
}

void vp_strbuf_adds(struct vp_strbuf *buf, const char *text)
{
    vp_strbuf_add(buf, text, strlen(text));
}

void vp_strbuf_addf(struct vp_strbuf *buf, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    VP_BUG_ON(n < 0);
    if (!reserve(buf, (size_t)n))
        return;
    va_start(args, fmt);
    vsnprintf(buf->at + buf->n_bytes, (size_t)n + 1, fmt, args);
    va_end(args);
    buf->n_bytes += (size_t)n;
}

const char *vp_strbuf_text(const struct vp_strbuf *buf)
{
    return buf->at ? buf->at : "";
}

enum vp_status vp_strbuf_detach(struct vp_strbuf *buf, char **text_out)
{
    vp_strbuf_add(buf, "", 0);
    if (buf->failed) {
        vp_strbuf_release(buf);
        return VP_ERR_NOMEM;
    }
    *text_out = buf->at;
    *buf = (struct vp_strbuf)VP_STRBUF_INIT;
    return VP_OK;
}

void vp_strbuf_clear(struct vp_strbuf *buf)
{
    buf->n_bytes = 0;
    buf->failed = false;
    if (buf->at)
        buf->at[0] = '\0';
}

void vp_strbuf_release(struct vp_strbuf *buf)
{
    free(buf->at);
    *buf = (struct vp_strbuf)VP_STRBUF_INIT;
}
