/* page.css and page.js, which cmake/VpipeEmbed.cmake embeds in the program. */
#ifndef VP_REPORT_PAGE_FILES_H
#define VP_REPORT_PAGE_FILES_H

#include <stddef.h>

extern const char vp_page_css[];
extern const size_t vp_page_css_bytes;
extern const char vp_page_js[];
extern const size_t vp_page_js_bytes;

#endif
