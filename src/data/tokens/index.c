/* Parser of the index files of Megatron-LM and fairseq. */
#include "data/tokens/index.h"

#include <stdbool.h>
#include <string.h>

enum {
    MAX_HEADER = 64,
    CHUNK = 1024,                     /* entries per read */
    FIRST_BYTES = 1 << 20,            /* entries checked when it is opened */
    FIRST_ENTRIES = FIRST_BYTES / 12, /* i32 size, i64 pointer */
};

#define REMEDY "copy or write the .idx and .bin files anew"

static int64_t number_at(const unsigned char *bytes)
{
    int64_t number;

    memcpy(&number, bytes, sizeof(number));
    return number;
}

static enum vp_status refuse(struct vp_file_set *set, int file, int64_t offset,
                             struct vp_err *err, const char *cause,
                             int64_t number)
{
    return vp_err_set(err, VP_ERR_INVALID, "%s: offset %lld: %s%lld; " REMEDY,
                      vp_file_set_path(set, file), (long long)offset, cause,
                      (long long)number);
}

static enum vp_status read_number(struct vp_file_set *set, int file,
                                  int64_t offset, int64_t *out,
                                  struct vp_err *err)
{
    unsigned char bytes[8];

    VP_TRY(vp_file_set_read(set, file, offset, sizeof(bytes), bytes, err));
    *out = number_at(bytes);
    return VP_OK;
}

/* ---- Types -------------------------------------------------------------- */

/* Type codes of both programs; 6 and 7 are floating-point numbers. */
static bool find_item(int64_t code, enum vp_item *out)
{
    static const struct {
        int code;
        enum vp_item item;
    } codes[] = {
        { 1, VP_ITEM_U8 },  { 2, VP_ITEM_I8 },   { 3, VP_ITEM_I16 },
        { 4, VP_ITEM_I32 }, { 5, VP_ITEM_I64 },  { 8, VP_ITEM_U16 },
        { 9, VP_ITEM_U32 }, { 10, VP_ITEM_U64 },
    };

    for (size_t i = 0; i < VP_COUNT_OF(codes); i++) {
        if (codes[i].code == code) {
            *out = codes[i].item;
            return true;
        }
    }
    return false;
}

static enum vp_status set_item(struct vp_file_set *set,
                               struct vp_token_index *index, int64_t offset,
                               int64_t code, struct vp_err *err)
{
    if (find_item(code, &index->item))
        return VP_OK;
    return refuse(set, index->file, offset, err,
                  code == 6 || code == 7
                      ? "the ids are floating-point numbers, type "
                      : "unknown type of ids ",
                  code);
}

/* ---- Headers ------------------------------------------------------------ */

/* File size for n sequences and d documents: fairseq 26 + 12 n; Megatron
 * 34 + 12 n + 8 d, and n more with modes. */
static enum vp_status open_mmap(struct vp_file_set *set,
                                const unsigned char *header,
                                struct vp_token_index *index,
                                struct vp_err *err)
{
    int64_t n_bytes = vp_file_set_bytes(set, index->file);
    int64_t n = number_at(header + 18), d = number_at(header + 26), rest;

    VP_TRY(set_item(set, index, 17, header[17], err));
    if (n < 1 || n > (n_bytes - 26) / 12)
        return refuse(set, index->file, 18, err,
                      "the file is too small for its number of sequences, ", n);
    index->n_sequences = index->n_documents = n;
    rest = n_bytes - 26 - 12 * n;
    if (rest == 0) {
        index->layout = VP_INDEX_FAIRSEQ;
        index->sizes_at = 26;
        index->pointers_at = 26 + 4 * n;
        return VP_OK;
    }
    if (rest < 8 || d < 2 || d > (rest - 8) / 8 ||
        (rest - 8 - 8 * d != 0 && rest - 8 - 8 * d != n))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset 26: %lld bytes with %lld sequences are "
                          "neither an index of fairseq (%lld bytes) nor, with "
                          "%lld documents, one of Megatron-LM; " REMEDY,
                          vp_file_set_path(set, index->file),
                          (long long)n_bytes, (long long)n,
                          (long long)(26 + 12 * n), (long long)d);
    index->layout = VP_INDEX_MEGATRON;
    index->n_documents = d - 1;
    index->sizes_at = 34;
    index->pointers_at = 34 + 4 * n;
    index->documents_at = 34 + 12 * n;
    return VP_OK;
}

static enum vp_status open_legacy(struct vp_file_set *set,
                                  const unsigned char *header,
                                  struct vp_token_index *index,
                                  struct vp_err *err)
{
    int64_t n_bytes = vp_file_set_bytes(set, index->file);
    int64_t n = number_at(header + 32), n_sizes = number_at(header + 40);

    VP_TRY(set_item(set, index, 16, number_at(header + 16), err));
    if (number_at(header + 24) != vp_item_bytes(index->item))
        return refuse(set, index->file, 24, err,
                      "does not fit the type of ids: their width is ",
                      number_at(header + 24));
    if (n < 1 || n > (n_bytes - 64) / 24 || n_bytes != 64 + 24 * n)
        return refuse(set, index->file, 32, err,
                      "the size of the file does not fit its number of "
                      "sequences, ",
                      n);
    if (n_sizes != n)
        return refuse(
            set, index->file, 40, err,
            "the sequences do not have one size each; sizes: ", n_sizes);
    index->layout = VP_INDEX_LEGACY;
    index->n_sequences = index->n_documents = n;
    index->pointers_at = 48 + 8 * (n + 1);
    index->sizes_at = 48 + 16 * (n + 1);
    return VP_OK;
}

static enum vp_status open_header(struct vp_file_set *set,
                                  struct vp_token_index *index,
                                  struct vp_err *err)
{
    const char *path = vp_file_set_path(set, index->file);
    int64_t n_bytes = vp_file_set_bytes(set, index->file);
    unsigned char header[MAX_HEADER] = { 0 };
    bool legacy;

    VP_TRY(vp_file_set_read(set, index->file, 0,
                            n_bytes < MAX_HEADER ? n_bytes : MAX_HEADER, header,
                            err));
    if (memcmp(header, "HUFFIDX\0\0", 9) == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset 0: is an index of fairseq's Huffman "
                          "coding, which vpipe does not read; write the data "
                          "with --dataset-impl mmap",
                          path);
    legacy = memcmp(header, "TNTIDX\0\0", 8) == 0;
    if (!legacy && memcmp(header, "MMIDIDX\0\0", 9) != 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: offset 0: does not begin like an index of "
                          "Megatron-LM or fairseq; " REMEDY,
                          path);
    if (n_bytes < (legacy ? 88 : 38))
        return refuse(set, index->file, n_bytes, err,
                      "the file ends inside its header; its bytes: ", n_bytes);
    if (number_at(header + (legacy ? 8 : 9)) != 1)
        return refuse(set, index->file, legacy ? 8 : 9, err,
                      "vpipe reads version 1, but this is ",
                      number_at(header + (legacy ? 8 : 9)));
    return legacy ? open_legacy(set, header, index, err)
                  : open_mmap(set, header, index, err);
}

/* ---- Entries ------------------------------------------------------------ */

/* Returns true if pointer `i` is the end of the last sequence and is not
 * stored, as it is in legacy files. */
static bool is_end(const struct vp_token_index *index, int64_t i)
{
    return i == index->n_sequences && index->layout != VP_INDEX_LEGACY;
}

/* Checks a pointer and converts it from bytes to tokens. Pointers of legacy
 * files are in tokens. */
static enum vp_status check_pointer(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t i, int64_t pointer, int64_t *out,
                                    struct vp_err *err)
{
    int64_t width = index->layout == VP_INDEX_LEGACY
                        ? 1
                        : vp_item_bytes(index->item);

    if (pointer < 0 || pointer % width != 0 ||
        pointer / width > index->n_tokens)
        return refuse(
            set, index->file, index->pointers_at + 8 * i, err,
            "a sequence begins where the .bin file has no id: ", pointer);
    *out = pointer / width;
    return VP_OK;
}

enum vp_status vp_token_index_begin(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t i, int64_t *begin_out,
                                    struct vp_err *err)
{
    int64_t pointer;

    if (is_end(index, i)) {
        *begin_out = index->n_tokens;
        return VP_OK;
    }
    VP_TRY(read_number(set, index->file, index->pointers_at + 8 * i, &pointer,
                       err));
    return check_pointer(set, index, i, pointer, begin_out, err);
}

enum vp_status vp_token_index_first(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t document, int64_t *sequence_out,
                                    struct vp_err *err)
{
    int64_t sequence = document, at = index->documents_at + 8 * document;

    if (index->documents_at > 0)
        VP_TRY(read_number(set, index->file, at, &sequence, err));
    if (sequence < 0 || sequence > index->n_sequences)
        return refuse(
            set, index->file, at, err,
            "a document begins at a sequence that does not exist: ", sequence);
    *sequence_out = sequence;
    return VP_OK;
}

enum vp_status vp_token_index_firsts(struct vp_file_set *set,
                                     const struct vp_token_index *index,
                                     int64_t document, int64_t n,
                                     int64_t *sequences_out, struct vp_err *err)
{
    int64_t at = index->documents_at + 8 * document, before = 0;

    for (int64_t i = 0; i < n; i++)
        sequences_out[i] = document + i;
    if (index->documents_at > 0)
        VP_TRY(
            vp_file_set_read(set, index->file, at, 8 * n, sequences_out, err));
    for (int64_t i = 0; i < n; i++) {
        if (sequences_out[i] < before || sequences_out[i] > index->n_sequences)
            return refuse(set, index->file, at + 8 * i, err,
                          "a document begins before the previous one, or after "
                          "the last sequence, at sequence ",
                          sequences_out[i]);
        before = sequences_out[i];
    }
    return VP_OK;
}

enum vp_status vp_token_index_document(struct vp_file_set *set,
                                       const struct vp_token_index *index,
                                       int64_t document, int64_t *begin_out,
                                       struct vp_err *err)
{
    int64_t sequence = 0;

    VP_TRY(vp_token_index_first(set, index, document, &sequence, err));
    return vp_token_index_begin(set, index, sequence, begin_out, err);
}

/* Reads the sizes of `n` sequences, at most CHUNK. */
static enum vp_status read_sizes(struct vp_file_set *set,
                                 const struct vp_token_index *index,
                                 int64_t first, int64_t n, int64_t *sizes_out,
                                 struct vp_err *err)
{
    unsigned char bytes[8 * CHUNK];
    int width = index->layout == VP_INDEX_LEGACY ? 8 : 4;

    VP_TRY(vp_file_set_read(set, index->file, index->sizes_at + width * first,
                            width * n, bytes, err));
    for (int64_t i = 0; i < n; i++) {
        int32_t size;

        memcpy(&size, bytes + 4 * i, sizeof(size));
        sizes_out[i] = width == 4 ? size : number_at(bytes + 8 * i);
        if (sizes_out[i] < 0 || sizes_out[i] > index->n_tokens)
            return refuse(set, index->file,
                          index->sizes_at + width * (first + i), err,
                          "impossible length of a sequence: ", sizes_out[i]);
    }
    return VP_OK;
}

/* Reads `n` + 1 pointers and checks that their distances are `sizes`. */
static enum vp_status check_pointers(struct vp_file_set *set,
                                     const struct vp_token_index *index,
                                     int64_t first, int64_t n,
                                     const int64_t *sizes, struct vp_err *err)
{
    unsigned char bytes[8 * (CHUNK + 1)];
    bool at_end = is_end(index, first + n);
    int64_t begin = 0, next = 0;

    VP_TRY(vp_file_set_read(set, index->file, index->pointers_at + 8 * first,
                            8 * (at_end ? n : n + 1), bytes, err));
    VP_TRY(check_pointer(set, index, first, number_at(bytes), &begin, err));
    if (first == 0 && begin != 0)
        return refuse(set, index->file, index->pointers_at, err,
                      "the first sequence begins at id ", begin);
    for (int64_t i = 0; i < n; i++) {
        if (at_end && i + 1 == n)
            next = index->n_tokens;
        else
            VP_TRY(check_pointer(set, index, first + i + 1,
                                 number_at(bytes + 8 * (i + 1)), &next, err));
        if (next - begin != sizes[i])
            return refuse(set, index->file,
                          index->pointers_at + 8 * (first + i + 1), err,
                          "the sequence before has another length than its "
                          "size, ",
                          sizes[i]);
        begin = next;
    }
    return VP_OK;
}

/* Checks that every sequence of a legacy file has one dimension. */
static enum vp_status check_dimensions(struct vp_file_set *set,
                                       const struct vp_token_index *index,
                                       int64_t first, int64_t n,
                                       struct vp_err *err)
{
    unsigned char bytes[8 * (CHUNK + 1)];

    if (index->layout != VP_INDEX_LEGACY)
        return VP_OK;
    VP_TRY(vp_file_set_read(set, index->file, 48 + 8 * first, 8 * (n + 1),
                            bytes, err));
    for (int64_t i = 0; i <= n; i++)
        if (number_at(bytes + 8 * i) != first + i)
            return refuse(set, index->file, 48 + 8 * (first + i), err,
                          "the sequences are not rows of ids; dimension ",
                          number_at(bytes + 8 * i));
    return VP_OK;
}

enum vp_status vp_token_index_sizes(struct vp_file_set *set,
                                    const struct vp_token_index *index,
                                    int64_t first, int64_t n,
                                    int64_t *sizes_out, struct vp_err *err)
{
    while (n > 0) {
        int64_t here = n < CHUNK ? n : CHUNK;

        VP_TRY(read_sizes(set, index, first, here, sizes_out, err));
        VP_TRY(check_dimensions(set, index, first, here, err));
        VP_TRY(check_pointers(set, index, first, here, sizes_out, err));
        first += here;
        sizes_out += here;
        n -= here;
    }
    return VP_OK;
}

/* ---- Opening ------------------------------------------------------------ */

/* Sets index->n_tokens to the end of the last sequence. */
static enum vp_status find_end(struct vp_file_set *set, int64_t bin_bytes,
                               struct vp_token_index *index, struct vp_err *err)
{
    int64_t last = index->n_sequences - 1, begin = 0, size = 0;

    index->n_tokens = bin_bytes / vp_item_bytes(index->item);
    if (index->layout == VP_INDEX_LEGACY)
        VP_TRY(vp_token_index_begin(set, index, last + 1, &size, err));
    else {
        VP_TRY(vp_token_index_begin(set, index, last, &begin, err));
        VP_TRY(read_sizes(set, index, last, 1, &size, err));
        size += begin;
    }
    if (size > index->n_tokens)
        return refuse(set, index->file, index->pointers_at + 8 * last, err,
                      "the last sequence ends after the end of the .bin file, "
                      "at id ",
                      size);
    index->n_tokens = size;
    return VP_OK;
}

static enum vp_status check_documents(struct vp_file_set *set,
                                      const struct vp_token_index *index,
                                      struct vp_err *err)
{
    int64_t n = index->n_documents, at = index->documents_at, sequence;
    int64_t before = 0;

    for (int64_t d = 0; at > 0 && d <= n; d++) {
        /* After the first MiB check only the last one. */
        if (d == FIRST_BYTES / 8 && d < n)
            d = n;
        VP_TRY(read_number(set, index->file, at + 8 * d, &sequence, err));
        if (sequence < before || sequence > index->n_sequences ||
            (d == 0 && sequence != 0) ||
            (d == n && sequence != index->n_sequences))
            return refuse(set, index->file, at + 8 * d, err,
                          "the documents do not follow each other; sequence ",
                          sequence);
        before = sequence;
    }
    return VP_OK;
}

static enum vp_status check_first(struct vp_file_set *set,
                                  const struct vp_token_index *index,
                                  struct vp_err *err)
{
    int64_t sizes[CHUNK] = { 0 }, n = index->n_sequences;

    n = n < FIRST_ENTRIES ? n : FIRST_ENTRIES;
    for (int64_t i = 0; i < n; i += CHUNK)
        VP_TRY(vp_token_index_sizes(set, index, i,
                                    n - i < CHUNK ? n - i : CHUNK, sizes, err));
    return check_documents(set, index, err);
}

enum vp_status vp_token_index_open(struct vp_file_set *set, int file,
                                   int64_t bin_bytes,
                                   struct vp_token_index *out,
                                   struct vp_err *err)
{
    struct vp_token_index index = { .file = file };

    VP_TRY(open_header(set, &index, err));
    VP_TRY(find_end(set, bin_bytes, &index, err));
    VP_TRY(check_first(set, &index, err));
    *out = index;
    return VP_OK;
}
