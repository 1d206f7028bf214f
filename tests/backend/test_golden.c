/* Whole models, lowered and run by the CPU backend, give the stored logits,
 * loss, gradients and ten AdamW steps of Hugging Face's models.
 * tests/golden/README.md says how the numbers were made. */
#include "lib/golden.h"
#include "lib/recompute_sets.h"
#include "lib/testdevice.h"
#include "lib/tiny_model.h"

#include "backend/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10, BATCHES = 3, VOCAB = 67 };

/* Limits of relative errors, those of tensors by norm. The reference is
 * float64; float32 rounding causes about 1e-6 in gradients and 1e-7 in the
 * loss. */
#define TENSOR_LIMIT 1e-5
#define LOSS_LIMIT 1e-6

static const struct vp_optim_config adamw = { .kind = VP_OPTIM_ADAMW,
                                              .beta1 = 0.9f,
                                              .beta2 = 0.999f,
                                              .eps = 1e-8f,
                                              .weight_decay = 0.01f };
static const float learning_rate = 2e-3f;

static const char *const role_names[VP_ROLE_COUNT] = {
    [VP_ROLE_TOKENS] = "tokens",
    [VP_ROLE_TYPES] = "types",
    [VP_ROLE_MASK] = "mask",
    [VP_ROLE_LABELS] = "labels",
    [VP_ROLE_TARGET_TOKENS] = "target_tokens",
};

struct variant {
    const char *model;
    bool tied;
    bool reference;   /* reference kernels in plain C */
    int64_t n_labels; /* masked LM: score only labelled rows; 0: all rows */
    double recompute_ratio;
    bool split_w;
    int n_threads;
    unsigned outputs; /* 0: the loss, with training; otherwise forward only */
};

/* A model on one stage with its memory. */
struct stage {
    struct variant variant;
    struct golden *gold;
    struct vp_dims dims;
    struct vp_graph graph;
    struct vp_backend *backend;
    struct vp_device *device;
    struct vp_stream *stream;
    struct vp_program program;
    struct vp_exe *exe;
    void *base[VP_SPACE_COUNT];
    float *moment[2];
    struct vp_optim_tensor *tensors;
    int n_tensors;
    struct vp_event *done;
};

static const struct vp_backend_ops *ops;

static void finish(struct stage *s)
{
    assert_int_equal(vp_event_record(s->done, s->stream), VP_OK);
    assert_int_equal(vp_event_sync(s->done, 20000), VP_OK);
}

/* ---- Setup -------------------------------------------------------------- */

static void *allocate(struct stage *s, int64_t n_bytes)
{
    void *p = NULL;

    if (n_bytes > 0)
        assert_int_equal(vp_device_alloc(s->device, (size_t)n_bytes, &p),
                         VP_OK);
    return p;
}

static struct vp_dims golden_dims(const struct stage *s)
{
    static const struct {
        const char *model;
        int64_t seq, tgt_seq;
    } lengths[] = {
        { "bert", 17, 0 },
        { "gpt2", 13, 0 },
        { "translation", 11, 13 },
    };
    struct vp_dims dims = { .batch = 3, .n_labels = s->variant.n_labels };

    for (size_t i = 0; i < VP_COUNT_OF(lengths); i++) {
        if (strcmp(lengths[i].model, s->variant.model) == 0) {
            dims.seq = lengths[i].seq;
            dims.tgt_seq = lengths[i].tgt_seq;
        }
    }
    return dims;
}

static void lower(struct stage *s)
{
    struct vp_backend_config config = { .n_threads = s->variant.n_threads,
                                        .reference = s->variant.reference };
    struct vp_stage_spec spec = { .first_block = 0,
                                  .n_blocks = s->graph.n_blocks,
                                  .split_w = s->variant.split_w,
                                  .forward_only = s->variant.outputs != 0 };
    struct vp_err err = { .text = "" };
    uint64_t sets[MAX_SETS];

    set_tail(&s->graph, s->variant.recompute_ratio, &spec, sets);
    if (vp_program_lower(&s->graph, &spec, ops->scratch_bytes, &config,
                         &s->program, &err) != VP_OK ||
        ops->compile(s->backend, &s->program, &s->exe, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int space = 0; space < VP_SPACE_COUNT; space++)
        s->base[space] = allocate(s, s->program.n_bytes[space]);
    for (int i = 0; i < 2; i++)
        s->moment[i] = allocate(s, s->program.layout.train_bytes);
}

/* Returns the address of the first element of `part` in memory that has the
 * layout of the parameters. */
static float *part_at(void *base, int64_t offset, const struct vp_param *param,
                      const struct vp_part *part)
{
    return (float *)(void *)((char *)base + offset) + part->row * param->cols;
}

/* Returns the index in a stored tensor of element `i` of a part. */
static int64_t stored_index(const struct vp_param *param,
                            const struct vp_part *part, int64_t i)
{
    if (!param->stored_transposed)
        return i;
    return i % param->cols * part->rows + i / param->cols;
}

static const float *golden_part(const struct stage *s, const char *prefix,
                                const struct vp_param *param,
                                const struct vp_part *part)
{
    char name[96];
    int64_t rows, cols;
    const float *data;

    snprintf(name, sizeof(name), "%s%s", prefix, part->name);
    data = golden_f32(s->gold, name, &rows, &cols);
    assert_int_equal(rows * cols, part->rows * param->cols);
    return data;
}

static void load_weights(struct stage *s)
{
    const struct vp_layout *layout = &s->program.layout;

    s->tensors = calloc((size_t)layout->n_entries, sizeof(*s->tensors));
    assert_non_null(s->tensors);
    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_layout_entry *entry = &layout->entries[i];
        const struct vp_param *param = &s->graph.params[entry->par];

        if (entry->storage != i)
            continue;
        if (param->constant) {
            vp_param_init(&s->graph, entry->par, 0,
                          part_at(s->base[VP_SPACE_PARAM], entry->offset, param,
                                  &param->part[0]));
            continue;
        }
        s->tensors[s->n_tensors++] = (struct vp_optim_tensor){
            .offset = entry->offset / 4,
            .grad = entry->grad_offset / 4,
            .n = entry->n_bytes / 4,
            .block = param->block,
            .decay = param->decay
        };
        for (int j = 0; j < param->n_parts; j++) {
            const struct vp_part *part = &param->part[j];
            const float *from = golden_part(s, "w.", param, part);
            float *to = part_at(s->base[VP_SPACE_PARAM], entry->offset, param,
                                part);

            for (int64_t k = 0; k < part->rows * param->cols; k++)
                to[k] = from[stored_index(param, part, k)];
        }
    }
}

static void stage_open(struct stage *s, const struct variant *variant)
{
    struct vp_backend_config config = { .n_threads = variant->n_threads,
                                        .reference = variant->reference };
    struct vp_model_config model = tiny_config(variant->model, variant->tied);
    const char *root = getenv("VP_TEST_FILES");
    struct vp_err err = { .text = "" };
    char path[512];

    memset(s, 0, sizeof(*s));
    s->variant = *variant;
    snprintf(path, sizeof(path), "%s/tests/golden/%s_%s",
             root ? root : VP_SOURCE_DIR, variant->model,
             variant->tied ? "tied" : "untied");
    s->gold = golden_open(path);
    s->dims = golden_dims(s);
    build_outputs(variant->model, &model, &s->dims,
                  variant->outputs ? variant->outputs : VP_OUTPUT_LOSS,
                  &s->graph);
    if (vp_backend_open(ops, &config, &s->backend, &err) != VP_OK)
        fail_msg("%s", err.text);
    s->device = vp_backend_device(s->backend);
    vp_device_attach(s->device);
    assert_int_equal(vp_stream_create(s->device, &s->stream), VP_OK);
    assert_int_equal(vp_event_create(s->device, &s->done), VP_OK);
    lower(s);
    load_weights(s);
}

static void stage_close(struct stage *s)
{
    for (int space = 0; space < VP_SPACE_COUNT; space++)
        vp_device_free(s->device, s->base[space],
                       (size_t)s->program.n_bytes[space]);
    for (int i = 0; i < 2; i++)
        vp_device_free(s->device, s->moment[i],
                       (size_t)s->program.layout.train_bytes);
    free(s->tensors);
    ops->exe_free(s->exe);
    vp_program_release(&s->program);
    vp_event_free(s->done);
    vp_stream_free(s->stream);
    ops->close(s->backend);
    vp_graph_release(&s->graph);
    golden_close(s->gold);
}

/* ---- Running ------------------------------------------------------------ */

/* Writes row numbers and labels of the labelled rows; unused places get -1. */
static void put_labels(const int32_t *labels, int64_t n, int64_t n_labels,
                       int32_t *rows, int32_t *chosen)
{
    int64_t used = 0;

    for (int64_t i = 0; i < n; i++) {
        if (labels[i] < 0)
            continue;
        assert_true(used < n_labels);
        rows[used] = (int32_t)i;
        chosen[used++] = labels[i];
    }
    for (; used < n_labels; used++)
        rows[used] = chosen[used] = -1;
}

static int32_t *input(struct stage *s, enum vp_role role)
{
    int64_t offset = vp_program_input_offset(&s->program, role);

    assert_true(offset >= 0);
    return (int32_t *)(void *)((char *)s->base[VP_SPACE_IN] + offset);
}

static void put_batch(struct stage *s, int batch)
{
    for (int role = 0; role < VP_ROLE_COUNT; role++) {
        const int32_t *rows;
        int64_t n_rows, n;

        if (!role_names[role] || !golden_find(s->gold, role_names[role]))
            continue;
        rows = golden_i32(s->gold, role_names[role], &n_rows, &n);
        assert_int_equal(n_rows, BATCHES);
        rows += batch * n;
        if (role == VP_ROLE_LABELS && s->variant.outputs == VP_OUTPUT_LOGITS)
            continue;
        if (role == VP_ROLE_LABELS && s->dims.n_labels > 0) {
            put_labels(rows, n, s->dims.n_labels, input(s, VP_ROLE_LABEL_ROWS),
                       input(s, VP_ROLE_LABELS));
            continue;
        }
        assert_int_equal(n, vp_dims_role(&s->dims, (enum vp_role)role));
        memcpy(input(s, (enum vp_role)role), rows, (size_t)n * sizeof(*rows));
    }
}

static void launch(struct stage *s, enum vp_list list)
{
    struct vp_mb mb = { .seed = 1, .loss_grad = 1.0f, .train = true };
    struct vp_launch call = { .mb = &mb };

    memcpy(call.base, s->base, sizeof(call.base));
    assert_int_equal(ops->launch(s->exe, list, &call, s->stream), VP_OK);
    finish(s);
}

static double forward(struct stage *s, int batch)
{
    struct vp_ref loss = s->program.loss;

    put_batch(s, batch);
    launch(s, VP_LIST_F);
    return *(float *)(void *)((char *)s->base[loss.space] + loss.offset);
}

/* Runs backward. Gradients of the uses of a tied weight are added to its
 * owner's in block order. */
static void backward(struct stage *s)
{
    const struct vp_layout *layout = &s->program.layout;
    char *grad = s->base[VP_SPACE_GRAD];

    launch(s, VP_LIST_R);
    launch(s, VP_LIST_B);
    launch(s, VP_LIST_W);
    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_layout_entry *use = &layout->entries[i];
        const struct vp_layout_entry *owner = &layout->entries[use->storage];

        if (use != owner && use->grad_offset != VP_NONE)
            ops->add(s->backend, s->stream,
                     (float *)(void *)(grad + owner->grad_offset),
                     (const float *)(void *)(grad + use->grad_offset),
                     use->n_bytes / 4);
    }
    finish(s);
}

static void update(struct stage *s, int t)
{
    struct vp_optim_step step = { .config = adamw,
                                  .tensors = s->tensors,
                                  .n_tensors = s->n_tensors,
                                  .w_old = s->base[VP_SPACE_PARAM],
                                  .w_new = s->base[VP_SPACE_PARAM],
                                  .grad = s->base[VP_SPACE_GRAD],
                                  .moment = { s->moment[0], s->moment[1] },
                                  .lr = learning_rate,
                                  .grad_scale = 1.0f,
                                  .t = t };

    assert_int_equal(ops->update(s->backend, s->stream, &step), VP_OK);
    finish(s);
}

/* ---- Comparing ---------------------------------------------------------- */

static void check_loss(const struct stage *s, const char *what, double got,
                       double want)
{
    if (!(fabs(got - want) <= LOSS_LIMIT * fabs(want)))
        fail_msg("%s, %s: loss %.9g, want %.9g", s->variant.model, what, got,
                 want);
}

/* Returns the place of the logits: an output of the program, or the input of
 * its loss. */
static struct vp_ref find_logits(const struct stage *s)
{
    const struct vp_program *p = &s->program;
    const struct vp_call *last =
        &p->calls[VP_LIST_F][p->n_calls[VP_LIST_F] - 1];

    if (s->variant.outputs & VP_OUTPUT_LOGITS)
        return p->logits;
    assert_int_equal(last->op->kind, VP_OP_CROSS_ENTROPY);
    return last->in[0];
}

/* Compares the logits of all rows; if rows were chosen, each with the
 * reference's row of that number. */
static void check_logits(struct stage *s)
{
    struct vp_ref logits = find_logits(s);
    const float *got, *want;
    double diff = 0.0, norm = 0.0;
    int64_t n_rows = s->graph.values[s->graph.logits].rows;

    got = (const float *)(void *)((char *)s->base[logits.space] +
                                  logits.offset);
    want = golden_f32(s->gold, "logits", NULL, NULL);
    for (int64_t i = 0; i < n_rows; i++) {
        int64_t row = s->dims.n_labels > 0 ? input(s, VP_ROLE_LABEL_ROWS)[i]
                                           : i;

        for (int64_t j = 0; j < VOCAB && row >= 0; j++) {
            double b = want[row * VOCAB + j], a = got[i * VOCAB + j];

            diff += (a - b) * (a - b);
            norm += b * b;
        }
    }
    assert_true(norm > 1.0);
    if (!(sqrt(diff) <= TENSOR_LIMIT * sqrt(norm)))
        fail_msg("%s: logits are off by %g", s->variant.model,
                 sqrt(diff / norm));
}

/* The true gradient of a key bias is zero: it does not change the softmax. */
static bool is_key_bias(const char *name)
{
    return strstr(name, ".key.bias") || strstr(name, ".k_proj.bias");
}

static int check_gradient(const struct stage *s,
                          const struct vp_layout_entry *entry)
{
    const struct vp_param *param = &s->graph.params[entry->par];
    int n = 0;

    for (int j = 0; j < param->n_parts; j++, n++) {
        const struct vp_part *part = &param->part[j];
        const float *want = golden_part(s, "g.", param, part);
        const float *got = part_at(s->base[VP_SPACE_GRAD], entry->grad_offset,
                                   param, part);
        double diff = 0.0, norm = 0.0;

        if (is_key_bias(part->name))
            continue;
        for (int64_t k = 0; k < part->rows * param->cols; k++) {
            double b = want[stored_index(param, part, k)], a = got[k];

            diff += (a - b) * (a - b);
            norm += b * b;
        }
        assert_true(norm > 0.0);
        if (!(sqrt(diff) <= TENSOR_LIMIT * sqrt(norm)))
            fail_msg("%s: gradient of %s is off by %g", s->variant.model,
                     part->name, sqrt(diff / norm));
    }
    return n;
}

/* Every stored gradient is compared once. */
static void check_gradients(const struct stage *s)
{
    const struct vp_layout *layout = &s->program.layout;
    int n_want = 0, n = 0;

    for (int i = 0; i < s->gold->n_tensors; i++)
        n_want += strncmp(s->gold->tensors[i].name, "g.", 2) == 0;
    for (int i = 0; i < layout->n_entries; i++)
        if (layout->entries[i].storage == i &&
            layout->entries[i].grad_offset != VP_NONE)
            n += check_gradient(s, &layout->entries[i]);
    assert_int_equal(n, n_want);
}

static void run_variant(const struct variant *variant)
{
    struct stage s;
    const float *losses;
    int64_t n_losses;

    stage_open(&s, variant);
    losses = golden_f32(s.gold, "loss", NULL, &n_losses);
    assert_int_equal(n_losses, STEPS + 1);
    for (int step = 0; step <= STEPS; step++) {
        char what[32];

        snprintf(what, sizeof(what), "step %d", step);
        check_loss(&s, what, forward(&s, step % BATCHES), losses[step]);
        if (step == 0)
            check_logits(&s);
        backward(&s);
        if (step == 0)
            check_gradients(&s);
        update(&s, step + 1);
    }
    stage_close(&s);
}

/* ---- Tests -------------------------------------------------------------- */

static void run_all(bool reference)
{
    static const char *const models[] = { "bert", "gpt2", "translation" };

    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        for (int tied = 0; tied < 2; tied++) {
            struct variant variant = { .model = models[i],
                                       .tied = tied,
                                       .reference = reference,
                                       .n_threads = 1 + tied };

            run_variant(&variant);
        }
    }
}

static void reference_kernels(void **state)
{
    (void)state;
    run_all(true);
}

static void fast_kernels(void **state)
{
    (void)state;
    run_all(false);
}

static void labelled_rows(void **state)
{
    struct variant variant = { .model = "bert",
                               .n_labels = 16,
                               .n_threads = 2 };

    (void)state;
    run_variant(&variant);
    variant.reference = true;
    variant.tied = true;
    run_variant(&variant);
}

/* Results do not depend on the values that are recomputed, nor on whether B and
 * W are one list or two. */
static void recompute_and_split(void **state)
{
    static const struct variant variants[] = {
        { .model = "bert", .recompute_ratio = 0.5, .n_threads = 1 },
        { .model = "bert",
          .tied = true,
          .n_labels = 13,
          .split_w = true,
          .recompute_ratio = 1.0,
          .n_threads = 2 },
        { .model = "gpt2",
          .tied = true,
          .recompute_ratio = 0.3,
          .n_threads = 1 },
        { .model = "gpt2", .split_w = true, .n_threads = 2 },
        { .model = "translation",
          .recompute_ratio = 0.7,
          .split_w = true,
          .n_threads = 1 },
        { .model = "translation",
          .tied = true,
          .recompute_ratio = 1.0,
          .n_threads = 2 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(variants); i++)
        run_variant(&variants[i]);
}

/* Programs that only run forward, with all rows and with chosen rows of every
 * model. */
static void logits_alone(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "translation" };

    (void)state;
    for (size_t i = 0; i < 4 * VP_COUNT_OF(models); i++) {
        struct variant variant = { .model = models[i / 4],
                                   .tied = i % 2,
                                   .n_labels = i / 2 % 2 ? 39 : 0,
                                   .reference = i % 2,
                                   .n_threads = 2,
                                   .outputs = VP_OUTPUT_LOGITS };
        struct stage s;

        stage_open(&s, &variant);
        for (int list = VP_LIST_R; list < VP_LIST_COUNT; list++)
            assert_int_equal(s.program.n_calls[list], 0);
        assert_int_equal(s.program.n_bytes[VP_SPACE_GRAD], 0);
        put_batch(&s, 0);
        for (int32_t r = 0; r < variant.n_labels; r++)
            input(&s, VP_ROLE_LABEL_ROWS)[r] = r % 5 ? r * 2 % 33 : -1;
        launch(&s, VP_LIST_F);
        check_logits(&s);
        stage_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_kernels),
        cmocka_unit_test(fast_kernels),
        cmocka_unit_test(labelled_rows),
        cmocka_unit_test(recompute_and_split),
        cmocka_unit_test(logits_alone),
    };

    ops = test_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
