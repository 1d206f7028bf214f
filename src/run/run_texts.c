/* Reads prompts, generates or translates with a copy of the weights, and passes
 * the texts to a sink. */
#include "run/run_texts.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "hf/generation.h"
#include "run/generate.h"
#include "run/model_text.h"
#include "run/translate.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct prompt {
    char *line;
    struct vp_sequence sequence;
    int32_t *ids; /* [sample_tokens] generated ids */
    int n_ids;
};

struct vp_run_texts {
    const struct vp_config *config;
    struct vp_model_text *text; /* NULL: prompts are ids */
    struct vp_arena arena;
    struct prompt *prompts;
    struct vp_sequence *sequences; /* [n] sequences of the prompts */
    int64_t n;
};

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "texts of a run: out of memory; give fewer prompts");
}

static bool translates(const struct vp_run_texts *texts)
{
    return texts->config->model->task == VP_TASK_TRANSLATION;
}

int64_t vp_run_texts_every(const struct vp_run_texts *texts)
{
    return translates(texts) ? texts->config->translate_every
                             : texts->config->generate_every;
}

/* ---- Prompts ------------------------------------------------------------ */

/* Encodes a line; its ids are in the arena. */
static enum vp_status encode(struct vp_run_texts *texts, const char *line,
                             size_t n_bytes, struct vp_sequence *out,
                             struct vp_err *err)
{
    struct vp_ids ids = { .n = 0 };
    enum vp_status st;
    int32_t *copy;

    if (!texts->text) {
        copy = vp_arena_alloc(&texts->arena, (n_bytes + 1) * sizeof(*copy));
        return copy ? vp_sequence_parse(line, n_bytes, copy, out, err)
                    : no_memory(err);
    }
    st = vp_model_text_encode(texts->text, line, n_bytes, &ids);
    copy = vp_arena_alloc(&texts->arena, (ids.n + 1) * sizeof(*copy));
    if (st == VP_OK && copy) {
        for (size_t i = 0; i < ids.n; i++)
            copy[i] = (int32_t)ids.at[i];
        *out = (struct vp_sequence){ .ids = copy, .n_ids = (int64_t)ids.n };
    }
    vp_ids_release(&ids);
    return st == VP_OK && copy ? VP_OK : no_memory(err);
}

static enum vp_status add_prompt(struct vp_run_texts *texts, const char *line,
                                 size_t n_bytes, struct vp_err *err)
{
    struct prompt *prompt = &texts->prompts[texts->n];
    size_t n_ids = (size_t)texts->config->sample_tokens;

    if (!vp_utf8_is_valid(VP_UTF8_TEXT, (const unsigned char *)line, n_bytes))
        return vp_err_set(err, VP_ERR_INVALID,
                          "is not UTF-8; correct the line");
    prompt->line = vp_arena_alloc(&texts->arena, n_bytes + 1);
    prompt->ids = vp_arena_alloc(&texts->arena, n_ids * sizeof(*prompt->ids));
    if (!prompt->line || !prompt->ids)
        return no_memory(err);
    memcpy(prompt->line, line, n_bytes);
    prompt->line[n_bytes] = '\0';
    VP_TRY(encode(texts, line, n_bytes, &prompt->sequence, err));
    VP_TRY(vp_sequence_check(&texts->config->sizes, texts->n,
                             prompt->sequence.ids, prompt->sequence.n_ids,
                             err));
    texts->sequences[texts->n++] = prompt->sequence;
    return VP_OK;
}

static enum vp_status add_lines(struct vp_run_texts *texts, const char *bytes,
                                size_t n_bytes, struct vp_err *err)
{
    const char *path = texts->config->sample_prompts, *end = bytes + n_bytes;
    size_t n_lines = 1;

    for (size_t i = 0; i < n_bytes; i++)
        n_lines += bytes[i] == '\n';
    texts->prompts = vp_arena_alloc(&texts->arena,
                                    n_lines * sizeof(*texts->prompts));
    texts->sequences = vp_arena_alloc(&texts->arena,
                                      n_lines * sizeof(*texts->sequences));
    if (!texts->prompts || !texts->sequences)
        return no_memory(err);
    for (const char *line = bytes; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((stop ? stop : end) - line);
        enum vp_status st;

        st = add_prompt(texts, line, n - (n > 0 && line[n - 1] == '\r'), err);
        if (st != VP_OK)
            vp_err_prefix(err, "%s:%lld", path, (long long)texts->n + 1);
        VP_TRY(st);
        line += n + 1;
    }
    return texts->n > 0 ? VP_OK
                        : vp_err_set(err, VP_ERR_INVALID,
                                     "%s: has no prompt; write one on each "
                                     "line",
                                     path);
}

static enum vp_status read_prompts(struct vp_run_texts *texts,
                                   struct vp_err *err)
{
    const struct vp_config *config = texts->config;
    int32_t end = translates(texts) ? vp_translation_ids(&config->sizes).end
                                    : -1;
    size_t n_bytes;
    char *bytes;
    enum vp_status st;

    VP_TRY(vp_model_text_open(config, end, &texts->text, err));
    VP_TRY(vp_file_read(config->sample_prompts, "text", &bytes, &n_bytes, err));
    st = add_lines(texts, bytes, n_bytes, err);
    free(bytes);
    return st;
}

enum vp_status vp_run_texts_open(const struct vp_config *config,
                                 struct vp_run_texts **out, struct vp_err *err)
{
    struct vp_run_texts *texts;
    enum vp_status st;

    *out = NULL;
    if (config->generate_every == 0 && config->translate_every == 0)
        return VP_OK;
    texts = calloc(1, sizeof(*texts));
    if (!texts)
        return no_memory(err);
    texts->config = config;
    st = read_prompts(texts, err);
    if (st != VP_OK) {
        vp_run_texts_close(texts);
        return st;
    }
    *out = texts;
    return VP_OK;
}

void vp_run_texts_close(struct vp_run_texts *texts)
{
    if (!texts)
        return;
    vp_model_text_free(texts->text);
    vp_arena_release(&texts->arena);
    free(texts);
}

/* ---- Weights ------------------------------------------------------------ */

/* Copies of a trainer's weights. Needed because several threads call the
 * loader, but only this thread may read from the trainer's device. */
struct weights {
    const struct vp_graph *graph;
    float **at; /* [n_params]; NULL: a constant, or tied to another */
};

static void weights_release(struct weights *weights)
{
    for (int i = 0; weights->at && i < weights->graph->n_params; i++)
        free(weights->at[i]);
    free(weights->at);
}

static enum vp_status copy_weights(const struct vp_trainer *trainer,
                                   struct weights *weights, struct vp_err *err)
{
    const struct vp_graph *graph = weights->graph;
    enum vp_status st;

    weights->at = calloc((size_t)graph->n_params + 1, sizeof(*weights->at));
    if (!weights->at)
        return no_memory(err);
    for (int i = 0; i < graph->n_params; i++) {
        const struct vp_param *param = &graph->params[i];

        if (param->constant || param->tied_to != VP_NONE)
            continue;
        weights->at[i] = malloc((size_t)(param->rows * param->cols) *
                                sizeof(float));
        if (!weights->at[i])
            return no_memory(err);
        st = vp_trainer_get_weights(trainer, i, 0, weights->at[i]);
        if (st != VP_OK)
            return vp_err_set(err, st,
                              "texts of a run: parameter %d cannot be read", i);
    }
    return VP_OK;
}

static enum vp_status load(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err)
{
    const struct weights *weights = ctx;
    const struct vp_graph *graph = weights->graph;

    for (int i = 0; i < graph->n_params; i++) {
        const struct vp_param *param = &graph->params[i];

        for (int k = 0; weights->at[i] && k < param->n_parts; k++) {
            const struct vp_part *part = &param->part[k];

            if (strcmp(part->name, item->name) != 0)
                continue;
            VP_BUG_ON(part->rows != item->rows || param->cols != item->cols);
            memcpy(out, weights->at[i] + part->row * param->cols,
                   (size_t)(part->rows * param->cols) * sizeof(*out));
            return VP_OK;
        }
    }
    return vp_err_set(err, VP_ERR_INVALID, "the run has no tensor %s",
                      item->name);
}

/* ---- Generating --------------------------------------------------------- */

static enum vp_status take_token(void *ctx, int64_t k, int32_t id,
                                 bool *stop_out, struct vp_err *err)
{
    struct prompt *prompt = &((struct vp_run_texts *)ctx)->prompts[k];

    (void)stop_out;
    (void)err;
    prompt->ids[prompt->n_ids++] = id;
    return VP_OK;
}

static enum vp_status take_translation(void *ctx, int64_t k,
                                       const struct vp_translation *translation,
                                       struct vp_err *err)
{
    struct prompt *prompt = &((struct vp_run_texts *)ctx)->prompts[k];

    (void)err;
    memcpy(prompt->ids, translation->ids,
           (size_t)translation->n_ids * sizeof(*prompt->ids));
    prompt->n_ids = translation->n_ids;
    return VP_OK;
}

static void ignore(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

/* Generates greedily; texts end as those of `vpipe generate`. */
static enum vp_status generate(struct vp_run_texts *texts,
                               struct vp_generate_config *with,
                               const char *folder, struct vp_err *err)
{
    int32_t end = texts->text ? vp_model_text_end(texts->text) : -1;
    struct vp_hf_end_ids ends = { .n = 0 };

    if (folder)
        VP_TRY(vp_hf_read_end_ids(folder, &ends, err));
    if (ends.n == 0 && end >= 0)
        ends.at[ends.n++] = end;
    with->end_ids = ends.at;
    with->n_end_ids = ends.n;
    return vp_generate(with, err);
}

static enum vp_status translate(struct vp_run_texts *texts,
                                struct vp_translate_config *with,
                                const char *folder, struct vp_err *err)
{
    VP_TRY(vp_translation_search_read(folder, &with->config->sizes, VP_BEAM_HF,
                                      &with->search, err));
    with->search.max_tokens = texts->config->sample_tokens;
    return vp_translate(with, err);
}

static enum vp_status run_model(struct vp_run_texts *texts,
                                const struct vp_config *config,
                                const struct vp_model_source *source,
                                struct vp_err *err)
{
    struct vp_generate_config generation = {
        .config = config,
        .source = source,
        .prompts = texts->sequences,
        .n_prompts = texts->n,
        .max_tokens = texts->config->sample_tokens,
        .sampling = VP_SAMPLE_GREEDY,
        .sink = { texts, take_token, NULL },
        .notice = ignore,
    };
    struct vp_translate_config translation = {
        .config = config,
        .source = source,
        .sentences = texts->sequences,
        .n_sentences = texts->n,
        .sink = { texts, take_translation },
        .notice = ignore,
    };
    char path[PATH_MAX];
    const char *folder = vp_model_source_origin(source, path) ? path : NULL;

    for (int64_t k = 0; k < texts->n; k++)
        texts->prompts[k].n_ids = 0;
    return translates(texts) ? translate(texts, &translation, folder, err)
                             : generate(texts, &generation, folder, err);
}

/* Uses the stages and threads of the run; its schedule and partition are for
 * training only. */
static enum vp_status open_and_run(struct vp_run_texts *texts,
                                   const struct vp_model_source *source,
                                   struct vp_err *err)
{
    static const char *const devices[] = { [VP_DEVICE_KIND_AUTO] = "auto",
                                           [VP_DEVICE_KIND_CPU] = "cpu",
                                           [VP_DEVICE_KIND_CUDA] = "cuda" };
    const struct vp_config *run = texts->config;
    char stages[32], threads[48], device[32];
    const char *const sets[] = { "synthetic_data=true", stages, threads,
                                 device };
    struct vp_config config;
    enum vp_status st;

    snprintf(stages, sizeof(stages), "stages=%d", run->stages);
    snprintf(threads, sizeof(threads), "threads_per_stage=%d",
             run->threads_per_stage);
    snprintf(device, sizeof(device), "device=%s", devices[run->device]);
    st = vp_model_source_config(source, sets, VP_COUNT_OF(sets), &config, err);
    if (st == VP_OK)
        st = run_model(texts, &config, source, err);
    vp_config_release(&config);
    return st;
}

static enum vp_status report_texts(struct vp_run_texts *texts,
                                   const struct vp_run_text_sink *sink,
                                   struct vp_err *err)
{
    enum vp_status st = VP_OK;

    for (int64_t k = 0; k < texts->n && st == VP_OK; k++) {
        const struct prompt *prompt = &texts->prompts[k];
        struct vp_run_text text = { .number = k + 1, .prompt = prompt->line };
        struct vp_strbuf line = VP_STRBUF_INIT;

        if (texts->text)
            st = vp_model_text_decode(texts->text, prompt->ids, prompt->n_ids,
                                      &line, err);
        for (int i = 0; !texts->text && i < prompt->n_ids; i++)
            vp_strbuf_addf(&line, "%s%d", i > 0 ? " " : "", prompt->ids[i]);
        if (st == VP_OK && line.failed)
            st = no_memory(err);
        text.text = vp_strbuf_text(&line);
        if (st == VP_OK)
            st = sink->take(sink->ctx, &text, err);
        vp_strbuf_release(&line);
    }
    return st;
}

enum vp_status vp_run_texts_make(struct vp_run_texts *texts,
                                 const struct vp_trainer *trainer,
                                 const struct vp_graph *graph, const char *run,
                                 const struct vp_run_text_sink *sink,
                                 struct vp_err *err)
{
    struct weights weights = { .graph = graph };
    const struct vp_loader loader = { .ctx = &weights, .load = load };
    struct vp_model_source *source = NULL;
    enum vp_status st = copy_weights(trainer, &weights, err);

    if (st == VP_OK)
        st = vp_model_source_live(run, &loader, &source, err);
    if (st == VP_OK)
        st = open_and_run(texts, source, err);
    vp_model_source_close(source);
    weights_release(&weights);
    return st == VP_OK ? report_texts(texts, sink, err) : st;
}
