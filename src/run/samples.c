/* Opens training and evaluation data, encodes text with the tokenizer if
 * needed, and shares the description of the data with other processes. */
#include "run/samples.h"

#include "base/clock.h"
#include "data/bert/make.h"
#include "data/corpus/cache.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>

/* Time between two progress lines while text is encoded. */
#define ENCODING_NS INT64_C(10000000000)

static enum vp_data_task data_task(enum vp_task task)
{
    switch (task) {
    case VP_TASK_CAUSAL_LM:
        return VP_DATA_CAUSAL_LM;
    case VP_TASK_TRANSLATION:
        return VP_DATA_PAIRS;
    default: /* custom models use open_made(), which ignores the task */
        return VP_DATA_MASKED_LM;
    }
}

static struct vp_data_config data_config(const struct vp_samples_config *plan,
                                         bool eval)
{
    const struct vp_config *config = plan->config;

    return (struct vp_data_config){
        .source = config->synthetic_data ? VP_DATA_SYNTHETIC : VP_DATA_FILES,
        .task = data_task(config->model->task),
        .path = config->data_dir,
        .format = (enum vp_data_format)config->data_format,
        .valid_split = config->valid_split,
        .source_lang = config->source_lang,
        .target_lang = config->target_lang,
        .pad = config->sizes.pad,
        .batch_multiple = config->batch_multiple,
        .has_document_end = config->document_end >= 0,
        .document_end = config->document_end,
        .text_key = config->text_key,
        .replace_invalid = config->replace_invalid_utf8,
        .split = eval ? VP_DATA_EVAL : VP_DATA_TRAIN,
        .whole = plan->whole,
        .vocab = config->sizes.vocab,
        .vocab_place = vp_config_place(config, "vocab"),
        .seed = config->seed,
        .mask_prob = 0.15f,
        .random_next = config->random_next,
        .dims = plan->dims,
        .n_dims = plan->n_dims,
        .max_batches = eval && !config->forward_only ? 0
                                                     : config->num_minibatches,
    };
}

static bool must_evaluate(const struct vp_samples_config *plan)
{
    return plan->config->eval_every > 0 || plan->config->forward_only ||
           plan->eval_only;
}

static bool evaluates(const struct vp_samples_config *plan)
{
    return must_evaluate(plan) || plan->evaluates;
}

/* Opens data whose batches come from callbacks of the caller. */
static enum vp_status open_made(const struct vp_samples_config *plan,
                                struct vp_samples *samples, struct vp_err *err)
{
    struct vp_data_config config = data_config(plan, false);

    if (plan->config->eval_every > 0 && !plan->eval_maker)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: key 'eval_every' needs batches for evaluation, "
                          "and the data callback has none; remove the key",
                          vp_config_place(plan->config, "eval_every"));
    VP_TRY(vp_data_open_made(&config, plan->train_maker, &samples->train, err));
    if (!plan->eval_maker)
        return VP_OK;
    return vp_data_open_made(&config, plan->eval_maker, &samples->eval, err);
}

/* Opens stand-ins: planning needs only the number of batches and the unigram
 * loss. */
static enum vp_status stand_in(const struct vp_samples_config *plan,
                               struct vp_samples *samples, struct vp_err *err)
{
    struct vp_data_config train = data_config(plan, false);
    struct vp_data_config eval = data_config(plan, true);
    const char *path = plan->config->data_dir;
    struct vp_data_info info = { .what = "not opened", .unigram_loss = NAN };
    const struct vp_data_maker none = { .n_batches = 0 };
    char what[256];

    if (plan->config->custom) /* its shapes are not those of a task */
        return vp_data_open_made(&train, &none, &samples->train, err);
    if (!plan->no_data) {
        vp_missing_add(plan->missing, "the data (data_dir %s cannot be read)",
                       path);
        snprintf(what, sizeof(what), "%.200s: not on this machine", path);
        info.what = what;
    }
    VP_TRY(vp_data_stand_in(&train, &info, &samples->train, err));
    return evaluates(plan) ? vp_data_stand_in(&eval, &info, &samples->eval, err)
                           : VP_OK;
}

static enum vp_status check_vocab(const struct vp_config *config, int64_t vocab,
                                  struct vp_err *err)
{
    if (vocab <= config->sizes.vocab)
        return VP_OK;
    return vp_err_set(
        err, VP_ERR_INVALID,
        "%s: vocab is %lld but the data uses token ids up to %lld; set "
        "vocab to at least %lld",
        vp_config_place(config, "vocab"), (long long)config->sizes.vocab,
        (long long)vocab - 1, (long long)vocab);
}

/* Opens the data, and refuses ids that the model does not have. Prepends the
 * place of the key to blame, if the error names one. */
static enum vp_status open_data(const struct vp_config *config,
                                const struct vp_data_config *data,
                                struct vp_data **out, struct vp_err *err)
{
    enum vp_status st = vp_data_open(data, out, err);

    if (st == VP_OK)
        return check_vocab(config, vp_data_info(*out)->vocab, err);
    if (err && err->fields && err->fields[0])
        vp_err_prefix(err, "%s", vp_config_blame(config, err->fields));
    return st;
}

/* ---- Encoding text ------------------------------------------------------ */

/* Encoded text, and BERT's special tokens. */
struct encoded {
    struct vp_corpus_cached cached;
    char bytes[PATH_MAX + 16]; /* file with the bytes of the text; "": none */
    struct vp_bert_ids special;
    bool is_bert;
};

struct encoding {
    const struct vp_samples_config *plan;
    int64_t said_ns; /* time of the last progress line */
    bool is_bytes;   /* there is no tokenizer */
};

/* Prints a line every ten seconds. Returns false if the run was interrupted. */
static bool show_encoding(void *ctx, const struct vp_corpus_progress *progress)
{
    struct encoding *encoding = ctx;
    const struct vp_samples_config *plan = encoding->plan;
    int64_t now = vp_clock_ns();
    char line[256];

    if (now - encoding->said_ns >= ENCODING_NS) {
        encoding->said_ns = now;
        if (progress->n_bytes_all > 0)
            snprintf(line, sizeof(line),
                     encoding->is_bytes
                         ? "text: %.0f %% copied to .vpipe-cache, %lld bytes"
                         : "tokenizer: %.0f %% encoded, %lld tokens",
                     100.0 * (double)progress->n_bytes /
                         (double)progress->n_bytes_all,
                     (long long)progress->n_tokens);
        else
            snprintf(line, sizeof(line),
                     "%s: waiting for another process that %s the text",
                     encoding->is_bytes ? "text" : "tokenizer",
                     encoding->is_bytes ? "copies" : "encodes");
        plan->notice(plan->ctx, line);
    }
    return !plan->stop || !*plan->stop;
}

static int count_cores(void)
{
    cpu_set_t usable;

    return sched_getaffinity(0, sizeof(usable), &usable) == 0
               ? CPU_COUNT(&usable)
               : 1;
}

static enum vp_status find_encoded(const struct vp_samples_config *plan,
                                   const struct vp_tokenizer *tokenizer,
                                   struct vp_corpus_cached *out,
                                   struct vp_err *err)
{
    const struct vp_config *config = plan->config;
    struct encoding encoding = { plan, vp_clock_ns(), !tokenizer };
    struct vp_corpus_cache_config cache = {
        .data = config->data_dir,
        .tokenizer = tokenizer,
        .text_key = config->text_key,
        .replace = config->replace_invalid_utf8,
        .sentences = config->model->task == VP_TASK_MASKED_LM,
        .valid_split = config->valid_split,
        .n_threads = count_cores(),
        .progress = show_encoding,
        .ctx = &encoding,
    };
    char line[512];

    VP_TRY(vp_corpus_cache(&cache, out, err));
    if (!tokenizer)
        snprintf(line, sizeof(line), "text: bytes %s %.300s",
                 out->is_new ? "kept in" : "of an earlier run in", out->folder);
    else if (out->is_new)
        snprintf(line, sizeof(line),
                 "tokenizer: %lld documents encoded to %lld tokens, kept in "
                 "%.300s",
                 (long long)out->made.n_documents,
                 (long long)out->made.n_tokens, out->folder);
    else
        snprintf(line, sizeof(line),
                 "tokenizer: tokens of an earlier run in "
                 "%.300s",
                 out->folder);
    plan->notice(plan->ctx, line);
    return VP_OK;
}

static bool is_text(const struct vp_config *config)
{
    return config->data_format == VP_FORMAT_TEXT ||
           (config->data_format == VP_FORMAT_AUTO &&
            vp_corpus_is_text(config->data_dir));
}

/* Copies text that is read byte by byte to the cache if it is too large for
 * memory. */
static enum vp_status keep_bytes(const struct vp_samples_config *plan,
                                 struct encoded *out, struct vp_err *err)
{
    const struct vp_config *config = plan->config;
    bool is_large = false;

    if (config->model->task == VP_TASK_TRANSLATION || !is_text(config))
        return VP_OK;
    VP_TRY(vp_corpus_is_large_at(config->data_dir, &is_large, err));
    if (!is_large)
        return VP_OK;
    VP_TRY(find_encoded(plan, NULL, &out->cached, err));
    snprintf(out->bytes, sizeof(out->bytes), "%s/%s", out->cached.folder,
             VP_CORPUS_BYTES_NAME);
    return VP_OK;
}

/* Sets cached.folder to "" if the text is read without encoding, or if the data
 * is not text. Sets `special` to the ids of BERT's tokens if they are
 * needed. */
static enum vp_status encode_text(const struct vp_samples_config *plan,
                                  struct encoded *out, struct vp_err *err)
{
    const struct vp_config *config = plan->config;
    struct vp_tokenizer *tokenizer;
    enum vp_status st = VP_OK;

    out->cached.folder[0] = 0;
    out->bytes[0] = 0;
    out->is_bert = false;
    /* 'vpipe data pairs' encodes parallel text before the run. */
    if (config->synthetic_data ||
        (config->tokenizer && config->model->task == VP_TASK_TRANSLATION))
        return VP_OK;
    if (!config->tokenizer)
        return keep_bytes(plan, out, err);
    VP_TRY(vp_tokenizer_open(config->tokenizer, &tokenizer, err));
    if (config->model->task == VP_TASK_MASKED_LM) {
        st = vp_bert_ids_of(tokenizer, &out->special, err);
        out->is_bert = st == VP_OK;
    }
    if (st == VP_OK && is_text(config))
        st = find_encoded(plan, tokenizer, &out->cached, err);
    vp_tokenizer_free(tokenizer);
    return st;
}

/* Changes `data` to read the encoded files. */
static void use_encoded(const struct encoded *encoded,
                        struct vp_data_config *data)
{
    if (encoded->is_bert) {
        data->has_special = true;
        data->pad_token = encoded->special.pad;
        data->cls_token = encoded->special.cls;
        data->sep_token = encoded->special.sep;
        data->mask_token = encoded->special.mask;
    }
    if (encoded->bytes[0])
        data->text_bytes = encoded->bytes;
    if (encoded->cached.folder[0] == 0 || encoded->bytes[0])
        return;
    data->path = encoded->cached.folder;
    data->format = encoded->is_bert ? VP_FORMAT_MEGATRON : VP_FORMAT_LLMC;
    data->valid_split = NULL; /* encoded files have names of their own */
}

static enum vp_status open_files(const struct vp_samples_config *plan,
                                 struct vp_samples *samples, struct vp_err *err)
{
    struct vp_data_config train = data_config(plan, false);
    struct vp_data_config eval = data_config(plan, true);
    const struct vp_config *config = plan->config;
    const struct vp_data *first;
    struct encoded encoded;

    if (plan->no_data ||
        (plan->missing && vp_config_find_data(config, NULL) != VP_OK))
        return stand_in(plan, samples, err);
    VP_TRY(vp_config_find_data(config, err));
    VP_TRY(encode_text(plan, &encoded, err));
    use_encoded(&encoded, &train);
    use_encoded(&encoded, &eval);
    if (!plan->eval_only)
        VP_TRY(open_data(config, &train, &samples->train, err));
    if (must_evaluate(plan))
        VP_TRY(open_data(config, &eval, &samples->eval, err));
    else if (plan->evaluates) /* optional: too little data holds out none */
        (void)!open_data(config, &eval, &samples->eval, NULL);
    first = plan->eval_only ? samples->eval : samples->train;
    for (int i = 0; vp_data_notice(first, i); i++)
        plan->notice(plan->ctx, vp_data_notice(first, i));
    return VP_OK;
}

/* ---- Several processes -------------------------------------------------- */

static bool is_lead(const struct vp_samples_config *plan)
{
    return vp_world_is_mine(plan->world, vp_world_lead(plan->world));
}

/* Returns true if this process opens the files: ranks of the first stage read
 * samples, and the lead describes them to the others. */
static bool reads(const struct vp_samples_config *plan)
{
    const struct vp_int_list *replicas = &plan->config->replicas;

    int n_groups = replicas->n > 0 ? replicas->at[0] : 1;

    for (int r = 0; r < n_groups * plan->config->mp_size; r++)
        if (vp_world_is_mine(plan->world, r))
            return true;
    return is_lead(plan);
}

/* Sends the description of the lead's `*data`. Processes without data get a
 * stand-in. */
static enum vp_status share(const struct vp_samples_config *plan, bool eval,
                            struct vp_data **data, struct vp_err *err)
{
    struct vp_data_config config = data_config(plan, eval);
    struct {
        struct vp_data_info info;
        char what[256];
    } told = { .what = "" };

    if (is_lead(plan)) {
        told.info = *vp_data_info(*data);
        snprintf(told.what, sizeof(told.what), "%s", told.info.what);
    }
    if (vp_world_share(plan->world, &told, sizeof(told), VP_LIMIT_NEVER) !=
        VP_OK)
        return vp_err_set(err, VP_ERR_ABORTED,
                          "data: process 0 has ended; see its messages");
    told.info.what = told.what;
    return *data ? VP_OK : vp_data_stand_in(&config, &told.info, data, err);
}

static enum vp_status open_together(const struct vp_samples_config *plan,
                                    struct vp_samples *samples,
                                    struct vp_err *err)
{
    enum vp_status st = reads(plan) ? open_files(plan, samples, err) : VP_OK;

    st = vp_world_agree(plan->world, st, VP_LIMIT_NEVER, err);
    samples->agreed = st != VP_OK;
    VP_TRY(st);
    if (!plan->eval_only)
        VP_TRY(share(plan, false, &samples->train, err));
    return evaluates(plan) ? share(plan, true, &samples->eval, err) : VP_OK;
}

enum vp_status vp_samples_open(const struct vp_samples_config *config,
                               struct vp_samples *out, struct vp_err *err)
{
    if (config->train_maker)
        return open_made(config, out, err);
    return config->world ? open_together(config, out, err)
                         : open_files(config, out, err);
}

void vp_samples_close(struct vp_samples *samples)
{
    vp_data_close(samples->eval);
    vp_data_close(samples->train);
}
