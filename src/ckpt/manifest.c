/* Formatting and parsing of manifest.json. */
#include "ckpt/manifest.h"

#include "ckpt/io.h"
#include "ckpt/text.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* The text is one JSON object whose last member is the checksum of all bytes
 * before that member. */
static const char tail_format[] = ",\n  \"checksum\": \"%016llx\"\n}\n";
enum { TAIL_BYTES = 37, MAX_BYTES = 64 << 20 };

static const char format_name[] = "vpipe checkpoint";

void vp_manifest_name(int block, struct vp_manifest_file *file)
{
    snprintf(file->name, sizeof(file->name), "block-%04d.safetensors", block);
}

/* Compares the whole name, so that a path is not accepted. */
int vp_manifest_block(const char *name)
{
    struct vp_manifest_file file;
    int block;

    if (sscanf(name, "block-%9d", &block) != 1 || block < 0)
        return -1;
    vp_manifest_name(block, &file);
    return strcmp(file.name, name) == 0 ? block : -1;
}

/* ---- Write -------------------------------------------------------------- */

static json_t *list_files(const struct vp_manifest *manifest)
{
    json_t *list = json_array();

    for (int i = 0; i < manifest->n_files; i++) {
        const struct vp_manifest_file *file = &manifest->files[i];
        char sum[24];

        snprintf(sum, sizeof(sum), "%016llx",
                 (unsigned long long)file->seal.checksum);
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes",
                            (json_int_t)file->seal.n_bytes, "xxh3", sum));
    }
    if (json_array_size(list) != (size_t)manifest->n_files) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* Returns the text; *n_out is its length without the closing brace, where the
 * tail begins. */
static char *format_body(const struct vp_manifest *manifest, size_t *n_out)
{
    json_t *files = list_files(manifest);
    json_t *score = isfinite(manifest->score) ? json_real(manifest->score)
                                              : json_null();
    json_t *root = json_pack(
        "{s:s, s:i, s:I, s:o, s:O, s:o}", "format", format_name, "version",
        VP_MANIFEST_VERSION, "step", (json_int_t)manifest->step, "score", score,
        "facts", vp_facts_object(manifest->facts), "files", files);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;

    json_decref(root);
    if (text)
        *n_out = strlen(text) - 2; /* "\n}" */
    return text;
}

enum vp_status vp_manifest_format(const struct vp_manifest *manifest,
                                  char **text_out, size_t *n_out,
                                  struct vp_err *err)
{
    size_t n = 0;
    char *body = format_body(manifest, &n);
    char *text = body ? malloc(n + TAIL_BYTES + 1) : NULL;

    if (!text) {
        free(body);
        return vp_err_set(err, VP_ERR_NOMEM, "manifest: out of memory");
    }
    memcpy(text, body, n);
    snprintf(text + n, TAIL_BYTES + 1, tail_format,
             (unsigned long long)XXH3_64bits(text, n));
    free(body);
    *text_out = text;
    *n_out = n + TAIL_BYTES;
    return VP_OK;
}

/* ---- Read --------------------------------------------------------------- */

static enum vp_status check_sum(const char *text, size_t n_text,
                                uint64_t *checksum_out, struct vp_err *err)
{
    char tail[TAIL_BYTES + 1];
    size_t n = n_text - TAIL_BYTES;

    if (n_text < TAIL_BYTES)
        return vp_err_set(err, VP_ERR_INVALID, "is cut short");
    *checksum_out = XXH3_64bits(text, n);
    snprintf(tail, sizeof(tail), tail_format,
             (unsigned long long)*checksum_out);
    if (memcmp(text + n, tail, TAIL_BYTES) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "checksum differs; the file was cut or changed");
    return VP_OK;
}

static enum vp_status read_file_entry(const json_t *entry,
                                      struct vp_manifest_file *file,
                                      struct vp_err *err)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *sum = json_string_value(json_object_get(entry, "xxh3"));
    const json_t *bytes = json_object_get(entry, "bytes");
    char again[24];
    unsigned long long bits = 0;

    if (!name || vp_manifest_block(name) < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "files: %.60s is not the name of a block file",
                          name ? name : "an entry without name");
    if (!json_is_integer(bytes) || json_integer_value(bytes) < 0)
        return vp_err_set(err, VP_ERR_INVALID, "files: %s: bytes is not a size",
                          name);
    if (sum)
        bits = strtoull(sum, NULL, 16);
    snprintf(again, sizeof(again), "%016llx", bits);
    if (!sum || strcmp(sum, again) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "files: %s: xxh3 is not 16 hexadecimal digits", name);
    snprintf(file->name, sizeof(file->name), "%s", name);
    file->seal.n_bytes = json_integer_value(bytes);
    file->seal.checksum = bits;
    return VP_OK;
}

/* Blocks must ascend, so that none occurs twice. */
static enum vp_status read_files(const json_t *list, struct vp_manifest *m,
                                 struct vp_err *err)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list))
        return vp_err_set(err, VP_ERR_INVALID,
                          "files: is missing or not a list");
    m->files = calloc(n + 1, sizeof(*m->files));
    if (!m->files)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        VP_TRY(read_file_entry(json_array_get(list, i), &m->files[i], err));
        if (i > 0 && vp_manifest_block(m->files[i].name) <=
                         vp_manifest_block(m->files[i - 1].name))
            return vp_err_set(err, VP_ERR_INVALID, "files: %s is after %s",
                              m->files[i].name, m->files[i - 1].name);
        m->n_files = (int)i + 1;
    }
    return VP_OK;
}

static enum vp_status read_head(const json_t *root, struct vp_err *err)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *version = json_object_get(root, "version");

    if (!format || strcmp(format, format_name) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "format: is not \"%s\"; this is not a checkpoint",
                          format_name);
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return vp_err_set(err, VP_ERR_INVALID,
                          "version: is missing or not a positive number");
    if (json_integer_value(version) > VP_MANIFEST_VERSION)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "version: %lld is later than %d; use a newer vpipe",
                          (long long)json_integer_value(version),
                          VP_MANIFEST_VERSION);
    if (json_integer_value(version) < VP_MANIFEST_VERSION)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "version: %lld is earlier than %d; use an older "
                          "vpipe or start a new run",
                          (long long)json_integer_value(version),
                          VP_MANIFEST_VERSION);
    return VP_OK;
}

static enum vp_status read_root(const json_t *root, struct vp_manifest *m,
                                struct vp_err *err)
{
    const json_t *step = json_object_get(root, "step");
    const json_t *score = json_object_get(root, "score");
    json_t *facts = json_object_get(root, "facts");

    VP_TRY(read_head(root, err));
    if (!json_is_integer(step) || json_integer_value(step) < 0 ||
        json_integer_value(step) > VP_CKPT_MAX_STEP)
        return vp_err_set(err, VP_ERR_INVALID,
                          "step: is missing or not a step number");
    if (!json_is_real(score) && !json_is_null(score))
        return vp_err_set(err, VP_ERR_INVALID,
                          "score: is missing or not a number");
    if (!json_is_object(facts))
        return vp_err_set(err, VP_ERR_INVALID,
                          "facts: is missing or not an object");
    m->step = json_integer_value(step);
    m->score = json_is_real(score) ? json_real_value(score) : (double)NAN;
    if (vp_facts_wrap(facts, &m->facts) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    return read_files(json_object_get(root, "files"), m, err);
}

enum vp_status vp_manifest_parse(const char *text, size_t n_text,
                                 struct vp_manifest *out, struct vp_err *err)
{
    struct vp_manifest manifest = { .n_files = 0 };
    json_error_t error;
    enum vp_status st;
    json_t *root;

    VP_TRY(check_sum(text, n_text, &manifest.checksum, err));
    root = json_loadb(text, n_text, JSON_REJECT_DUPLICATES, &error);
    if (root)
        st = read_root(root, &manifest, err);
    else if (json_error_code(&error) == json_error_out_of_memory)
        st = vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    else
        st = vp_err_set(err, VP_ERR_INVALID, "line %d, column %d: %s",
                        error.line, error.column, error.text);
    json_decref(root);
    if (st != VP_OK) {
        vp_text_one_line(err);
        vp_manifest_release(&manifest);
        return st;
    }
    *out = manifest;
    return VP_OK;
}

void vp_manifest_release(struct vp_manifest *manifest)
{
    vp_facts_free(manifest->facts);
    free(manifest->files);
    *manifest = (struct vp_manifest){ .n_files = 0 };
}

static enum vp_status read_text(int fd, char **out, size_t *n_out,
                                struct vp_err *err)
{
    struct stat info;
    char *text;
    int rc;

    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID, "is not a file");
    if (info.st_size > MAX_BYTES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "has %lld bytes; at most %d are possible",
                          (long long)info.st_size, MAX_BYTES);
    text = malloc((size_t)info.st_size + 1);
    if (!text)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    rc = vp_io_read(fd, text, (size_t)info.st_size, 0);
    if (rc != 0) {
        free(text);
        return vp_err_set(err, VP_ERR_IO, "cannot be read (%s)",
                          vp_io_reason(rc));
    }
    *out = text;
    *n_out = (size_t)info.st_size;
    return VP_OK;
}

enum vp_status vp_manifest_read(const char *folder, struct vp_manifest *out,
                                struct vp_err *err)
{
    char path[VP_IO_PATH_MAX];
    enum vp_status st;
    char *text = NULL;
    size_t n = 0;
    int fd = -1;
    int rc = vp_io_join(path, folder, VP_MANIFEST_FILE);

    if (rc == 0)
        rc = vp_io_open(path, O_RDONLY | O_NONBLOCK, &fd);
    if (rc != 0)
        return vp_err_set(err,
                          vp_io_is_missing(rc) ? VP_ERR_INVALID : VP_ERR_IO,
                          "%s/%s: cannot be opened (%s)", folder,
                          VP_MANIFEST_FILE, vp_io_reason(rc));
    st = read_text(fd, &text, &n, err);
    vp_io_close(fd);
    if (st == VP_OK)
        st = vp_manifest_parse(text, n, out, err);
    free(text);
    return vp_text_in_file(path, st, err);
}
