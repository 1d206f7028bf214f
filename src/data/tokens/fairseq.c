/* Source of sentence pairs in the format of fairseq-preprocess:
 *
 *   <split>.<source>-<target>.<language>.idx .bin    one sentence per sequence,
 *                                                    </s> at its end
 *   dict.<language>.txt                              optional; checked
 *
 * The split train may continue in train1, train2, ... The source is padded on
 * the left; the first decoder input is </s>. */
#include "data/languages.h"
#include "data/source.h"
#include "data/tokens/dict.h"
#include "data/tokens/shard.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SURVEY = 1 << 14, /* pairs in which labels are counted */ CHUNK = 4096 };

/* The files of both languages of train, train1, ... */
struct part {
    struct vp_token_shard side[2]; /* source, target */
    int64_t first;                 /* number of its first pair */
};

struct fairseq_state {
    struct vp_file_set *set;
    struct vp_languages languages;
    struct part *part;
    int n_parts;
    int64_t longest;
};

static enum vp_status fail_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
}

/* ---- Files -------------------------------------------------------------- */

static void name_file(const struct vp_data_config *config,
                      const struct fairseq_state *state, const char *split,
                      int side, const char *ending, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s.%s.%s%s", config->path, split,
             state->languages.pair,
             side == 0 ? state->languages.source : state->languages.target,
             ending);
}

static bool has_split(const struct vp_data_config *config,
                      const struct fairseq_state *state, const char *split)
{
    char path[PATH_MAX];

    name_file(config, state, split, 0, ".idx", path);
    return access(path, F_OK) == 0;
}

/* Returns the name of the split for evaluation, or NULL if there is none. */
static const char *find_valid(const struct vp_data_config *config,
                              const struct fairseq_state *state)
{
    static const char *const names[] = { "valid", "val", "validation", "dev" };

    if (config->valid_split)
        return has_split(config, state, config->valid_split)
                   ? config->valid_split
                   : NULL;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++)
        if (has_split(config, state, names[i]))
            return names[i];
    return NULL;
}

static enum vp_status open_side(const struct vp_data_config *config,
                                struct fairseq_state *state, const char *split,
                                int side, struct vp_token_shard *shard,
                                struct vp_err *err)
{
    char path[PATH_MAX];
    int file;

    shard->set = state->set;
    name_file(config, state, split, side, ".idx", path);
    VP_TRY(vp_file_set_add(state->set, path, &file, err));
    name_file(config, state, split, side, ".bin", path);
    VP_TRY(vp_file_set_add(state->set, path, &shard->bin, err));
    VP_TRY(vp_token_index_open(state->set, file,
                               vp_file_set_bytes(state->set, shard->bin),
                               &shard->index, err));
    if (shard->index.layout == VP_INDEX_MEGATRON)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is by its size an index of Megatron-LM, which "
                          "holds no sentence pairs; write it with "
                          "fairseq-preprocess",
                          vp_file_set_path(state->set, file));
    shard->item = shard->index.item;
    shard->minus = shard->index.layout == VP_INDEX_LEGACY;
    shard->n_stored = shard->n_tokens = shard->index.n_tokens;
    shard->vocab = config->vocab ? config->vocab : vp_item_vocab(shard->item);
    return vp_token_shard_check(shard, err);
}

static enum vp_status open_part(const struct vp_data_config *config,
                                struct fairseq_state *state, const char *split,
                                struct vp_source *source, struct vp_err *err)
{
    struct part *grown = realloc(state->part,
                                 (size_t)(state->n_parts + 1) * sizeof(*grown));
    struct part *part;

    if (!grown)
        return fail_memory(config->path, err);
    state->part = grown;
    part = &grown[state->n_parts];
    *part = (struct part){ .first = source->n_samples };
    for (int side = 0; side < 2; side++)
        VP_TRY(open_side(config, state, split, side, &part->side[side], err));
    if (part->side[0].index.n_sequences != part->side[1].index.n_sequences)
        return vp_err_set(
            err, VP_ERR_INVALID,
            "%s: has %lld sentences, but %s has %lld; write both anew",
            vp_file_set_path(state->set, part->side[0].index.file),
            (long long)part->side[0].index.n_sequences,
            vp_file_set_path(state->set, part->side[1].index.file),
            (long long)part->side[1].index.n_sequences);
    for (int side = 0; side < 2; side++)
        if (part->side[side].vocab > source->vocab)
            source->vocab = part->side[side].vocab;
    source->n_samples += part->side[0].index.n_sequences;
    state->n_parts++;
    return VP_OK;
}

/* Opens train, train1, train2, ... or the split for evaluation. */
static enum vp_status open_split(const struct vp_data_config *config,
                                 struct fairseq_state *state,
                                 struct vp_source *source, struct vp_err *err)
{
    const char *valid = find_valid(config, state);
    char split[32] = "train";

    source->is_split = valid;
    if (config->split == VP_DATA_EVAL && valid)
        return open_part(config, state, valid, source, err);
    if (config->split == VP_DATA_EVAL && config->valid_split)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no file %s.%s.%s.idx; change valid_split",
                          config->path, config->valid_split,
                          state->languages.pair, state->languages.source);
    for (int i = 1; i == 1 || has_split(config, state, split); i++) {
        VP_TRY(open_part(config, state, split, source, err));
        snprintf(split, sizeof(split), "train%d", i);
    }
    return VP_OK;
}

/* ---- Sentences ---------------------------------------------------------- */

static const struct part *part_of(const struct fairseq_state *state, int64_t i)
{
    int p = state->n_parts - 1;

    while (state->part[p].first > i)
        p--;
    return &state->part[p];
}

/* Reads the lengths, without </s>, of `n` pairs of one part. */
static enum vp_status read_lengths(const struct fairseq_state *state,
                                   const struct part *part, int64_t first,
                                   int64_t n, int64_t *const out[2],
                                   struct vp_err *err)
{
    for (int side = 0; side < 2; side++) {
        const struct vp_token_shard *shard = &part->side[side];

        VP_TRY(vp_token_index_sizes(state->set, &shard->index, first, n,
                                    out[side], err));
        for (int64_t i = 0; i < n; i++) {
            if (out[side][i]-- == 0)
                return vp_err_set(
                    err, VP_ERR_INVALID,
                    "%s: sentence %lld is empty, without </s>; write the data "
                    "anew",
                    vp_file_set_path(state->set, shard->index.file),
                    (long long)(first + i));
        }
    }
    return VP_OK;
}

static enum vp_status fairseq_lengths(const struct vp_source *source,
                                      int64_t first, int64_t n,
                                      int64_t *n_src_out, int64_t *n_tgt_out,
                                      struct vp_err *err)
{
    const struct fairseq_state *state = source->state;

    while (n > 0) {
        const struct part *part = part_of(state, first);
        int64_t left = part->first + part->side[0].index.n_sequences - first;
        int64_t here = n < left ? n : left;

        VP_TRY(read_lengths(state, part, first - part->first, here,
                            (int64_t *[]){ n_src_out, n_tgt_out }, err));
        first += here;
        n_src_out += here;
        n_tgt_out += here;
        n -= here;
    }
    return VP_OK;
}

/* Reads a sentence without its </s>. *n_out: capacity of ids_out before the
 * call, length after it. The length is checked, because another program may
 * have changed the index since the batches were planned. */
static enum vp_status read_side(const struct fairseq_state *state,
                                const struct vp_token_shard *shard, int64_t i,
                                int32_t *ids_out, int64_t *n_out,
                                struct vp_err *err)
{
    int64_t begin, next, n, at;

    VP_TRY(vp_token_index_begin(state->set, &shard->index, i, &begin, err));
    VP_TRY(vp_token_index_begin(state->set, &shard->index, i + 1, &next, err));
    n = next - begin;
    if (n < 1 || n - 1 > *n_out)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: sentence %lld has another length than at the "
                          "start of the run; start the run anew",
                          vp_file_set_path(state->set, shard->index.file),
                          (long long)i);
    VP_TRY(vp_token_shard_stored(shard, begin, n - 1, ids_out, err));
    for (at = 0;
         at < n - 1 && ids_out[at] != VP_DICT_PAD && ids_out[at] != VP_DICT_END;
         at++)
        ;
    if (at == n - 1) {
        int32_t last = 0;

        VP_TRY(vp_token_shard_stored(shard, next - 1, 1, &last, err));
        at = last == VP_DICT_END ? n : at;
    }
    if (at < n)
        return vp_err_set(
            err, VP_ERR_INVALID,
            "%s: offset %lld: sentence %lld does not hold </s> "
            "(id 2) at its end alone, or holds <pad> (id 1); "
            "write the data anew",
            vp_file_set_path(state->set, shard->bin),
            (long long)((begin + at) * vp_item_bytes(shard->item)),
            (long long)i);
    *n_out = n - 1;
    return VP_OK;
}

static enum vp_status fairseq_pair(const struct vp_source *source, int64_t i,
                                   int32_t *src_out, int64_t *n_src_out,
                                   int32_t *tgt_out, int64_t *n_tgt_out,
                                   struct vp_err *err)
{
    const struct fairseq_state *state = source->state;
    const struct part *part = part_of(state, i);

    i -= part->first;
    VP_TRY(read_side(state, &part->side[0], i, src_out, n_src_out, err));
    return read_side(state, &part->side[1], i, tgt_out, n_tgt_out, err);
}

/* ---- Opening ------------------------------------------------------------ */

static enum vp_status check_use(const struct vp_data_config *config,
                                struct vp_err *err)
{
    struct stat info;

    if (!config->path || stat(config->path, &info) != 0 ||
        !S_ISDIR(info.st_mode))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: sentence pairs of fairseq are in a folder; set "
                          "data_dir to it",
                          config->path ? config->path : "data");
    if (config->task != VP_DATA_PAIRS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: holds sentence pairs of fairseq; set model_type "
                          "to translation",
                          config->path);
    if (config->pad != VP_DICT_PAD)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: fairseq's dictionaries pad with id %d, but "
                          "pad_id is %d; set pad_id: %d",
                          config->path, VP_DICT_PAD, config->pad, VP_DICT_PAD);
    return VP_OK;
}

/* Checks the dictionaries, if there are any, against the vocabulary. */
static enum vp_status check_dicts(const struct vp_data_config *config,
                                  const struct fairseq_state *state,
                                  struct vp_err *err)
{
    char path[PATH_MAX];
    int64_t n_ids;

    for (int side = 0; side < 2; side++) {
        snprintf(path, sizeof(path), "%s/dict.%s.txt", config->path,
                 side == 0 ? state->languages.source : state->languages.target);
        if (access(path, F_OK) != 0)
            continue;
        VP_TRY(vp_dict_read(path, &n_ids, err));
        if (config->vocab > 0 && n_ids > config->vocab)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: has %lld ids, special ones included, but "
                              "vocab is %lld; set vocab to %lld or more",
                              path, (long long)n_ids, (long long)config->vocab,
                              (long long)n_ids);
    }
    return VP_OK;
}

/* Finds the longest sentence. Reading all lengths also checks the whole
 * index. */
static enum vp_status find_longest(struct vp_source *source, struct vp_err *err)
{
    struct fairseq_state *state = source->state;
    int64_t n[2][CHUNK];

    for (int64_t i = 0; i < source->n_samples; i += CHUNK) {
        int64_t here = source->n_samples - i;

        here = here < CHUNK ? here : CHUNK;
        VP_TRY(fairseq_lengths(source, i, here, n[0], n[1], err));
        for (int64_t k = 0; k < 2 * here; k++)
            if (n[k % 2][k / 2] > state->longest)
                state->longest = n[k % 2][k / 2];
    }
    return VP_OK;
}

static void fairseq_close(struct vp_source *source)
{
    struct fairseq_state *state = source->state;

    vp_file_set_free(state->set);
    free(state->part);
    free(state);
}

static enum vp_status open_state(const struct vp_data_config *config,
                                 struct fairseq_state *state,
                                 struct vp_source *source, struct vp_err *err)
{
    struct vp_names names = { 0 };
    enum vp_status st = vp_names_read(config->path, &names, err);

    if (st == VP_OK)
        st = vp_languages_find(config, &names, ".idx", &state->languages, err);
    vp_names_release(&names);
    VP_TRY(st);
    state->set = vp_file_set_create();
    if (!state->set)
        return fail_memory(config->path, err);
    VP_TRY(check_dicts(config, state, err));
    VP_TRY(open_split(config, state, source, err));
    return find_longest(source, err);
}

static enum vp_status fairseq_open(const struct vp_data_config *config,
                                   const struct vp_data_window *window,
                                   struct vp_source *source, struct vp_err *err)
{
    struct fairseq_state *state;
    enum vp_status st;

    (void)window;
    VP_TRY(check_use(config, err));
    state = calloc(1, sizeof(*state));
    if (!state)
        return fail_memory(config->path, err);
    source->state = state;
    st = open_state(config, state, source, err);
    if (st != VP_OK) {
        fairseq_close(source);
        return st;
    }
    source->max_pair = state->longest + 1;
    source->pad = VP_DICT_PAD;
    source->begin = source->end = VP_DICT_END;
    source->left_pad = source->by_length = true;
    source->n_survey = SURVEY;
    snprintf(source->what, sizeof(source->what),
             "fairseq: %lld sentence pairs, %s to %s",
             (long long)source->n_samples, state->languages.source,
             state->languages.target);
    return VP_OK;
}

const struct vp_source_ops vp_source_fairseq = {
    .name = "sentence pairs of fairseq",
    .open = fairseq_open,
    .close = fairseq_close,
    .pair = fairseq_pair,
    .lengths = fairseq_lengths,
};
