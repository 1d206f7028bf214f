/* Writing of fairseq's dictionaries. */
#include "data/tokens/dict_write.h"

#include "data/pairs/line_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MULTIPLE = 8, SYMBOL_BYTES = 32 };

int64_t vp_dict_size(const struct vp_tokenizer *tokenizer)
{
    int64_t n = VP_DICT_FIRST + vp_tokenizer_size(tokenizer);

    return (n + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
}

/* Returns true if the token can be a symbol: it has no white space or control
 * characters and is not like the symbols that symbol_of() makes up. */
static bool is_plain(const char *token, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)token[i] <= ' ' || token[i] == 0x7F)
            return false;
    return n > 0 && memcmp(token, "madeupword", n < 10 ? n : 10) != 0;
}

/* Returns the symbol of line `line`. `n_made` counts the symbols that are made
 * up, which are written to `made`. */
static const char *symbol_of(const struct vp_tokenizer *tokenizer, int64_t line,
                             int *n_made, char made[SYMBOL_BYTES],
                             size_t *n_out)
{
    const char *token = NULL;

    if (line < vp_tokenizer_size(tokenizer))
        token = vp_tokenizer_token(tokenizer, (uint32_t)line, n_out);
    if (token && is_plain(token, *n_out))
        return token;
    *n_out = (size_t)snprintf(made, SYMBOL_BYTES, "madeupword%04d",
                              (*n_made)++);
    return made;
}

enum vp_status vp_dict_write(const char *path,
                             const struct vp_tokenizer *tokenizer,
                             const int64_t *counts, struct vp_err *err)
{
    int64_t n_lines = vp_dict_size(tokenizer) - VP_DICT_FIRST;
    FILE *file = fopen(path, "wb");
    int n_made = 0;
    bool ok;

    if (!file)
        return vp_err_write(err, path, errno);
    for (int64_t i = 0; i < n_lines; i++) {
        char made[SYMBOL_BYTES];
        size_t n = 0;
        const char *symbol = symbol_of(tokenizer, i, &n_made, made, &n);

        fwrite(symbol, 1, n, file);
        fprintf(file, " %" PRId64 "\n",
                i < vp_tokenizer_size(tokenizer) ? counts[i] : 0);
    }
    ok = fflush(file) == 0 && fsync(fileno(file)) == 0 && !ferror(file);
    if (fclose(file) == 0 && ok)
        return VP_OK;
    return vp_err_write(err, path, errno);
}

static enum vp_status refuse(const char *path, int64_t line, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: line %lld: is not the dictionary of the tokenizer, "
                      "and files beside it have its ids; use the tokenizer "
                      "that made them, or write to another folder",
                      path, (long long)line);
}

static enum vp_status compare(const char *path,
                              const struct vp_tokenizer *tokenizer,
                              struct vp_line_stream *stream, struct vp_err *err)
{
    int64_t n_lines = vp_dict_size(tokenizer) - VP_DICT_FIRST, i = 0;
    int n_made = 0;
    struct vp_line line;
    enum vp_status st;

    for (; (st = vp_line_stream_next(stream, &line, err)) == VP_OK; i++) {
        char made[SYMBOL_BYTES];
        size_t n = 0;
        const char *symbol = NULL;

        if (i < n_lines)
            symbol = symbol_of(tokenizer, i, &n_made, made, &n);
        if (!symbol || line.n_bytes <= n || line.bytes[n] != ' ' ||
            memcmp(line.bytes, symbol, n) != 0)
            return refuse(path, i + 1, err);
    }
    if (st != VP_ERR_END)
        return st;
    return i == n_lines ? VP_OK : refuse(path, i + 1, err);
}

enum vp_status vp_dict_check(const char *path,
                             const struct vp_tokenizer *tokenizer,
                             struct vp_err *err)
{
    struct vp_line_stream *stream;
    enum vp_status st;

    VP_TRY(vp_line_stream_open(path, false, &stream, err));
    st = compare(path, tokenizer, stream, err);
    vp_line_stream_close(stream);
    return st;
}
