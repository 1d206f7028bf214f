/* Writes parts of an HTML page. Texts are escaped, so that text from files
 * cannot become a tag, an attribute or a script. */
#ifndef VP_DRAW_HTML_H
#define VP_DRAW_HTML_H

#include "base/strbuf.h"

/* Appends text for use between tags or inside a quoted attribute. Control
 * characters (except line feeds and tabs) and ill-formed UTF-8 become
 * U+FFFD. */
void vp_html_text(struct vp_strbuf *out, const char *text);
/* The same for a formatted text, which is cut to 4095 bytes. */
void vp_html_textf(struct vp_strbuf *out, const char *fmt, ...) VP_PRINTF(2, 3);

/* Appends a JSON string with its quotes, for <script type="application/json">:
 * `<`, `>` and `&` are escaped as well. */
void vp_html_json(struct vp_strbuf *out, const char *text);
/* Appends a JSON number with `digits` significant digits; null if `value` is
 * not finite. */
void vp_html_number(struct vp_strbuf *out, double value, int digits);

/* Appends the source expression with which a content security policy allows the
 * inline script or style `bytes`: 'sha256-...', with its quotes. */
void vp_html_hash(struct vp_strbuf *out, const char *bytes, size_t n_bytes);

#endif
