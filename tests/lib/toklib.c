#include "lib/toklib.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const tok_files[] = { "tokenizer.json", "vocab.json",
                                         "merges.txt", "vocab.txt",
                                         "tokenizer_config.json" };

struct tok_folder tok_folder_make(void)
{
    struct tok_folder folder = { "/tmp/vpipe-tok-XXXXXX" };

    assert_non_null(mkdtemp(folder.path));
    return folder;
}

void tok_folder_write(const struct tok_folder *folder, const char *name,
                      const char *bytes, size_t n)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder->path, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void tok_folder_remove(const struct tok_folder *folder)
{
    char path[128];

    for (size_t i = 0; i < VP_COUNT_OF(tok_files); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder->path, tok_files[i]);
        unlink(path);
    }
    rmdir(folder->path);
}

struct vp_tokenizer *tok_open(const char *path)
{
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer = NULL;

    if (vp_tokenizer_open(path, &tokenizer, &err) != VP_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

unsigned char *tok_read(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes;
    long n;

    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    n = ftell(file);
    assert_true(n >= 0);
    rewind(file);
    bytes = malloc((size_t)n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)n, file), (size_t)n);
    bytes[n] = '\0';
    fclose(file);
    *n_out = (size_t)n;
    return bytes;
}
