/* Encodes sentence pairs in blocks and writes fairseq files and
 * dictionaries. */
#include "data/pairs/make.h"

#include "data/corpus/work.h"
#include "data/tokens/dict_write.h"
#include "data/tokens/index_write.h"
#include "text/batch_encoder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4 << 20, BLOCK_PAIRS = 1 << 16, NAME_BYTES = 512 };

enum split { GIVEN, VALID, N_SPLITS };

/* Sentences of one language that are encoded together. */
struct side {
    struct vp_batch_encoder *encoder;
    char *bytes;
    size_t n_bytes, capacity;
    struct vp_text_span *span; /* [BLOCK_PAIRS]; set when the block is full */
    size_t *n_each;            /* [BLOCK_PAIRS] bytes of each sentence */
    int64_t *counts;           /* occurrences of every id, for the dictionary */
    int32_t *ids;              /* ids of one sentence, as fairseq stores them */
    size_t ids_capacity;
    struct vp_index_writer *writer[N_SPLITS];
};

struct making {
    const struct vp_pairs_config *config;
    struct vp_work work;
    struct vp_pair_reader *reader;
    struct side side[2];
    int n_block; /* pairs in the block */
    struct vp_corpus_progress progress;
    struct vp_pairs_result result;
};

static enum vp_status fail_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "out of memory; close other programs, "
                      "or use fewer threads");
}

/* ---- Blocks ------------------------------------------------------------- */

static enum vp_status add_text(struct side *side, int number, const char *bytes,
                               size_t n, struct vp_err *err)
{
    if (side->capacity - side->n_bytes < n) {
        size_t capacity = 2 * side->capacity + n;
        char *grown = realloc(side->bytes, capacity);

        if (!grown)
            return fail_memory(err);
        side->bytes = grown;
        side->capacity = capacity;
    }
    memcpy(side->bytes + side->n_bytes, bytes, n);
    side->n_bytes += n;
    side->n_each[number] = n;
    return VP_OK;
}

static enum vp_status encode_side(struct side *side, int n, struct vp_err *err)
{
    const char *at = side->bytes;

    for (int i = 0; i < n; i++) {
        side->span[i] = (struct vp_text_span){ at, side->n_each[i] };
        at += side->n_each[i];
    }
    /* true: the text cannot produce special tokens. */
    return vp_batch_encoder_run(side->encoder, side->span, n, true) == VP_OK
               ? VP_OK
               : fail_memory(err);
}

/* Writes the ids of a sentence as fairseq stores them, with </s>, to side->ids.
 * *n_out: their number without </s>. */
static enum vp_status shift_ids(struct side *side, int number, size_t *n_out,
                                struct vp_err *err)
{
    const uint32_t *ids = vp_batch_encoder_ids(side->encoder, number, n_out);

    if (side->ids_capacity < *n_out + 1) {
        size_t capacity = 2 * *n_out + 64;
        int32_t *grown = realloc(side->ids, capacity * sizeof(*grown));

        if (!grown)
            return fail_memory(err);
        side->ids = grown;
        side->ids_capacity = capacity;
    }
    for (size_t i = 0; i < *n_out; i++)
        side->ids[i] = (int32_t)ids[i] + VP_DICT_FIRST;
    side->ids[*n_out] = VP_DICT_END;
    return VP_OK;
}

/* Returns the split of the next pair. Pairs for evaluation are spread
 * evenly. */
static enum split split_of(const struct making *making)
{
    int64_t parts = making->config->valid_parts;
    int64_t place = making->result.n_pairs % VP_CORPUS_PARTS;

    return (place + 1) * parts / VP_CORPUS_PARTS >
                   place * parts / VP_CORPUS_PARTS
               ? VALID
               : GIVEN;
}

/* Writes a pair; leaves it out if one side has no ids (only white space). */
static enum vp_status put_pair(struct making *making, int number,
                               struct vp_err *err)
{
    enum split split = split_of(making);
    size_t n[2] = { 0, 0 };

    for (int k = 0; k < 2; k++)
        VP_TRY(shift_ids(&making->side[k], number, &n[k], err));
    if (n[0] == 0 || n[1] == 0) {
        making->result.n_empty++;
        return VP_OK;
    }
    for (int k = 0; k < 2; k++) {
        struct side *side = &making->side[k];

        for (size_t i = 0; split == GIVEN && i < n[k]; i++)
            side->counts[side->ids[i] - VP_DICT_FIRST]++;
        VP_TRY(vp_index_writer_add(side->writer[split], side->ids,
                                   (int64_t)n[k] + 1, err));
        making->result.n_tokens[k] += (int64_t)n[k] + 1;
    }
    making->result.n_pairs++;
    making->result.n_valid_pairs += split == VALID;
    return VP_OK;
}

static enum vp_status report(struct making *making, struct vp_err *err)
{
    const struct vp_pairs_config *config = making->config;

    making->progress.n_bytes = vp_pair_reader_offset(making->reader);
    making->progress.n_documents = making->result.n_pairs;
    making->progress.n_tokens = making->result.n_tokens[0] +
                                making->result.n_tokens[1];
    if (!config->progress || config->progress(config->ctx, &making->progress))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INTERRUPTED,
                      "stopped by a signal; nothing was written");
}

static enum vp_status put_block(struct making *making, struct vp_err *err)
{
    for (int k = 0; k < 2; k++)
        VP_TRY(encode_side(&making->side[k], making->n_block, err));
    for (int i = 0; i < making->n_block; i++)
        VP_TRY(put_pair(making, i, err));
    making->n_block = 0;
    making->side[0].n_bytes = making->side[1].n_bytes = 0;
    return report(making, err);
}

static enum vp_status put_all(struct making *making, struct vp_err *err)
{
    struct vp_text_pair pair;
    enum vp_status st;

    while ((st = vp_pair_reader_next(making->reader, &pair, err)) == VP_OK) {
        for (int k = 0; k < 2; k++)
            VP_TRY(add_text(&making->side[k], making->n_block, pair.bytes[k],
                            pair.n_bytes[k], err));
        making->n_block++;
        if (making->n_block == BLOCK_PAIRS ||
            making->side[0].n_bytes + making->side[1].n_bytes >= BLOCK_BYTES)
            VP_TRY(put_block(making, err));
    }
    if (st != VP_ERR_END)
        return st;
    VP_TRY(put_block(making, err));
    making->result.n_empty += vp_pair_reader_empty(making->reader);
    if (making->result.n_pairs == making->result.n_valid_pairs)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no pair of sentences for training; give text "
                          "on both sides",
                          making->config->text.paths[0]);
    if (making->config->valid_parts > 0 && making->result.n_valid_pairs == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%lld pairs: too few to set a share aside for "
                          "evaluation; give more, or no share",
                          (long long)making->result.n_pairs);
    return VP_OK;
}

/* ---- Files -------------------------------------------------------------- */

static void file_name(const struct making *making, enum split split, int k,
                      char out[NAME_BYTES])
{
    const char *const *lang = making->config->text.lang;

    snprintf(out, NAME_BYTES, "%.200s.%.64s-%.64s.%.64s",
             split == VALID ? "valid" : making->config->split, lang[0], lang[1],
             lang[k]);
}

static enum vp_status open_writers(struct making *making, int64_t n_expected,
                                   struct vp_err *err)
{
    int n_splits = making->config->valid_parts > 0 ? N_SPLITS : 1;

    for (int k = 0; k < 2; k++) {
        for (int s = 0; s < n_splits; s++) {
            char name[NAME_BYTES], path[PATH_MAX];

            file_name(making, s, k, name);
            VP_TRY(vp_work_path(&making->work, name, path, err));
            VP_TRY(vp_index_writer_open(
                path, true, vp_dict_size(making->config->tokenizer[k]),
                n_expected, &making->side[k].writer[s], err));
        }
    }
    return VP_OK;
}

static enum vp_status close_writers(struct making *making, struct vp_err *err)
{
    for (int k = 0; k < 2; k++) {
        for (int s = 0; s < N_SPLITS; s++) {
            struct vp_index_writer *writer = making->side[k].writer[s];

            making->side[k].writer[s] = NULL;
            if (writer)
                VP_TRY(vp_index_writer_close(writer, err));
        }
    }
    return VP_OK;
}

/* Writes a dictionary for each language. A dictionary that an earlier split has
 * written is kept and must match the tokenizer. */
static enum vp_status put_dicts(struct making *making, struct vp_err *err)
{
    const struct vp_pairs_config *config = making->config;
    bool shared = config->tokenizer[0] == config->tokenizer[1];

    for (int i = 0; shared && i < vp_tokenizer_size(config->tokenizer[0]); i++)
        making->side[0].counts[i] = making->side[1].counts[i] =
            making->side[0].counts[i] + making->side[1].counts[i];
    for (int k = 0; k < 2; k++) {
        char name[NAME_BYTES], path[PATH_MAX], there[2 * PATH_MAX];

        snprintf(name, sizeof(name), "dict.%.64s.txt", config->text.lang[k]);
        snprintf(there, sizeof(there), "%s/%s", config->folder, name);
        if (access(there, F_OK) == 0) {
            VP_TRY(vp_dict_check(there, config->tokenizer[k], err));
            continue;
        }
        VP_TRY(vp_work_path(&making->work, name, path, err));
        VP_TRY(vp_dict_write(path, config->tokenizer[k], making->side[k].counts,
                             err));
    }
    return VP_OK;
}

/* ---- The whole ---------------------------------------------------------- */

/* rest: the part of "<split>.de-en.de.idx" after the split. */
static bool is_index(const char *rest)
{
    return rest[0] == '.' && strstr(rest, ".idx");
}

static enum vp_status create_sides(struct making *making, struct vp_err *err)
{
    const struct vp_pairs_config *config = making->config;

    for (int k = 0; k < 2; k++) {
        struct side *side = &making->side[k];
        size_t n_ids = (size_t)vp_tokenizer_size(config->tokenizer[k]);
        int64_t n = vp_dict_size(config->tokenizer[k]);

        side->span = calloc(BLOCK_PAIRS, sizeof(*side->span));
        side->n_each = calloc(BLOCK_PAIRS, sizeof(*side->n_each));
        side->counts = calloc(n_ids, sizeof(*side->counts));
        if (!side->span || !side->n_each || !side->counts ||
            vp_batch_encoder_create(config->tokenizer[k], config->n_threads,
                                    &side->encoder) != VP_OK)
            return fail_memory(err);
        if (n > making->result.vocab)
            making->result.vocab = n;
    }
    return VP_OK;
}

static void release(struct making *making)
{
    for (int k = 0; k < 2; k++) {
        struct side *side = &making->side[k];

        for (int s = 0; s < N_SPLITS; s++)
            vp_index_writer_abandon(side->writer[s]);
        vp_batch_encoder_free(side->encoder);
        free(side->bytes);
        free(side->span);
        free(side->n_each);
        free(side->counts);
        free(side->ids);
    }
    vp_pair_reader_close(making->reader);
}

/* Refuses to overwrite an existing split for evaluation. */
static enum vp_status refuse_valid(const struct making *making,
                                   struct vp_err *err)
{
    char name[NAME_BYTES], path[2 * PATH_MAX];

    file_name(making, VALID, 0, name);
    snprintf(path, sizeof(path), "%s/%s.idx", making->config->folder, name);
    if (making->config->valid_parts == 0 || access(path, F_OK) != 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: is there already; remove it, or set no share aside "
                      "for evaluation",
                      path);
}

static enum vp_status make_all(struct making *making, struct vp_err *err)
{
    const struct vp_pairs_config *config = making->config;
    int64_t n_expected;

    VP_TRY(refuse_valid(making, err));
    VP_TRY(vp_corpus_measure(config->text.paths, config->text.n_paths,
                             &making->progress.n_bytes_all, &n_expected, err));
    VP_TRY(vp_pair_reader_open(&config->text, &making->reader, err));
    VP_TRY(create_sides(making, err));
    VP_TRY(open_writers(making, n_expected, err));
    VP_TRY(put_all(making, err));
    VP_TRY(close_writers(making, err));
    return put_dicts(making, err);
}

enum vp_status vp_pairs_write(const struct vp_pairs_config *config,
                              struct vp_pairs_result *out, struct vp_err *err)
{
    struct making making = { .config = config };
    char last[NAME_BYTES + 8];
    enum vp_status st;

    VP_TRY(vp_work_open(config->folder, config->split, is_index, &making.work,
                        err));
    st = make_all(&making, err);
    release(&making);
    file_name(&making, GIVEN, 0, last);
    snprintf(last + strlen(last), 8, ".idx");
    if (st != VP_OK) {
        vp_work_abandon(&making.work);
        return st;
    }
    VP_TRY(vp_work_publish(&making.work, last, err));
    *out = making.result;
    return VP_OK;
}
