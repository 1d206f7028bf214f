/* vpipe data inspect: prints files of samples: BERT shards, CHID, parallel
 * text. */
#include "inspect.h"

#include "data/chid/parse.h"
#include "data/hdf5_file.h"
#include "data/pairs/pair_reader.h"
#include "signals.h"

#include <inttypes.h>
#include <stdlib.h>

static enum vp_status check_stop(struct vp_err *err)
{
    return *signals_stop()
               ? vp_err_set(err, VP_ERR_INTERRUPTED, "stopped by a signal")
               : VP_OK;
}

/* ---- BERT's shards ------------------------------------------------------ */

/* Buffers for one row of every data set. */
struct row {
    int32_t *set[VP_SHARD_SETS];
};

/* Prints the tokens without padding, and below them the original tokens of
 * hidden positions. */
static enum vp_status print_row(const struct vp_shard *shard,
                                const struct row *row,
                                const struct vp_tokenizer *tokenizer, int64_t i,
                                struct vp_err *err)
{
    int64_t n = 0, n_hidden = 0;

    while (n < shard->seq && row->set[VP_SHARD_MASK][n] != 0)
        n++;
    while (n_hidden < shard->n_pred &&
           row->set[VP_SHARD_POSITIONS][n_hidden] != 0)
        n_hidden++;
    printf("%-11s ", i == 0 ? "samples" : "");
    VP_TRY(inspect_print_ids(tokenizer, row->set[VP_SHARD_IDS],
                             n < INSPECT_TOKENS ? n : INSPECT_TOKENS,
                             n > INSPECT_TOKENS, err));
    printf("%-11s ", "  hidden");
    return inspect_print_ids(tokenizer, row->set[VP_SHARD_LABELS], n_hidden,
                             false, err);
}

static enum vp_status print_rows(const struct inspect_options *options,
                                 struct vp_shard_file *file,
                                 const struct vp_tokenizer *tokenizer,
                                 struct row *row, struct vp_err *err)
{
    const struct vp_shard *shard = file->shard;

    for (int64_t i = 0; i < options->n_samples && i < shard->n_rows; i++) {
        for (int set = 0; set < VP_SHARD_SETS; set++)
            VP_TRY(vp_shard_read(file, set, i, 1, row->set[set], err));
        VP_TRY(print_row(shard, row, tokenizer, i, err));
        VP_TRY(check_stop(err));
    }
    return VP_OK;
}

static enum vp_status print_shard(const struct inspect_options *options,
                                  struct vp_shard *shard,
                                  const struct vp_tokenizer *tokenizer,
                                  struct vp_err *err)
{
    struct vp_shard_file file;
    struct row row = { { NULL } };
    enum vp_status st = VP_OK;

    VP_TRY(vp_shard_check(shard, err));
    printf("%-11s hdf5\n", "format");
    printf("%-11s %" PRId64 ", of %" PRId64 " tokens, of which up to %" PRId64
           " are hidden\n",
           "rows", shard->n_rows, shard->seq, shard->n_pred);
    for (int set = 0; set < VP_SHARD_SETS; set++) {
        int64_t n = shard->seq > shard->n_pred ? shard->seq : shard->n_pred;

        row.set[set] = calloc((size_t)n, sizeof(int32_t));
        if (!row.set[set])
            st = vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory",
                            shard->path);
    }
    if (st == VP_OK)
        st = vp_shard_open(shard, &file, err);
    if (st == VP_OK) {
        st = print_rows(options, &file, tokenizer, &row, err);
        vp_shard_close(&file);
    }
    for (int set = 0; set < VP_SHARD_SETS; set++)
        free(row.set[set]);
    return st;
}

enum vp_status inspect_shard(const struct inspect_options *options,
                             const struct vp_tokenizer *tokenizer,
                             struct vp_err *err)
{
    struct vp_shards shards = { .n = 0 };
    enum vp_status st = vp_shards_find(options->file, VP_DATA_TRAIN, &shards,
                                       err);

    for (int i = 0; st == VP_OK && i < shards.n; i++) {
        if (shards.n > 1)
            printf("%s\n", shards.shard[i].path);
        st = print_shard(options, &shards.shard[i], tokenizer, err);
    }
    vp_shards_release(&shards);
    return st;
}

/* ---- CHID --------------------------------------------------------------- */

enum { CHID_VOCAB = 1 << 24 };

static enum vp_status print_chid(const struct inspect_options *options,
                                 const struct vp_tokenizer *tokenizer,
                                 struct vp_chid_reader *reader, int32_t *ids,
                                 struct vp_err *err)
{
    struct vp_chid_sample sample = { .ids = ids, .max_ids = VP_CHID_MAX_IDS };
    int64_t n = 0, longest = 0, largest = -1;

    printf("%-11s chid\n", "format");
    do {
        VP_TRY(vp_chid_next(reader, &sample, err));
        longest = sample.n_ids > longest ? sample.n_ids : longest;
        for (int64_t i = 0; i < sample.n_ids; i++)
            largest = ids[i] > largest ? ids[i] : largest;
        if (n++ < options->n_samples) {
            int64_t shown = sample.n_ids < INSPECT_TOKENS ? sample.n_ids
                                                          : INSPECT_TOKENS;

            printf("%-11s %" PRId64 ": ", n == 1 ? "samples" : "",
                   sample.truth);
            VP_TRY(inspect_print_ids(tokenizer, ids, shown,
                                     shown < sample.n_ids, err));
        }
        VP_TRY(check_stop(err));
    } while (sample.more);
    printf("%-11s %" PRId64 ", the longest of %" PRId64 " tokens\n",
           "sentences", n, longest);
    printf("%-11s the largest id is %" PRId64 "\n", "vocabulary", largest);
    return VP_OK;
}

enum vp_status inspect_chid(const struct inspect_options *options,
                            const struct vp_tokenizer *tokenizer,
                            struct vp_err *err)
{
    struct vp_chid_reader *reader = calloc(1, sizeof(*reader));
    struct vp_file_set *set = vp_file_set_create();
    int32_t *ids = calloc(VP_CHID_MAX_IDS, sizeof(*ids));
    enum vp_status st = VP_OK;
    bool more = false;
    int file;

    if (!reader || !set || !ids)
        st = vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", options->file);
    if (st == VP_OK)
        st = vp_file_set_add(set, options->file, &file, err);
    if (st == VP_OK)
        st = vp_chid_begin(reader, set, file, CHID_VOCAB, &more, err);
    if (st == VP_OK && !more)
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%s: holds no sentence; write it anew", options->file);
    if (st == VP_OK)
        st = print_chid(options, tokenizer, reader, ids, err);
    if (set)
        vp_file_set_free(set);
    free(reader);
    free(ids);
    return st;
}

/* ---- Parallel text ------------------------------------------------------ */

static enum vp_status print_pairs(const struct inspect_options *options,
                                  struct vp_pair_reader *reader,
                                  struct vp_err *err)
{
    int64_t n = 0, n_bytes[2] = { 0, 0 };
    struct vp_text_pair pair;
    enum vp_status st;

    printf("%-11s parallel\n", "format");
    while ((st = vp_pair_reader_next(reader, &pair, err)) == VP_OK) {
        for (int side = 0; side < 2; side++) {
            n_bytes[side] += (int64_t)pair.n_bytes[side];
            if (n >= options->n_samples)
                continue;
            printf("%-11s ", side == 0 && n == 0 ? "samples"
                             : side == 1         ? "  target"
                                                 : "");
            inspect_print_text(pair.bytes[side], pair.n_bytes[side]);
        }
        n++;
        VP_TRY(check_stop(err));
    }
    if (st != VP_ERR_END)
        return st;
    printf("%-11s %" PRId64 ", %" PRId64 " with an empty side\n", "pairs", n,
           vp_pair_reader_empty(reader));
    printf("%-11s %" PRId64 " and %" PRId64 " in UTF-8\n", "bytes", n_bytes[0],
           n_bytes[1]);
    return VP_OK;
}

enum vp_status inspect_pairs(const struct inspect_options *options,
                             struct vp_err *err)
{
    const char *const paths[] = { options->file, options->target };
    struct vp_pair_options text = { .paths = paths,
                                    .n_paths = options->target ? 2 : 1,
                                    .lang = { options->lang[0],
                                              options->lang[1] } };
    struct vp_pair_reader *reader;
    enum vp_status st;

    VP_TRY(vp_pair_reader_open(&text, &reader, err));
    st = print_pairs(options, reader, err);
    vp_pair_reader_close(reader);
    return st;
}
