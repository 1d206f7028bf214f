/* page.css and page.js, put into the program by cmake/VpipeEmbed.cmake. */
#ifndef VP_REPORT_PAGE_FILES_H
#define VP_REPORT_PAGE_FILES_H

#include <stddef.h>

extern const char vp_page_css[];
extern const size_t vp_page_css_bytes;
extern const char vp_page_js[];
extern const size_t vp_page_js_bytes;

#endif
