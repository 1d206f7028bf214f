/* Writes parts of an HTML page. Texts that come from files are escaped here: the
 * bytes of a text can become neither a tag, nor an attribute, nor a script. */
#ifndef VP_DRAW_HTML_H
#define VP_DRAW_HTML_H

#include "base/strbuf.h"

/* Text between tags or inside of a quoted attribute. Control characters (line
 * feeds and tabs aside) and ill-formed UTF-8 become U+FFFD. */
void vp_html_text(struct vp_strbuf *out, const char *text);
/* The same for a formatted text of at most 4095 bytes. */
void vp_html_textf(struct vp_strbuf *out, const char *fmt, ...) VP_PRINTF(2, 3);

/* A JSON string with its quotes, for <script type="application/json">: `<`, `>`
 * and `&` are escaped as well. */
void vp_html_json(struct vp_strbuf *out, const char *text);
/* A JSON number with `digits` significant digits; null if it is not finite. */
void vp_html_number(struct vp_strbuf *out, double value, int digits);

/* The source expression of a content security policy that allows this inline
 * script or style: 'sha256-...', with its quotes. */
void vp_html_hash(struct vp_strbuf *out, const char *bytes, size_t n_bytes);

#endif
