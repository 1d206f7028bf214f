/* Configurations that are refused, each with its whole message. The file is
 * a.yml in the working directory; gpt2.json beside it describes a GPT-2 of
 * width 32 with 64 positions. */
#ifndef VP_TESTS_CONFIG_CASES_H
#define VP_TESTS_CONFIG_CASES_H

#include <stddef.h>

struct refused {
    const char *yaml;
    const char *set;  /* one --set, or NULL */
    const char *want; /* the whole message */
};

#define BERT "model_type: bert\n"

/* clang-format off */

/* Text that is not YAML, or YAML that is not supported. */
static const struct refused not_yaml[] = {
    { "", NULL,
      "a.yml: the file holds no configuration; write at least "
      "'model_type: bert'" },
    { "# nothing\n", NULL,
      "a.yml: the file holds no configuration; write at least "
      "'model_type: bert'" },
    { "bert\n", NULL,
      "a.yml:1: a configuration is a list of 'key: value' lines; write for "
      "example 'model_type: bert'" },
    { "\n- bert\n", NULL,
      "a.yml:2: a configuration is a list of 'key: value' lines; write for "
      "example 'model_type: bert'" },
    { "model_type: bert\nlayers: 2\nmodel_type: gpt2\n", NULL,
      "a.yml:3:1: key 'model_type' appears twice, first on line 1; keep one" },
    { "model_type: bert\nlayers: &n 2\n", NULL,
      "a.yml:2:9: anchors are not supported; write the value itself" },
    { "model_type: bert\nlayers: *n\n", NULL,
      "a.yml:2:9: aliases are not supported; write the value itself" },
    { "model_type: bert\nlayers: !!int 2\n", NULL,
      "a.yml:2:9: tags are not supported; remove the word that starts with "
      "'!'" },
    { "model_type: bert\npartition: &p [1]\n", NULL,
      "a.yml:2:12: anchors are not supported; write the value itself" },
    { "model_type: bert\npartition: !x [1]\n", NULL,
      "a.yml:2:12: tags are not supported; remove the word that starts with "
      "'!'" },
    { "model_type: bert\n---\nmodel_type: gpt2\n", NULL,
      "a.yml:2:1: a second document begins here; keep one per file" },
    { "? [a]\n: 1\n", NULL,
      "a.yml:1:3: a key must be a word; write 'key: value'" },
    { "\"\": 1\n", NULL,
      "a.yml:1:1: a key is missing before ':'; write 'key: value'" },
    { "model_type: bert\n\tlayers: 2\n", NULL,
      "a.yml:2:1: not YAML: found a tab character that violates indentation; "
      "indent with spaces" },
    { "model_type: bert\nlayers: @2\n", NULL,
      "a.yml:2:9: not YAML: found character that cannot start any token; use "
      "spaces, not tabs, and quote text with special characters" },
    { "model_type: bert\nlayers: 2: 3\n", NULL,
      "a.yml:2:10: not YAML: mapping values are not allowed in this context; "
      "check indentation, colons and quotes near this line" },
    { "model_type: [bert\n", NULL,
      "a.yml:2:1: not YAML: did not find expected ',' or ']'; check "
      "indentation, colons and quotes near this line" },
    { "model_type: \"bert\n", NULL,
      "a.yml:2:1: not YAML: found unexpected end of stream; check "
      "indentation, colons and quotes near this line" },
    { "model_type: bert\ndata_dir: \"a\\nb\"\n", NULL,
      "a.yml:2:11: this text holds a line break or control character; write "
      "it on one line without them" },
    { "model_type: bert\ndata_dir: \"a\\0b\"\n", NULL,
      "a.yml:2:11: this text holds a line break or control character; write "
      "it on one line without them" },
    { "model_type: bert\ndata_dir: |\n  a\n  b\n", NULL,
      "a.yml:2:11: this text holds a line break or control character; write "
      "it on one line without them" },
    { "model_type: b\xFF\n", NULL,
      "a.yml: byte 13 is not YAML text: invalid leading UTF-8 octet; save the "
      "file as UTF-8 text" },
    { "model_type: b\x01\n", NULL,
      "a.yml: byte 13 is not YAML text: control characters are not allowed; "
      "save the file as UTF-8 text" },
};

/* Keys that do not exist, are set twice, do not fit the model, or have no
 * value. */
static const struct refused bad_keys[] = {
    { "layers: 2\n", NULL,
      "a.yml: key 'model_type' is missing; add one of bert, gpt2, cpm, "
      "translation, for example 'model_type: bert'" },
    { "model_type: bert\n\n\nlaers: 2\n", NULL,
      "a.yml:4: unknown key 'laers'; did you mean 'layers'?" },
    { "model_type: bert\nLayers: 2\n", NULL,
      "a.yml:2: unknown key 'Layers'; did you mean 'layers'?" },
    { "model_type: bert\nxyzzy: 2\n", NULL,
      "a.yml:2: unknown key 'xyzzy'; 'vpipe train --help' lists the keys" },
    { "model_type: bert\n<<: {a: 1}\n", NULL,
      "a.yml:2: unknown key '<<'; 'vpipe train --help' lists the keys" },
    { "model_type: bert\nswap: true\n", NULL,
      "a.yml:2: key 'swap' is known but not supported by this version yet; "
      "remove it" },
    { "freeze: true\nlayers: x\n", NULL,
      "a.yml:1: key 'freeze' is known but not supported by this version "
      "yet; remove it" },
    { "model_type: bert\nfreeze:\n  - 0\n", NULL,
      "a.yml:2: key 'freeze' is known but not supported by this version yet; "
      "remove it" },
    { "model_type: gpt2\nmodule: vgpus=4\n", NULL,
      "a.yml:2: key 'module' has no effect with model_type gpt2; remove it" },
    { "model_type: bert\npositions: 512\nmax_positions: 512\n", NULL,
      "a.yml:3: key 'max_positions' is another name for 'positions' at "
      "a.yml:2; keep one" },
    { "model_type: gpt2\nmax_pred: 20\n", NULL,
      "a.yml:2: key 'max_pred' has no effect with model_type gpt2; remove "
      "it" },
    { "model_type: bert\ndecoder_layers: 2\n", NULL,
      "a.yml:2: key 'decoder_layers' has no effect with model_type bert; "
      "remove it" },
    { "model_type: bert\noptimizer: sgd\neps: 1e-8\n", NULL,
      "a.yml:3: key 'eps' has no effect with optimizer sgd; remove it" },
    { "model_type: bert\n", "laers=2",
      "--set: unknown key 'laers'; did you mean 'layers'?" },
    { "model_type: bert\n", "layers",
      "--set: 'layers' is not key=value; write for example "
      "'--set batch_size=8'" },
    { "model_type: bert\n", "=2",
      "--set: '=2' is not key=value; write for example "
      "'--set batch_size=8'" },
    { "model_type: bert\n", "layers=",
      "--set: key 'layers' has no value; write for example 'layers=4' or "
      "remove it" },
    { "model_type: bert\n", "layers=two",
      "--set: key 'layers' must be a whole number from 1 to 10000, not 'two'; "
      "write for example 'layers=4'" },
    { "model_type: bert\n", "data_dir=a\nb",
      "--set: the value is too long or holds a line break or control "
      "character; write it without them" },
    { "model_type: bert\n", "swap=true",
      "--set: key 'swap' is known but not supported by this version yet; "
      "remove it" },
};

/* Values of the wrong type or out of range. */
static const struct refused bad_values[] = {
    { "model_type:\n", NULL,
      "a.yml:1: key 'model_type' has no value; write for example "
      "'model_type: bert' or remove it" },
    { "model_type: brt\n", NULL,
      "a.yml:1: key 'model_type' must be one of bert, gpt2, cpm, translation, "
      "not 'brt'; did you mean 'bert'?" },
    { "model_type: image_classification\n", NULL,
      "a.yml:1: key 'model_type' must be one of bert, gpt2, cpm, translation, "
      "not 'image_classification'; write for example 'model_type: bert'" },
    { "model_type: [bert]\n", NULL,
      "a.yml:1: key 'model_type' must be one of bert, gpt2, cpm, translation, "
      "not a list; write for example 'model_type: bert'" },
    { BERT "size: lage\n", NULL,
      "a.yml:2: key 'size' must be one of large, base, large-48, not 'lage'; "
      "did you mean 'large'?" },
    { BERT "checkpoint_every: epochs\n", NULL,
      "a.yml:2: key 'checkpoint_every' must be a whole number from 0 to "
      "1000000000000, or epoch, not 'epochs'; write for example "
      "'checkpoint_every: 100'" },
    { BERT "checkpoint_every: '8'\n", NULL,
      "a.yml:2: key 'checkpoint_every' must be a whole number from 0 to "
      "1000000000000, or epoch, not the quoted text '8'; write for example "
      "'checkpoint_every: 100'" },
    { BERT "checkpoint_every: -1\n", NULL,
      "a.yml:2: key 'checkpoint_every' must be a whole number from 0 to "
      "1000000000000, or epoch, not '-1'; write for example "
      "'checkpoint_every: 100'" },
    { BERT "batch_size: 8.5\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not '8.5'; write for example 'batch_size: 8'" },
    { BERT "batch_size: 0\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not '0'; write for example 'batch_size: 8'" },
    { BERT "batch_size: -8\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not '-8'; write for example 'batch_size: 8'" },
    { BERT "batch_size: 99999999999999999999\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not '99999999999999999999'; write for example 'batch_size: 8'" },
    { BERT "batch_size: \"8\"\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not the quoted text '8'; write for example 'batch_size: 8'" },
    { BERT "batch_size: '8'\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not the quoted text '8'; write for example 'batch_size: 8'" },
    { BERT "layers: 10001\n", NULL,
      "a.yml:2: key 'layers' must be a whole number from 1 to 10000, not "
      "'10001'; write for example 'layers: 4'" },
    { BERT "batch_size: 010\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not '010'; write for example 'batch_size: 8'" },
    { BERT "batch_size: true\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not 'true'; write for example 'batch_size: 8'" },
    { BERT "batch_size: {a: 1}\n", NULL,
      "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216, "
      "not a map; write for example 'batch_size: 8'" },
    { BERT "batch_size: ~\n", NULL,
      "a.yml:2: key 'batch_size' has no value; write for example "
      "'batch_size: 8' or remove it" },
    { BERT "batch_size: null\n", NULL,
      "a.yml:2: key 'batch_size' has no value; write for example "
      "'batch_size: 8' or remove it" },
    { BERT "max_positions: 1e3\n", NULL,
      "a.yml:2: key 'max_positions' must be a whole number from 1 to 1048576, "
      "not '1e3'; write for example 'max_positions: 512'" },
    { BERT "vocab: 7\n", NULL,
      "a.yml:2: key 'vocab' must be a whole number from 8 to 16777216, not "
      "'7'; write for example 'vocab: 1024'" },
    { BERT "seed: -1\n", NULL,
      "a.yml:2: key 'seed' must be a whole number from 0 to "
      "9007199254740992, not '-1'; write for example 'seed: 1'" },
    { BERT "seed: 9007199254740993\n", NULL,
      "a.yml:2: key 'seed' must be a whole number from 0 to "
      "9007199254740992, not '9007199254740993'; write for example "
      "'seed: 1'" },
    { BERT "seed: 9223372036854775807\n", NULL,
      "a.yml:2: key 'seed' must be a whole number from 0 to "
      "9007199254740992, not '9223372036854775807'; write for example "
      "'seed: 1'" },
    { BERT "seed: 9223372036854775808\n", NULL,
      "a.yml:2: key 'seed' must be a whole number from 0 to "
      "9007199254740992, not '9223372036854775808'; write for example "
      "'seed: 1'" },
    { BERT "seed: 18446744073709551615\n", NULL,
      "a.yml:2: key 'seed' must be a whole number from 0 to "
      "9007199254740992, not '18446744073709551615'; write for example "
      "'seed: 1'" },
    { BERT "dropout: yes\n", NULL,
      "a.yml:2: key 'dropout' must be a number from 0 to 0.99, not 'yes'; "
      "write for example 'dropout: 0.1'" },
    { BERT "dropout: 1.5\n", NULL,
      "a.yml:2: key 'dropout' must be a number from 0 to 0.99, not '1.5'; "
      "write for example 'dropout: 0.1'" },
    { BERT "dropout: -0.1\n", NULL,
      "a.yml:2: key 'dropout' must be a number from 0 to 0.99, not '-0.1'; "
      "write for example 'dropout: 0.1'" },
    { BERT "dropout: .nan\n", NULL,
      "a.yml:2: key 'dropout' must be a number from 0 to 0.99, not '.nan'; "
      "write for example 'dropout: 0.1'" },
    { BERT "learning_rate: 1e400\n", NULL,
      "a.yml:2: key 'learning_rate' must be a number from 0 to 100, not "
      "'1e400'; write for example 'learning_rate: 0.0005'" },
    { BERT "learning_rate: 0,05\n", NULL,
      "a.yml:2: key 'learning_rate' must be a number from 0 to 100, not "
      "'0,05'; write for example 'learning_rate: 0.0005'" },
    { BERT "beta1: 1\n", NULL,
      "a.yml:2: key 'beta1' must be a number from 0 to 0.999999, not '1'; "
      "write for example 'beta1: 0.9'" },
    { BERT "eps: 0\n", NULL,
      "a.yml:2: key 'eps' must be a number from 1e-30 to 1, not '0'; write "
      "for example 'eps: 1e-8'" },
    { BERT "lr_warmup: 2\n", NULL,
      "a.yml:2: key 'lr_warmup' must be true, false or a number from 0 to 1, "
      "not '2'; write for example 'lr_warmup: 0.1'" },
    { BERT "tie_embeddings: 1\n", NULL,
      "a.yml:2: key 'tie_embeddings' must be true or false, not '1'; write "
      "for example 'tie_embeddings: true'" },
    { BERT "invalid_utf8: ignore\n", NULL,
      "a.yml:2: key 'invalid_utf8' must be one of refuse, replace, not 'ignore'; "
      "write for example 'invalid_utf8: replace'" },
    { BERT "synthetic_data: maybe\n", NULL,
      "a.yml:2: key 'synthetic_data' must be true or false, not 'maybe'; "
      "write for example 'synthetic_data: true'" },
    { BERT "memory_limit: 11 GB\n", NULL,
      "a.yml:2: key 'memory_limit' must be a size such as 512M or 11G, not "
      "'11 GB'; write for example 'memory_limit: 11G'" },
    { BERT "memory_limit: 9007199254740992\n", NULL,
      "a.yml:2: key 'memory_limit' must be a size such as 512M or 11G, not "
      "'9007199254740992'; write for example 'memory_limit: 11G'" },
    { BERT "memory_limit: 9007199254740993\n", NULL,
      "a.yml:2: key 'memory_limit' must be a size such as 512M or 11G, not "
      "'9007199254740993'; write for example 'memory_limit: 11G'" },
    { BERT "memory_limit: 8192T\n", NULL,
      "a.yml:2: key 'memory_limit' must be a size such as 512M or 11G, not "
      "'8192T'; write for example 'memory_limit: 11G'" },
    { BERT "memory_limit: 0\n", NULL,
      "a.yml:2: key 'memory_limit' must be a size such as 512M or 11G, not "
      "'0'; write for example 'memory_limit: 11G'" },
    { BERT "optimizer: adma\n", NULL,
      "a.yml:2: key 'optimizer' must be one of sgd, adam, adamw, lamb, not "
      "'adma'; did you mean 'adam'?" },
    { BERT "learning_rate_policy: linear\n", NULL,
      "a.yml:2: key 'learning_rate_policy' must be one of constant, step, "
      "polynomial, exponential_decay, inverse_sqrt, cosine, not 'linear'; "
      "use 'polynomial' (the square root of the share of steps left)" },
    { BERT "learning_rate_policy: falling\n", NULL,
      "a.yml:2: key 'learning_rate_policy' must be one of constant, step, "
      "polynomial, exponential_decay, inverse_sqrt, cosine, not 'falling'; "
      "write for example 'learning_rate_policy: polynomial'" },
    { BERT "activation: \"\"\n", NULL,
      "a.yml:2: key 'activation' must be one of relu, gelu, gelu_tanh, not "
      "the quoted text ''; write for example 'activation: gelu'" },
    { BERT "kernels: quick\n", NULL,
      "a.yml:2: key 'kernels' must be one of fast, reference, not 'quick'; "
      "write for example 'kernels: fast'" },
    { BERT "device: gpu\n", NULL,
      "a.yml:2: key 'device' must be one of auto, cpu, cuda, not 'gpu'; use "
      "'cuda'" },
    { BERT "device: cuda:1\n", NULL,
      "a.yml:2: key 'device' must be one of auto, cpu, cuda, not 'cuda:1'; "
      "numbers of GPUs belong to machines, one entry per rank, for example "
      "['localhost:1']" },
    { BERT "device: tpu:1\n", NULL,
      "a.yml:2: key 'device' must be one of auto, cpu, cuda, not 'tpu:1'; "
      "write for example 'device: cpu'" },
    { BERT "precision: fp\n", NULL,
      "a.yml:2: key 'precision' must be one of fp32, tf32, bf16, fp16, auto, "
      "not 'fp'; write for example 'precision: bf16'" },
    { BERT "loss_scale: auto\n", NULL,
      "a.yml:2: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not 'auto'; write for example 'loss_scale: 1024'" },
    { BERT "loss_scale: on\n", NULL,
      "a.yml:2: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not 'on'; write for example 'loss_scale: 1024'" },
    { BERT "loss_scale: 0.5\n", NULL,
      "a.yml:2: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not '0.5'; write for example 'loss_scale: 1024'" },
    { BERT, "loss_scale=-1024",
      "--set: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not '-1024'; write for example 'loss_scale=1024'" },
    { BERT "loss_scale: 1e31\n", NULL,
      "a.yml:2: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not '1e31'; write for example 'loss_scale: 1024'" },
    { BERT "loss_scale: \"1024\"\n", NULL,
      "a.yml:2: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not the quoted text '1024'; write for example 'loss_scale: "
      "1024'" },
    { BERT "loss_scale: \"auto\"\n", NULL,
      "a.yml:2: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not the quoted text 'auto'; write for example 'loss_scale: "
      "1024'" },
    { BERT "loss_scale: [1, 2]\n", NULL,
      "a.yml:2: key 'loss_scale' must be dynamic, off or a number from 1 to "
      "1e+30, not a list; write for example 'loss_scale: 1024'" },
    { BERT "sync_mode: asp\nloss_scale: dynamic\n", NULL,
      "a.yml:3: key 'loss_scale' is dynamic, but in sync_mode asp it must be "
      "a number; write for example 'loss_scale: 1024'" },
    { BERT "sync_mode: asp\nprecision: fp16\n", NULL,
      "a.yml:3: key 'loss_scale' is dynamic with precision fp16, but in "
      "sync_mode asp it must be a number; write for example 'loss_scale: "
      "1024'" },
    { BERT "log_directory: \"\"\n", NULL,
      "a.yml:2: key 'log_directory' must be a path, not the quoted text ''; "
      "write for example 'log_directory: runs'" },
    { BERT "layers: "
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4x"
      "\xC3\xA4\xC3\xA4\xC3\xA4\n", NULL,
      "a.yml:2: key 'layers' must be a whole number from 1 to 10000, not '"
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"
      "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4x...'; write "
      "for example 'layers: 4'" },
};

/* Values that are valid alone, but not together. */
static const struct refused bad_together[] = {
    { BERT "heads: 7\n", NULL,
      "a.yml:2: key 'heads': 7 heads do not divide hidden 1024; use a divisor "
      "of hidden, or a hidden that is a multiple of 7" },
    /* heads is a default; the message has the place of hidden. */
    { BERT "hidden: 100\n", NULL,
      "a.yml:2: key 'heads': 16 heads do not divide hidden 100; use a divisor "
      "of hidden, or a hidden that is a multiple of 16" },
    { BERT "hidden: 100\n", "heads=3",
      "--set: key 'heads': 3 heads do not divide hidden 100; use a divisor of "
      "hidden, or a hidden that is a multiple of 3" },
    { BERT "seq_length: 513\n", NULL,
      "a.yml:2: key 'seq_length': 513 is longer than the model's 512 "
      "positions; shorten it or raise positions" },
    { BERT "pad_id: 30528\n", NULL,
      "a.yml:2: key 'pad_id': 30528 is not possible; use 0 to 30527" },
    { BERT "vocab: 16777216\nhidden: 1048576\n", NULL,
      "a.yml:3: key 'hidden': a tensor of 3145728 x 1048576 numbers is larger "
      "than 4 TiB; use a smaller hidden" },
    { BERT "batch_size: 16777216\nseq_length: 512\n", NULL,
      "a.yml:2: key 'batch_size': 16777216 samples of 512 tokens are more "
      "than 2^31 rows; use a smaller batch_size" },
    { BERT "seq_length: 16\nmax_pred: 17\n", NULL,
      "a.yml:3: key 'max_pred' is 17, more than seq_length 16; lower it" },
    { "model_type: translation\nbatch_size: 100\n", NULL,
      "a.yml:2: key 'batch_size' counts tokens here, and 100 do not hold one "
      "sentence of seq_length 128; raise it" },
    { "model_type: translation\nsize: base\nseq_length: 1024\nbatch_size: "
      "1000\n", NULL,
      "a.yml:4: key 'batch_size' counts tokens here, and 1000 do not hold one "
      "sentence of seq_length 1024; raise it" },
    { BERT "synthetic_data: false\n", NULL,
      "a.yml:2: key 'synthetic_data' is false but there is no data_dir; "
      "generate data with --set synthetic_data=true, or add 'data_dir: "
      "FOLDER'" },
    { BERT "size: lrge\n", "size=tiny",
      "--set: key 'size' must be one of large, base, large-48, not 'tiny'; "
      "write for example 'size=large'" },
    { BERT "module: vgpus=4\nconfig: x.json\n", NULL,
      "a.yml:3: key 'config' and key 'module' at a.yml:2 both choose the "
      "sizes; remove one" },
    { BERT "size: base\nconfig: x.json\n", NULL,
      "a.yml:3: key 'config' and key 'size' at a.yml:2 both choose the sizes; "
      "remove one" },
    { BERT "config: nowhere.json\n", NULL,
      "a.yml:2: key 'config': nowhere.json: cannot be opened: No such file or "
      "directory; check the path" },
    { BERT "config: gpt2.json\n", NULL,
      "a.yml:2: key 'config' names a file for model_type gpt2, but model_type "
      "is bert; make them agree" },
    /* The sizes come from the file named in line 2. */
    { "model_type: gpt2\nconfig: gpt2.json\nseq_length: 65\n", NULL,
      "a.yml:3: key 'seq_length': 65 is longer than the model's 64 positions; "
      "shorten it or raise positions" },
    { "model_type: cpm\nconfig: gpt2.json\nheads: 5\n", NULL,
      "a.yml:3: key 'heads': 5 heads do not divide hidden 32; use a divisor "
      "of hidden, or a hidden that is a multiple of 5" },
};

/* A model of 9 blocks. */
#define NINE BERT "layers: 4\n"
#define ASP "sync_mode: asp\n"

/* Impossible pipelines. */
static const struct refused bad_pipelines[] = {
    /* Lists of wrong types or values. */
    { NINE "partition: [3, x, 3]\n", NULL,
      "a.yml:3: key 'partition' has 'x' as entry 2; write whole numbers from 1 "
      "to 100000, for example 'partition: [3, 2, 2, 2]'" },
    { NINE "partition: [3, 0, 6]\n", NULL,
      "a.yml:3: key 'partition' has '0' as entry 2; write whole numbers from 1 "
      "to 100000, for example 'partition: [3, 2, 2, 2]'" },
    { NINE "partition: [3, \"3\", 3]\n", NULL,
      "a.yml:3: key 'partition' has the quoted text '3' as entry 2; write "
      "whole numbers from 1 to 100000, for example 'partition: [3, 2, 2, 2]'" },
    { NINE "partition:\n  - 3\n  - [3, 3]\n", NULL,
      "a.yml:3: key 'partition' has a list as entry 2; write whole numbers "
      "from 1 to 100000, for example 'partition: [3, 2, 2, 2]'" },
    { NINE "partition: []\n", NULL,
      "a.yml:3: key 'partition' must be a list of whole numbers from 1 to "
      "100000, or the path of a plan, not an empty list; write for example "
      "'partition: [3, 2, 2, 2]'" },
    { NINE "partition: 9\n", NULL,
      "a.yml:3: key 'partition' must be a list of whole numbers from 1 to "
      "100000, or the path of a plan, not '9'; write for example 'partition: "
      "[3, 2, 2, 2]'" },
    { NINE "partition: \"\"\n", NULL,
      "a.yml:3: key 'partition' must be a list of whole numbers from 1 to "
      "100000, or the path of a plan, not the quoted text ''; write for "
      "example 'partition: [3, 2, 2, 2]'" },
    { NINE "partition: {a: 9}\n", NULL,
      "a.yml:3: key 'partition' must be a list of whole numbers from 1 to "
      "100000, or the path of a plan, not a map; write for example "
      "'partition: [3, 2, 2, 2]'" },
    { NINE "partition: vpipe.json\n", NULL,
      "a.yml:3: key 'partition': vpipe.json: cannot be opened: No such file or "
      "directory; check the path" },
    { NINE, "partition=nowhere/vpipe.json",
      "--set: key 'partition': nowhere/vpipe.json: cannot be opened: No such "
      "file or directory; check the path" },
    { NINE, "partition=[3, 3",
      "--set: key 'partition' must be a list of whole numbers from 1 to "
      "100000, or the path of a plan, not '[3, 3'; write for example "
      "'partition=[3, 2, 2, 2]'" },
    { BERT "machines: [\"a_b.c-9:0\", [x]]\n", NULL,
      "a.yml:2: key 'machines' has a list as entry 2; write host:device, for "
      "example 'machines: [\"localhost:0\", \"localhost:1\"]'" },
    { BERT "machines: [\"localhost:1024\"]\n", NULL,
      "a.yml:2: key 'machines' has the quoted text 'localhost:1024' as entry "
      "1; write host:device, for example 'machines: [\"localhost:0\", "
      "\"localhost:1\"]'" },
    { BERT "verbose: []\n", NULL,
      "a.yml:2: key 'verbose' must be a list of some of stages, tensors, "
      "versions, communication, time, not an empty list; write for example "
      "'verbose: [stages, time]'" },
    { BERT, "verbose=time, stages,xyzzy",
      "--set: key 'verbose' has 'xyzzy' as entry 3; write a list of some of stages, "
      "tensors, versions, communication, time, for example 'verbose=[stages, "
      "time]'" },
    { BERT, "verbose=time,",
      "--set: key 'verbose' has '' as entry 2; write a list of some of stages, "
      "tensors, versions, communication, time, for example 'verbose=[stages, "
      "time]'" },
    { NINE, "partition=[3, 3, 3.5]",
      "--set: key 'partition' has '3.5' as entry 3; write whole numbers from 1 "
      "to 100000, for example 'partition=[3, 2, 2, 2]'" },
    { NINE "stages: 2\nrecompute_ratio: [0.5, 1.5]\n", NULL,
      "a.yml:4: key 'recompute_ratio' has '1.5' as entry 2; write numbers from "
      "0 to 1, for example 'recompute_ratio: 0.3'" },
    { NINE "recompute_ratio: -1\n", NULL,
      "a.yml:3: key 'recompute_ratio' must be a number from 0 to 1, or a list "
      "of them, not '-1'; write for example 'recompute_ratio: 0.3'" },
    { NINE "recompute_ratio: \"0.5\"\n", NULL,
      "a.yml:3: key 'recompute_ratio' must be a number from 0 to 1, or a list "
      "of them, not the quoted text '0.5'; write for example "
      "'recompute_ratio: 0.3'" },
    { NINE "stages: 2\nwarmup_depths: [1, -1]\n", NULL,
      "a.yml:4: key 'warmup_depths' has '-1' as entry 2; write whole numbers "
      "from 0 to 1000, for example 'warmup_depths: [3, 2, 1, 0]'" },
    { NINE "stages: [1]\n", NULL,
      "a.yml:3: key 'stages' must be a whole number from 1 to 64, not a list; "
      "write for example 'stages: 4'" },
    { NINE "stages: 0\n", NULL,
      "a.yml:3: key 'stages' must be a whole number from 1 to 64, not '0'; "
      "write for example 'stages: 4'" },

    /* Lists of wrong lengths or sums. */
    { NINE "stages: 4\npartition: [3, 3, 3]\n", NULL,
      "a.yml:4: key 'partition' has 3 entries for 4 stages; give one each" },
    { NINE "partition: [9]\n", "stages=2",
      "a.yml:3: key 'partition' has 1 entry for 2 stages; give one each" },
    { NINE "partition: [3, 3, 4]\n", NULL,
      "a.yml:3: key 'partition' has 10 blocks, but the model has 9; make them "
      "equal, or leave partition out" },
    { NINE "schedule: interleaved\npartition: [3, 3, 3]\n", NULL,
      "a.yml:4: key 'partition' has 3 entries, which do not divide into 2 "
      "chunks; give chunks x stages of them" },
    { NINE "schedule: interleaved\nstages: 2\npartition: [3, 3, 3]\n", NULL,
      "a.yml:5: key 'partition' has 3 entries for 2 chunks of 2 stages; give "
      "one each" },
    { NINE "stages: 2\nrecompute_ratio: [0.5, 0, 0]\n", NULL,
      "a.yml:4: key 'recompute_ratio' has 3 entries for 2 stages; give one "
      "each" },
    { NINE "recompute_ratio: [0.5, 0]\n", NULL,
      "a.yml:3: key 'recompute_ratio' has 2 entries for 1 stage; give one "
      "each" },
    { NINE "stages: 2\nreplicas: [1]\n", NULL,
      "a.yml:4: key 'replicas' has 1 entry for 2 stages; give one each" },
    { NINE "stages: 3\nwarmup_depths: [1, 0]\n", NULL,
      "a.yml:4: key 'warmup_depths' has 2 entries for 3 stages; give one "
      "each" },
    { NINE "stages: 10\n", NULL,
      "a.yml:3: key 'stages': the model has 9 blocks, too few for 10 stages; "
      "use fewer, or more layers" },
    { NINE "schedule: zb-v\nstages: 5\n", NULL,
      "a.yml:4: key 'stages': the model has 9 blocks, too few for 2 chunks of "
      "5 stages; use fewer, or more layers" },
    { BERT "schedule: interleaved\nstages: 33\n", NULL,
      "a.yml:3: key 'stages': 2 chunks of 33 stages are too many; use at most "
      "64 in all" },

    /* Schedules that do not fit other keys. */
    { NINE ASP "schedule: 1f1b\n", NULL,
      "a.yml:4: key 'schedule' is 1f1b, which needs sync_mode bsp; set that, "
      "or use pipedream" },
    { NINE "schedule: macrobatch\n", NULL,
      "a.yml:3: key 'schedule' is macrobatch, which needs sync_mode asp; set "
      "that, or use 1f1b" },
    { NINE "schedule: eval\n", NULL,
      "a.yml:3: key 'schedule' must be one of 1f1b, gpipe, pipedream, "
      "macrobatch, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, v-auto, "
      "dualpipe-v, auto, or a path, not 'eval'; write for example 'schedule: "
      "1f1b'" },
    { NINE "schedule: zb_v\n", NULL,
      "a.yml:3: key 'schedule' must be one of 1f1b, gpipe, pipedream, "
      "macrobatch, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, v-auto, "
      "dualpipe-v, auto, or a path, not 'zb_v'; did you mean 'zb-v'?" },
    { NINE ASP "schedule: pipedream\nmacrobatch: true\n", NULL,
      "a.yml:4: key 'schedule' is pipedream, but macrobatch at a.yml:5 is "
      "true; remove one" },
    { NINE ASP "schedule: macrobatch\nmacrobatch: false\n", NULL,
      "a.yml:4: key 'schedule' is macrobatch, but macrobatch at a.yml:5 is "
      "false; remove one" },
    { NINE "macrobatch: true\n", NULL,
      "a.yml:3: key 'macrobatch' has no effect with sync_mode bsp; remove "
      "it" },
    { NINE "chunks: 2\n", NULL,
      "a.yml:3: key 'chunks' has no effect with schedule 1f1b; remove it" },
    { NINE "schedule: zb-v\nchunks: 3\n", NULL,
      "a.yml:4: key 'chunks' is 3, but schedule zb-v has 2; remove it, or use "
      "interleaved" },
    { NINE "schedule: v-half\nchunks: 3\n", NULL,
      "a.yml:4: key 'chunks' is 3, but schedule v-half has 2; remove it, or "
      "use interleaved" },
    { NINE "schedule: v-auto\nschedule_memory: 1\n", NULL,
      "a.yml:4: key 'schedule_memory' must be a whole number from 2 to 128, "
      "not '1'; write for example 'schedule_memory: 6'" },
    { NINE "schedule: zb-v\nschedule_memory: 4\n", NULL,
      "a.yml:4: key 'schedule_memory' has no effect with schedule zb-v; "
      "remove it" },
    { NINE "schedule: zb-v\nschedule_costs: [1, 1, 1]\n", NULL,
      "a.yml:4: key 'schedule_costs' has no effect with schedule zb-v; remove "
      "it" },
    { NINE "stages: 2\nschedule: auto\nschedule_costs: 3\n", NULL,
      "a.yml:5: key 'schedule_costs' has 1 number; give three, the times of a "
      "forward, a backward and a weight gradient, for example [1, 1.4, 0.6]" },
    { NINE "stages: 2\nschedule: auto\nschedule_costs: [1, 2]\n", NULL,
      "a.yml:5: key 'schedule_costs' has 2 numbers; give three, the times of a "
      "forward, a backward and a weight gradient, for example [1, 1.4, 0.6]" },
    { NINE "stages: 2\nschedule: auto\nreplicas: [2, 2]\n", NULL,
      "a.yml:4: schedule auto: 2 replicas of stage 0; it takes none, use zb-h2 "
      "or zb-v" },
    { NINE ASP "schedule: auto\n", NULL,
      "a.yml:4: key 'schedule' is auto, which needs sync_mode bsp; set that, "
      "or use pipedream" },
    { NINE "stages: 2\nschedule: auto\nwarmup_depths: [1, 0]\n", NULL,
      "a.yml:5: key 'warmup_depths': schedule auto has no warm-up depth to "
      "set; leave the depths out" },
    { NINE "schedule: interleaved\nstages: 2\nreplicas: [1, 2]\n", NULL,
      "a.yml:5: key 'replicas': ranks of schedule interleaved own several "
      "stages and need the same number of replicas everywhere; give that, or "
      "use 1f1b" },
    { BERT "stages: 17\nreplicas: [64, 64, 64, 64, 64, 64, 64, 64, 64, 64, "
      "64, 64, 64, 64, 64, 64, 1]\n", NULL,
      "a.yml:3: key 'replicas': 1025 ranks are too many; use at most 1024 in "
      "all" },
    { NINE "schedule: gpipe\nstages: 2\nwarmup_depths: [1, 0]\n", NULL,
      "a.yml:5: key 'warmup_depths': schedule gpipe has no warm-up depth to "
      "set; leave the depths out" },
    { NINE ASP "stages: 2\nwarmup_depths: [0, 1]\n", NULL,
      "a.yml:5: key 'warmup_depths': rank 0, action 2 (0RECV_GRAD0): waits "
      "forever for 1SEND_GRAD0 of rank 1; cycle rank 0 -> rank 1 -> rank 0; "
      "change the order or the warm-up depths" },
    { NINE ASP "accumulation_steps: 4\n", NULL,
      "a.yml:4: key 'accumulation_steps' has no effect with sync_mode asp; "
      "remove it" },
    { NINE ASP "grad_clip_scope: stage\n", NULL,
      "a.yml:4: key 'grad_clip_scope' has no effect with sync_mode asp; "
      "remove it" },
    { NINE "stages: 2\ntie_embeddings: true\ngrad_clip: 1\n"
      "grad_clip_scope: stage\n", NULL,
      "a.yml:6: key 'grad_clip_scope': stages that share the tied embeddings "
      "must clip them alike; set tie_embeddings to false, or grad_clip_scope "
      "to all" },
    { NINE "optimizer: adam\nsequence_parallel: true\n", NULL,
      "a.yml:4: key 'sequence_parallel' is true, but mp_size is 1: there is no "
      "group whose ranks could share rows; set mp_size, or sequence_parallel: "
      "false" },
    { NINE "optimizer: adam\nmp_size: 2\nsequence_parallel: true\n"
      "device: cuda\n", NULL,
      "a.yml:5: key 'sequence_parallel' is true, but slices of rows are on CPU "
      "cores alone; set device: cpu, or sequence_parallel: false" },
    { NINE ASP "stages: 2\ntie_embeddings: true\n", NULL,
      "a.yml:5: key 'tie_embeddings' is true, but several stages cannot share "
      "weights in sync_mode asp; set it to false, or use bsp" },
    { NINE "stages: 4\nthreads_per_stage: 257\n", NULL,
      "a.yml:4: key 'threads_per_stage': 4 ranks with 257 threads each are "
      "1028; use at most 1024 in all" },
    { NINE "stages: 2\nreplicas: [1, 8]\nthreads_per_stage: 114\n", NULL,
      "a.yml:5: key 'threads_per_stage': 9 ranks with 114 threads each are "
      "1026; use at most 1024 in all" },
    { NINE "watchdog_seconds: 0\n", NULL,
      "a.yml:3: key 'watchdog_seconds' must be a whole number from 1 to 86400, "
      "not '0'; write for example 'watchdog_seconds: 60'" },
};

/* clang-format on */

#endif
