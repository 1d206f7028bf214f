/* Configurations load with the right values: every key, defaults, values
 * derived from other keys, vocabularies, sizes from JSON, --set and paths. */
#include "backend/facts.h"
#include "config/config.h"
#include "config/load.h"
#include "config_cases.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "sched/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define TOKENIZERS VP_SOURCE_DIR "/tests/golden/tokenizers/"

/* ---- A model in JSON ---------------------------------------------------- */

static const char bert_json[] =
    "{\"vocab_size\": 100, \"hidden_size\": 32, \"num_hidden_layers\": 3,\n"
    " \"num_attention_heads\": 4, \"intermediate_size\": 64,\n"
    " \"hidden_act\": \"gelu\", \"max_position_embeddings\": 64,\n"
    " \"type_vocab_size\": 2, \"initializer_range\": 0.02}\n";

/* ---- Accepted configurations -------------------------------------------- */

static void test_only_model_type(void **state)
{
    static const struct {
        const char *yaml;
        enum vp_optim_kind optim;
        int64_t batch_size, max_pred;
        float lr;
    } cases[] = {
        { "model_type: bert\n", VP_OPTIM_LAMB, 8, 20, 2e-3f },
        { "model_type: gpt2\n", VP_OPTIM_ADAMW, 8, 0, 5e-4f },
        { "model_type: cpm\n", VP_OPTIM_ADAMW, 8, 0, 5e-4f },
        { "model_type: translation\n", VP_OPTIM_ADAM, 2560, 0, 5e-4f },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config c;

        load_ok(cases[i].yaml, NULL, &c);
        assert_memory_equal(&c.sizes, &c.model->sizes[0].config,
                            sizeof(c.sizes));
        assert_null(c.data_dir);
        assert_true(c.synthetic_data);
        assert_int_equal(c.data_format, VP_FORMAT_AUTO);
        assert_null(c.valid_split);
        assert_int_equal(c.document_end, -1);
        assert_string_equal(c.text_key, "text");
        assert_false(c.replace_invalid_utf8);
        assert_int_equal(c.seq_length, 128);
        assert_int_equal(c.batch_size, cases[i].batch_size);
        assert_int_equal(c.max_pred, cases[i].max_pred);
        assert_int_equal(c.seed, 1);
        assert_int_equal(c.prefetch, 2);
        assert_int_equal(c.optim.kind, cases[i].optim);
        assert_true(c.lr.base == cases[i].lr);
        assert_int_equal(c.lr.policy, VP_LR_POLYNOMIAL);
        assert_true(c.lr.warmup == 0.2f);
        assert_int_equal(c.epochs, 1);
        assert_int_equal(c.total_steps, 0);
        assert_int_equal(c.sync_mode, VP_SYNC_BSP);
        assert_string_equal(vp_generator_at(c.schedule)->name, "1f1b");
        assert_int_equal(c.stages, 1);
        assert_int_equal(c.chunks, 1);
        assert_int_equal(c.partition.n, 0);
        assert_int_equal(c.recompute_ratio.n, 0);
        assert_int_equal(c.replicas.n, 0);
        assert_int_equal(c.warmup_depths.n, 0);
        assert_true(c.early_recompute);
        assert_false(c.clip_per_stage);
        assert_int_equal(c.accumulation_steps, 1);
        assert_int_equal(c.watchdog_seconds, 60);
        assert_int_equal(c.device, VP_DEVICE_KIND_AUTO);
        assert_int_equal(c.threads_per_stage, 0);
        assert_false(c.reference_kernels);
        assert_int_equal(c.memory_limit, 0);
        assert_string_equal(c.log_directory, "runs");
        assert_int_equal(c.eval_every, 0);
        assert_int_equal(c.print_frequency, 10);
        assert_null(c.directory);
        assert_null(c.module);
        assert_null(c.container);
        assert_null(c.placement);
        assert_false(c.no_input_pipelining);
        assert_true(c.recompute);
        assert_int_equal(c.num_minibatches, 0);
        assert_int_equal(c.ranks.n, 0);
        assert_int_equal(c.mp_size, 1);
        assert_false(c.sequence_parallel);
        assert_false(c.compress_activations);
        assert_false(c.shard_optimizer);
        assert_false(c.compress_in_gpu);
        assert_int_equal(c.distributed_backend, VP_TRANSPORT_LOCAL);
        assert_int_equal(c.machines.n, 0);
        assert_false(c.forward_only);
        assert_int_equal(c.checkpoint_every, 1000);
        assert_int_equal(c.keep_checkpoints, 3);
        assert_int_equal(c.verbose, 0);
        assert_int_equal(c.verbose_frequency, 0);
        assert_int_equal(c.n_notices, 0);
        assert_string_equal(vp_config_place(&c, "model_type"), "a.yml:1");
        assert_string_equal(vp_config_place(&c, "layers"), "default");
        vp_config_release(&c);
    }
}

static void test_every_key(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(everything, NULL, &c);
    assert_string_equal(c.model->name, "translation");
    assert_int_equal(c.sizes.vocab, 600);
    assert_int_equal(c.sizes.hidden, 48);
    assert_int_equal(c.sizes.layers, 3);
    assert_int_equal(c.sizes.decoder_layers, 2);
    assert_int_equal(c.sizes.heads, 6);
    assert_int_equal(c.sizes.ffn, 100);
    assert_int_equal(c.sizes.positions, 256);
    assert_true(c.sizes.dropout == 0.25f);
    assert_true(c.sizes.attention_dropout == 0.0f);
    assert_true(c.sizes.label_smoothing == 0.05f);
    assert_false(c.sizes.tie_embeddings);
    assert_int_equal(c.sizes.act, VP_ACT_GELU_TANH);
    assert_true(c.sizes.eps == 1e-7f);
    assert_int_equal(c.sizes.pad, 3);
    assert_true(c.sizes.attention_bias);
    assert_string_equal(c.data_dir, "data");
    assert_false(c.synthetic_data);
    assert_int_equal(c.data_format, VP_FORMAT_MEGATRON);
    assert_string_equal(c.valid_split, "held");
    assert_string_equal(c.source_lang, "de");
    assert_string_equal(c.target_lang, "en");
    assert_int_equal(c.batch_multiple, 24);
    assert_int_equal(c.document_end, 599);
    assert_string_equal(c.text_key, "body");
    assert_true(c.replace_invalid_utf8);
    assert_int_equal(c.seq_length, 200);
    assert_int_equal(c.batch_size, 1000);
    assert_true(c.seed == 9007199254740992u);
    assert_true(c.no_input_pipelining);
    assert_int_equal(c.prefetch, 0);
    assert_int_equal(c.num_minibatches, 77);
    assert_int_equal(c.optim.kind, VP_OPTIM_ADAM);
    assert_true(c.lr.base == 1e-3f);
    assert_int_equal(c.lr.policy, VP_LR_COSINE);
    assert_true(c.lr.warmup == 0.125f);
    assert_true(c.optim.weight_decay == 0.5f);
    assert_true(c.optim.beta1 == 0.8f);
    assert_true(c.optim.beta2 == 0.9f);
    assert_true(c.optim.eps == 1e-9f);
    assert_true(c.optim.grad_clip == 2.5f);
    assert_int_equal(c.epochs, 7);
    assert_int_equal(c.total_steps, 1000000000000);
    vp_config_release(&c);
}

static void test_every_key_of_the_run(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(everything, NULL, &c);
    assert_int_equal(c.sync_mode, VP_SYNC_BSP);
    assert_string_equal(vp_generator_at(c.schedule)->name, "zb-h1");
    assert_int_equal(c.stages, 3);
    assert_int_equal(c.chunks, 1);
    assert_ints(&c.partition, INTS(4, 8, 3));
    assert_reals(&c.recompute_ratio, REALS(0.1, 0.30000000000000004, 1.0));
    assert_false(c.early_recompute);
    assert_ints(&c.replicas, INTS(1, 2, 1));
    assert_ints(&c.ranks, INTS(3, 1, 0, 2));
    for (int i = 0; i < 4; i++)
        assert_int_equal(vp_config_rank_number(&c, i), c.ranks.at[i]);
    assert_ints(&c.warmup_depths, INTS(4, 2, 0));
    assert_int_equal(c.accumulation_steps, 5);
    assert_true(c.clip_per_stage);
    assert_int_equal(c.watchdog_seconds, 7);
    assert_int_equal(c.device, VP_DEVICE_KIND_CPU);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    assert_true(c.loss_scale.start == 1536.0f && !c.loss_scale.dynamic);
    assert_int_equal(c.threads_per_stage, 2);
    assert_true(c.reference_kernels);
    assert_int_equal(c.memory_limit, 1610612736);
    assert_true(c.compress_activations);
    assert_true(c.shard_optimizer);
    assert_true(c.compress_in_gpu);
    assert_int_equal(c.distributed_backend, VP_TRANSPORT_GLOO);
    assert_int_equal(c.machines.n, 4);
    assert_string_equal(c.machines.at[0].host, "a-b.c_9");
    assert_int_equal(c.machines.at[0].device, 0);
    assert_string_equal(c.machines.at[1].host, "localhost");
    assert_int_equal(c.machines.at[1].device, 1023);
    assert_string_equal(c.machines.at[2].host, "127.0.0.1");
    assert_string_equal(c.container, "image \"x\\y\"");
    assert_true(c.forward_only);
    assert_int_equal(c.checkpoint_every, 13);
    assert_int_equal(c.keep_checkpoints, 4);
    assert_int_equal(c.verbose,
                     1 << VP_VERBOSE_VERSIONS | 1 << VP_VERBOSE_TENSORS);
    assert_int_equal(c.verbose_frequency, 9);
    assert_true(c.tensorboard);
    assert_string_equal(c.prometheus_file, "/tmp/v.prom");
    assert_string_equal(c.log_directory, "/tmp/a \"b\\ c");
    assert_int_equal(c.eval_every, 11);
    assert_int_equal(c.eval_batches, 3);
    assert_int_equal(c.print_frequency, 1);
    assert_string_equal(vp_config_place(&c, "positions"), "a.yml:9");
    vp_config_release(&c);
}

/* `precision: auto` is replaced at loading by the faster precision of this
 * machine, or by the one that all ranks agreed on. */
static void test_precision_auto(void **state)
{
    static const char text[] = BERT "precision: auto\ndevice: cpu\n";
    static const enum vp_precision agreed[] = { VP_PRECISION_FP32,
                                                VP_PRECISION_BF16 };
    struct vp_config_source from = { .path = "a.yml",
                                     .bytes = text,
                                     .n_bytes = strlen(text) };
    struct vp_config c;

    (void)state;
    load_ok(BERT "precision: auto\ndevice: cuda\n", NULL, &c);
    assert_int_equal(c.precision, VP_PRECISION_BF16);
    vp_config_release(&c);
    load_ok(BERT "precision: auto\ndevice: cpu\n", NULL, &c);
    assert_int_equal(c.precision, vp_cores_prefer_bf16() ? VP_PRECISION_BF16
                                                         : VP_PRECISION_FP32);
    assert_true(c.precision_is_auto);
    vp_config_release(&c);
    for (size_t i = 0; i < VP_COUNT_OF(agreed); i++) {
        from.precision = &agreed[i];
        assert_int_equal(vp_config_load_from(&from, &c, NULL), VP_OK);
        assert_int_equal(c.precision, agreed[i]);
        assert_true(c.precision_is_auto);
        vp_config_release(&c);
    }
    from.bytes = BERT "precision: fp32\ndevice: cpu\n";
    from.n_bytes = strlen(from.bytes);
    assert_int_equal(vp_config_load_from(&from, &c, NULL), VP_OK);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    assert_false(c.precision_is_auto);
    vp_config_release(&c);
    assert_int_equal(setenv("VPIPE_ISA", "plain", 1), 0);
    load_ok(BERT "precision: auto\ndevice: cpu\n", NULL, &c);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    vp_config_release(&c);
    load_ok(BERT, NULL, &c);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    vp_config_release(&c);
    assert_int_equal(unsetenv("VPIPE_ISA"), 0);
}

static void test_derived_defaults(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(BERT "hidden: 64\nheads: 2\ndropout: 0.3\nseq_length: 512\n", NULL,
            &c);
    assert_int_equal(c.sizes.ffn, 256);
    assert_true(c.sizes.attention_dropout == 0.3f);
    assert_int_equal(c.max_pred, 80);
    vp_config_release(&c);

    load_ok(BERT "positions: 5\n", NULL, &c);
    assert_int_equal(c.seq_length, 5);
    assert_int_equal(c.max_pred, 1);
    vp_config_release(&c);

    load_ok("model_type: translation\nlayers: 2\n", NULL, &c);
    assert_int_equal(c.sizes.decoder_layers, 2);
    vp_config_release(&c);

    load_ok("model_type: gpt2\noptimizer: sgd\n", NULL, &c);
    assert_true(c.lr.base == 0.1f);
    assert_true(c.optim.beta1 == 0.9f);
    vp_config_release(&c);

    load_ok(BERT "learning_rate_policy: constant\n", NULL, &c);
    assert_true(c.lr.warmup == 0.0f);
    vp_config_release(&c);
    load_ok(BERT "learning_rate_policy: constant\nlr_warmup: true\n", NULL, &c);
    assert_true(c.lr.warmup == 0.2f);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\n", NULL, &c);
    assert_true(c.loss_scale.start == 65536.0f && c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\nloss_scale: off\n", NULL, &c);
    assert_true(c.loss_scale.start == 0.0f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\nloss_scale: 0\n", NULL, &c);
    assert_true(c.loss_scale.start == 0.0f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "loss_scale: dynamic\n", NULL, &c);
    assert_true(c.loss_scale.start == 65536.0f && c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "loss_scale: \"dynamic\"\n", NULL, &c);
    assert_true(c.loss_scale.start == 65536.0f && c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\nloss_scale: 'off'\n", NULL, &c);
    assert_true(c.loss_scale.start == 0.0f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "sync_mode: asp\nloss_scale: 1e30\n", NULL, &c);
    assert_true(c.loss_scale.start == 1e30f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "checkpoint_every: epoch\n", NULL, &c);
    assert_int_equal(c.checkpoint_every, VP_EVERY_EPOCH);
    vp_config_release(&c);
    load_ok(BERT "checkpoint_every: 'epoch'\n", NULL, &c);
    assert_int_equal(c.checkpoint_every, VP_EVERY_EPOCH);
    vp_config_release(&c);
    load_ok(BERT "checkpoint_every: 0\n", NULL, &c);
    assert_int_equal(c.checkpoint_every, 0);
    vp_config_release(&c);
    load_ok(BERT "lr_warmup: false\n", NULL, &c);
    assert_true(c.lr.warmup == 0.0f);
    vp_config_release(&c);

    /* Each of the two keys for statistics sets a default for the other. */
    load_ok(BERT "verbose: [time]\nverbose_frequency: 0\n"
                 "print_frequency: 7\n",
            NULL, &c);
    assert_int_equal(c.verbose_frequency, 7);
    vp_config_release(&c);
    load_ok(BERT "verbose_frequency: 5\n", NULL, &c);
    assert_int_equal(c.verbose_frequency, 5);
    assert_int_equal(c.verbose,
                     1 << VP_VERBOSE_COMMUNICATION | 1 << VP_VERBOSE_TIME);
    vp_config_release(&c);
    load_ok(BERT "no_input_pipelining: true\n", NULL, &c);
    assert_int_equal(c.prefetch, 0);
    vp_config_release(&c);
    load_ok(BERT "no_input_pipelining: false\nprefetch: 5\n", NULL, &c);
    assert_int_equal(c.prefetch, 5);
    vp_config_release(&c);

    /* Generated data has priority over a data_dir, as in the original vPipe. */
    load_ok(BERT "data_dir: nowhere\nsynthetic_data: true\n", NULL, &c);
    assert_true(c.synthetic_data);
    vp_config_release(&c);
    load_ok(BERT "data_dir: data\n", NULL, &c);
    assert_false(c.synthetic_data);
    vp_config_release(&c);
}

static const char *schedule_name(const struct vp_config *config)
{
    return vp_generator_at(config->schedule)->name;
}

/* The tokenizer has 2000 ids; `vocab` may be larger. */
static void test_vocabulary_of_a_tokenizer(void **state)
{
    static const char yaml[] = "model_type: gpt2\n"
                               "tokenizer: " TOKENIZERS "gpt2\n";
    static const char pairs[] = "model_type: translation\n"
                                "tokenizer: " TOKENIZERS "gpt2\n";
    struct vp_config c;
    struct vp_err err;

    (void)state;
    load_ok(yaml, NULL, &c);
    assert_int_equal(c.sizes.vocab, 2000);
    vp_config_release(&c);
    load_ok(yaml, "vocab=2048", &c);
    assert_int_equal(c.sizes.vocab, 2048);
    vp_config_release(&c);
    assert_int_equal(load_text(yaml, "vocab=1999", &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "--set: vocab is 1999, but the tokenizer at "
                                  "a.yml:2 has 2000 ids; raise vocab to at "
                                  "least 2000, or remove it");
    vp_config_release(&c);
    assert_int_equal(load_text(yaml, "tokenizer=/no", &c, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text, "--set: key 'tokenizer': /no: cannot be "
                                  "opened: No such file or directory; check "
                                  "the path");
    vp_config_release(&c);
    /* A dictionary of fairseq adds four ids. Text that is read byte by byte has
     * no tokenizer. */
    load_ok(pairs, NULL, &c);
    assert_int_equal(c.sizes.vocab, 2004);
    vp_config_release(&c);
    assert_int_equal(load_text(pairs, "data_dir=x", &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "a.yml:2: key 'tokenizer': pairs of text are read byte "
                        "by byte; make files of ids by 'vpipe data pairs' and "
                        "set pad_id to 1, or remove it");
    vp_config_release(&c);
}

static void test_texts_of_a_run(void **state)
{
    static const char yaml[] = "model_type: translation\n"
                               "translate_every: 5\n";
    struct vp_config c;
    struct vp_err err;

    (void)state;
    load_ok("model_type: gpt2\ngenerate_every: 7\nsample_prompts: /p.txt\n"
            "sample_tokens: 3\n",
            NULL, &c);
    assert_int_equal(c.generate_every, 7);
    assert_string_equal(c.sample_prompts, "/p.txt");
    assert_int_equal(c.sample_tokens, 3);
    vp_config_release(&c);
    load_ok(yaml, "sample_prompts=/p.txt", &c);
    assert_int_equal(c.translate_every, 5);
    assert_int_equal(c.generate_every, 0);
    assert_int_equal(c.sample_tokens, 40);
    vp_config_release(&c);
    assert_int_equal(load_text(yaml, NULL, &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "a.yml:2: key 'translate_every' needs prompts; "
                        "add 'sample_prompts: FILE', with one on each "
                        "line");
    vp_config_release(&c);
    assert_int_equal(
        load_text("model_type: gpt2\ngenerate_every: 7\nstages: 2\n"
                  "sample_prompts: /p.txt\nreplicas: [1, 2]\n",
                  NULL, &c, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "a.yml:2: key 'generate_every' needs ranks that "
                        "are threads of one process, one for each "
                        "stage; remove it or 'replicas'");
    vp_config_release(&c);
}

static void test_pipeline_defaults(void **state)
{
    struct vp_config c;

    (void)state;
    /* The partition sets the number of stages. */
    load_ok(NINE "partition: [3, 2, 4]\n", NULL, &c);
    assert_int_equal(c.stages, 3);
    assert_int_equal(c.accumulation_steps, 32);
    assert_true(c.sizes.tie_embeddings);
    vp_config_release(&c);
    load_ok(NINE "partition: [9]\n", NULL, &c);
    assert_int_equal(c.stages, 1);
    assert_int_equal(c.accumulation_steps, 1);
    vp_config_release(&c);
    load_ok(NINE "schedule: interleaved\npartition: [1, 1, 1, 2, 2, 2]\n"
                 "chunks: 3\n",
            NULL, &c);
    assert_int_equal(c.stages, 2);
    assert_int_equal(vp_config_n_stages(&c), 6);
    assert_int_equal(vp_config_n_ranks(&c), 2);
    vp_config_release(&c);
    load_ok(NINE "schedule: zb-v\nstages: 2\n", NULL, &c);
    assert_int_equal(c.chunks, 2);
    assert_int_equal(c.partition.n, 4);
    vp_config_release(&c);

    /* One ratio applies to all stages. */
    load_ok(NINE "stages: 3\nrecompute_ratio: 0.25\nreplicas: [1, 2, 3]\n",
            NULL, &c);
    assert_reals(&c.recompute_ratio, REALS(0.25, 0.25, 0.25));
    assert_int_equal(vp_config_n_ranks(&c), 6);
    vp_config_release(&c);

    /* `recompute: false` overrides every ratio. */
    load_ok(NINE "stages: 3\nrecompute_ratio: 0.25\nrecompute: false\n", NULL,
            &c);
    assert_reals(&c.recompute_ratio, REALS(0, 0, 0));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [1, 0.5]\nrecompute: False\n",
            NULL, &c);
    assert_reals(&c.recompute_ratio, REALS(0, 0));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [1, 0.5]\nrecompute: True\n",
            NULL, &c);
    assert_reals(&c.recompute_ratio, REALS(1, 0.5));
    vp_config_release(&c);

    /* With one replica per stage, ranks may own several stages. */
    load_ok(NINE "schedule: interleaved\nstages: 2\nreplicas: [1, 1]\n", NULL,
            &c);
    assert_int_equal(vp_config_n_ranks(&c), 2);
    vp_config_release(&c);

    /* asp: one update per minibatch, and embeddings are not tied. */
    load_ok(NINE ASP "stages: 2\n", NULL, &c);
    assert_string_equal(schedule_name(&c), "pipedream");
    assert_int_equal(c.accumulation_steps, 1);
    assert_false(c.sizes.tie_embeddings);
    assert_false(c.macrobatch);
    vp_config_release(&c);
    load_ok(NINE ASP "tie_embeddings: true\n", NULL, &c);
    assert_true(c.sizes.tie_embeddings);
    vp_config_release(&c);
    load_ok(NINE ASP "macrobatch: true\n", NULL, &c);
    assert_string_equal(schedule_name(&c), "macrobatch");
    vp_config_release(&c);
    load_ok(NINE ASP "schedule: macrobatch\n", NULL, &c);
    assert_true(c.macrobatch);
    vp_config_release(&c);
}

/* A model with 12 equal encoder layers of two blocks, a cheap embedding and a
 * head. Stages get equal work, so those that recompute get fewer blocks and
 * those with replicas more. */
#define FLAT BERT "size: base\nvocab: 32\nffn: 1536\n"

static void test_balance(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(FLAT "stages: 2\n", NULL, &c);
    assert_int_equal(c.partition.at[0] + c.partition.at[1], 25);
    assert_in_range(c.partition.at[0], 12, 13);
    vp_config_release(&c);
    load_ok(FLAT "stages: 2\nrecompute_ratio: [1, 0]\n", NULL, &c);
    assert_in_range(c.partition.at[0], 10, 11);
    vp_config_release(&c);
    load_ok(FLAT "stages: 3\nrecompute_ratio: [1, 0, 0]\n"
                 "replicas: [1, 2, 1]\n",
            NULL, &c);
    /* The work per block is 4/3, 1/2 and 1: shares of 25 are 5.0, 13.3 and
     * 6.7. */
    assert_in_range(c.partition.at[0], 5, 6);
    assert_in_range(c.partition.at[1], 12, 14);
    assert_in_range(c.partition.at[2], 6, 7);
    vp_config_release(&c);
}

static void test_published_sizes(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "cpm",
                                          "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        const struct vp_model *model = vp_model_find(models[i]);

        for (int j = 0; j < model->n_sizes; j++) {
            struct vp_config c;
            char yaml[128];

            snprintf(yaml, sizeof(yaml), "size: %s\nmodel_type: %s\n",
                     model->sizes[j].name, models[i]);
            load_ok(yaml, NULL, &c);
            assert_memory_equal(&c.sizes, &model->sizes[j].config,
                                sizeof(c.sizes));
            vp_config_release(&c);
        }
    }
}

static void test_sizes_from_json(void **state)
{
    struct vp_config c;

    (void)state;
    write_text_file("gpt2.json", gpt2_json);
    load_ok("model_type: cpm\nconfig: gpt2.json\nlayers: 5\n", NULL, &c);
    assert_string_equal(c.model->name, "cpm");
    assert_int_equal(c.sizes.vocab, 100);
    assert_int_equal(c.sizes.hidden, 32);
    assert_int_equal(c.sizes.layers, 5);
    assert_int_equal(c.sizes.positions, 64);
    assert_true(c.sizes.attention_dropout == 0.25f);
    assert_true(c.sizes.eps == 1e-6f);
    assert_int_equal(c.seq_length, 64);
    vp_config_release(&c);
    /* The original's file, also under the original's key. */
    write_text_file("gpt2.json", bert_json);
    for (int i = 0; i < 2; i++) {
        load_ok(i ? BERT "bert_config: gpt2.json\n"
                  : BERT "config: gpt2.json\n",
                NULL, &c);
        assert_int_equal(c.sizes.vocab, 104);
        assert_int_equal(c.sizes.layers, 3);
        assert_int_equal(c.sizes.hidden, 32);
        vp_config_release(&c);
    }
}

static void test_set(void **state)
{
    static const char *const sets[] = { "layers=4", "layers=6",
                                        "max_positions=300",
                                        "log_directory=x=y" };
    struct vp_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    write_text_file("a.yml", BERT "layers: 2\npositions: 200\n");
    assert_int_equal(vp_config_load("a.yml", sets, VP_COUNT_OF(sets), &c, &err),
                     VP_OK);
    assert_int_equal(c.sizes.layers, 6);
    assert_int_equal(c.sizes.positions, 300);
    assert_string_equal(c.log_directory, "x=y");
    assert_string_equal(vp_config_place(&c, "layers"), "--set");
    vp_config_release(&c);

    /* Lists, from the file and from --set. */
    load_ok(NINE, "partition=[3, 2,4]", &c);
    assert_ints(&c.partition, INTS(3, 2, 4));
    assert_string_equal(vp_config_place(&c, "partition"), "--set");
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [0.5, 0]\n",
            "recompute_ratio=[0.75, 1e-1]", &c);
    assert_reals(&c.recompute_ratio, REALS(0.75, 0.1));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [0.5, 0]\n", "recompute_ratio=1",
            &c);
    assert_reals(&c.recompute_ratio, REALS(1.0, 1.0));
    vp_config_release(&c);
    load_ok(BERT, "log_directory=[x]", &c); /* brackets in a text */
    assert_string_equal(c.log_directory, "[x]");
    vp_config_release(&c);

    /* --set repairs a wrong value of the file. */
    load_ok(BERT "dropout: yes\n", "dropout=0", &c);
    assert_true(c.sizes.dropout == 0.0f);
    vp_config_release(&c);
    load_ok("layers: 2\n", "model_type=gpt2", &c);
    assert_string_equal(c.model->name, "gpt2");
    vp_config_release(&c);
}

static void test_paths(void **state)
{
    static const char *const set = "data_dir=data";
    struct vp_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    mkdir("sub/data", 0700);
    write_text_file("sub/gpt2.json", gpt2_json);
    write_text_file("sub/a.yml", "model_type: gpt2\nconfig: gpt2.json\n"
                                 "data_dir: data\nlog_directory: ../logs\n");
    assert_int_equal(vp_config_load("sub/a.yml", NULL, 0, &c, &err), VP_OK);
    assert_string_equal(c.data_dir, "sub/data");
    assert_string_equal(c.log_directory, "sub/../logs");
    assert_int_equal(c.sizes.hidden, 32);
    vp_config_release(&c);

    assert_int_equal(vp_config_load("sub/a.yml", &set, 1, &c, &err), VP_OK);
    assert_string_equal(c.data_dir, "data");
    vp_config_release(&c);

    write_text_file("sub/a.yml", "model_type: gpt2\ndata_dir: /\n");
    assert_int_equal(vp_config_load("sub/a.yml", NULL, 0, &c, &err), VP_OK);
    assert_string_equal(c.data_dir, "/");
    assert_string_equal(c.log_directory, "runs");
    vp_config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_model_type),
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_every_key_of_the_run),
        cmocka_unit_test(test_derived_defaults),
        cmocka_unit_test(test_vocabulary_of_a_tokenizer),
        cmocka_unit_test(test_texts_of_a_run),
        cmocka_unit_test(test_pipeline_defaults),
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_published_sizes),
        cmocka_unit_test(test_sizes_from_json),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_precision_auto),
    };

    return cmocka_run_group_tests(tests, enter_config_folder,
                                  leave_config_folder);
}
