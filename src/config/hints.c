/* The table of names of other programs, and its lookup. */
#include "config/hints.h"

#include "config/keys.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, USE_BYTES = 96 };

struct hint {
    const char *name;
    const char *of;     /* key whose value the name is; NULL: a key or option */
    const char *key;    /* configuration key to use; NULL: none */
    const char *value;  /* value for `key`; NULL: the user's value */
    const char *option; /* option of vpipe train to use; NULL: none */
    const char *note;   /* difference, or remedy without key and option */
};

#define NO_TOKENIZER \
    "remove it: text is read byte by byte, shards hold token ids"
#define NO_LAUNCHER "remove it: mpirun, srun or machines number the ranks"
#define NO_SHARDING "remove it: stages hold whole weights and moments"
#define NO_KERNELS "remove it: vpipe chooses the kernels"
#define NO_TRACKER "remove it: metrics.jsonl in the run folder has every step"
#define SHARE "a share of all steps"
#define RUN_FOLDER "checkpoints are in the run folder"
#define ONE_UPDATE "an update takes accumulation_steps minibatches"
#define SHARES "ranks that share each operator"

/* By group of keys; within a group by key, then by name. */
/* clang-format off */
static const struct hint hints[] = {
    /* model */
    { "arch", .key = "model_type", .note = "and size" },
    { "model", .key = "model_type", .note = "and size" },
    { "model_name", .key = "model_type", .note = "and size" },
    { "model_name_or_path", .key = "model_type", .note = "and size" },
    { "transformer", .of = "model_type", .value = "translation" },
    { "model_size", .key = "size" },
    { "config", .option = "--config_file FILE" },
    { "padded_vocab_size", .key = "vocab" },
    { "vocab_size", .key = "vocab" },
    { "d_model", .key = "hidden" },
    { "dim", .key = "hidden" },
    { "embed_dim", .key = "hidden" },
    { "hidden_dim", .key = "hidden" },
    { "hidden_size", .key = "hidden" },
    { "n_embd", .key = "hidden" },
    { "encoder_layers", .key = "layers" },
    { "n_layer", .key = "layers" },
    { "n_layers", .key = "layers" },
    { "num_encoder_layers", .key = "layers" },
    { "num_hidden_layers", .key = "layers" },
    { "num_layers", .key = "layers" },
    { "num_decoder_layers", .key = "decoder_layers" },
    { "n_head", .key = "heads" },
    { "n_heads", .key = "heads" },
    { "nhead", .key = "heads" },
    { "num_attention_heads", .key = "heads" },
    { "num_heads", .key = "heads" },
    { "d_ff", .key = "ffn" },
    { "dim_feedforward", .key = "ffn" },
    { "ffn_hidden_size", .key = "ffn" },
    { "intermediate_size", .key = "ffn" },
    { "n_inner", .key = "ffn" },
    { "max_position_embeddings", .key = "positions" },
    { "n_ctx", .key = "positions" },
    { "n_positions", .key = "positions" },
    { "type_vocab_size", .key = "types" },
    { "embd_pdrop", .key = "dropout" },
    { "hidden_dropout", .key = "dropout" },
    { "hidden_dropout_prob", .key = "dropout" },
    { "resid_pdrop", .key = "dropout" },
    { "attention_probs_dropout_prob", .key = "attention_dropout" },
    { "attn_dropout", .key = "attention_dropout" },
    { "attn_pdrop", .key = "attention_dropout" },
    { "label_smoothing_factor", .key = "label_smoothing" },
    { "share_embeddings", .key = "tie_embeddings" },
    { "tie_word_embeddings", .key = "tie_embeddings" },
    { "untie_embeddings_and_output_weights", .key = "tie_embeddings",
      .value = "false" },
    { "activation_function", .key = "activation" },
    { "hidden_act", .key = "activation" },
    { "gelu_fast", .of = "activation", .value = "gelu_tanh" },
    { "gelu_new", .of = "activation", .value = "gelu_tanh" },
    { "gelu_pytorch_tanh", .of = "activation", .value = "gelu_tanh" },
    { "layer_norm_eps", .key = "norm_eps" },
    { "layer_norm_epsilon", .key = "norm_eps" },
    { "layernorm_epsilon", .key = "norm_eps" },
    { "norm_epsilon", .key = "norm_eps" },
    { "pad_token_id", .key = "pad_id" },

    /* data */
    { "data", .key = "data_dir" },
    { "data_path", .key = "data_dir" },
    { "dataset", .key = "data_dir" },
    { "dataset_path", .key = "data_dir" },
    { "input_dir", .key = "data_dir" },
    { "train_data", .key = "data_dir" },
    { "train_data_path", .key = "data_dir" },
    { "train_file", .key = "data_dir" },
    { "mock_data", .key = "synthetic_data" },
    { "dataset_impl", .key = "data_format" },
    { "valid_subset", .key = "valid_split" },
    { "json_keys", .key = "text_key" },
    { "max_tokens", .key = "batch_size", .note = "it counts tokens for translation" },
    { "eod", .key = "document_end" },
    { "eos_token_id", .key = "document_end" },
    { "block_size", .key = "seq_length" },
    { "context_length", .key = "seq_length" },
    { "encoder_seq_length", .key = "seq_length" },
    { "max_length_train", .key = "seq_length" },
    { "max_seq_len", .key = "seq_length" },
    { "max_seq_length", .key = "seq_length" },
    { "sequence_length", .key = "seq_length" },
    { "max_predictions_per_seq", .key = "max_pred" },
    { "bs", .key = "batch_size" },
    { "micro_batch_size", .key = "batch_size" },
    { "microbatch_size", .key = "batch_size" },
    { "per_device_eval_batch_size", .key = "batch_size",
      .note = "evaluations use it, too" },
    { "per_device_train_batch_size", .key = "batch_size" },
    { "train_batch_size", .key = "batch_size", .note = ONE_UPDATE },
    { "train_micro_batch_size_per_gpu", .key = "batch_size" },
    { "manual_seed", .key = "seed" },
    { "random_seed", .key = "seed" },
    { "dataloader_num_workers", .key = "prefetch",
      .note = "minibatches that one thread reads ahead" },
    { "num_workers", .key = "prefetch",
      .note = "minibatches that one thread reads ahead" },
    { "merge_file", .note = NO_TOKENIZER },
    { "tokenizer_model", .key = "tokenizer" },
    { "tokenizer_name", .key = "tokenizer" },
    { "tokenizer_type", .note = NO_TOKENIZER },
    { "vocab_file", .note = NO_TOKENIZER },
    { "split", .note = "remove it: vpipe holds out data by itself" },

    /* optimisation */
    { "optim", .key = "optimizer" },
    { "optimizer_type", .key = "optimizer" },
    { "momentum", .of = "optimizer", .value = "sgd",
      .note = "its momentum is beta1" },
    { "lr", .key = "learning_rate" },
    { "max_lr", .key = "learning_rate" },
    { "peak_lr", .key = "learning_rate" },
    { "lr_decay_style", .key = "learning_rate_policy" },
    { "lr_policy", .key = "learning_rate_policy" },
    { "lr_schedule", .key = "learning_rate_policy" },
    { "lr_scheduler", .key = "learning_rate_policy" },
    { "lr_scheduler_type", .key = "learning_rate_policy" },
    { "scheduler", .key = "learning_rate_policy",
      .note = "schedule is the order of the pipeline's work" },
    { "constant_with_warmup", .of = "learning_rate_policy",
      .value = "constant", .note = "and set lr_warmup" },
    { "inverse_square_root", .of = "learning_rate_policy",
      .value = "inverse_sqrt" },
    { "linear", .of = "learning_rate_policy", .value = "polynomial",
      .note = "the square root of the share of steps left" },
    { "lr_decay_iters", .note = "remove it: the rate falls until the last "
      "step" },
    { "lr_decay_steps", .note = "remove it: the rate falls until the last "
      "step" },
    { "min_lr", .note = "remove it: the rate falls to 0, or as "
      "learning_rate_policy says" },
    { "lr_warmup_fraction", .key = "lr_warmup" },
    { "lr_warmup_iters", .key = "lr_warmup", .note = SHARE },
    { "lr_warmup_steps", .key = "lr_warmup", .note = SHARE },
    { "num_warmup_steps", .key = "lr_warmup", .note = SHARE },
    { "warmup", .key = "lr_warmup", .note = SHARE },
    { "warmup_iters", .key = "lr_warmup", .note = SHARE },
    { "warmup_proportion", .key = "lr_warmup" },
    { "warmup_ratio", .key = "lr_warmup" },
    { "warmup_steps", .key = "lr_warmup", .note = SHARE },
    { "warmup_updates", .key = "lr_warmup", .note = SHARE },
    { "wd", .key = "weight_decay" },
    { "adam_beta1", .key = "beta1" },
    { "betas", .key = "beta1", .note = "and beta2" },
    { "momentum", .key = "beta1" },
    { "adam_beta2", .key = "beta2" },
    { "adam_eps", .key = "eps" },
    { "adam_epsilon", .key = "eps" },
    { "clip_grad", .key = "grad_clip" },
    { "clip_grad_norm", .key = "grad_clip" },
    { "gradient_clip_val", .key = "grad_clip" },
    { "gradient_clipping", .key = "grad_clip" },
    { "max_grad_norm", .key = "grad_clip" },
    { "max_epochs", .key = "epochs" },
    { "n_epochs", .key = "epochs" },
    { "num_epochs", .key = "epochs" },
    { "num_train_epochs", .key = "epochs" },
    { "train_epochs", .key = "epochs" },
    { "iterations", .key = "total_steps", .option = "--max-steps N" },
    { "max_iters", .key = "total_steps", .option = "--max-steps N" },
    { "max_steps", .key = "total_steps", .option = "--max-steps N" },
    { "max_train_steps", .key = "total_steps", .option = "--max-steps N" },
    { "num_iters", .key = "total_steps", .option = "--max-steps N" },
    { "num_steps", .key = "total_steps", .option = "--max-steps N" },
    { "num_train_steps", .key = "total_steps", .option = "--max-steps N" },
    { "steps", .key = "total_steps", .option = "--max-steps N" },
    { "train_iters", .key = "total_steps", .option = "--max-steps N" },
    { "train_steps", .key = "total_steps", .option = "--max-steps N" },

    /* pipeline */
    { "async", .of = "sync_mode", .value = "asp" },
    { "asynchronous", .of = "sync_mode", .value = "asp" },
    { "sync", .of = "sync_mode", .value = "bsp" },
    { "synchronous", .of = "sync_mode", .value = "bsp" },
    { "pipeline_schedule", .key = "schedule" },
    { "2bw", .of = "schedule", .value = "macrobatch" },
    { "afab", .of = "schedule", .value = "gpipe" },
    { "dapple", .of = "schedule", .value = "1f1b" },
    { "fthenb", .of = "schedule", .value = "gpipe" },
    { "pipedream_2bw", .of = "schedule", .value = "macrobatch" },
    { "pipedream_flush", .of = "schedule", .value = "1f1b" },
    { "vpp", .of = "schedule", .value = "interleaved" },
    { "zero_bubble", .of = "schedule", .value = "zb-h1" },
    { "num_pipeline_stages", .key = "stages" },
    { "num_stages", .key = "stages" },
    { "pipeline_model_parallel_size", .key = "stages" },
    { "pipeline_parallel", .key = "stages" },
    { "pipeline_parallel_size", .key = "stages" },
    { "pp", .key = "stages" },
    { "pp_degree", .key = "stages" },
    { "pp_size", .key = "stages" },
    { "world_size", .key = "stages",
      .note = "one rank each, more with replicas" },
    { "num_layers_per_virtual_pipeline_stage", .key = "chunks",
      .note = "stages per rank, with schedule interleaved" },
    { "num_model_chunks", .key = "chunks",
      .note = "with schedule interleaved" },
    { "virtual_pipeline_model_parallel_size", .key = "chunks",
      .note = "with schedule interleaved" },
    { "balance", .key = "partition" },
    { "decoder_first_pipeline_num_layers", .key = "partition",
      .note = "blocks of each stage" },
    { "partition_method", .key = "partition",
      .note = "blocks of each stage; without it equal work" },
    { "pipeline_model_parallel_split_rank", .key = "partition",
      .note = "blocks of each stage" },
    { "activation_checkpointing", .key = "recompute_ratio", .value = "1" },
    { "checkpoint_activations", .key = "recompute_ratio", .value = "1" },
    { "gradient_checkpointing", .key = "recompute_ratio", .value = "1" },
    { "recompute_activations", .key = "recompute_ratio", .value = "1" },
    { "recompute_granularity", .key = "recompute_ratio", .value = "1",
      .note = "or a smaller share of each stage" },
    { "recompute_method", .key = "recompute_ratio",
      .note = "the share of each stage, from its end" },
    { "recompute_num_layers", .key = "recompute_ratio",
      .note = "the share of each stage, from its end" },
    { "model_parallel_size", .key = "mp_size", .note = SHARES },
    { "tensor_model_parallel_size", .key = "mp_size", .note = SHARES },
    { "tensor_parallel_size", .key = "mp_size", .note = SHARES },
    { "tp", .key = "mp_size", .note = SHARES },
    { "tp_size", .key = "mp_size", .note = SHARES },
    { "enable_sequence_parallelism", .key = "sequence_parallel" },
    { "data_parallel_size", .key = "replicas",
      .note = "a list: ranks of each stage" },
    { "dp", .key = "replicas", .note = "a list: ranks of each stage" },
    { "dp_size", .key = "replicas", .note = "a list: ranks of each stage" },
    { "global_batch_size", .key = "accumulation_steps",
      .note = "minibatches of batch_size samples in an update" },
    { "grad_accum", .key = "accumulation_steps" },
    { "gradient_accumulation_steps", .key = "accumulation_steps" },
    { "microbatches", .key = "accumulation_steps" },
    { "n_microbatches", .key = "accumulation_steps" },
    { "num_microbatches", .key = "accumulation_steps" },
    { "fsdp", .note = NO_SHARDING },
    { "use_distributed_optimizer", .note = NO_SHARDING },
    { "zero_optimization", .note = NO_SHARDING },
    { "zero_stage", .note = NO_SHARDING },

    /* machine */
    { "cpu", .key = "device", .value = "cpu" },
    { "no_cuda", .key = "device", .value = "cpu" },
    { "use_cpu", .key = "device", .value = "cpu" },
    { "cuda", .key = "device", .value = "cuda" },
    { "gpu", .key = "device", .value = "cuda" },
    { "use_cuda", .key = "device", .value = "cuda" },
    { "gpu", .of = "device", .value = "cuda" },
    { "gpus", .of = "device", .value = "cuda" },
    { "nvidia", .of = "device", .value = "cuda" },
    { "amp", .key = "precision", .value = "bf16" },
    { "bf16", .key = "precision", .value = "bf16" },
    { "dtype", .key = "precision", .note = "fp32, tf32, bf16 or fp16" },
    { "fp16", .key = "precision", .value = "fp16" },
    { "fp32", .key = "precision", .value = "fp32" },
    { "half", .key = "precision", .value = "fp16" },
    { "mixed_precision", .key = "precision",
      .note = "fp32, tf32, bf16 or fp16" },
    { "params_dtype", .key = "precision", .note = "fp32, tf32, bf16 or fp16" },
    { "tf32", .key = "precision", .value = "tf32" },
    { "torch_dtype", .key = "precision", .note = "fp32, tf32, bf16 or fp16" },
    { "16", .of = "precision", .value = "fp16" },
    { "16_mixed", .of = "precision", .value = "fp16" },
    { "32", .of = "precision", .value = "fp32" },
    { "amp", .of = "precision", .value = "bf16" },
    { "bf16_mixed", .of = "precision", .value = "bf16" },
    { "bfloat16", .of = "precision", .value = "bf16" },
    { "float", .of = "precision", .value = "fp32" },
    { "float16", .of = "precision", .value = "fp16" },
    { "float32", .of = "precision", .value = "fp32" },
    { "half", .of = "precision", .value = "fp16" },
    { "mixed", .of = "precision", .value = "bf16" },
    { "dynamic_loss_scale", .key = "loss_scale", .value = "dynamic" },
    { "initial_loss_scale", .key = "loss_scale",
      .note = "dynamic starts at 65536" },
    { "num_threads", .key = "threads_per_stage" },
    { "omp_num_threads", .key = "threads_per_stage" },
    { "backend", .key = "distributed_backend" },
    { "dist_backend", .key = "distributed_backend" },
    { "ddp_backend", .key = "distributed_backend" },
    { "devices", .key = "machines", .note = "host:device of each rank" },
    { "gpus", .key = "machines", .note = "host:device of each rank" },
    { "hostfile", .key = "machines", .note = "host:device of each rank" },
    { "hosts", .key = "machines", .note = "host:device of each rank" },
    { "n_gpu", .key = "machines", .note = "host:device of each rank" },
    { "nnodes", .key = "machines", .note = "host:device of each rank" },
    { "nproc_per_node", .key = "machines", .note = "host:device of each rank" },
    { "num_gpus", .key = "machines", .note = "host:device of each rank" },
    { "num_nodes", .key = "machines", .note = "host:device of each rank" },
    { "local_rank", .note = NO_LAUNCHER },
    { "master_addr", .note = NO_LAUNCHER },
    { "master_port", .note = NO_LAUNCHER },
    { "node_rank", .note = NO_LAUNCHER },
    { "rank", .note = NO_LAUNCHER },
    { "compile", .note = NO_KERNELS },
    { "flash_attention", .note = NO_KERNELS },
    { "torch_compile", .note = NO_KERNELS },
    { "use_flash_attn", .note = NO_KERNELS },
    { "deterministic", .note = "remove it: runs repeat bit for bit" },
    { "deepspeed", .note = "remove it: write its values as keys" },
    { "deepspeed_config", .note = "remove it: write its values as keys" },

    /* run */
    { "checkpoint_dir", .key = "log_directory", .option = "--output DIR",
      .note = RUN_FOLDER },
    { "log_dir", .key = "log_directory", .option = "--output DIR" },
    { "logdir", .key = "log_directory", .option = "--output DIR" },
    { "logging_dir", .key = "log_directory", .option = "--output DIR" },
    { "out_dir", .key = "log_directory", .option = "--output DIR" },
    { "output", .key = "log_directory", .option = "--output DIR" },
    { "output_dir", .key = "log_directory", .option = "--output DIR" },
    { "save", .key = "log_directory", .option = "--output DIR",
      .note = RUN_FOLDER },
    { "save_dir", .key = "log_directory", .option = "--output DIR",
      .note = RUN_FOLDER },
    { "tensorboard_dir", .note = NO_TRACKER },
    { "report_to", .note = NO_TRACKER },
    { "wandb", .note = NO_TRACKER },
    { "wandb_project", .note = NO_TRACKER },
    { "init_checkpoint", .option = "--resume DIR",
      .note = "a checkpoint that vpipe wrote" },
    { "load", .option = "--resume DIR",
      .note = "a checkpoint that vpipe wrote" },
    { "resume", .option = "--resume DIR" },
    { "resume_from", .option = "--resume DIR" },
    { "resume_from_checkpoint", .option = "--resume DIR" },
    { "eval_only", .key = "forward_only", .option = "--forward-only" },
    { "evaluate", .key = "forward_only", .option = "--forward-only" },
    { "do_eval", .key = "eval_every", .note = "steps between evaluations" },
    { "eval_frequency", .key = "eval_every" },
    { "eval_interval", .key = "eval_every" },
    { "eval_steps", .key = "eval_every" },
    { "eval_strategy", .key = "eval_every",
      .note = "steps between evaluations" },
    { "evaluation_strategy", .key = "eval_every",
      .note = "steps between evaluations" },
    { "val_check_interval", .key = "eval_every" },
    { "eval_iters", .key = "eval_batches" },
    { "checkpoint_interval", .key = "checkpoint_every" },
    { "save_every", .key = "checkpoint_every" },
    { "save_freq", .key = "checkpoint_every" },
    { "save_interval", .key = "checkpoint_every" },
    { "save_steps", .key = "checkpoint_every" },
    { "save_strategy", .key = "checkpoint_every", .note = "steps, or epoch" },
    { "save_total_limit", .key = "keep_checkpoints" },
    { "log_every", .key = "print_frequency" },
    { "log_every_n_steps", .key = "print_frequency" },
    { "log_interval", .key = "print_frequency" },
    { "logging_steps", .key = "print_frequency" },
    { "print_freq", .key = "print_frequency" },
    { "steps_per_print", .key = "print_frequency" },
    { "exit_interval", .option = "--max-steps N" },
    { "do_train", .note = "remove it: vpipe train trains" },
    { "distributed_timeout_minutes", .key = "watchdog_seconds",
      .note = "in seconds" },
    { "timeout", .key = "watchdog_seconds" },
};
/* clang-format on */

/* Writes the name in lower case, with '_' for '-' and without leading
 * dashes. */
static void fold(const char *name, char out[NAME_BYTES])
{
    size_t n = 0;

    for (name += strspn(name, "-"); *name && n < NAME_BYTES - 1; name++)
        out[n++] = *name == '-'                   ? '_'
                   : *name >= 'A' && *name <= 'Z' ? (char)(*name | 32)
                                                  : *name;
    out[n] = '\0';
}

/* Finds a value of key `of`, or, if `of` is NULL, a key or an option. */
static const struct hint *find(const char *of, const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(hints); i++) {
        const struct hint *hint = &hints[i];

        if (strcmp(hint->name, name) == 0 &&
            (of ? hint->of && strcmp(hint->of, of) == 0 : !hint->of))
            return hint;
    }
    return NULL;
}

/* Writes a key in the notation of its place: "learning_rate", "precision:
 * fp16", "--set learning_rate=...". */
static void write_key(enum vp_hint_place place, const char *key,
                      const char *value, char out[USE_BYTES])
{
    const char *assign = place == VP_HINT_FILE ? ": " : "=";

    if (place == VP_HINT_FLAG && !value)
        value = "...";
    snprintf(out, USE_BYTES, "%s%s%s%s", place == VP_HINT_FLAG ? "--set " : "",
             key, value ? assign : "", value ? value : "");
}

static void write_use(const char *use, const char *note, char *out,
                      size_t n_bytes)
{
    snprintf(out, n_bytes, "use '%s'%s%s%s", use, note ? " (" : "",
             note ? note : "", note ? ")" : "");
}

bool vp_hint(enum vp_hint_place place, const char *name, char *out,
             size_t n_bytes)
{
    char folded[NAME_BYTES], use[USE_BYTES];
    const struct hint *hint;
    struct hint as_key;

    fold(name, folded);
    hint = find(NULL, folded);
    if (!hint && place == VP_HINT_FLAG && vp_key_find(folded)) {
        as_key = (struct hint){ .name = folded, .key = folded };
        hint = &as_key;
    }
    if (!hint)
        return false;
    if (!hint->key && !hint->option) {
        snprintf(out, n_bytes, "%s", hint->note);
        return true;
    }
    if (hint->option && (place == VP_HINT_FLAG || !hint->key))
        snprintf(use, sizeof(use), "%s", hint->option);
    else
        write_key(place, hint->key, hint->value, use);
    write_use(use, hint->note, out, n_bytes);
    return true;
}

bool vp_hint_word(const char *key, const char *word, char *out, size_t n_bytes)
{
    char folded[NAME_BYTES];
    const struct hint *hint;

    fold(word, folded);
    hint = find(key, folded);
    if (hint)
        write_use(hint->value, hint->note, out, n_bytes);
    return hint;
}

const char *vp_hint_at(int i, const char **key_out)
{
    if (i < 0 || (size_t)i >= VP_COUNT_OF(hints))
        return NULL;
    *key_out = hints[i].of;
    return hints[i].name;
}
