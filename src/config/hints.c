#include "config/hints.h"

#include "config/keys.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, USE_BYTES = 96 };

struct hint {
    const char *name;
    const char *key;    /* of a configuration; NULL: none does that */
    const char *value;  /* of the key; NULL: as it was */
    const char *option; /* of vpipe train, in place of a key or beside it */
    const char *note;   /* how the two differ, or what to do without either */
};

/* clang-format off */
static const struct hint hints[] = {
    /* data */
    { "block_size", .key = "seq_length" },
    { "max_length_train", .key = "seq_length" },
    { "max_seq_len", .key = "seq_length" },
    { "max_seq_length", .key = "seq_length" },
    { "max_predictions_per_seq", .key = "max_pred" },
    { "micro_batch_size", .key = "batch_size" },
    { "train_batch_size", .key = "batch_size" },
    { "vocab_file",
      .note = "remove it: text is read byte by byte, shards hold token ids" },

    /* model */
    { "n_embd", .key = "hidden" },
    { "n_head", .key = "heads" },
    { "n_layer", .key = "layers" },

    /* optimisation */
    { "lr", .key = "learning_rate" },
    { "lr_policy", .key = "learning_rate_policy" },
    { "momentum", .key = "beta1" },
    { "warmup_steps", .key = "lr_warmup", .note = "a share of all steps" },
    { "warmup_updates", .key = "lr_warmup", .note = "a share of all steps" },
    { "gradient_accumulation_steps", .key = "accumulation_steps" },
    { "num_train_epochs", .key = "epochs" },
    { "max_steps", .key = "total_steps", .option = "--max-steps N" },
    { "steps", .key = "total_steps", .option = "--max-steps N" },

    /* pipeline */
    { "gradient_checkpointing", .key = "recompute_ratio", .value = "1" },
    { "world_size", .key = "stages",
      .note = "one rank each, more with replicas" },

    /* machine */
    { "bf16", .key = "precision", .value = "bf16" },
    { "dtype", .key = "precision", .note = "fp32, tf32, bf16 or fp16" },
    { "fp16", .key = "precision", .value = "fp16" },

    /* run */
    { "checkpoint_dir", .key = "log_directory", .option = "--output DIR",
      .note = "checkpoints are in the run folder" },
    { "config", .option = "--config_file FILE" },
    { "init_checkpoint", .option = "--resume DIR",
      .note = "a checkpoint that vpipe wrote" },
    { "print_freq", .key = "print_frequency" },
};
/* clang-format on */

/* Lower case, '_' for '-', no dashes in front. */
static void fold(const char *name, char out[NAME_BYTES])
{
    size_t n = 0;

    for (name += strspn(name, "-"); *name && n < NAME_BYTES - 1; name++)
        out[n++] = *name == '-'                   ? '_'
                   : *name >= 'A' && *name <= 'Z' ? (char)(*name | 32)
                                                  : *name;
    out[n] = '\0';
}

static const struct hint *find(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(hints); i++)
        if (strcmp(hints[i].name, name) == 0)
            return &hints[i];
    return NULL;
}

/* "learning_rate", "precision: fp16", "--set learning_rate=...". */
static void write_key(enum vp_hint_place place, const char *key,
                      const char *value, char out[USE_BYTES])
{
    const char *assign = place == VP_HINT_FILE ? ": " : "=";

    if (place == VP_HINT_FLAG && !value)
        value = "...";
    snprintf(out, USE_BYTES, "%s%s%s%s", place == VP_HINT_FLAG ? "--set " : "",
             key, value ? assign : "", value ? value : "");
}

bool vp_hint(enum vp_hint_place place, const char *name, char *out,
             size_t n_bytes)
{
    char folded[NAME_BYTES], use[USE_BYTES];
    const struct hint *hint;
    struct hint as_key;

    fold(name, folded);
    hint = find(folded);
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
    snprintf(out, n_bytes, "use '%s'%s%s%s", use, hint->note ? " (" : "",
             hint->note ? hint->note : "", hint->note ? ")" : "");
    return true;
}
