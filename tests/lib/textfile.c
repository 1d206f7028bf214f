#include "lib/textfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *file;

    unlink(path);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void write_text_file(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}
