/* Models have the published sizes, blocks, lines and tensor names, and can be
 * cut into two stages behind any block. */
#include "graph/program.h"
#include "lib/golden.h"
#include "lib/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Sizes -------------------------------------------------------------- */

/* Blocks, lines and untied counts are those of the original vPipe; tied counts
 * of GPT-2, and of BERT with its own vocabulary, are those of the published
 * checkpoints. */
static void published_sizes(void **state)
{
    static const struct {
        const char *model, *size;
        int64_t vocab; /* 0: vocabulary of the size */
        bool tied;
        int64_t blocks, lines, params;
    } cases[] = {
        { "bert", "large", 0, false, 49, 245, 366441280 },
        { "bert", "large-48", 0, false, 97, 485, 668750656 },
        { "bert", "base", 30522, true, 25, 125, 109514298 },
        { "cpm", "medium", 0, false, 50, 150, 364800000 },
        { "cpm", "large", 0, false, 66, 198, 2673873920 },
        { "gpt2", "124M", 0, true, 26, 78, 124439808 },
        { "gpt2", "355M", 0, true, 50, 150, 354823168 },
        { "gpt2", "774M", 0, true, 74, 222, 774030080 },
        { "gpt2", "1.5B", 0, true, 98, 294, 1557611200 },
        { "translation", "big", 0, false, 33, 172, 279851008 },
        { "translation", "big-12", 0, false, 63, 328, 456134656 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_model_config c = model_size(cases[i].model, cases[i].size);
        struct vp_dims dims = tiny_dims(cases[i].model);
        struct vp_graph graph;
        int64_t lines = 0;

        if (cases[i].vocab > 0)
            c.vocab = cases[i].vocab;
        c.tie_embeddings = cases[i].tied;
        build_model(cases[i].model, &c, &dims, &graph);
        assert_int_equal(vp_graph_param_count(&graph), cases[i].params);
        assert_int_equal(graph.n_blocks, cases[i].blocks);
        assert_int_equal(find_model(cases[i].model)->n_blocks(&c),
                         cases[i].blocks);
        for (int b = 0; b < graph.n_blocks; b++)
            lines += graph.blocks[b].n_lines;
        assert_int_equal(lines, cases[i].lines);
        assert_int_equal(graph.n_lines, cases[i].lines);
        vp_graph_release(&graph);
    }
}

static void table_of_models(void **state)
{
    char list[256] = "";

    (void)state;
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = { "bert", "gpt2", "cpm",
                                             "translation" };
        size_t used = strlen(list);

        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
                 find_model(names[i])->name);
        assert_string_equal(find_model(names[i])->name, names[i]);
    }
    assert_string_equal(vp_model_names(), list);
    assert_null(vp_model_find("bart"));
    assert_null(vp_model_find(""));
    assert_null(vp_model_size_find(find_model("gpt2"), "medium"));
    assert_ptr_equal(vp_model_size_find(find_model("gpt2"), NULL),
                     vp_model_size_find(find_model("gpt2"), "124M"));
}

/* ---- Structure ---------------------------------------------------------- */

/* Describes a block as text: a letter per operator, '|' between lines. */
static void describe(const struct vp_graph *graph, int block, char *out,
                     size_t n_bytes)
{
    static const char letters[VP_OP_KIND_COUNT] = {
        [VP_OP_EMBED] = 'E',
        [VP_OP_LINEAR] = 'L',
        [VP_OP_LAYERNORM] = 'N',
        [VP_OP_ATTENTION] = 'A',
        [VP_OP_CACHED_ATTENTION] = 'K',
        [VP_OP_CACHED_CROSS_ATTENTION] = 'Q',
        [VP_OP_DROPOUT] = 'D',
        [VP_OP_ADD] = '+',
        [VP_OP_SCALE] = 'S',
        [VP_OP_GATHER] = 'G',
        [VP_OP_CROSS_ENTROPY] = 'X',
        [VP_OP_ARGMAX] = 'M',
        [VP_OP_COPY] = 'C',
    };
    const struct vp_block *b = &graph->blocks[block];
    size_t used = 0;
    int op = b->first_op;

    for (int line = 0; line < b->n_lines; line++) {
        if (line > 0)
            out[used++] = '|';
        for (; op < b->first_op + b->n_ops; op++) {
            assert_int_equal(graph->ops[op].block, block);
            if (graph->ops[op].line != b->first_line + line)
                break;
            out[used++] = letters[graph->ops[op].kind];
        }
        assert_true(used + 2 < n_bytes);
    }
    out[used] = 0;
    assert_int_equal(op, b->first_op + b->n_ops);
}

static void check_structure(const char *model, float dropout,
                            const char *const *want, int n_want)
{
    struct vp_model_config c = tiny_config(model, true);
    struct vp_dims dims = tiny_dims(model);
    struct vp_graph graph;
    char text[64];

    c.dropout = c.attention_dropout = dropout;
    build_model(model, &c, &dims, &graph);
    assert_int_equal(graph.n_blocks, n_want);
    for (int b = 0; b < n_want; b++) {
        describe(&graph, b, text, sizeof(text));
        assert_string_equal(text, want[b]);
    }
    vp_graph_release(&graph);
}

static void blocks_and_lines(void **state)
{
    static const char *const bert[] = {
        "END|LA|L|D|+", "N|L|L|D|+", "N|LA|L|D|+", "N|L|L|D|+", "GN|L|N|L|X",
    };
    static const char *const bert_plain[] = {
        "EN|LA|L||+", "N|L|L||+", "N|LA|L||+", "N|L|L||+", "GN|L|N|L|X",
    };
    static const char *const gpt2[] = {
        "E||", "D|N|LALD|+", "N|LLD|+", "N|LALD|+", "N|LLD|+", "N|LX",
    };
    static const char *const gpt2_plain[] = {
        "E||", "|N|LAL|+", "N|LL|+", "N|LAL|+", "N|LL|+", "N|LX",
    };
    static const char *const translation[] = {
        "E|||",         "D||N|LAL|D|+", "N|L||D|L|D|+", "N|LAL|D|+",
        "N|L||D|L|D|+", "N|E|||",       "D||N|LAL|D|+", "N|LLAL|D|+",
        "N|L||D|L|D|+", "N|LAL|D|+",    "N|LLAL|D|+",   "N|L||D|L|D|+",
        "N||LX",
    };

    (void)state;
    check_structure("bert", 0.1f, bert, VP_COUNT_OF(bert));
    check_structure("bert", 0.0f, bert_plain, VP_COUNT_OF(bert_plain));
    check_structure("gpt2", 0.1f, gpt2, VP_COUNT_OF(gpt2));
    check_structure("cpm", 0.1f, gpt2, VP_COUNT_OF(gpt2));
    check_structure("gpt2", 0.0f, gpt2_plain, VP_COUNT_OF(gpt2_plain));
    check_structure("translation", 0.1f, translation, VP_COUNT_OF(translation));
}

/* Operator attributes that no tensor shape depends on. */
static void operator_attributes(void **state)
{
    static const struct {
        const char *model;
        const char *causal; /* per attention operator: c(ausal), m(asked) */
        enum vp_act act;
        double eps, scale;
        float smoothing;
        int32_t pad;
    } cases[] = {
        { "bert", "mm", VP_ACT_GELU_ERF, 1e-12, 1.0, 0.0f, -1 },
        { "gpt2", "cc", VP_ACT_GELU_TANH, 1e-5, 1.0, 0.0f, -1 },
        { "translation", "mmcmcm", VP_ACT_RELU, 1e-5, 4.898979, 0.1f, 1 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_model_config c = tiny_config(cases[i].model, true);
        struct vp_dims dims = tiny_dims(cases[i].model);
        const char *causal = cases[i].causal;
        struct vp_graph graph;
        int n_acts = 0;

        build_model(cases[i].model, &c, &dims, &graph);
        for (int j = 0; j < graph.n_ops; j++) {
            const struct vp_op *op = &graph.ops[j];

            if (op->kind == VP_OP_ATTENTION) {
                assert_int_equal(op->attr.causal, *causal == 'c');
                assert_int_equal(op->in[2] != VP_NONE, *causal == 'm');
                causal++;
            } else if (op->kind == VP_OP_LAYERNORM) {
                assert_true(fabs(op->attr.eps / cases[i].eps - 1) < 1e-6);
            } else if (op->kind == VP_OP_EMBED) {
                assert_int_equal(op->attr.pad, cases[i].pad);
                assert_true(fabs(op->attr.scale - cases[i].scale) < 1e-5);
            } else if (op->kind == VP_OP_LINEAR &&
                       op->attr.act != VP_ACT_NONE) {
                assert_int_equal(op->attr.act, cases[i].act);
                n_acts++;
            } else if (op->kind == VP_OP_CROSS_ENTROPY) {
                assert_true(op->attr.smoothing == cases[i].smoothing);
            }
        }
        assert_int_equal(*causal, 0);
        assert_int_equal(n_acts, cases[i].model[0] == 'b'   ? 3
                                 : cases[i].model[0] == 'g' ? 2
                                                            : 4);
        vp_graph_release(&graph);
    }
}

/* ---- Names -------------------------------------------------------------- */

/* Prints the part as a line of names_*.txt: its name and its shape in a
 * checkpoint file. */
static void part_line(const struct vp_param *param, const struct vp_part *part,
                      char *out, size_t n_bytes)
{
    long long rows = part->rows, cols = param->cols;

    /* Weight decay is on for matrices and off for vectors (biases, layer
     * norms). */
    if (!param->decay)
        snprintf(out, n_bytes, "%s %lld", part->name, rows * cols);
    else if (param->stored_transposed)
        snprintf(out, n_bytes, "%s %lld %lld", part->name, cols, rows);
    else
        snprintf(out, n_bytes, "%s %lld %lld", part->name, rows, cols);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

#define LINE 128

static void check_names(const char *model, bool tied)
{
    struct vp_model_config c = tiny_config(model, tied);
    struct vp_dims dims = tiny_dims(model);
    struct vp_graph graph;
    char path[512], (*lines)[LINE], *want, *got, *end;
    int64_t n_want;
    int n = 0;

    build_model(model, &c, &dims, &graph);
    lines = calloc((size_t)graph.n_params * VP_MAX_PART, sizeof(*lines));
    assert_non_null(lines);
    for (int i = 0; i < graph.n_params; i++) {
        const struct vp_param *param = &graph.params[i];

        for (int j = 0; j < param->n_parts; j++)
            if (!param->constant && param->tied_to == VP_NONE)
                part_line(param, &param->part[j], lines[n++], LINE);
    }
    qsort(lines, (size_t)n, sizeof(*lines), compare_lines);
    end = got = calloc((size_t)n + 1, LINE);
    assert_non_null(got);
    for (int i = 0; i < n; i++)
        end += snprintf(end, LINE, "%s\n", lines[i]);

    snprintf(path, sizeof(path), "%s/tests/golden/names_%s_%s", VP_SOURCE_DIR,
             model, tied ? "tied" : "untied");
    want = golden_slurp(path, ".txt", &n_want);
    assert_string_equal(got, want);
    free(want);
    free(got);
    free(lines);
    vp_graph_release(&graph);
}

static void names_as_published(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        check_names(models[i], true);
        check_names(models[i], false);
    }
}

/* Only these blocks use the table of another block. */
static void tied_tables(void **state)
{
    static const struct {
        const char *model, *owner;
        const char *blocks[2];
    } cases[] = {
        { "bert", "bert.embeddings.word_embeddings.weight", { "head" } },
        { "gpt2", "transformer.wte.weight", { "head" } },
        { "translation",
          "model.shared.weight",
          { "encoder end, target embedding", "head" } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_model_config c = tiny_config(cases[i].model, true);
        struct vp_dims dims = tiny_dims(cases[i].model);
        struct vp_graph graph;
        int n = 0;

        build_model(cases[i].model, &c, &dims, &graph);
        for (int j = 0; j < graph.n_params; j++) {
            const struct vp_param *param = &graph.params[j];

            if (param->tied_to == VP_NONE)
                continue;
            assert_true(n < 2 && cases[i].blocks[n]);
            assert_string_equal(graph.blocks[param->block].name,
                                cases[i].blocks[n]);
            assert_string_equal(graph.params[param->tied_to].part[0].name,
                                cases[i].owner);
            assert_int_equal(graph.params[param->tied_to].block, 0);
            n++;
        }
        assert_true(n == 2 || !cases[i].blocks[n]);
        vp_graph_release(&graph);
    }
}

/* ---- All sizes and cuts ------------------------------------------------- */

static void check_cuts(const struct vp_graph *graph)
{
    for (int cut = 1; cut < graph->n_blocks; cut++) {
        struct vp_stage_spec spec[2] = {
            { .first_block = 0, .n_blocks = cut },
            { .first_block = cut, .n_blocks = graph->n_blocks - cut },
        };
        struct vp_program p[2];
        struct vp_err err = { .text = "" };

        for (int i = 0; i < 2; i++)
            if (vp_program_lower(graph, &spec[i], NULL, NULL, &p[i], &err) !=
                VP_OK)
                fail_msg("cut at %d: %s", cut, err.text);
        assert_int_equal(p[0].out.n_entries, p[1].in.n_entries);
        assert_int_equal(p[0].dout.n_entries, p[1].din.n_entries);
        assert_true(p[1].din.n_entries >= 1);
        for (int i = 0; i < p[1].in.n_entries; i++)
            assert_int_equal(p[0].out.entries[i].value,
                             p[1].in.entries[i].value);
        vp_program_release(&p[0]);
        vp_program_release(&p[1]);
    }
}

static void odd_sizes_and_cuts(void **state)
{
    static const struct {
        int64_t vocab, hidden, layers, decoder_layers, heads, ffn;
        int64_t batch, seq, tgt_seq, n_labels;
    } cases[] = {
        { 2, 1, 1, 1, 1, 1, 1, 1, 1, 0 },
        { 3, 7, 1, 2, 7, 5, 1, 19, 2, 1 },
        { 101, 15, 3, 1, 5, 31, 5, 1, 19, 5 },
        { 1009, 34, 2, 3, 2, 3, 7, 13, 17, 91 },
    };
    static const char *const models[] = { "bert", "gpt2", "cpm",
                                          "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases) * VP_COUNT_OF(models); i++) {
        size_t k = i / VP_COUNT_OF(models);
        const char *model = models[i % VP_COUNT_OF(models)];
        struct vp_model_config c = model_size(model, NULL);
        struct vp_dims dims = { .batch = cases[k].batch, .seq = cases[k].seq };
        struct vp_graph graph;

        c.vocab = cases[k].vocab;
        c.hidden = cases[k].hidden;
        c.layers = cases[k].layers;
        c.decoder_layers = cases[k].decoder_layers;
        c.heads = cases[k].heads;
        c.ffn = cases[k].ffn;
        c.positions = 19;
        c.tie_embeddings = k % 2;
        c.attention_bias = k % 2;
        if (strcmp(model, "bert") == 0)
            dims.n_labels = cases[k].n_labels;
        if (strcmp(model, "translation") == 0)
            dims.tgt_seq = cases[k].tgt_seq;
        build_model(model, &c, &dims, &graph);
        assert_int_equal(graph.n_blocks, find_model(model)->n_blocks(&c));
        check_cuts(&graph);
        vp_graph_release(&graph);
    }
}

/* The graphs of all length buckets have the same parameters. */
static void buckets_share_parameters(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        struct vp_model_config c = tiny_config(models[i], i % 2);
        struct vp_dims dims = tiny_dims(models[i]);
        struct vp_graph a, b;

        build_model(models[i], &c, &dims, &a);
        dims.batch = 2;
        dims.seq = 5;
        dims.n_labels = 0;
        dims.tgt_seq = dims.tgt_seq ? 3 : 0;
        build_model(models[i], &c, &dims, &b);
        assert_int_equal(a.n_params, b.n_params);
        for (int p = 0; p < a.n_params; p++) {
            assert_string_equal(a.params[p].part[0].name,
                                b.params[p].part[0].name);
            assert_int_equal(a.params[p].rows, b.params[p].rows);
            assert_int_equal(a.params[p].cols, b.params[p].cols);
            assert_int_equal(a.params[p].block, b.params[p].block);
        }
        vp_graph_release(&a);
        vp_graph_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sizes),
        cmocka_unit_test(table_of_models),
        cmocka_unit_test(blocks_and_lines),
        cmocka_unit_test(operator_attributes),
        cmocka_unit_test(names_as_published),
        cmocka_unit_test(tied_tables),
        cmocka_unit_test(odd_sizes_and_cuts),
        cmocka_unit_test(buckets_share_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
