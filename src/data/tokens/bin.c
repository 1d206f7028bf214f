/* Headers of llm.c and nanoGPT token files, and refusal of other .bin files. */
#include "data/tokens/bin.h"

#include <stdio.h>
#include <string.h>

static const struct {
    int32_t magic, version;
    enum vp_item item;
} kinds[] = {
    { 20240520, 1, VP_ITEM_U16 },
    { 20240801, 7, VP_ITEM_U32 },
};

#define REMEDY "copy or write the file anew"

static int32_t int_at(const unsigned char *bytes, int i)
{
    int32_t number;

    memcpy(&number, bytes + 4 * i, sizeof(number));
    return number;
}

static int find_kind(const unsigned char *bytes)
{
    int kind = (int)VP_COUNT_OF(kinds) - 1;

    while (kind >= 0 && kinds[kind].magic != int_at(bytes, 0))
        kind--;
    return kind;
}

bool vp_token_bin_is_llmc(const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned char magic[4];
    bool is_one = file && fread(magic, 1, 4, file) == 4 &&
                  find_kind(magic) >= 0;

    if (file)
        fclose(file);
    return is_one;
}

/* ---- Other kinds of files ----------------------------------------------- */

#define NO_PICKLE                                                             \
    ": vpipe reads no pickles, since they can run programs; set data_dir to " \
    "token files"
#define NO_TOKENS "; set data_dir to token files"

/* Other kinds of files that are named *.bin. Their heads here are longer than
 * two bytes, because ids of nanoGPT may begin with any two bytes. */
static const struct {
    const char *head;
    size_t n_bytes;
    const char *what;
} other_kinds[] = {
    { "PK\3\4", 4, "a zip archive, as PyTorch writes weights" NO_PICKLE },
    { "\x80\2\x8A\n", 4,
      "a Python pickle, as PyTorch writes weights" NO_PICKLE },
    { "\x80\3}q", 4, "a Python pickle" NO_PICKLE },
    { "\x80\4\x95", 3, "a Python pickle" NO_PICKLE },
    { "\x80\5\x95", 3, "a Python pickle" NO_PICKLE },
    { "\x8A\xD8\x34\x01", 4, "a file of llm.c with questions" NO_TOKENS },
    { "\xC8\xD7\x34\x01", 4, "a tokenizer of llm.c" NO_TOKENS },
    { "\xC6\xD7\x34\x01", 4, "a checkpoint of llm.c" NO_TOKENS },
};

static const char *find_other_kind(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < VP_COUNT_OF(other_kinds); i++)
        if (n >= other_kinds[i].n_bytes &&
            memcmp(head, other_kinds[i].head, other_kinds[i].n_bytes) == 0)
            return other_kinds[i].what;
    return NULL;
}

/* ---- Headers ------------------------------------------------------------ */

static enum vp_status check_numbers(const char *path, int64_t n_bytes, int kind,
                                    const unsigned char *header,
                                    struct vp_err *err)
{
    int64_t n_tokens = int_at(header, 2);
    int64_t want = VP_BIN_HEADER_BYTES +
                   n_tokens * vp_item_bytes(kinds[kind].item);

    if (int_at(header, 1) != kinds[kind].version)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset 4: is version %d of llm.c's token files; "
                          "vpipe reads version %d; " REMEDY,
                          path, int_at(header, 1), kinds[kind].version);
    if (n_tokens < 0 || n_bytes != want)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset 8: the header counts %lld tokens of %s, "
                          "but the file has %lld bytes and not %lld; " REMEDY,
                          path, (long long)n_tokens,
                          vp_item_name(kinds[kind].item), (long long)n_bytes,
                          (long long)want);
    for (int i = 3; i < VP_BIN_HEADER_BYTES / 4; i++)
        if (int_at(header, i) != 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: offset %d: the header holds %d where "
                              "version %d has 0; " REMEDY,
                              path, 4 * i, int_at(header, i),
                              kinds[kind].version);
    return VP_OK;
}

/* Reads the first VP_BIN_HEADER_BYTES, or fewer if the file is shorter; the
 * rest of `out` becomes zeros. */
static enum vp_status read_head(struct vp_file_set *set, int file,
                                unsigned char *out, int64_t *n_out,
                                struct vp_err *err)
{
    int64_t n = vp_file_set_bytes(set, file);

    n = n < VP_BIN_HEADER_BYTES ? n : VP_BIN_HEADER_BYTES;
    memset(out, 0, VP_BIN_HEADER_BYTES);
    *n_out = n;
    return vp_file_set_read(set, file, 0, n, out, err);
}

enum vp_status vp_token_bin_llmc(struct vp_file_set *set, int file,
                                 struct vp_token_bin *out, struct vp_err *err)
{
    const char *path = vp_file_set_path(set, file);
    int64_t n_bytes = vp_file_set_bytes(set, file), n;
    unsigned char header[VP_BIN_HEADER_BYTES];
    const char *what;
    int kind;

    VP_TRY(read_head(set, file, header, &n, err));
    what = find_other_kind(header, (size_t)n);
    if (what)
        return vp_err_set(err, VP_ERR_INVALID, "%s: offset 0: is %s", path,
                          what);
    kind = find_kind(header);
    if (kind < 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset 0: does not begin with the number of "
                          "llm.c's token files (20240520 or 20240801); " REMEDY
                          ", or set data_format: nanogpt if it holds uint16 "
                          "ids without a header",
                          path);
    if (n < VP_BIN_HEADER_BYTES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset %lld: the file ends inside its header of "
                          "%d bytes; " REMEDY,
                          path, (long long)n, VP_BIN_HEADER_BYTES);
    VP_TRY(check_numbers(path, n_bytes, kind, header, err));
    *out = (struct vp_token_bin){ kinds[kind].item, VP_BIN_HEADER_BYTES,
                                  int_at(header, 2) };
    return VP_OK;
}

enum vp_status vp_token_bin_nanogpt(struct vp_file_set *set, int file,
                                    struct vp_token_bin *out,
                                    struct vp_err *err)
{
    const char *path = vp_file_set_path(set, file);
    int64_t n_bytes = vp_file_set_bytes(set, file), n;
    unsigned char header[VP_BIN_HEADER_BYTES];
    const char *what;
    int kind;

    VP_TRY(read_head(set, file, header, &n, err));
    what = find_other_kind(header, (size_t)n);
    if (what)
        return vp_err_set(err, VP_ERR_INVALID, "%s: offset 0: is %s", path,
                          what);
    /* Ids may look like a header by chance; then the size does not match. */
    kind = find_kind(header);
    if (kind >= 0 && check_numbers(path, n_bytes, kind, header, NULL) == VP_OK)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset 0: begins with a header of llm.c, but "
                          "data_format is nanogpt; set data_format: llmc",
                          path);
    if (n_bytes % 2 != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset %lld: the file ends inside an id of two "
                          "bytes; " REMEDY,
                          path, (long long)n_bytes - 1);
    *out = (struct vp_token_bin){ VP_ITEM_U16, 0, n_bytes / 2 };
    return VP_OK;
}

void vp_token_bin_header(enum vp_item item, int64_t n_tokens,
                         unsigned char out[VP_BIN_HEADER_BYTES])
{
    int kind = item == VP_ITEM_U16 ? 0 : 1;
    int32_t numbers[] = { kinds[kind].magic, kinds[kind].version,
                          (int32_t)n_tokens };

    memset(out, 0, VP_BIN_HEADER_BYTES);
    memcpy(out, numbers, sizeof(numbers));
}
