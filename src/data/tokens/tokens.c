/* Source of running text in token files: shards of llm.c, nanoGPT, Megatron-LM
 * and fairseq, cut into windows. A window never crosses shards, so the tail of
 * a shard that fills no window is not used. */
#include "data/data_detect.h"
#include "data/languages.h"
#include "data/source.h"
#include "data/tokens/find.h"
#include "data/tokens/shard.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 16 << 20,  /* size of the windows prefetched together */
    SURVEY_TOKENS = 1 << 19, /* tokens in which labels are counted */
};

struct part {
    struct vp_token_shard shard;
    int64_t first_window, n_windows;
};

struct tokens_state {
    struct vp_file_set *set;
    struct part *part;
    int n_parts;
    struct vp_data_window window;
    int64_t block;        /* windows per block */
    _Atomic int64_t next; /* first window of the last prefetch; -1: none */
};

/* ---- Opening ------------------------------------------------------------ */

static enum vp_status fail_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
}

/* Refuses an index whose layout does not match data_format. */
static enum vp_status check_layout(const struct vp_data_config *config,
                                   const char *path,
                                   const struct vp_token_index *index,
                                   struct vp_err *err)
{
    bool megatron = index->layout == VP_INDEX_MEGATRON;
    const char *slash = strrchr(path, '/');

    if (!megatron && vp_languages_is_name(slash ? slash + 1 : path, ".idx"))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is by its name one language of sentence pairs; "
                          "set model_type to translation",
                          path);
    if (config->format == VP_FORMAT_AUTO ||
        megatron == (config->format == VP_FORMAT_MEGATRON))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: is by its size an index of %s, but data_format is "
                      "%s; set data_format: %s",
                      path, megatron ? "Megatron-LM" : "fairseq",
                      vp_data_format_name(config->format),
                      megatron ? "megatron" : "fairseq");
}

static enum vp_status open_indexed(const struct vp_data_config *config,
                                   const char *path,
                                   struct vp_token_shard *shard,
                                   struct vp_err *err)
{
    VP_TRY(vp_token_shard_open_indexed(shard, path, err));
    VP_TRY(check_layout(config, path, &shard->index, err));
    shard->has_ends = config->has_document_end;
    shard->end = config->document_end;
    if (shard->has_ends)
        shard->n_tokens += shard->index.n_documents;
    return VP_OK;
}

static enum vp_status open_part(const struct vp_data_config *config,
                                const char *path, bool indexed,
                                struct tokens_state *state,
                                struct vp_source *source, struct vp_err *err)
{
    struct part *part = &state->part[state->n_parts];
    struct vp_token_shard *shard = &part->shard;
    int64_t length = state->window.length;

    shard->set = state->set;
    VP_TRY(indexed
               ? open_indexed(config, path, shard, err)
               : vp_token_shard_open_plain(
                     shard, path, config->format == VP_FORMAT_NANOGPT, err));
    shard->vocab = config->vocab ? config->vocab : vp_item_vocab(shard->item);
    VP_TRY(vp_token_shard_check(shard, err));
    if (shard->vocab > source->vocab)
        source->vocab = shard->vocab;
    part->first_window = source->n_samples;
    if (shard->n_tokens >= length)
        part->n_windows = (shard->n_tokens - length) / state->window.stride + 1;
    source->n_samples += part->n_windows;
    state->n_parts++;
    return VP_OK;
}

static enum vp_status open_parts(const struct vp_data_config *config,
                                 const struct vp_token_files *files,
                                 bool indexed, struct tokens_state *state,
                                 struct vp_source *source, struct vp_err *err)
{
    int64_t n_tokens = 0, stride = state->window.stride;

    state->part = calloc((size_t)files->n, sizeof(*state->part));
    if (!state->part)
        return fail_memory(config->path, err);
    for (int i = 0; i < files->n; i++)
        VP_TRY(open_part(config, files->path[i], indexed, state, source, err));
    for (int i = 0; i < state->n_parts; i++)
        n_tokens += state->part[i].shard.n_tokens;
    if (source->n_samples == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %lld tokens in %d file%s do not fill one window "
                          "of %lld; add files or lower seq_length",
                          config->path, (long long)n_tokens, files->n,
                          files->n == 1 ? "" : "s",
                          (long long)state->window.length);
    state->block = BLOCK_BYTES / (stride * 4) / 10 * 10;
    state->block = state->block > 10 ? state->block : 10;
    source->block = state->block;
    source->n_survey = SURVEY_TOKENS / stride + 1;
    snprintf(source->what, sizeof(source->what),
             "token files: %d file%s, %lld tokens of %s", files->n,
             files->n == 1 ? "" : "s", (long long)n_tokens,
             vp_item_name(state->part[0].shard.item));
    return VP_OK;
}

static void note_skipped(const struct vp_data_config *config,
                         const struct vp_token_files *files,
                         struct vp_source *source)
{
    char kinds[256];

    if (files->skipped.n_files == 0)
        return;
    vp_skipped_print(&files->skipped, kinds, sizeof(kinds));
    vp_source_notice(source, "%.400s: %d token file%s taken; not taken: %s",
                     config->path, files->n, files->n == 1 ? "" : "s", kinds);
}

static void tokens_close(struct vp_source *source)
{
    struct tokens_state *state = source->state;

    vp_file_set_free(state->set);
    free(state->part);
    free(state);
}

static enum vp_status check_use(const struct vp_data_config *config,
                                struct vp_err *err)
{
    if (!config->path)
        return vp_err_set(err, VP_ERR_INVALID,
                          "no token files are given; set data_dir to them, or "
                          "synthetic_data to true");
    if (config->task != VP_DATA_CAUSAL_LM)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: token files hold running text; set model_type "
                          "to gpt2 or cpm, or data_dir to other data",
                          config->path);
    if (config->has_document_end && config->vocab > 0 &&
        config->document_end >= config->vocab)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: document_end is %d, but ids are below vocab, "
                          "%lld; lower document_end",
                          config->path, config->document_end,
                          (long long)config->vocab);
    return VP_OK;
}

static enum vp_status tokens_open(const struct vp_data_config *config,
                                  const struct vp_data_window *window,
                                  struct vp_source *source, struct vp_err *err)
{
    bool indexed = config->format == VP_FORMAT_MEGATRON ||
                   config->format == VP_FORMAT_FAIRSEQ;
    struct vp_token_files files;
    struct tokens_state *state;
    enum vp_status st;

    VP_TRY(check_use(config, err));
    state = calloc(1, sizeof(*state));
    if (!state)
        return fail_memory(config->path, err);
    source->state = state;
    state->window = *window;
    atomic_init(&state->next, -1);
    state->set = vp_file_set_create();
    st = state->set ? vp_token_files_find(config, indexed, &files, err)
                    : fail_memory(config->path, err);
    if (state->set) {
        if (st == VP_OK)
            st = open_parts(config, &files, indexed, state, source, err);
        if (st == VP_OK)
            note_skipped(config, &files, source);
        source->is_split = files.is_split;
        vp_token_files_release(&files);
    }
    if (st != VP_OK)
        tokens_close(source);
    return st;
}

/* ---- Samples ------------------------------------------------------------ */

static const struct part *part_of(const struct tokens_state *state,
                                  int64_t window)
{
    int low = 0, high = state->n_parts;

    while (high - low > 1) {
        int middle = low + (high - low) / 2;

        if (state->part[middle].first_window <= window)
            low = middle;
        else
            high = middle;
    }
    return &state->part[low];
}

static enum vp_status tokens_window(const struct vp_source *source, int64_t i,
                                    int32_t *ids_out, struct vp_err *err)
{
    const struct tokens_state *state = source->state;
    const struct part *part = part_of(state, i);

    return vp_token_shard_read(&part->shard,
                               (i - part->first_window) * state->window.stride,
                               state->window.length, ids_out, err);
}

/* Prefetches the block that begins with sample `i`, up to the end of its shard.
 * Called with every batch, so a repeated block is ignored. */
static void tokens_ahead(const struct vp_source *source, int64_t i)
{
    struct tokens_state *state = source->state;
    const struct part *part = part_of(state, i);
    int64_t width = vp_item_bytes(part->shard.item), stride;

    if (atomic_exchange(&state->next, i) == i)
        return;
    stride = state->window.stride;
    vp_file_set_ahead(state->set, part->shard.bin,
                      part->shard.first_byte +
                          (i - part->first_window) * stride * width,
                      state->block * stride * width);
}

const struct vp_source_ops vp_source_tokens = {
    .name = "token files",
    .open = tokens_open,
    .close = tokens_close,
    .window = tokens_window,
    .ahead = tokens_ahead,
};
