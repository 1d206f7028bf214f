#include "lib/config_text.h"

#include "config/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Files in one temporary folder -------------------------------------- */

static char config_folder[] = "/tmp/vpipe_config_XXXXXX";

int enter_config_folder(void **state)
{
    (void)state;
    if (!mkdtemp(config_folder) || chdir(config_folder) != 0)
        return -1;
    return mkdir("sub", 0700) | mkdir("data", 0700);
}

int leave_config_folder(void **state)
{
    static const char *const files[] = { "a.yml",         "b.yml",
                                         "c.yml",         "gpt2.json",
                                         "sub/a.yml",     "sub/gpt2.json",
                                         "sub/plan.json", "sub/ranks.json" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(files); i++)
        unlink(files[i]);
    rmdir("sub/data");
    rmdir("sub");
    rmdir("data");
    return chdir("/") | rmdir(config_folder);
}

enum vp_status load_text(const char *yaml, const char *set,
                         struct vp_config *out, struct vp_err *err)
{
    write_text_file("a.yml", yaml);
    *err = (struct vp_err){ .text = "" };
    return vp_config_load("a.yml", &set, set ? 1 : 0, out, err);
}

void load_ok(const char *yaml, const char *set, struct vp_config *out)
{
    struct vp_err err;

    if (load_text(yaml, set, out, &err) != VP_OK)
        fail_msg("%s\n%s", err.text, yaml);
}

/* ---- Refused configurations --------------------------------------------- */

const char gpt2_json[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 100, \"n_embd\": 32,\n"
    " \"n_layer\": 3, \"n_head\": 4, \"n_positions\": 64, \"n_ctx\": 64,\n"
    " \"embd_pdrop\": 0.0, \"resid_pdrop\": 0.0, \"attn_pdrop\": 0.25,\n"
    " \"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-6}\n";

/* ---- Accepted configurations -------------------------------------------- */

const char everything[] = "model_type: translation\n"
                          "size: base\n"
                          "vocab: 600\n"
                          "hidden: 48\n"
                          "layers: 3\n"
                          "decoder_layers: 2\n"
                          "heads: 6\n"
                          "ffn: 100\n"
                          "max_positions: 256\n"
                          "dropout: 0.25\n"
                          "attention_dropout: 0\n"
                          "label_smoothing: 0.05\n"
                          "tie_embeddings: no\n"
                          "activation: gelu_tanh\n"
                          "norm_eps: 1e-7\n"
                          "pad_id: 3\n"
                          "attention_bias: On\n"
                          "data_dir: data\n"
                          "data_format: megatron\n"
                          "valid_split: held\n"
                          "source_lang: de\n"
                          "target_lang: en\n"
                          "required_batch_size_multiple: 24\n"
                          "document_end: 599\n"
                          "text_key: body\n"
                          "synthetic_data: False\n"
                          "invalid_utf8: replace\n"
                          "seq_length: 200\n"
                          "batch_size: 1000\n"
                          "seed: 9007199254740992\n"
                          "no_input_pipelining: yes\n"
                          "prefetch: 0\n"
                          "num_minibatches: 77\n"
                          "optimizer: adam\n"
                          "learning_rate: 1e-3\n"
                          "learning_rate_policy: 'cosine'\n"
                          "lr_warmup: 0.125\n"
                          "weight_decay: 0.5\n"
                          "beta1: 0.8\n"
                          "beta2: 0.9\n"
                          "eps: 1e-9\n"
                          "grad_clip: 2.5\n"
                          "epochs: 7\n"
                          "total_steps: 1000000000000\n"
                          "sync_mode: bsp\n"
                          "schedule: zb-h1\n"
                          "stages: 3\n"
                          "partition: [4, 8, 3]\n"
                          "recompute: true\n"
                          "recompute_ratio:\n"
                          "  - 0.1\n"
                          "  - 0.30000000000000004\n"
                          "  - 1\n"
                          "early_recompute: no\n"
                          "mp_size: 1\n"
                          "replicas: [1, 2, 1]\n"
                          "ranks: [3, 1, 0, 2]\n"
                          "warmup_depths: [4, 2, 0]\n"
                          "accumulation_steps: 5\n"
                          "grad_clip_scope: stage\n"
                          "compress_activations: true\n"
                          "shard_optimizer: true\n"
                          "compress_in_gpu: True\n"
                          "device: cpu\n"
                          "precision: fp32\n"
                          "loss_scale: 1536\n"
                          "threads_per_stage: 2\n"
                          "kernels: reference\n"
                          "memory_limit: 1.5G\n"
                          "distributed_backend: gloo\n"
                          "machines: [a-b.c_9:0, 'localhost:1023',\n"
                          "           127.0.0.1:2, 'localhost:0']\n"
                          "container: 'image \"x\\y\"'\n"
                          "log_directory: /tmp/a \"b\\ c\n"
                          "forward_only: true\n"
                          "eval_every: 11\n"
                          "eval_batches: 3\n"
                          "checkpoint_every: 13\n"
                          "keep_checkpoints: 4\n"
                          "tensorboard: true\n"
                          "prometheus_file: /tmp/v.prom\n"
                          "print_frequency: 1\n"
                          "verbose: versions, tensors\n"
                          "verbose_frequency: 9\n"
                          "watchdog_seconds: 7\n";
