/* The source of CHID samples: finds the file of a split, indexes and reads
 * samples. */
#include "data/chid/chid.h"

#include "data/chid/parse.h"
#include "data/names.h"
#include "data/source.h"
#include "data/split_name.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PAD = 5, /* <pad> of CPM's vocabulary */
    MAX_OFFSETS = 1 << 16,
    SURVEY = 1000,
};

struct chid_state {
    struct vp_file_set *set;
    int file;
    int64_t *offsets; /* file offsets of samples 0, step, 2 step, ... */
    int n_offsets, max_offsets;
    int64_t step;
    int64_t vocab, seq;
    int64_t longest; /* ids of the longest sentence */
};

/* ---- Files -------------------------------------------------------------- */

static bool ends_in_json(const char *name)
{
    size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

/* Finds the file of config->split in a folder. *is_split: the folder has a file
 * for evaluation. */
static enum vp_status find_file(const struct vp_data_config *config,
                                const struct vp_names *names,
                                char out[PATH_MAX], bool *is_split,
                                struct vp_err *err)
{
    const char *found[2] = { NULL, NULL }; /* by enum vp_split_name */
    const char *name;

    for (size_t i = 0; i < names->n; i++) {
        enum vp_split_name split = vp_split_by_name(names->name[i],
                                                    config->valid_split);

        if (!ends_in_json(names->name[i]) || split == VP_NAME_OTHER)
            continue;
        if (found[split])
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: %s and %s are both for %s; set data_dir to "
                              "one file, or valid_split",
                              config->path, found[split], names->name[i],
                              split == VP_NAME_VALID ? "evaluation"
                                                     : "training");
        found[split] = names->name[i];
    }
    *is_split = found[VP_NAME_VALID];
    name = found[config->split == VP_DATA_EVAL && *is_split ? VP_NAME_VALID
                                                            : VP_NAME_TRAIN];
    if (!name)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no train.json; set data_dir to the folder of "
                          "one, or to a file",
                          config->path);
    snprintf(out, PATH_MAX, "%s/%s", config->path, name);
    return VP_OK;
}

static enum vp_status add_file(const struct vp_data_config *config,
                               struct chid_state *state,
                               struct vp_source *source, struct vp_err *err)
{
    struct vp_names names = { 0 };
    char path[PATH_MAX];
    struct stat info;
    enum vp_status st;

    snprintf(path, sizeof(path), "%s", config->path);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        st = vp_names_read(path, &names, err);
        if (st == VP_OK)
            st = find_file(config, &names, path, &source->is_split, err);
        vp_names_release(&names);
        VP_TRY(st);
    }
    return vp_file_set_add(state->set, path, &state->file, err);
}

/* ---- The index ---------------------------------------------------------- */

/* Stores an offset; if there are too many, keeps every second one. */
static void add_offset(struct chid_state *state, int64_t sample, int64_t offset)
{
    if (sample % state->step != 0)
        return;
    if (state->n_offsets == state->max_offsets) {
        for (int i = 0; i < state->max_offsets / 2; i++)
            state->offsets[i] = state->offsets[2 * i];
        state->n_offsets = state->max_offsets / 2;
        state->step *= 2;
        if (sample % state->step != 0)
            return;
    }
    state->offsets[state->n_offsets++] = offset;
}

/* Reads and checks the whole file, and indexes its samples. */
static enum vp_status scan(struct chid_state *state, struct vp_source *source,
                           struct vp_err *err)
{
    struct vp_chid_reader reader;
    struct vp_chid_sample sample = { .max_ids = VP_CHID_MAX_IDS };
    bool more;

    VP_TRY(vp_chid_begin(&reader, state->set, state->file, state->vocab, &more,
                         err));
    memcpy(source->choices, reader.choices, sizeof(reader.choices));
    source->n_choices = VP_CHID_CHOICES;
    while (more) {
        VP_TRY(vp_chid_next(&reader, &sample, err));
        if (sample.n_ids - 1 > state->seq)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: offset %lld: the sentence needs %lld "
                              "positions, but seq_length is %lld; set "
                              "seq_length to the longest, 696 in the "
                              "original's data",
                              vp_file_set_path(state->set, state->file),
                              (long long)sample.offset,
                              (long long)sample.n_ids - 1,
                              (long long)state->seq);
        if (sample.n_ids > state->longest)
            state->longest = sample.n_ids;
        add_offset(state, source->n_samples++, sample.offset);
        more = sample.more;
    }
    if (source->n_samples == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: holds no sample; set data_dir to another file",
                          vp_file_set_path(state->set, state->file));
    return VP_OK;
}

/* ---- Samples ------------------------------------------------------------ */

static enum vp_status read_sample(const struct vp_source *source, int64_t i,
                                  int32_t *ids_out,
                                  struct vp_chid_sample *sample_out,
                                  struct vp_err *err)
{
    const struct chid_state *state = source->state;
    struct vp_chid_reader reader;
    struct vp_chid_sample sample = { .max_ids = state->longest };

    vp_chid_seek(&reader, state->set, state->file, state->vocab,
                 state->offsets[i / state->step]);
    for (int64_t skipped = i % state->step; skipped > 0; skipped--)
        VP_TRY(vp_chid_next(&reader, &sample, err));
    sample.ids = ids_out;
    VP_TRY(vp_chid_next(&reader, &sample, err));
    *sample_out = sample;
    return VP_OK;
}

static enum vp_status chid_sequence(const struct vp_source *source, int64_t i,
                                    int32_t *ids_out, int64_t *n_out,
                                    struct vp_err *err)
{
    struct vp_chid_sample sample;

    VP_TRY(read_sample(source, i, ids_out, &sample, err));
    *n_out = sample.n_ids;
    return VP_OK;
}

static enum vp_status chid_answer(const struct vp_source *source, int64_t i,
                                  int32_t *choice_out, struct vp_err *err)
{
    struct vp_chid_sample sample;

    VP_TRY(read_sample(source, i, NULL, &sample, err));
    *choice_out = (int32_t)sample.truth;
    return VP_OK;
}

/* ---- Opening ------------------------------------------------------------ */

static enum vp_status check_use(const struct vp_data_config *config,
                                struct vp_err *err)
{
    if (!config->path)
        return vp_err_set(err, VP_ERR_INVALID,
                          "no CHID file is given; set data_dir to its folder, "
                          "or synthetic_data to true");
    if (config->task != VP_DATA_CAUSAL_LM)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: CHID files are for cpm and gpt2; set model_type "
                          "to cpm, or data_dir to other data",
                          config->path);
    if (config->vocab > 0 && config->vocab <= PAD)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: vocab is %lld, but padding has id %d; set vocab "
                          "to that of CPM, 30000",
                          config->path, (long long)config->vocab, PAD);
    return VP_OK;
}

static void chid_close(struct vp_source *source)
{
    struct chid_state *state = source->state;

    vp_file_set_free(state->set);
    free(state->offsets);
    free(state);
}

static enum vp_status open_state(const struct vp_data_config *config,
                                 int max_offsets, struct chid_state *state,
                                 struct vp_source *source, struct vp_err *err)
{
    state->max_offsets = max_offsets > 0 ? max_offsets : MAX_OFFSETS;
    state->step = 1;
    state->vocab = config->vocab ? config->vocab : VP_CHID_MAX_VOCAB;
    state->seq = config->dims[0].seq;
    state->set = vp_file_set_create();
    state->offsets = calloc((size_t)state->max_offsets,
                            sizeof(*state->offsets));
    if (!state->set || !state->offsets)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", config->path);
    VP_TRY(add_file(config, state, source, err));
    return scan(state, source, err);
}

enum vp_status vp_chid_open(const struct vp_data_config *config,
                            int max_offsets, struct vp_source *source,
                            struct vp_err *err)
{
    struct chid_state *state;
    enum vp_status st;

    VP_TRY(check_use(config, err));
    state = calloc(1, sizeof(*state));
    if (!state)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", config->path);
    source->state = state;
    st = open_state(config, max_offsets, state, source, err);
    if (st != VP_OK) {
        chid_close(source);
        return st;
    }
    source->vocab = state->vocab;
    source->pad = PAD;
    source->n_survey = SURVEY;
    snprintf(source->what, sizeof(source->what),
             "CHID: %lld samples of at most %lld tokens",
             (long long)source->n_samples, (long long)state->longest);
    return VP_OK;
}

static enum vp_status chid_open(const struct vp_data_config *config,
                                const struct vp_data_window *window,
                                struct vp_source *source, struct vp_err *err)
{
    (void)window; /* samples are stored, not cut */
    return vp_chid_open(config, 0, source, err);
}

const struct vp_source_ops vp_source_chid = {
    .name = "CHID",
    .open = chid_open,
    .close = chid_close,
    .sequence = chid_sequence,
    .answer = chid_answer,
};
