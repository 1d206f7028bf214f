/* The cache of encoded text: key, place, lock, and making of its files. */
#include "data/corpus/cache.h"

#include "base/limit.h"
#include "data/bert/store.h"
#include "data/corpus/bytes.h"
#include "data/data_detect.h"
#include "data/names.h"
#include "data/split_name.h"
#include "data/unreadable.h"
#include "data/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Part of every key, so that files of another version of vpipe are not used. */
static const char version[] = "vpipe corpus 1";
static const char sentences[] = "sentences 1";

enum { KEY_BYTES = 16, HASH_CHUNK = 1 << 20, WAIT_NS = 50000000 };

/* The text files for training and evaluation. */
struct texts {
    struct vp_names found;
    const char **paths; /* [n], pointers into `found` */
    bool *valid;        /* [n], true: for evaluation */
    int n;
};

bool vp_corpus_is_text(const char *path)
{
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_CAUSAL_LM,
                                     .path = path };

    return vp_data_detect(&config, &config, NULL) == VP_OK &&
           config.format == VP_FORMAT_TEXT;
}

static enum vp_status fail_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
}

static enum vp_status find_texts(const struct vp_corpus_cache_config *config,
                                 struct texts *texts, struct vp_err *err)
{
    bool single;

    VP_TRY(vp_text_list(config->data, &texts->found, err));
    texts->paths = calloc(texts->found.n, sizeof(*texts->paths));
    texts->valid = calloc(texts->found.n, sizeof(*texts->valid));
    if (!texts->paths || !texts->valid)
        return fail_memory(config->data, err);
    single = texts->found.n == 1 &&
             strcmp(texts->found.name[0], config->data) == 0;
    for (size_t i = 0; i < texts->found.n; i++) {
        const char *path = texts->found.name[i], *name = strrchr(path, '/');
        enum vp_split_name split = VP_NAME_TRAIN;

        /* Byte-level text is not split by names: every tenth window is held
         * out. */
        if (!single && config->tokenizer)
            split = vp_split_by_name(name ? name + 1 : path,
                                     config->valid_split);
        if (split == VP_NAME_OTHER)
            continue;
        texts->paths[texts->n] = path;
        texts->valid[texts->n++] = split == VP_NAME_VALID;
    }
    if (texts->n > 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: all text files are by their names for tests; rename "
                      "them, or set valid_split",
                      config->data);
}

static void release_texts(struct texts *texts)
{
    vp_names_release(&texts->found);
    free(texts->paths);
    free(texts->valid);
}

/* ---- The key ------------------------------------------------------------ */

static enum vp_status hash_file(struct vp_sha256 *sha, const char *path,
                                bool valid, struct vp_err *err)
{
    unsigned char kind[2] = { vp_text_is_jsonl(path), valid };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *bytes = malloc(HASH_CHUNK);
    uint64_t n_bytes = 0;
    ssize_t n = -1;

    if (!bytes || fd < 0) {
        enum vp_status st = fd < 0 ? vp_text_fail_errno(path, err)
                                   : fail_memory(path, err);

        if (fd >= 0)
            close(fd);
        free(bytes);
        return st;
    }
    vp_sha256_update(sha, kind, sizeof(kind));
    while ((n = read(fd, bytes, HASH_CHUNK)) > 0) {
        vp_sha256_update(sha, bytes, (size_t)n);
        n_bytes += (uint64_t)n;
    }
    vp_sha256_update(sha, &n_bytes, sizeof(n_bytes));
    free(bytes);
    if (n < 0) {
        enum vp_status st = vp_text_fail_errno(path, err);

        close(fd);
        return st;
    }
    close(fd);
    return VP_OK;
}

static enum vp_status make_key(const struct vp_corpus_cache_config *config,
                               const struct texts *texts, int32_t begin,
                               char out[2 * KEY_BYTES + 1], struct vp_err *err)
{
    const char *text_key = config->text_key ? config->text_key : "text";
    unsigned char hash[VP_SHA256_BYTES], replace = config->replace;
    struct vp_sha256 sha;

    vp_sha256_init(&sha);
    vp_sha256_update(&sha, version, sizeof(version));
    if (config->tokenizer) {
        vp_tokenizer_hash(config->tokenizer, hash);
        vp_sha256_update(&sha, hash, sizeof(hash));
    }
    vp_sha256_update(&sha, &begin, sizeof(begin));
    if (config->sentences)
        vp_sha256_update(&sha, sentences, sizeof(sentences));
    vp_sha256_update(&sha, text_key, strlen(text_key) + 1);
    vp_sha256_update(&sha, &replace, 1);
    for (int i = 0; i < texts->n; i++)
        VP_TRY(hash_file(&sha, texts->paths[i], texts->valid[i], err));
    vp_sha256_final(&sha, hash);
    for (int i = 0; i < KEY_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    return VP_OK;
}

/* ---- The folder --------------------------------------------------------- */

/* Returns true if the folder exists or was created, and is writable. */
static bool make_folder(const char *path)
{
    return (mkdir(path, 0777) == 0 || errno == EEXIST) &&
           access(path, W_OK | X_OK) == 0;
}

static enum vp_status choose_place(const char *data, char out[PATH_MAX],
                                   struct vp_err *err)
{
    const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
    const char *slash = strrchr(data, '/');
    struct stat info;
    int n;

    if (stat(data, &info) == 0 && S_ISDIR(info.st_mode))
        n = snprintf(out, PATH_MAX, "%s/%s", data, VP_CORPUS_CACHE_NAME);
    else
        n = snprintf(out, PATH_MAX, "%.*s%s",
                     slash ? (int)(slash + 1 - data) : 0, data,
                     VP_CORPUS_CACHE_NAME);
    if (n < PATH_MAX - 64 && make_folder(out))
        return VP_OK;
    if (cache && cache[0] == '/') {
        n = snprintf(out, PATH_MAX, "%s/vpipe", cache);
    } else if (home && home[0] == '/') {
        n = snprintf(out, PATH_MAX, "%s/.cache", home);
        mkdir(out, 0777);
        n = snprintf(out, PATH_MAX, "%s/.cache/vpipe", home);
    } else {
        n = PATH_MAX;
    }
    if (n < PATH_MAX - 64 && make_folder(out))
        return VP_OK;
    return vp_err_set(err, VP_ERR_IO,
                      "%s: no place for the token files: neither its folder "
                      "nor ~/.cache can be written; change permissions, set "
                      "XDG_CACHE_HOME, or make them with 'vpipe data gpt'",
                      data);
}

/* Calls the progress function. Returns VP_ERR_INTERRUPTED if it returns
 * false. */
static enum vp_status check_stop(const struct vp_corpus_cache_config *config,
                                 struct vp_err *err)
{
    static const struct vp_corpus_progress none;

    if (!config->progress || config->progress(config->ctx, &none))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INTERRUPTED,
                      "%s: stopped by a signal before the text was encoded",
                      config->data);
}

/* Returns the bytes of all files, also hidden ones, at most `depth` folders
 * below `folder`. The number changes while another process writes. */
static int64_t measure_folder(const char *folder, int depth)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[PATH_MAX];
    struct stat info;
    int64_t n = 0;

    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0 ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >=
                (int)sizeof(path) ||
            lstat(path, &info) != 0)
            continue;
        if (S_ISREG(info.st_mode))
            n += info.st_size;
        else if (S_ISDIR(info.st_mode) && depth > 0)
            n += measure_folder(path, depth - 1);
    }
    if (dir)
        closedir(dir);
    return n;
}

struct waiting {
    struct vp_limit limit;
    int64_t n_bytes; /* at the last measurement */
    int64_t n_looks;
};

/* Polls once while another process holds the lock. Returns VP_ERR_TIMEOUT if it
 * has written nothing for the time limit. */
static enum vp_status wait_on(const struct vp_corpus_cache_config *config,
                              const char *place, struct waiting *waiting,
                              struct vp_err *err)
{
    int64_t n_bytes;

    VP_TRY(check_stop(config, err));
    /* Called twenty times a second; measures once a second. */
    if (waiting->n_looks++ % 20 == 0) {
        n_bytes = measure_folder(place, 2);
        if (n_bytes != waiting->n_bytes)
            vp_limit_restart(&waiting->limit);
        waiting->n_bytes = n_bytes;
    }
    if (!vp_limit_is_over(&waiting->limit))
        return VP_OK;
    return vp_err_set(err, VP_ERR_TIMEOUT,
                      "%s: another process has locked it and writes nothing; "
                      "end that process, and start again",
                      place);
}

/* Locks the cache; the kernel releases the lock if the process is killed. */
static enum vp_status lock_place(const struct vp_corpus_cache_config *config,
                                 const char *place, int *fd_out,
                                 struct vp_err *err)
{
    const struct timespec pause = { .tv_nsec = WAIT_NS };
    struct waiting waiting = {
        .limit = vp_limit_ms(config->wait_ms ? config->wait_ms
                                             : VP_CORPUS_WAIT_MS),
        .n_bytes = -1,
    };
    int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum vp_status st;

    if (fd < 0)
        return vp_err_write(err, place, errno);
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            st = vp_err_write(err, place, errno);
        else
            st = wait_on(config, place, &waiting, err);
        if (st != VP_OK) {
            close(fd);
            return st;
        }
        nanosleep(&pause, NULL);
    }
    *fd_out = fd;
    return VP_OK;
}

/* Removes what a killed process may have left: a folder of files with another
 * folder of files in it. */
static void remove_left(const char *folder)
{
    const char *const inner[] = { "/.text.partial", "" };
    char path[PATH_MAX], file[PATH_MAX];

    for (size_t i = 0; i < VP_COUNT_OF(inner); i++) {
        struct vp_names names = { 0 };

        snprintf(path, sizeof(path), "%.*s%s", PATH_MAX - 32, folder, inner[i]);
        if (vp_names_read(path, &names, NULL) == VP_OK)
            for (size_t k = 0; k < names.n; k++)
                if (snprintf(file, sizeof(file), "%s/%s", path, names.name[k]) <
                    (int)sizeof(file))
                    unlink(file);
        vp_names_release(&names);
        rmdir(path);
    }
}

/* ---- The whole ---------------------------------------------------------- */

static enum vp_status write_bytes(const struct vp_corpus_config *corpus,
                                  struct vp_corpus_result *out,
                                  struct vp_err *err)
{
    char path[PATH_MAX];

    if (mkdir(corpus->folder, 0777) != 0 && errno != EEXIST)
        return vp_err_write(err, corpus->folder, errno);
    snprintf(path, sizeof(path), "%.*s/" VP_CORPUS_BYTES_NAME, PATH_MAX - 32,
             corpus->folder);
    return vp_corpus_write_bytes(corpus, path, out, err);
}

/* Writes the sentence stores text_train and text_val. */
static enum vp_status write_sentences(const struct vp_corpus_config *corpus,
                                      struct vp_corpus_result *out,
                                      struct vp_err *err)
{
    const char **paths = calloc((size_t)corpus->n_paths, sizeof(*paths));
    enum vp_status st = VP_OK;

    if (!paths)
        return fail_memory(corpus->paths[0], err);
    if (mkdir(corpus->folder, 0777) != 0 && errno != EEXIST)
        st = vp_err_write(err, corpus->folder, errno);
    for (int valid = 0; st == VP_OK && valid < 2; valid++) {
        struct vp_store_result made = { .n_bytes = 0 };
        char stem[PATH_MAX];
        struct vp_store_config store = { .tokenizer = corpus->tokenizer,
                                         .paths = paths,
                                         .text_key = corpus->text_key,
                                         .replace = corpus->replace,
                                         .n_threads = corpus->n_threads,
                                         .stem = stem,
                                         .progress = corpus->progress,
                                         .ctx = corpus->ctx };

        for (int i = 0; i < corpus->n_paths; i++)
            if (corpus->valid_paths[i] == valid)
                paths[store.n_paths++] = corpus->paths[i];
        snprintf(stem, sizeof(stem), "%.*s/text_%s", PATH_MAX - 32,
                 corpus->folder, valid ? "val" : "train");
        if (store.n_paths > 0)
            st = vp_store_write(&store, &made, err);
        out->n_bytes += made.n_bytes;
        out->n_documents += made.n_documents;
        out->n_tokens += made.n_tokens;
    }
    free(paths);
    return st;
}

/* Makes the folder, unless another process has made it meanwhile. The caller
 * holds the lock. */
static enum vp_status make(const struct vp_corpus_cache_config *config,
                           const struct texts *texts, int32_t begin,
                           const char *key, struct vp_corpus_cached *out,
                           struct vp_err *err)
{
    struct vp_corpus_config corpus = {
        .tokenizer = config->tokenizer,
        .paths = texts->paths,
        .valid_paths = texts->valid,
        .n_paths = texts->n,
        .text_key = config->text_key,
        .replace = config->replace,
        .begin = begin,
        .n_threads = config->n_threads,
        .name = "text",
        .shard_tokens = VP_CORPUS_SHARD_TOKENS,
        .progress = config->progress,
        .ctx = config->ctx,
    };
    char work[PATH_MAX], again[2 * KEY_BYTES + 1];
    enum vp_status st;

    if (access(out->folder, F_OK) == 0)
        return VP_OK;
    if (snprintf(work, sizeof(work), "%s.partial", out->folder) >=
        (int)sizeof(work))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: the path is too long; move the text",
                          config->data);
    remove_left(work);
    corpus.folder = work;
    st = !config->tokenizer  ? write_bytes(&corpus, &out->made, err)
         : config->sentences ? write_sentences(&corpus, &out->made, err)
                             : vp_corpus_write(&corpus, &out->made, err);
    if (st != VP_OK) {
        remove_left(work);
        return st;
    }
    st = make_key(config, texts, begin, again, err);
    if (st == VP_OK && strcmp(key, again) != 0)
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%s: changed while it was read; start again",
                        config->data);
    if (st == VP_OK && rename(work, out->folder) != 0)
        st = vp_err_write(err, out->folder, errno);
    if (st != VP_OK)
        remove_left(work);
    out->is_new = st == VP_OK;
    return st;
}

static enum vp_status find_or_make(const struct vp_corpus_cache_config *config,
                                   const struct texts *texts,
                                   struct vp_corpus_cached *out,
                                   struct vp_err *err)
{
    bool documents = config->tokenizer && !config->sentences;
    int32_t begin = documents ? vp_corpus_begin_of(config->tokenizer) : -1;
    char key[2 * KEY_BYTES + 1], place[PATH_MAX];
    enum vp_status st;
    int lock = -1;

    if (begin < 0 && documents)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the tokenizer has no token that begins or ends a "
                          "text, so documents cannot be separated; set "
                          "tokenizer to another one");
    VP_TRY(choose_place(config->data, place, err));
    VP_TRY(make_key(config, texts, begin, key, err));
    snprintf(out->folder, sizeof(out->folder), "%.*s/%s", PATH_MAX - 64, place,
             key);
    if (access(out->folder, F_OK) == 0)
        return VP_OK;
    VP_TRY(lock_place(config, place, &lock, err));
    st = make(config, texts, begin, key, out, err);
    close(lock);
    return st;
}

enum vp_status vp_corpus_is_large_at(const char *path, bool *out,
                                     struct vp_err *err)
{
    struct vp_names names = { 0 };
    enum vp_status st = vp_text_list(path, &names, err);

    if (st == VP_OK)
        st = vp_corpus_is_large((const char *const *)names.name, (int)names.n,
                                out, err);
    vp_names_release(&names);
    return st;
}

enum vp_status vp_corpus_cache(const struct vp_corpus_cache_config *config,
                               struct vp_corpus_cached *out, struct vp_err *err)
{
    struct texts texts = { .n = 0 };
    enum vp_status st = find_texts(config, &texts, err);

    *out = (struct vp_corpus_cached){ .is_new = false };
    if (st == VP_OK)
        st = find_or_make(config, &texts, out, err);
    release_texts(&texts);
    return st;
}
