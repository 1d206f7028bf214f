/* Opens a tokenizer: chooses the reader by the files that exist, and collects
 * special tokens. */
#include "text/tokenizer.h"

#include "base/nearest.h"
#include "text/byte_alphabet.h"
#include "text/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Paths -------------------------------------------------------------- */

struct place {
    char folder[PATH_MAX];
    const char *file; /* name in the folder; NULL: the folder was given */
};

static bool in_folder(const struct place *place, const char *name,
                      char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/%s", place->folder, name);

    return n > 0 && n < PATH_MAX && access(path, F_OK) == 0;
}

static enum vp_status find_place(const char *path, struct place *place,
                                 struct vp_err *err)
{
    struct stat info;
    char *slash, remedy[VP_PATH_REMEDY_BYTES];

    if (stat(path, &info) != 0)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be opened: %s; %s", path,
                          strerror(errno),
                          vp_path_remedy(path, "check the path", remedy));
    if (snprintf(place->folder, sizeof(place->folder), "%s", path) >=
        (int)sizeof(place->folder))
        return vp_err_set(err, VP_ERR_INVALID,
                          "the path of a tokenizer has more than %d bytes; "
                          "move it",
                          PATH_MAX);
    place->file = NULL;
    if (S_ISDIR(info.st_mode))
        return VP_OK;
    slash = strrchr(place->folder, '/');
    place->file = path + (slash ? slash + 1 - place->folder : 0);
    if (slash)
        slash[slash == place->folder] = '\0'; /* "/a" has the folder "/" */
    else
        memcpy(place->folder, ".", 2);
    return VP_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

/* ---- Which reader ------------------------------------------------------- */

static enum vp_status read_pair(struct vp_tokenizer *tokenizer,
                                const struct place *place, struct vp_err *err)
{
    char vocab[PATH_MAX], merges[PATH_MAX];

    if (!in_folder(place, "vocab.json", vocab))
        return vp_err_set(
            err, VP_ERR_INVALID,
            "%s: merges.txt needs vocab.json beside it; copy both",
            place->folder);
    if (!in_folder(place, "merges.txt", merges))
        return vp_err_set(
            err, VP_ERR_INVALID,
            "%s: vocab.json needs merges.txt beside it; copy both",
            place->folder);
    return vp_tokenizer_read_bpe(tokenizer, vocab, merges, err);
}

/* Chooses the reader by the name of the file. */
static enum vp_status read_file(struct vp_tokenizer *tokenizer,
                                const char *path, const struct place *place,
                                struct vp_err *err)
{
    static const char *const refused[][2] = {
        { ".model", "a SentencePiece model" },
        { ".pkl", "a Python pickle, which may run code" },
        { ".pickle", "a Python pickle, which may run code" },
        { ".bin", "a file of weights" },
        { ".tiktoken", "a tiktoken file" },
    };

    for (size_t i = 0; i < VP_COUNT_OF(refused); i++)
        if (ends_with(place->file, refused[i][0]))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: is %s and is not read; give tokenizer.json, "
                              "vocab.txt, or vocab.json and merges.txt",
                              path, refused[i][1]);
    if (strcmp(place->file, "vocab.json") == 0 ||
        strcmp(place->file, "merges.txt") == 0)
        return read_pair(tokenizer, place, err);
    if (ends_with(place->file, ".json"))
        return vp_tokenizer_read_json(tokenizer, path, err);
    if (ends_with(place->file, ".txt"))
        return vp_tokenizer_read_wordpiece(tokenizer, path, err);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: is not named like a tokenizer; give tokenizer.json, "
                      "vocab.txt, or vocab.json and merges.txt",
                      path);
}

static enum vp_status read_folder(struct vp_tokenizer *tokenizer,
                                  const struct place *place, struct vp_err *err)
{
    char path[PATH_MAX];
    bool pair, words;

    if (in_folder(place, "tokenizer.json", path))
        return vp_tokenizer_read_json(tokenizer, path, err);
    pair = in_folder(place, "vocab.json", path) ||
           in_folder(place, "merges.txt", path);
    words = in_folder(place, "vocab.txt", path);
    if (pair && words)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: has vocab.json and vocab.txt, two tokenizers; "
                          "give one of the files",
                          place->folder);
    if (pair)
        return read_pair(tokenizer, place, err);
    if (words)
        return vp_tokenizer_read_wordpiece(tokenizer, path, err);
    if (in_folder(place, "tokenizer.model", path))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is a SentencePiece model and is not read; give "
                          "a folder with tokenizer.json or vocab.txt",
                          path);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: has no tokenizer.json, no vocab.txt, and no "
                      "vocab.json with merges.txt; give a tokenizer's folder",
                      place->folder);
}

/* ---- Special tokens ----------------------------------------------------- */

static const struct {
    enum vp_special special;
    const char *name;
} usual_names[] = {
    { VP_SPECIAL_PAD, "[PAD]" },
    { VP_SPECIAL_PAD, "<pad>" },
    { VP_SPECIAL_UNKNOWN, "[UNK]" },
    { VP_SPECIAL_UNKNOWN, "<unk>" },
    { VP_SPECIAL_CLS, "[CLS]" },
    { VP_SPECIAL_SEP, "[SEP]" },
    { VP_SPECIAL_MASK, "[MASK]" },
    { VP_SPECIAL_MASK, "<mask>" },
    { VP_SPECIAL_BEGIN, "<s>" },
    { VP_SPECIAL_BEGIN, "<|begin_of_text|>" },
    { VP_SPECIAL_BEGIN, "<|endoftext|>" },
    { VP_SPECIAL_END, "</s>" },
    { VP_SPECIAL_END, "<|end_of_text|>" },
    { VP_SPECIAL_END, "<|endoftext|>" },
};

static void find_usual(struct vp_tokenizer *tokenizer)
{
    for (size_t i = 0; i < VP_COUNT_OF(usual_names); i++) {
        int32_t *id = &tokenizer->special[usual_names[i].special];
        const char *name = usual_names[i].name;

        if (*id == VP_TOKEN_NONE)
            *id = vp_vocabulary_find(&tokenizer->vocabulary, name,
                                     strlen(name));
    }
}

enum vp_status vp_tokenizer_add_token(struct vp_tokenizer *tokenizer,
                                      const char *bytes, size_t n_bytes,
                                      int64_t id, struct vp_added_flags flags,
                                      struct vp_err *err)
{
    struct vp_vocabulary *vocabulary = &tokenizer->vocabulary;
    int32_t known = vp_vocabulary_find(vocabulary, bytes, n_bytes);
    struct vp_added_token token = { .bytes = bytes,
                                    .n_bytes = n_bytes,
                                    .special = flags.special,
                                    .strip_left = flags.strip_left,
                                    .strip_right = flags.strip_right };

    if (n_bytes > VP_ADDED_BYTES_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "added token '%.48s...' has %zu bytes, more than %d; "
                          "shorten it, or remove it",
                          bytes, n_bytes, VP_ADDED_BYTES_MAX);
    if (known != VP_TOKEN_NONE && known != id)
        return vp_err_set(err, VP_ERR_INVALID,
                          "token '%.48s' has the ids %d and %lld; keep one",
                          bytes, (int)known, (long long)id);
    VP_TRY(vp_vocabulary_add(vocabulary, bytes, n_bytes, id, err));
    if (known == VP_TOKEN_NONE)
        vocabulary->tokens[id].added = true;
    vocabulary->tokens[id].special = flags.special;
    token.id = (uint32_t)id;
    return vp_added_add(
        flags.later ? &tokenizer->added_later : &tokenizer->added, &token);
}

/* ---- The tokenizer ------------------------------------------------------ */

/* Prepares decoding: the bytes that each token stands for. */
static enum vp_status decode_tokens(struct vp_tokenizer *tokenizer)
{
    const struct vp_vocabulary *vocabulary = &tokenizer->vocabulary;

    tokenizer->decoded = vp_arena_alloc(
        &tokenizer->arena, (size_t)vocabulary->n * sizeof(*tokenizer->decoded));
    if (!tokenizer->decoded)
        return VP_ERR_NOMEM;
    for (int id = 0; id < vocabulary->n; id++) {
        const struct vp_token *token = &vocabulary->tokens[id];
        unsigned char *bytes;

        if (!token->bytes)
            continue;
        bytes = vp_arena_alloc(&tokenizer->arena, token->n_bytes);
        if (!bytes)
            return VP_ERR_NOMEM;
        tokenizer->decoded[id].bytes = (char *)bytes;
        tokenizer->decoded[id].n_bytes = (uint32_t)vp_byte_alphabet_decode(
            token->bytes, token->n_bytes, bytes);
    }
    return VP_OK;
}

static enum vp_status read_all(struct vp_tokenizer *tokenizer, const char *path,
                               struct vp_err *err)
{
    struct place place = { .file = NULL };
    char config[PATH_MAX];
    enum vp_status st;

    VP_TRY(find_place(path, &place, err));
    if (place.file)
        VP_TRY(read_file(tokenizer, path, &place, err));
    else
        VP_TRY(read_folder(tokenizer, &place, err));
    if (in_folder(&place, "tokenizer_config.json", config))
        VP_TRY(vp_tokenizer_read_config(tokenizer, config, err));
    find_usual(tokenizer);
    st = vp_added_finish(&tokenizer->added, err);
    if (st == VP_OK)
        st = vp_added_finish(&tokenizer->added_later, err);
    if (st == VP_ERR_INVALID)
        vp_err_prefix(err, "%s: added tokens", path);
    VP_TRY(st);
    return tokenizer->is_bpe ? decode_tokens(tokenizer) : VP_OK;
}

/* Replaces control characters: messages quote tokens, which may have any. */
static void keep_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            *text = ' ';
}

enum vp_status vp_tokenizer_open(const char *path, struct vp_tokenizer **out,
                                 struct vp_err *err)
{
    struct vp_tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));
    enum vp_status st = VP_ERR_NOMEM;

    if (tokenizer) {
        for (int i = 0; i < VP_SPECIAL_COUNT; i++)
            tokenizer->special[i] = VP_TOKEN_NONE;
        st = read_all(tokenizer, path, err);
    }
    if (st == VP_ERR_NOMEM)
        vp_err_set(err, st, "%s: out of memory; close other programs", path);
    if (st == VP_OK) {
        *out = tokenizer;
        return VP_OK;
    }
    if (err)
        keep_one_line(err->text);
    vp_tokenizer_free(tokenizer);
    return st;
}

void vp_tokenizer_free(struct vp_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    vp_added_release(&tokenizer->added);
    vp_added_release(&tokenizer->added_later);
    vp_wordpiece_release(&tokenizer->wordpiece);
    vp_bpe_release(&tokenizer->bpe);
    vp_vocabulary_release(&tokenizer->vocabulary);
    vp_arena_release(&tokenizer->arena);
    free(tokenizer);
}

int vp_tokenizer_size(const struct vp_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.n;
}

int32_t vp_tokenizer_special(const struct vp_tokenizer *tokenizer,
                             enum vp_special special)
{
    return tokenizer->special[special];
}

bool vp_tokenizer_is_special(const struct vp_tokenizer *tokenizer, uint32_t id)
{
    return id < (uint32_t)tokenizer->vocabulary.n &&
           tokenizer->vocabulary.tokens[id].special;
}

const char *vp_tokenizer_token(const struct vp_tokenizer *tokenizer,
                               uint32_t id, size_t *n_bytes_out)
{
    if (id >= (uint32_t)tokenizer->vocabulary.n ||
        !tokenizer->vocabulary.tokens[id].bytes)
        return NULL;
    *n_bytes_out = tokenizer->vocabulary.tokens[id].n_bytes;
    return tokenizer->vocabulary.tokens[id].bytes;
}
