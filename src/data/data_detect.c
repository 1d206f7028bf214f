/* Detection of file formats, for one file and for a folder. */
#include "data/data_detect.h"

#include "data/hdf5.h"
#include "data/names.h"
#include "data/parallel.h"
#include "data/tokens/bin.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TASK(name) (1u << VP_DATA_##name)

static const struct {
    const char *name;
    const char *what; /* for messages */
    enum vp_data_source source;
    unsigned tasks; /* bit t: has samples for task t */
} formats[] = {
    [VP_FORMAT_AUTO] = { "auto", "", VP_DATA_FILES, 0 },
    [VP_FORMAT_TEXT] = { "text", "text", VP_DATA_TEXT,
                         TASK(MASKED_LM) | TASK(CAUSAL_LM) | TASK(PAIRS) },
    [VP_FORMAT_HDF5] = { "hdf5", "HDF5 shards", VP_DATA_HDF5, TASK(MASKED_LM) },
    [VP_FORMAT_LLMC] = { "llmc", "token files without an index", VP_DATA_TOKENS,
                         TASK(CAUSAL_LM) },
    [VP_FORMAT_NANOGPT] = { "nanogpt", "token files without a header",
                            VP_DATA_TOKENS, TASK(CAUSAL_LM) },
    [VP_FORMAT_MEGATRON] = { "megatron", "indexed files of Megatron-LM",
                             VP_DATA_TOKENS,
                             TASK(CAUSAL_LM) | TASK(MASKED_LM) },
    [VP_FORMAT_FAIRSEQ] = { "fairseq", "indexed files of fairseq",
                            VP_DATA_TOKENS, TASK(CAUSAL_LM) | TASK(PAIRS) },
    [VP_FORMAT_CHID] = { "chid", "CHID files", VP_DATA_CHID, TASK(CAUSAL_LM) },
    [VP_FORMAT_PARALLEL] = { "parallel", "parallel text", VP_DATA_PARALLEL,
                             TASK(PAIRS) },
};

const char *vp_data_format_name(int format)
{
    return (size_t)format < VP_COUNT_OF(formats) ? formats[format].name : NULL;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n > n_end && strcmp(name + n - n_end, end) == 0;
}

/* Distinguishes fairseq from Megatron-LM by the header and size of an .idx
 * file. The reader of the format checks the rest. */
static enum vp_data_format index_format(const char *path)
{
    FILE *file = fopen(path, "rb");
    unsigned char header[26] = { 0 };
    struct stat info = { .st_size = 0 };
    uint64_t n = 0;
    bool read = file && fread(header, 1, sizeof(header), file) > 8 &&
                fstat(fileno(file), &info) == 0;

    if (file)
        fclose(file);
    memcpy(&n, header + 18, sizeof(n));
    if (read &&
        (memcmp(header, "TNTIDX\0\0", 8) == 0 ||
         memcmp(header, "HUFFIDX\0", 8) == 0 ||
         (n < UINT64_MAX / 16 && (uint64_t)info.st_size == 26 + 12 * n)))
        return VP_FORMAT_FAIRSEQ;
    return VP_FORMAT_MEGATRON;
}

/* Writes the path of the .idx beside a .bin. Returns true if it exists. */
static bool find_index(const char *path, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.*s.idx", (int)strlen(path) - 4, path);
    return access(out, F_OK) == 0;
}

/* A CHID file begins with two brackets. */
static bool is_chid(const char *path)
{
    FILE *file = fopen(path, "rb");
    char head[64];
    size_t n = file ? fread(head, 1, sizeof(head), file) : 0;
    int n_brackets = 0;

    if (file)
        fclose(file);
    for (size_t i = 0; i < n; i++) {
        if (head[i] == '[')
            n_brackets++;
        else if (!strchr(" \t\r\n", head[i]) || head[i] == '\0')
            break;
    }
    return n_brackets == 2;
}

/* Returns VP_FORMAT_TEXT if no other format matches. */
static enum vp_data_format file_format(const char *path)
{
    char index[PATH_MAX];
    struct stat info;

    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return VP_FORMAT_TEXT; /* opening a FIFO would block */
    if (ends_in(path, ".idx"))
        return index_format(path);
    if (ends_in(path, ".bin"))
        return find_index(path, index) ? index_format(index) : VP_FORMAT_LLMC;
    if (ends_in(path, ".json") && is_chid(path))
        return VP_FORMAT_CHID;
    return vp_token_bin_is_llmc(path) ? VP_FORMAT_LLMC : VP_FORMAT_TEXT;
}

/* ---- Pickles ------------------------------------------------------------ */

static enum vp_status refuse_pickle(const char *path, struct vp_err *err)
{
    static const char *const endings[] = { ".pkl", ".pickle", ".pt", ".pth",
                                           ".ckpt" };

    for (size_t i = 0; i < VP_COUNT_OF(endings); i++)
        if (ends_in(path, endings[i]))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: is a Python pickle by its name (%s), which "
                              "vpipe does not read because a pickle can run "
                              "programs; set data_dir to data in another "
                              "format",
                              path, endings[i]);
    return VP_OK;
}

/* ---- Folders ------------------------------------------------------------ */

/* Adds the format of one file of a folder, unless it is text, to the bit set
 * `found`. */
static void add_format(const char *folder, const char *name, unsigned *found)
{
    char path[PATH_MAX];
    struct stat info;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >=
            (int)sizeof(path) ||
        stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return;
    if (ends_in(name, ".idx") || ends_in(name, ".bin") ||
        (ends_in(name, ".json") && is_chid(path)))
        *found |= 1u << file_format(path);
}

/* Returns the formats of the bit set `found` that have samples for `task`, or
 * `found` if none has. */
static unsigned usable(unsigned found, enum vp_data_task task)
{
    unsigned fit = 0;

    for (size_t format = 0; format < VP_COUNT_OF(formats); format++)
        if (found >> format & formats[format].tasks >> task & 1)
            fit |= 1u << format;
    return fit ? fit : found;
}

static enum vp_status choose(const struct vp_data_config *config,
                             unsigned found, enum vp_data_format *out,
                             struct vp_err *err)
{
    int first = -1;

    found = usable(found, config->task);
    for (int format = 0; vp_data_format_name(format); format++) {
        if (!(found >> format & 1))
            continue;
        if (first >= 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: holds %s and %s; set data_format to %s or "
                              "%s",
                              config->path, formats[first].what,
                              formats[format].what, formats[first].name,
                              formats[format].name);
        first = format;
    }
    *out = first >= 0 ? (enum vp_data_format)first : VP_FORMAT_TEXT;
    return VP_OK;
}

static enum vp_status folder_format(const struct vp_data_config *config,
                                    enum vp_data_format *out,
                                    struct vp_err *err)
{
    const char *path = config->path;
    struct vp_names names = { 0 };
    enum vp_status st = vp_names_read(path, &names, err);
    unsigned found = vp_hdf5_is_at(path) ? 1u << VP_FORMAT_HDF5 : 0;

    for (size_t i = 0; st == VP_OK && i < names.n; i++)
        add_format(path, names.name[i], &found);
    if (config->task == VP_DATA_PAIRS && vp_parallel_is_in(&names))
        found |= 1u << VP_FORMAT_PARALLEL;
    vp_names_release(&names);
    return st == VP_OK ? choose(config, found, out, err) : st;
}

enum vp_status vp_data_format_of(const char *path, enum vp_data_format *out,
                                 struct vp_err *err)
{
    VP_TRY(refuse_pickle(path, err));
    *out = vp_hdf5_is_at(path) ? VP_FORMAT_HDF5 : file_format(path);
    return VP_OK;
}

enum vp_status vp_data_detect(const struct vp_data_config *config,
                              struct vp_data_config *out, struct vp_err *err)
{
    enum vp_data_format format = config->format;
    struct stat info;

    if (format == VP_FORMAT_AUTO && config->path) {
        VP_TRY(refuse_pickle(config->path, err));
        if (stat(config->path, &info) == 0 && S_ISDIR(info.st_mode))
            VP_TRY(folder_format(config, &format, err));
        else if (config->task == VP_DATA_PAIRS &&
                 vp_parallel_is_file(config->path))
            format = VP_FORMAT_PARALLEL;
        else
            VP_TRY(vp_data_format_of(config->path, &format, err));
    } else if (format == VP_FORMAT_AUTO) {
        format = VP_FORMAT_TEXT;
    }
    *out = *config;
    out->format = format;
    out->source = formats[format].source;
    if (format == VP_FORMAT_FAIRSEQ && config->task == VP_DATA_PAIRS)
        out->source = VP_DATA_FAIRSEQ;
    if (format == VP_FORMAT_MEGATRON && config->task == VP_DATA_MASKED_LM)
        out->source = VP_DATA_PACKED;
    return VP_OK;
}
