/* Writer of indexed token files. */
#include "data/tokens/index_write.h"

#include "data/corpus/work.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 4096 };

/* Temporary files. SIZES and DOCUMENTS are copied into IDX at the end, so that
 * they need no memory. */
enum part { BIN, IDX, SIZES, DOCUMENTS, N_PARTS };

static const char *const endings[N_PARTS] = { ".bin.partial", ".idx.partial",
                                              ".sizes.partial",
                                              ".documents.partial" };

struct vp_index_writer {
    char stem[PATH_MAX - 32];
    char path[N_PARTS][PATH_MAX];
    FILE *file[N_PARTS];
    bool fairseq;
    int64_t vocab, n_sequences, n_documents;
    int64_t document_first; /* first sequence of the current document */
    int64_t size;           /* length of the last sequence so far */
    int width;              /* bytes of an id */
};

static void free_writer(struct vp_index_writer *writer)
{
    for (int k = 0; k < N_PARTS; k++)
        if (writer->file[k])
            fclose(writer->file[k]);
    free(writer);
}

void vp_index_writer_abandon(struct vp_index_writer *writer)
{
    if (!writer)
        return;
    for (int k = 0; k < N_PARTS; k++)
        if (writer->file[k])
            unlink(writer->path[k]);
    free_writer(writer);
}

static enum vp_status fail_write(const struct vp_index_writer *writer,
                                 enum part part, struct vp_err *err)
{
    return vp_err_write(err, writer->path[part], errno);
}

static enum vp_status put(struct vp_index_writer *writer, enum part part,
                          const void *bytes, size_t n, struct vp_err *err)
{
    return fwrite(bytes, 1, n, writer->file[part]) == n
               ? VP_OK
               : fail_write(writer, part, err);
}

static enum vp_status open_parts(struct vp_index_writer *writer,
                                 struct vp_err *err)
{
    for (int k = 0; k < N_PARTS; k++) {
        snprintf(writer->path[k], sizeof(writer->path[k]), "%s%s", writer->stem,
                 endings[k]);
        writer->file[k] = fopen(writer->path[k], "wb+");
        if (!writer->file[k])
            return fail_write(writer, k, err);
    }
    return VP_OK;
}

/* Writes the folder of a path, "." if the path has none. */
static void folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
}

enum vp_status vp_index_writer_open(const char *stem, bool fairseq,
                                    int64_t vocab, int64_t n_expected,
                                    struct vp_index_writer **out,
                                    struct vp_err *err)
{
    struct vp_index_writer *writer;
    char folder[PATH_MAX];
    enum vp_status st;

    folder_of(stem, folder);
    VP_TRY(
        vp_work_check_space(folder, n_expected * (vocab < 65500 ? 2 : 4), err));
    writer = calloc(1, sizeof(*writer));
    if (!writer)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", stem);
    writer->fairseq = fairseq;
    writer->vocab = vocab;
    writer->width = vocab < 65500 ? 2 : 4;
    if (snprintf(writer->stem, sizeof(writer->stem), "%s", stem) >=
        (int)sizeof(writer->stem))
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%s: the path is too long; give a shorter one", stem);
    else
        st = open_parts(writer, err);
    if (st == VP_OK)
        *out = writer;
    else
        vp_index_writer_abandon(writer);
    return st;
}

/* ---- Adding ------------------------------------------------------------- */

static enum vp_status put_ids(struct vp_index_writer *writer,
                              const int32_t *ids, int64_t n, struct vp_err *err)
{
    unsigned char bytes[4 * CHUNK];
    size_t width = (size_t)writer->width;

    while (n > 0) {
        int64_t k = n < CHUNK ? n : CHUNK;

        for (int64_t i = 0; i < k; i++) {
            uint32_t id = (uint32_t)ids[i];

            VP_BUG_ON(ids[i] < 0 || ids[i] >= writer->vocab);
            /* Little endian: the low bytes come first. */
            memcpy(bytes + (size_t)i * width, &id, width);
        }
        VP_TRY(put(writer, BIN, bytes, (size_t)k * width, err));
        ids += k;
        n -= k;
    }
    return VP_OK;
}

/* Writes the size of the last sequence. Called when the next one begins,
 * because vp_index_writer_extend() changes the size. */
static enum vp_status end_sequence(struct vp_index_writer *writer,
                                   struct vp_err *err)
{
    int32_t size = (int32_t)writer->size;

    if (writer->size > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: a sequence has more than 2^31 - 1 ids; cut the "
                          "text into documents",
                          writer->stem);
    if (writer->n_sequences == 0)
        return VP_OK;
    return put(writer, SIZES, &size, sizeof(size), err);
}

enum vp_status vp_index_writer_add(struct vp_index_writer *writer,
                                   const int32_t *ids, int64_t n,
                                   struct vp_err *err)
{
    VP_TRY(end_sequence(writer, err));
    writer->n_sequences++;
    writer->size = n;
    return put_ids(writer, ids, n, err);
}

enum vp_status vp_index_writer_extend(struct vp_index_writer *writer,
                                      const int32_t *ids, int64_t n,
                                      struct vp_err *err)
{
    VP_BUG_ON(writer->n_sequences == 0);
    writer->size += n;
    return put_ids(writer, ids, n, err);
}

enum vp_status vp_index_writer_end_document(struct vp_index_writer *writer,
                                            struct vp_err *err)
{
    int64_t first = writer->document_first;

    if (writer->fairseq || first == writer->n_sequences)
        return VP_OK;
    writer->document_first = writer->n_sequences;
    writer->n_documents++;
    return put(writer, DOCUMENTS, &first, sizeof(first), err);
}

int64_t vp_index_writer_sequences(const struct vp_index_writer *writer)
{
    return writer->n_sequences;
}

/* ---- The index ---------------------------------------------------------- */

static enum vp_status put_header(struct vp_index_writer *writer,
                                 struct vp_err *err)
{
    static const unsigned char magic[9] = "MMIDIDX";
    uint64_t version = 1, n = (uint64_t)writer->n_sequences;
    uint64_t n_starts = (uint64_t)writer->n_documents + 1;
    /* 8: uint16; 9: uint32, of fairseq; 4: int32, of Megatron-LM */
    unsigned char code = writer->width == 2 ? 8 : writer->fairseq ? 9 : 4;

    VP_TRY(put(writer, IDX, magic, sizeof(magic), err));
    VP_TRY(put(writer, IDX, &version, sizeof(version), err));
    VP_TRY(put(writer, IDX, &code, 1, err));
    VP_TRY(put(writer, IDX, &n, sizeof(n), err));
    return writer->fairseq ? VP_OK
                           : put(writer, IDX, &n_starts, sizeof(n_starts), err);
}

static enum vp_status copy_part(struct vp_index_writer *writer, enum part part,
                                struct vp_err *err)
{
    unsigned char bytes[4 * CHUNK];
    size_t n;

    if (fflush(writer->file[part]) != 0)
        return fail_write(writer, part, err);
    rewind(writer->file[part]);
    while ((n = fread(bytes, 1, sizeof(bytes), writer->file[part])) > 0)
        VP_TRY(put(writer, IDX, bytes, n, err));
    return ferror(writer->file[part]) ? fail_write(writer, part, err) : VP_OK;
}

/* Computes the pointers from the sizes: there are no gaps between sequences. */
static enum vp_status put_pointers(struct vp_index_writer *writer,
                                   struct vp_err *err)
{
    int64_t pointer = 0;
    int32_t size;

    rewind(writer->file[SIZES]);
    for (int64_t i = 0; i < writer->n_sequences; i++) {
        VP_TRY(put(writer, IDX, &pointer, sizeof(pointer), err));
        if (fread(&size, sizeof(size), 1, writer->file[SIZES]) != 1)
            return fail_write(writer, SIZES, err);
        pointer += (int64_t)size * writer->width;
    }
    return VP_OK;
}

static enum vp_status put_index(struct vp_index_writer *writer,
                                struct vp_err *err)
{
    int64_t end = writer->n_sequences;

    VP_TRY(put_header(writer, err));
    VP_TRY(copy_part(writer, SIZES, err));
    VP_TRY(put_pointers(writer, err));
    if (writer->fairseq)
        return VP_OK;
    VP_TRY(copy_part(writer, DOCUMENTS, err));
    return put(writer, IDX, &end, sizeof(end), err);
}

static enum vp_status publish(struct vp_index_writer *writer,
                              struct vp_err *err)
{
    char bin[PATH_MAX], idx[PATH_MAX];

    snprintf(bin, sizeof(bin), "%s.bin", writer->stem);
    snprintf(idx, sizeof(idx), "%s.idx", writer->stem);
    for (enum part k = BIN; k <= IDX; k++)
        if (fflush(writer->file[k]) != 0 || fsync(fileno(writer->file[k])) != 0)
            return fail_write(writer, k, err);
    /* Rename the index last: readers ignore a .bin without it. */
    if (rename(writer->path[BIN], bin) != 0)
        return fail_write(writer, BIN, err);
    if (rename(writer->path[IDX], idx) == 0)
        return VP_OK;
    (void)fail_write(writer, IDX, err);
    unlink(bin);
    return VP_ERR_IO;
}

enum vp_status vp_index_writer_close(struct vp_index_writer *writer,
                                     struct vp_err *err)
{
    enum vp_status st = end_sequence(writer, err);

    if (st == VP_OK)
        st = vp_index_writer_end_document(writer, err);
    if (st == VP_OK)
        st = put_index(writer, err);
    if (st == VP_OK)
        st = publish(writer, err);
    if (st != VP_OK) {
        vp_index_writer_abandon(writer);
        return st;
    }
    unlink(writer->path[SIZES]);
    unlink(writer->path[DOCUMENTS]);
    free_writer(writer);
    return VP_OK;
}
