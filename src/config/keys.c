/* The table of keys. Order matters: rows are applied from top to bottom, so a
 * row may rely on those above it. */
#include "config/keys.h"

#include "config/module.h"
#include "data/data_detect.h"
#include "runtime/trainer/trainer.h"
#include "sched/schedule.h"

#include <stddef.h>
#include <string.h>

#define AT(field) offsetof(struct vp_config, field)
#define MAX_COUNT 1e12 /* steps, samples: any run ends before */

/* ---- Words -------------------------------------------------------------- */

#define WORD_FROM(list, i) ((size_t)(i) < VP_COUNT_OF(list) ? (list)[i] : NULL)

/* A feed-forward layer without an activation would be one product. */
static const char *activation_word(int i)
{
    static const char *const words[] = {
        [VP_ACT_NONE] = "",
        [VP_ACT_RELU] = "relu",
        [VP_ACT_GELU_ERF] = "gelu",
        [VP_ACT_GELU_TANH] = "gelu_tanh",
    };
    return WORD_FROM(words, i);
}

static const char *reduce_word(int i)
{
    static const char *const words[] = { "exact", "fast" };

    return WORD_FROM(words, i);
}

static const char *invalid_utf8_word(int i)
{
    static const char *const words[] = { "refuse", "replace" };

    return WORD_FROM(words, i);
}

static const char *data_format_word(int i)
{
    return vp_data_format_name(i);
}

static const char *kernels_word(int i)
{
    static const char *const words[] = { "fast", "reference" };

    return WORD_FROM(words, i);
}

static const char *device_word(int i)
{
    static const char *const words[] = {
        [VP_DEVICE_KIND_AUTO] = "auto",
        [VP_DEVICE_KIND_CPU] = "cpu",
        [VP_DEVICE_KIND_CUDA] = "cuda",
    };
    return WORD_FROM(words, i);
}

static const char *precision_word(int i)
{
    static const char *const words[] = {
        [VP_PRECISION_FP32] = "fp32", [VP_PRECISION_TF32] = "tf32",
        [VP_PRECISION_BF16] = "bf16", [VP_PRECISION_FP16] = "fp16",
        [VP_PRECISION_AUTO] = "auto",
    };
    return WORD_FROM(words, i);
}

static const char *optimizer_word(int i)
{
    return i < VP_OPTIM_KIND_COUNT ? vp_optim_name(i) : NULL;
}

static const char *policy_word(int i)
{
    return i < VP_LR_POLICY_COUNT ? vp_lr_name(i) : NULL;
}

static const char *auto_plan_word(int i)
{
    static const char *const words[] = {
        [VP_AUTO_PLAN_OFF] = "false",
        [VP_AUTO_PLAN_ON] = "true",
        [VP_AUTO_PLAN_AGAIN] = "again",
    };
    return WORD_FROM(words, i);
}

static const char *sync_word(int i)
{
    static const char *const words[] = {
        [VP_SYNC_BSP] = "bsp",
        [VP_SYNC_ASP] = "asp",
    };
    return WORD_FROM(words, i);
}

/* Forwards alone train nothing. */
static const char *schedule_word(int i)
{
    const struct vp_generator *generator = vp_generator_at(i);

    if (!generator)
        return NULL;
    return generator->forward_only ? "" : generator->name;
}

/* The transports that work; the others are named in the table. */
static const char *backend_word(int i)
{
    static const char *const words[] = {
        [VP_TRANSPORT_LOCAL] = "local",
        [VP_TRANSPORT_GLOO] = "gloo",
        [VP_TRANSPORT_MPI] = "mpi",
        [VP_TRANSPORT_NCCL] = "nccl",
    };
    return WORD_FROM(words, i);
}

static const char *verbose_word(int i)
{
    static const char *const words[VP_VERBOSE_COUNT] = {
        [VP_VERBOSE_STAGES] = "stages",
        [VP_VERBOSE_TENSORS] = "tensors",
        [VP_VERBOSE_VERSIONS] = "versions",
        [VP_VERBOSE_COMMUNICATION] = "communication",
        [VP_VERBOSE_TIME] = "time",
    };
    return WORD_FROM(words, i);
}

static const char *scope_word(int i)
{
    static const char *const words[] = { "all", "stage" };

    return WORD_FROM(words, i);
}

/* ---- Where a key means something ---------------------------------------- */

static bool is_masked_lm(const struct vp_config *config)
{
    return config->model->task == VP_TASK_MASKED_LM;
}

static bool is_causal_lm(const struct vp_config *config)
{
    return config->model->task == VP_TASK_CAUSAL_LM;
}

static bool is_translation(const struct vp_config *config)
{
    return config->model->task == VP_TASK_TRANSLATION;
}

/* A custom model has its sizes in its operators, and its data from its caller. */
static bool is_in_table(const struct vp_config *config)
{
    return !config->model->custom;
}

static bool has_modules(const struct vp_config *config)
{
    return vp_module_at(config->model, 0);
}

static bool has_second_moment(const struct vp_config *config)
{
    return vp_optim_n_moments(config->optim.kind) == 2;
}

static bool is_bsp(const struct vp_config *config)
{
    return config->sync_mode == VP_SYNC_BSP;
}

static bool is_asp(const struct vp_config *config)
{
    return config->sync_mode == VP_SYNC_ASP;
}

static bool has_chunks(const struct vp_config *config)
{
    return vp_generator_at(config->schedule)->chunks;
}

static bool is_planned(const struct vp_config *config)
{
    return vp_generator_at(config->schedule)->planned;
}

static bool has_memory(const struct vp_config *config)
{
    return vp_generator_at(config->schedule)->memory || is_planned(config);
}

/* ---- Defaults that depend on an earlier key ----------------------------- */

/* The optimizers are the original's, but for causal models the one they are
 * usually published with. */
static void after_model(struct vp_config *config)
{
    static const enum vp_optim_kind kind[] = {
        [VP_TASK_MASKED_LM] = VP_OPTIM_LAMB,
        [VP_TASK_CAUSAL_LM] = VP_OPTIM_ADAMW,
        [VP_TASK_TRANSLATION] = VP_OPTIM_ADAM,
        [VP_TASK_CUSTOM] = VP_OPTIM_ADAMW,
    };

    config->sizes = config->model->sizes[0].config;
    config->optim.kind = kind[config->model->task];
    config->batch_size = is_translation(config) ? 2560 : 8;
    config->batch_multiple = is_translation(config) ? 16 : 0;
}

static void after_optimizer(struct vp_config *config)
{
    static const float rate[VP_OPTIM_KIND_COUNT] = {
        [VP_OPTIM_SGD] = 0.1f,
        [VP_OPTIM_ADAM] = 5e-4f,
        [VP_OPTIM_ADAMW] = 5e-4f,
        [VP_OPTIM_LAMB] = 2e-3f,
    };

    config->optim = vp_optim_defaults(config->optim.kind);
    config->lr.base = rate[config->optim.kind];
}

static void after_no_input_pipelining(struct vp_config *config)
{
    config->prefetch = config->no_input_pipelining ? 0 : 2;
}

static void after_policy(struct vp_config *config)
{
    bool plain = config->lr.policy == VP_LR_CONSTANT ||
                 config->lr.policy == VP_LR_STEP ||
                 config->lr.policy == VP_LR_EXPONENTIAL;

    config->lr.warmup = plain ? 0.0f : 0.2f;
}

static void after_sync_mode(struct vp_config *config)
{
    config->schedule = vp_generator_index(is_asp(config) ? "pipedream"
                                                         : "1f1b");
}

static void after_macrobatch(struct vp_config *config)
{
    if (config->macrobatch)
        config->schedule = vp_generator_index("macrobatch");
}

static void after_schedule(struct vp_config *config)
{
    config->chunks = has_chunks(config) && !is_planned(config) ? 2 : 1;
}

static void after_precision(struct vp_config *config)
{
    bool fp16 = config->precision == VP_PRECISION_FP16;

    config->loss_scale = (struct vp_scale_config){
        .start = fp16 ? VP_SCALE_START : 0.0f, .dynamic = fp16
    };
}

/* ---- The table ---------------------------------------------------------- */

#define ROW(key, kind, field) .name = key, .type = kind, .offset = AT(field)
#define COUNT(key, field, lo, hi) \
    ROW(key, VP_KEY_I64, field), .min = lo, .max = hi
#define INTS(key, field, lo, hi) \
    ROW(key, VP_KEY_INTS, field), .min = lo, .max = hi
#define REAL(key, field, lo, hi) \
    ROW(key, VP_KEY_F32, field), .min = lo, .max = hi
#define LATER(key, what)                                   \
    {                                                      \
        .name = key, .type = VP_KEY_LATER, .meaning = what \
    }

/* clang-format off */
const struct vp_key vp_keys[] = {
    /* model */
    { ROW("model_type", VP_KEY_MODEL, model), .group = "model",
      .fallback = "(required)", .example = "bert", .after = after_model,
      .meaning = "the kind of model" },
    { ROW("directory", VP_KEY_FOLDER, directory), .group = "model",
      .fallback = "(the folder of this file)", .example = ".",
      .meaning = "where relative paths start: a folder beside this file, else "
      "in the working directory" },
    { .name = "module", .type = VP_KEY_MODULE, .group = "model",
      .fallback = "(none)", .example = "vgpus=4", .applies = has_modules,
      .depends_on = "model_type",
      .meaning = "a size by the name that vPipe gave it" },
    { .name = "size", .type = VP_KEY_SIZE, .group = "model",
      .fallback = "(large, 124M, medium or big)", .example = "base",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "a published size; other keys change single numbers" },
    { .name = "config", .alias = "bert_config", .type = VP_KEY_JSON,
      .group = "model", .fallback = "(none)", .example = "config.json",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "a Hugging Face config.json, or BERT's bert_config.json, to "
      "take the sizes from" },
    { ROW("init", VP_KEY_INIT, init), .group = "model",
      .fallback = "(random weights)", .example = "models/gpt2",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "a Hugging Face folder, a checkpoint or a run, to take the "
      "first weights from; without size and config also the sizes, and "
      "without model_type the kind, if there is a config.json" },
    { COUNT("vocab", sizes.vocab, 8, 16777216), .group = "model",
      .fallback = "(by size)", .example = "1024",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "entries of the vocabulary" },
    { COUNT("hidden", sizes.hidden, 1, 1048576), .group = "model",
      .fallback = "(by size)", .example = "256",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "width of the model" },
    { COUNT("layers", sizes.layers, 1, 10000), .group = "model",
      .fallback = "(by size)", .example = "4",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "Transformer layers, of the encoder for translation" },
    { COUNT("decoder_layers", sizes.decoder_layers, 1, 10000),
      .group = "model", .fallback = "(by size, or as layers)", .example = "4",
      .applies = is_translation, .depends_on = "model_type",
      .meaning = "layers of the decoder; translation only" },
    { COUNT("heads", sizes.heads, 1, 65536), .group = "model",
      .fallback = "(by size)", .example = "4",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "attention heads; must divide hidden" },
    { COUNT("ffn", sizes.ffn, 1, 4194304), .group = "model",
      .fallback = "(by size, or 4 x hidden)", .example = "1024",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "width inside the feed-forward layers" },
    { COUNT("positions", sizes.positions, 1, 1048576),
      .alias = "max_positions", .group = "model", .fallback = "(by size)",
      .example = "512",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "longest sequence the model can take" },
    { COUNT("types", sizes.types, 1, 65536), .group = "model",
      .fallback = "(by size)", .example = "2", .applies = is_masked_lm,
      .depends_on = "model_type", .meaning = "segment types; BERT only" },
    /* Dropout has 8 bits (base/rng.h): beyond 0.998 nothing would be kept. */
    { REAL("dropout", sizes.dropout, 0, 0.99), .group = "model",
      .fallback = "(by size)", .example = "0.1",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "probability after embeddings, attention and feed-forward" },
    { REAL("attention_dropout", sizes.attention_dropout, 0, 0.99),
      .group = "model", .fallback = "(by size, or as dropout)",
      .example = "0.1",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "probability on attention weights" },
    { REAL("label_smoothing", sizes.label_smoothing, 0, 0.99),
      .group = "model", .fallback = "(by size)", .example = "0.1",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "share of the target spread over the vocabulary" },
    { ROW("tie_embeddings", VP_KEY_BOOL, sizes.tie_embeddings),
      .group = "model", .fallback = "(by size)", .example = "true",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "the output layer shares the token embedding" },
    { ROW("activation", VP_KEY_ENUM, sizes.act), .word = activation_word,
      .group = "model", .fallback = "(by size)", .example = "gelu",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "function inside the feed-forward layers" },
    { REAL("norm_eps", sizes.eps, 1e-30, 1), .group = "model",
      .fallback = "(by size)", .example = "1e-5",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "added to the variance in layer norms" },
    { ROW("pad_id", VP_KEY_INT, sizes.pad), .min = 0, .max = 16777215,
      .group = "model", .fallback = "(by size)", .example = "0",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "token that pads short sequences" },
    { ROW("attention_bias", VP_KEY_BOOL, sizes.attention_bias),
      .group = "model", .fallback = "(by size)", .example = "true",
      .applies = is_translation, .depends_on = "model_type",
      .meaning = "biases in attention; translation only" },

    /* data */
    { ROW("data_dir", VP_KEY_PATH, data_dir), .group = "data",
      .fallback = "(none)", .example = "data/books",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "a file or a folder: text in UTF-8, BERT's HDF5 shards, "
      "token files of llm.c, nanoGPT, Megatron-LM and fairseq, CHID, "
      "parallel text; "
      "docs/data.md" },
    { ROW("data_format", VP_KEY_ENUM, data_format), .word = data_format_word,
      .group = "data", .fallback = "auto", .example = "llmc",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "what data_dir holds; auto finds out by names and first "
      "bytes. Files of nanoGPT say nothing about themselves and need this key" },
    { ROW("tokenizer", VP_KEY_PATH, tokenizer), .group = "data",
      .fallback = "(none)", .example = "models/gpt2",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "folder or file of a tokenizer: text is encoded with it once, "
      "into token files in .vpipe-cache beside the text; without it text is "
      "read byte by byte. Translation: the one that 'vpipe data pairs' made "
      "the files with" },
    { ROW("valid_split", VP_KEY_TEXT, valid_split), .group = "data",
      .fallback = "(val, valid, validation or dev)", .example = "test",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "word in the names of the files that are held out for "
      "evaluation; without such files every tenth sample is" },
    { ROW("source_lang", VP_KEY_TEXT, source_lang), .group = "data",
      .fallback = "(by the names of files)", .example = "de",
      .applies = is_translation, .depends_on = "model_type",
      .meaning = "language to translate from, as the names of files have it" },
    { ROW("target_lang", VP_KEY_TEXT, target_lang), .group = "data",
      .fallback = "(by the names of files)", .example = "en",
      .applies = is_translation, .depends_on = "model_type",
      .meaning = "language to translate to" },
    { COUNT("required_batch_size_multiple", batch_multiple, 1, 65536),
      .group = "data", .fallback = "(16)", .example = "8", .from = "model_type",
      .applies = is_translation, .depends_on = "model_type",
      .meaning = "sentence pairs of a minibatch are a multiple of it, or "
      "fewer; only where minibatches are made by length, see docs/data.md" },
    { ROW("document_end", VP_KEY_INT, document_end), .min = -1,
      .max = 16777215, .group = "data", .fallback = "-1", .example = "50256",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "token that is put behind every document of files with an "
      "index; -1: none, as the files hold their ends" },
    { ROW("synthetic_data", VP_KEY_BOOL, synthetic_data), .group = "data",
      .fallback = "(true without data_dir)", .example = "true",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "generate the data instead of reading data_dir" },
    { ROW("text_key", VP_KEY_TEXT, text_key), .group = "data",
      .fallback = "text", .example = "body",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "key of the text in lines of JSON (*.jsonl)" },
    { ROW("invalid_utf8", VP_KEY_BOOL, replace_invalid_utf8),
      .word = invalid_utf8_word, .group = "data", .fallback = "refuse",
      .example = "replace",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "bytes of a text that are not UTF-8, and NUL bytes: refuse "
      "names the file and the offset and ends the run before it trains; "
      "replace reads U+FFFD (the bytes EF BF BD) in place of each NUL byte and "
      "each maximal invalid sequence" },
    { COUNT("seq_length", seq_length, 1, 1048576), .group = "data",
      .fallback = "(128, or positions if fewer)", .example = "128",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "tokens per sample" },
    { COUNT("batch_size", batch_size, 1, 16777216), .group = "data",
      .fallback = "(8; translation 2560)", .example = "8",
      .from = "model_type",
      .applies = is_in_table, .depends_on = "model_type",
      .meaning = "samples per minibatch; tokens for translation; auto: chosen "
      "with the plan, for the most samples per second" },
    { COUNT("max_pred", max_pred, 1, 1048576), .group = "data",
      .fallback = "(5/32 of seq_length)", .example = "20",
      .applies = is_masked_lm, .depends_on = "model_type",
      .meaning = "most tokens to predict per sample; BERT only" },
    { REAL("random_next", random_next, 0, 1), .group = "data",
      .fallback = "(0)", .example = "0.5",
      .applies = is_masked_lm, .depends_on = "model_type",
      .meaning = "share of samples whose second part is of another document, "
      "where text is encoded by a tokenizer; BERT only" },
    { ROW("seed", VP_KEY_U64, seed), .min = 0, .max = 0x1p53,
      .group = "data", .fallback = "1", .example = "1",
      .meaning = "of weights, order of samples, masking and dropout" },
    { ROW("no_input_pipelining", VP_KEY_BOOL, no_input_pipelining),
      .group = "data", .fallback = "false", .example = "true",
      .after = after_no_input_pipelining,
      .meaning = "read every minibatch when it is needed: prefetch 0" },
    { ROW("prefetch", VP_KEY_INT, prefetch), .min = 0, .max = 1024,
      .group = "data", .fallback = "(2; 0 with no_input_pipelining)",
      .example = "2", .meaning = "minibatches read ahead; 0 reads on demand" },
    { COUNT("num_minibatches", num_minibatches, 1, MAX_COUNT),
      .group = "data", .fallback = "(all)", .example = "1000",
      .meaning = "at most so many minibatches of an epoch" },

    /* optimisation */
    { ROW("optimizer", VP_KEY_ENUM, optim.kind), .word = optimizer_word,
      .group = "optimisation", .example = "adamw", .after = after_optimizer,
      .fallback = "(bert lamb, gpt2 and cpm adamw, translation adam)",
      .from = "model_type",
      .meaning = "how weights are updated" },
    { REAL("learning_rate", lr.base, 0, 100), .group = "optimisation",
      .fallback = "(lamb 0.002, adam 0.0005, sgd 0.1)", .example = "0.0005",
      .from = "optimizer",
      .meaning = "the largest rate, reached after warm-up" },
    { ROW("learning_rate_policy", VP_KEY_ENUM, lr.policy),
      .word = policy_word, .group = "optimisation", .after = after_policy,
      .fallback = "polynomial", .example = "polynomial",
      .meaning = "how the rate falls after warm-up" },
    { ROW("lr_warmup", VP_KEY_WARMUP, lr.warmup), .min = 0, .max = 1,
      .group = "optimisation", .example = "0.1",
      .fallback = "(0.2; constant, step, exponential_decay 0)",
      .from = "learning_rate_policy",
      .meaning = "share of the steps in which the rate rises; true is 0.2" },
    { REAL("weight_decay", optim.weight_decay, 0, 10),
      .group = "optimisation", .fallback = "(adamw 0.01, others 0)",
      .example = "0.01", .from = "optimizer",
      .meaning = "not applied to biases and layer norms" },
    { REAL("beta1", optim.beta1, 0, 0.999999), .group = "optimisation",
      .fallback = "(0.9)", .example = "0.9",
      .from = "optimizer",
      .meaning = "decay of the first moment; the momentum of sgd" },
    { REAL("beta2", optim.beta2, 0, 0.999999), .group = "optimisation",
      .fallback = "(0.999; adam 0.997)", .example = "0.999",
      .applies = has_second_moment, .depends_on = "optimizer",
      .from = "optimizer",
      .meaning = "decay of the second moment" },
    { REAL("eps", optim.eps, 1e-30, 1), .group = "optimisation",
      .fallback = "(1e-08; lamb 1e-06)", .example = "1e-8",
      .applies = has_second_moment, .depends_on = "optimizer",
      .from = "optimizer",
      .meaning = "added to the root of the second moment" },
    { REAL("grad_clip", optim.grad_clip, 0, 1e6), .group = "optimisation",
      .fallback = "(lamb 1, others 0)", .example = "1.0",
      .from = "optimizer",
      .meaning = "largest gradient norm; 0 does not clip" },
    { COUNT("epochs", epochs, 1, 1e9), .group = "optimisation",
      .fallback = "1", .example = "1", .meaning = "passes over the data" },
    { COUNT("total_steps", total_steps, 1, MAX_COUNT),
      .group = "optimisation", .fallback = "(epochs x updates)",
      .example = "100",
      .meaning = "updates of the run, instead of epochs; asp: minibatches" },

    /* pipeline */
    { ROW("sync_mode", VP_KEY_ENUM, sync_mode), .word = sync_word,
      .group = "pipeline", .after = after_sync_mode, .fallback = "bsp",
      .example = "asp", .meaning = "bsp: stages update together, after a "
      "group of minibatches; asp: each after every minibatch, without waiting "
      "for the others" },
    { ROW("macrobatch", VP_KEY_BOOL, macrobatch), .group = "pipeline",
      .after = after_macrobatch, .fallback = "(false)", .example = "true",
      .applies = is_asp, .depends_on = "sync_mode",
      .meaning = "asp with two weight versions: schedule macrobatch" },
    { ROW("schedule", VP_KEY_SCHEDULE, schedule), .word = schedule_word,
      .group = "pipeline", .after = after_schedule, .example = "1f1b",
      .fallback = "(1f1b; asp pipedream)",
      .from = "sync_mode",
      .meaning = "order of the work; pipedream and macrobatch are asp; auto is "
      "made for the FLOPs of the stages; or the path of a file that 'vpipe "
      "schedule --text' wrote, as './own.txt' (bsp)" },
    { ROW("schedule_memory", VP_KEY_INT, schedule_memory), .min = 2,
      .max = 2 * VP_MAX_STAGES, .group = "pipeline",
      .fallback = "(2 x stages)", .example = "6", .applies = has_memory,
      .depends_on = "schedule",
      .meaning = "chunks (half stages) whose activations a rank may keep; "
      "v-auto and auto" },
    { ROW("schedule_costs", VP_KEY_REALS, schedule_costs), .min = 1e-6,
      .max = 1e6, .group = "pipeline", .fallback = "(FLOPs)",
      .example = "[1, 1.4, 0.6]", .applies = is_planned,
      .depends_on = "schedule",
      .meaning = "auto: times of a forward, a backward and a weight gradient "
      "of a mean stage, in any unit; stages differ by their FLOPs" },
    { ROW("stages", VP_KEY_INT, stages), .min = 1, .max = VP_MAX_STAGES,
      .group = "pipeline", .fallback = "(as partition, or 1)",
      .example = "4", .meaning = "stages of the pipeline" },
    { ROW("chunks", VP_KEY_INT, chunks), .min = 1, .max = VP_MAX_STAGES,
      .group = "pipeline", .fallback = "(2)", .example = "2",
      .applies = has_chunks, .depends_on = "schedule",
      .from = "schedule",
      .meaning = "stages per rank: 2 in a V (zb-v, v-half, v-min, v-auto, "
      "dualpipe-v), any number for interleaved; auto chooses 1 or 2" },
    { ROW("partition", VP_KEY_PLAN, partition), .min = 1, .max = 100000,
      .group = "pipeline", .fallback = "(equal work)",
      .example = "[3, 2, 2, 2]",
      .meaning = "blocks of each stage; chunks x stages entries; or the path "
      "of a plan in JSON: plan.json of a run, or one with partition and "
      "recompute_ratio" },
    { ROW("recompute", VP_KEY_BOOL, recompute), .group = "pipeline",
      .fallback = "true", .example = "false",
      .meaning = "false keeps all activations, whatever recompute_ratio is: "
      "also those that backward makes again at little cost" },
    { ROW("recompute_ratio", VP_KEY_REALS, recompute_ratio), .min = 0,
      .max = 1, .group = "pipeline", .fallback = "(0)", .example = "0.3",
      .meaning = "share of each stage whose activations are computed again "
      "instead of kept, from its end" },
    { ROW("early_recompute", VP_KEY_BOOL, early_recompute),
      .group = "pipeline", .fallback = "true", .example = "true",
      .meaning = "recompute before the gradient arrives" },
    { ROW("rebalance", VP_KEY_BOOL, rebalance), .group = "pipeline",
      .fallback = "false", .example = "true",
      .meaning = "move blocks between stages while training goes on, when "
      "measured times are out of balance" },
    { ROW("recompute_in_backward", VP_KEY_BOOL, recompute_in_backward),
      .group = "pipeline", .fallback = "false", .example = "true",
      .meaning = "recompute block by block inside of backward, and keep what "
      "leaves a block: less memory, also with one minibatch in flight" },
    { ROW("swap_ratio", VP_KEY_REALS, swap_ratio), .min = 0, .max = 1,
      .group = "pipeline", .fallback = "(0)", .example = "0.5",
      .meaning = "share of each stage's saved activations that waits in memory "
      "of the host between forward and backward, from its beginning" },
    { .name = "config_file", .type = VP_KEY_PLACEMENT, .group = "pipeline",
      .fallback = "(one rank per stage)", .example = "mp_conf.json",
      .meaning = "a placement in JSON: stage_to_rank_map and, if wanted, "
      "module_to_stage_map, stage_to_depth_map, mp_size" },
    { ROW("mp_size", VP_KEY_INT, mp_size), .min = 1, .max = 1024,
      .group = "pipeline", .fallback = "1", .example = "2",
      .meaning = "tensor parallel ranks: every rank of the pipeline becomes a "
      "group that shares each operator; a divisor of heads and ffn; auto: the "
      "plan gives the ranks that there are without groups to fewer stages of "
      "groups, if that is faster or alone fits" },
    { ROW("sequence_parallel", VP_KEY_BOOL, sequence_parallel),
      .group = "pipeline", .fallback = "false", .example = "true",
      .meaning = "ranks of a tensor parallel group have slices of the rows "
      "between their sums: less memory; mp_size above 1" },
    { INTS("replicas", replicas, 1, VP_MAX_STAGES), .group = "pipeline",
      .fallback = "(1 each)", .example = "[1, 2, 1]",
      .meaning = "ranks of each stage, which share its minibatches; auto: the "
      "plan gives as many ranks as there are stages to fewer stages, with "
      "replicas, if that is faster" },
    { INTS("ranks", ranks, 0, 1023), .group = "pipeline",
      .fallback = "(0, 1, ... by stage)", .example = "[0, 2, 1, 3]",
      .meaning = "number of each rank, stage by stage" },
    { INTS("warmup_depths", warmup_depths, 0, 1000), .group = "pipeline",
      .fallback = "(by the ranks that follow)", .example = "[3, 2, 1, 0]",
      .meaning = "forwards of each stage before its first backward" },
    { ROW("accumulation_steps", VP_KEY_INT, accumulation_steps), .min = 1,
      .max = 1e6, .group = "pipeline", .example = "4",
      .fallback = "(1; with several stages 32)",
      .applies = is_bsp, .depends_on = "sync_mode",
      .meaning = "minibatches whose mean gradient makes an update; bsp only; "
      "auto: chosen with the plan, 1 to 8 per rank" },
    { ROW("grad_clip_scope", VP_KEY_BOOL, clip_per_stage),
      .word = scope_word, .group = "pipeline", .fallback = "(all)",
      .example = "stage", .applies = is_bsp, .depends_on = "sync_mode",
      .meaning = "grad_clip limits the norm over all stages, or of each; asp "
      "always of each" },
    { ROW("reduce", VP_KEY_BOOL, fast_reduce), .word = reduce_word,
      .group = "pipeline", .fallback = "exact", .example = "exact",
      .meaning = "gradients of replicas are added in the order of ranks, or "
      "fast, as the transport likes: between processes other bits" },
    { ROW("shard_optimizer", VP_KEY_BOOL, shard_optimizer),
      .group = "pipeline", .fallback = "false", .example = "true",
      .meaning = "each replica of a stage keeps and updates a shard of the "
      "optimizer's state, and the weights are gathered: less memory, the same "
      "bits; device: cpu" },

    { ROW("compress_activations", VP_KEY_BOOL, compress_activations),
      .group = "pipeline", .fallback = "false", .example = "true",
      .meaning = "fp32 values and gradients travel between stages as bf16: "
      "half the bytes, other bits" },
    { ROW("compress_in_gpu", VP_KEY_BOOL, compress_in_gpu),
      .group = "pipeline", .fallback = "false", .example = "false",
      .meaning = "no effect, as in vPipe" },
    { ROW("auto_plan", VP_KEY_ENUM, auto_plan), .word = auto_plan_word,
      .group = "pipeline", .fallback = "false", .example = "true",
      .meaning = "true: the run starts with a search for the fastest plan that "
      "fits memory_limit, in place of schedule, chunks, partition, "
      "recomputation and swap_ratio of this configuration; a resumed run "
      "keeps the plan of its folder, with again it is planned again" },
    { ROW("profile", VP_KEY_PATH, profile), .group = "pipeline",
      .fallback = "(this machine, measured once)", .example = "gpu.json",
      .meaning = "times of a device in JSON, for auto_plan and vpipe plan" },

    /* machine */
    { ROW("device", VP_KEY_ENUM, device), .word = device_word,
      .numbers = "numbers of GPUs belong to machines, one entry per rank, for "
      "example ['localhost:1']",
      .group = "machine", .fallback = "auto", .example = "cpu",
      .meaning = "where to compute; auto takes a GPU if there is one" },
    { ROW("precision", VP_KEY_ENUM, precision), .word = precision_word,
      .after = after_precision, .group = "machine", .fallback = "fp32",
      .example = "bf16", .meaning = "type of weights and activations; tf32 "
      "and fp16 need a GPU; auto is bf16 where all ranks multiply it faster, "
      "else fp32, and is written to the run as what it became" },
    { ROW("loss_scale", VP_KEY_SCALE, loss_scale), .min = 1, .max = 1e30,
      .group = "machine", .fallback = "(off; fp16 dynamic)",
      .example = "1024", .from = "precision",
      .meaning = "gradients are computed that much larger, and an update "
      "where they overflow is skipped; dynamic starts at 65536 and needs bsp" },
    { ROW("threads_per_stage", VP_KEY_INT, threads_per_stage), .min = 0,
      .max = 1024, .group = "machine", .fallback = "0", .example = "2",
      .meaning = "compute threads of a rank; 0 shares out all cores" },
    { ROW("kernels", VP_KEY_BOOL, reference_kernels), .word = kernels_word,
      .group = "machine", .fallback = "fast", .example = "fast",
      .meaning = "reference is plain C: slow, to compare with" },
    { ROW("memory_limit", VP_KEY_BYTES, memory_limit), .min = 1,
      .max = 0x1p53, .group = "machine", .fallback = "(none)",
      .example = "11G", .meaning = "bytes a stage may use" },
    { ROW("rebalance_headroom", VP_KEY_BYTES, rebalance_headroom), .min = 1,
      .max = 0x1p53, .group = "machine", .fallback = "(none)",
      .example = "2G",
      .meaning = "bytes beyond memory_limit that a stage may use while the run "
      "moves to another plan and has the memory of both; on a GPU without "
      "memory_limit, bytes that are left for the next plan" },
    { ROW("distributed_backend", VP_KEY_ENUM, distributed_backend),
      .word = backend_word, .group = "machine",
      .fallback = "(local; mpi with other hosts in machines)",
      .example = "local",
      .meaning = "how ranks talk: local within one process, mpi between "
      "processes, nccl likewise and from GPU to GPU; gloo is what machines "
      "asks for" },
    { ROW("machines", VP_KEY_MACHINES, machines), .group = "machine",
      .fallback = "(this one)",
      .example = "[\"localhost:0\", \"localhost:1\"]",
      .meaning = "host:device of each rank, in the order of their numbers; "
      "other hosts get their ranks by mpirun" },
    { ROW("network_interface", VP_KEY_TEXT, network_interface),
      .group = "machine", .fallback = "(any)", .example = "eth0",
      .meaning = "network interface between hosts" },
    { ROW("container", VP_KEY_TEXT, container), .group = "machine",
      .fallback = "(none)", .example = "vpipe.sif",
      .meaning = "image that ranks started by mpirun run in: a file or "
      "address for apptainer, a plain name for docker; not used within one "
      "process" },

    /* run */
    { ROW("log_directory", VP_KEY_PATH, log_directory), .group = "run",
      .fallback = "runs", .example = "runs",
      .meaning = "each run makes a folder here; the default is in the working "
      "directory" },
    { ROW("forward_only", VP_KEY_BOOL, forward_only), .group = "run",
      .fallback = "false", .example = "true",
      .meaning = "evaluate, do not train" },
    { COUNT("eval_every", eval_every, 0, MAX_COUNT), .group = "run",
      .fallback = "0", .example = "100",
      .meaning = "steps between evaluations, which change no loss; 0 does "
      "none; asp: each waits for the next step that ends a round of all stages"
      },
    { COUNT("eval_batches", eval_batches, 1, MAX_COUNT), .group = "run",
      .fallback = "8", .example = "8",
      .meaning = "minibatches of an evaluation, or all held-out ones if there "
      "are fewer; its loss is the mean over their predictions" },
    { ROW("checkpoint_every", VP_KEY_EVERY, checkpoint_every), .min = 0,
      .max = MAX_COUNT, .group = "run", .fallback = "1000", .example = "100",
      .meaning = "steps between checkpoints, or epoch: one at the end of every "
      "epoch, as vPipe; one is also made at the end and when interrupted, with "
      "0 no other" },
    { ROW("keep_checkpoints", VP_KEY_INT, keep_checkpoints), .min = 1,
      .max = 1e6, .group = "run", .fallback = "3", .example = "3",
      .meaning = "checkpoints to keep, the newest" },
    { COUNT("export_every", export_every, 0, MAX_COUNT), .group = "run",
      .fallback = "0", .example = "1000",
      .meaning = "steps between exports to export/step-<n> of the run, Hugging "
      "Face folders, each made of the first checkpoint from there on; 0 makes "
      "none" },
    { COUNT("generate_every", generate_every, 0, MAX_COUNT), .group = "run",
      .fallback = "(0)", .example = "500",
      .applies = is_causal_lm, .depends_on = "model_type",
      .meaning = "steps between texts that continue sample_prompts, in the log "
      "and in metrics.jsonl; they change no loss; 0 makes none" },
    { COUNT("translate_every", translate_every, 0, MAX_COUNT), .group = "run",
      .fallback = "(0)", .example = "500",
      .applies = is_translation, .depends_on = "model_type",
      .meaning = "the same for translations of sample_prompts" },
    { ROW("sample_prompts", VP_KEY_PATH, sample_prompts), .group = "run",
      .fallback = "(none)", .example = "prompts.txt",
      .meaning = "file with a prompt on each line, for generate_every and "
      "translate_every; token ids, if the model reads no text" },
    { COUNT("sample_tokens", sample_tokens, 1, 65536), .group = "run",
      .fallback = "40", .example = "40",
      .meaning = "new tokens of each of these texts, at most" },
    { ROW("tensorboard", VP_KEY_BOOL, tensorboard), .group = "run",
      .fallback = "false", .example = "true",
      .meaning = "write the numbers of metrics.jsonl to an event file of "
      "TensorBoard, too" },
    { ROW("prometheus_file", VP_KEY_PATH, prometheus_file), .group = "run",
      .fallback = "(none)",
      .example = "/var/lib/node_exporter/vpipe.prom",
      .meaning = "a file that the run replaces once a second by its numbers in "
      "Prometheus's text format, for node_exporter's textfile collector" },
    { COUNT("print_frequency", print_frequency, 1, MAX_COUNT),
      .group = "run", .fallback = "10", .example = "10",
      .meaning = "steps between lines, where there is no terminal" },
    { ROW("verbose", VP_KEY_WORDS, verbose), .word = verbose_word,
      .group = "run", .fallback = "(none)", .example = "[stages, time]",
      .meaning = "what to print about the inside of a run" },
    { COUNT("verbose_frequency", verbose_frequency, 0, MAX_COUNT),
      .group = "run", .fallback = "(0; with verbose as print_frequency)",
      .example = "100",
      .meaning = "steps between these; without verbose it prints "
      "communication and time" },
    { ROW("watchdog_seconds", VP_KEY_INT, watchdog_seconds), .min = 1,
      .max = 86400, .group = "run", .fallback = "60", .example = "60",
      .meaning = "longest wait for another rank" },

    /* Keys that are not built yet. */
    LATER("freeze", "blocks that are not trained"),
    LATER("swap", "activations kept in host memory"),
};
/* clang-format on */
const int vp_n_keys = VP_COUNT_OF(vp_keys);

const struct vp_key *vp_key_find(const char *name)
{
    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];

        if (strcmp(key->name, name) == 0 ||
            (key->alias && strcmp(key->alias, name) == 0))
            return key;
    }
    return NULL;
}
