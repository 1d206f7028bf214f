/* Writes files for tests. */
#ifndef VP_TESTS_LIB_TEXTFILE_H
#define VP_TESTS_LIB_TEXTFILE_H

#include <stddef.h>

/* Makes a new file each time: some file systems wait for the disk when an old
 * file is truncated and written again. */
void write_bytes(const char *path, const char *bytes, size_t n);

void write_text_file(const char *path, const char *text);

#endif
