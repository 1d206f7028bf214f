/* Files that a test writes. */
#ifndef VP_TESTS_LIB_TEXTFILE_H
#define VP_TESTS_LIB_TEXTFILE_H

#include <stddef.h>

/* A new file each time: some file systems wait for the disk when one is cut
 * and written again. */
void write_bytes(const char *path, const char *bytes, size_t n);

void write_text_file(const char *path, const char *text);

#endif
