/* Facts of a checkpoint: which keys of the configuration are stored and
 * compared, and the counters of a run, written as JSON and checked when
 * read. */
#include "run/checkpoint_facts.h"

#include "base/strbuf.h"
#include "base/value.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/schedule_file.h"
#include "sched/schedule.h"

#include <float.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A resumed run gives the same results only if these keys are unchanged. The
 * first N_MODEL_KEYS define the model; evaluation compares only those. */
enum { N_MODEL_KEYS = 17 };

static const char *const fixed_keys[] = {
    "model_type",
    "vocab",
    "hidden",
    "layers",
    "decoder_layers",
    "heads",
    "ffn",
    "positions",
    "types",
    "dropout",
    "attention_dropout",
    "label_smoothing",
    "tie_embeddings",
    "activation",
    "norm_eps",
    "pad_id",
    "attention_bias",
    "synthetic_data",
    "seq_length",
    "batch_size",
    "max_pred",
    "num_minibatches",
    "seed",
    "optimizer",
    "beta1",
    "beta2",
    "eps",
    "weight_decay",
    "sync_mode",
    "accumulation_steps",
};

/* These keys may change, but the results then change, too, and a notice says
 * so. Other keys do not change results. */
static const char *const noted_keys[] = {
    "learning_rate",
    "learning_rate_policy",
    "lr_warmup",
    "total_steps",
    "epochs",
    "grad_clip",
    "precision",
    "grad_clip_scope",
    "compress_activations",
    "valid_split",
    "source_lang",
    "target_lang",
    "required_batch_size_multiple",
    "document_end",
    "random_next",
    "text_key",
    "invalid_utf8",
};

/* Keys that the action lists of schedule auto depend on, beside those above. */
static const char *const plan_keys[] = {
    "schedule_memory", "schedule_costs",
    "stages",          "chunks",
    "partition",       "recompute",
    "recompute_ratio", "recompute_in_backward",
};

const char *vp_state_file_name(struct vp_arena *arena,
                               const struct vp_state_item *item)
{
    switch (item->kind) {
    case VP_STATE_MOMENT1:
        return vp_arena_printf(arena, "optimizer.moment1.%s", item->name);
    case VP_STATE_MOMENT2:
        return vp_arena_printf(arena, "optimizer.moment2.%s", item->name);
    case VP_STATE_VERSION:
        return vp_arena_printf(arena, "version.%d.%s", item->age, item->name);
    default:
        return vp_arena_strdup(arena, item->name);
    }
}

struct vp_st_tensor vp_state_file_shape(const struct vp_state_item *item)
{
    struct vp_st_tensor shape = { .type = VP_ST_F32,
                                  .n_dims = 2,
                                  .dims = { item->rows, item->cols } };

    if (item->transposed) {
        shape.dims[0] = item->cols;
        shape.dims[1] = item->rows;
    } else if (item->rows == 1) {
        shape.n_dims = 1;
        shape.dims[0] = item->cols;
        shape.dims[1] = 0;
    }
    return shape;
}

enum vp_status vp_checkpoint_load(const struct vp_ckpt *ckpt,
                                  const struct vp_state_item *item, float *out,
                                  struct vp_err *err)
{
    const struct vp_st_tensor want = vp_state_file_shape(item);
    struct vp_arena arena = { NULL };
    const char *name = vp_state_file_name(&arena, item);
    enum vp_status st;

    if (!name)
        st = vp_err_set(err, VP_ERR_NOMEM, "loading: out of memory");
    else if (item->transposed)
        st = vp_ckpt_read_transposed(ckpt, name, &want, out, err);
    else
        st = vp_ckpt_read(ckpt, name, &want, out, err);
    vp_arena_release(&arena);
    return st;
}

/* ---- Writing ------------------------------------------------------------ */

enum { VALUE_BYTES = 2048 };

static void add_values(const struct vp_config *config, const char *const *keys,
                       size_t n, json_t *object)
{
    char value[VALUE_BYTES];

    for (size_t i = 0; object && i < n; i++)
        if (vp_key_print(vp_key_find(keys[i]), config, value, sizeof(value)))
            json_object_set_new(object, keys[i], json_string(value));
}

static json_t *values_of(const struct vp_config *config)
{
    json_t *object = json_object();

    add_values(config, fixed_keys, VP_COUNT_OF(fixed_keys), object);
    add_values(config, noted_keys, VP_COUNT_OF(noted_keys), object);
    return object;
}

/* Adds action lists that no generator writes, and for schedule auto the values
 * they were made for. */
static void add_schedule(const struct vp_config *config,
                         const struct vp_trainer *trainer, json_t *facts)
{
    const char *text = vp_trainer_schedule_text(trainer);
    json_t *values;

    if (!text)
        return;
    json_object_set_new(facts, "schedule", json_string(text));
    if (!vp_generator_at(config->schedule)->planned)
        return;
    values = json_object();
    add_values(config, plan_keys, VP_COUNT_OF(plan_keys), values);
    json_object_set_new(values, "v_shape", json_boolean(config->schedule_v));
    json_object_set_new(facts, "schedule_for", values);
}

/* Writes the counters per block, because stages may change. */
static void add_blocks(const struct vp_trainer *trainer,
                       const struct vp_progress *progress,
                       const struct vp_block_count *counts, json_t *facts)
{
    const struct vp_schedule *schedule = vp_trainer_schedule(trainer);
    json_t *updates = json_array(), *past = json_array(), *full = json_array();
    json_t *skipped = json_array(), *in_a_row = json_array();

    for (int s = 0; s < schedule->n_stages; s++) {
        int n = vp_trainer_n_blocks(trainer, s);
        bool all = schedule->stages[s].version_lag > 0 &&
                   progress->past[s] == schedule->stages[s].version_lag;

        for (int b = 0; b < n; b++) {
            json_array_append_new(updates, json_integer(counts->updates));
            json_array_append_new(past, json_integer(progress->past[s]));
            json_array_append_new(full, json_boolean(all));
            json_array_append_new(skipped, json_integer(counts->n_skipped));
            json_array_append_new(in_a_row,
                                  json_integer(progress->scale[s].in_a_row));
            counts++;
        }
    }
    json_object_set_new(facts, "updates", updates);
    json_object_set_new(facts, "past_versions", past);
    json_object_set_new(facts, "past_is_cut", full);
    json_object_set_new(facts, "loss_scale",
                        json_real((double)progress->scale[0].value));
    json_object_set_new(facts, "skipped", skipped);
    json_object_set_new(facts, "in_a_row", in_a_row);
}

static size_t count_blocks(const struct vp_trainer *trainer)
{
    size_t n = 0;

    for (int s = 0; s < vp_trainer_n_stages(trainer); s++)
        n += (size_t)vp_trainer_n_blocks(trainer, s);
    return n;
}

enum vp_status vp_checkpoint_facts_create(const struct vp_config *config,
                                          const struct vp_data *data,
                                          const struct vp_trainer *trainer,
                                          struct vp_facts **out)
{
    struct vp_progress progress = vp_trainer_progress(trainer);
    struct vp_block_count *counts = calloc(count_blocks(trainer),
                                           sizeof(*counts));
    json_t *object = json_object();
    enum vp_status st;

    if (!object || !counts) {
        json_decref(object);
        free(counts);
        return VP_ERR_NOMEM;
    }
    vp_trainer_block_counts(trainer, &progress, counts);
    json_object_set_new(object, "program", json_string("vpipe " VP_VERSION));
    json_object_set_new(object, "minibatch", json_integer(progress.minibatch));
    json_object_set_new(object, "data", json_string(vp_data_info(data)->what));
    json_object_set_new(object, "batches_per_epoch",
                        json_integer(vp_data_info(data)->n_batches));
    add_blocks(trainer, &progress, counts, object);
    free(counts);
    json_object_set_new(object, "config", values_of(config));
    add_schedule(config, trainer, object);
    st = vp_facts_wrap(object, out);
    json_decref(object);
    return st;
}

static json_t *list_zeros(int n, json_t *(*zero)(void))
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, zero());
    return list;
}

static json_t *zero_integer(void)
{
    return json_integer(0);
}

static json_t *zero_boolean(void)
{
    return json_false();
}

enum vp_status vp_checkpoint_facts_import(const struct vp_config *config,
                                          int n_blocks, struct vp_facts **out)
{
    json_t *object = json_object(), *values = json_object();
    enum vp_status st;

    add_values(config, fixed_keys, N_MODEL_KEYS, values);
    json_object_set_new(values, "sync_mode", json_string("bsp"));
    json_object_set_new(values, "accumulation_steps", json_string("1"));
    json_object_set_new(object, "program", json_string("vpipe " VP_VERSION));
    json_object_set_new(object, "imported", json_true());
    json_object_set_new(object, "minibatch", json_integer(0));
    json_object_set_new(object, "updates", list_zeros(n_blocks, zero_integer));
    json_object_set_new(object, "past_versions",
                        list_zeros(n_blocks, zero_integer));
    json_object_set_new(object, "past_is_cut",
                        list_zeros(n_blocks, zero_boolean));
    json_object_set_new(object, "config", values);
    st = object ? vp_facts_wrap(object, out) : VP_ERR_NOMEM;
    json_decref(object);
    return st;
}

/* ---- Reading ------------------------------------------------------------ */

bool vp_checkpoint_facts_imported(const struct vp_facts *facts)
{
    return json_is_true(json_object_get(vp_facts_object(facts), "imported"));
}

enum vp_status vp_checkpoint_facts_model(const struct vp_facts *facts,
                                         char **yaml_out, struct vp_err *err)
{
    const json_t *then = json_object_get(vp_facts_object(facts), "config");
    struct vp_strbuf text = VP_STRBUF_INIT;

    for (int i = 0; i < N_MODEL_KEYS; i++) {
        const char *was = json_string_value(
            json_object_get(then, fixed_keys[i]));

        if (was)
            vp_strbuf_addf(&text, "%s: %s\n", fixed_keys[i], was);
    }
    if (vp_strbuf_detach(&text, yaml_out) == VP_OK)
        return VP_OK;
    return vp_err_set(err, VP_ERR_NOMEM, "checkpoint: out of memory");
}

/* Keys that change the shape of tensors or the meaning of weights. */
static const char *const shape_keys[] = {
    "vocab",    "hidden",    "layers",         "decoder_layers", "heads",
    "ffn",      "positions", "types",          "tie_embeddings", "activation",
    "norm_eps", "pad_id",    "attention_bias",
};

enum vp_status vp_checkpoint_shape_check(const struct vp_config *config,
                                         const struct vp_config *other,
                                         const struct vp_facts *facts,
                                         const char *place, bool *untied_out,
                                         struct vp_err *err)
{
    char value[VALUE_BYTES], theirs[VALUE_BYTES];

    for (size_t i = 0; i < VP_COUNT_OF(shape_keys); i++) {
        const char *key = shape_keys[i], *was = NULL;

        if (!vp_key_print(vp_key_find(key), config, value, sizeof(value)))
            continue;
        if (facts)
            was = json_string_value(json_object_get(
                json_object_get(vp_facts_object(facts), "config"), key));
        else if (vp_key_print(vp_key_find(key), other, theirs, sizeof(theirs)))
            was = theirs;
        if (!was || strcmp(was, value) == 0)
            continue;
        if (strcmp(key, "tie_embeddings") == 0 && strcmp(was, "true") == 0) {
            *untied_out = true;
            continue;
        }
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s is %s (%s), but %s has %s; use --set %s=%s, or "
                          "other weights",
                          key, value, vp_config_place(config, key), place, was,
                          key, was);
    }
    return VP_OK;
}

const char *vp_checkpoint_facts_value(const struct vp_facts *facts,
                                      const char *key)
{
    return json_string_value(json_object_get(
        json_object_get(vp_facts_object(facts), "config"), key));
}

const char *vp_checkpoint_facts_schedule_file(const struct vp_facts *facts)
{
    const json_t *object = vp_facts_object(facts);

    if (json_object_get(object, "schedule_for")) /* made by auto */
        return NULL;
    return json_string_value(json_object_get(object, "schedule"));
}

/* Another schedule name is allowed; a schedule file that has changed since the
 * checkpoint is most likely a mistake. */
static enum vp_status check_schedule(const struct vp_facts *facts,
                                     const struct vp_config *config,
                                     const char *place, struct vp_err *err)
{
    const struct vp_schedule_file *file = config->schedule_file;
    const char *was = vp_checkpoint_facts_schedule_file(facts);

    if (!file || file->in_plan || !was || config->forward_only ||
        strcmp(config->schedule_text, was) == 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'schedule': %s differs from the schedule that "
                      "%s was saved with; remove the file to go on with the "
                      "saved one, or set schedule to a name",
                      vp_config_place(config, "schedule"), file->path, place);
}

enum vp_status vp_checkpoint_facts_check(const struct vp_facts *facts,
                                         const struct vp_config *config,
                                         const struct vp_data *data,
                                         const char *place, struct vp_err *err)
{
    const json_t *object = vp_facts_object(facts);
    const json_t *then = json_object_get(object, "config");
    const json_t *batches = json_object_get(object, "batches_per_epoch");
    bool imported = vp_checkpoint_facts_imported(facts);
    size_t n_keys = config->forward_only || imported ? N_MODEL_KEYS
                                                     : VP_COUNT_OF(fixed_keys);
    char value[VALUE_BYTES];

    for (size_t i = 0; i < n_keys; i++) {
        const char *key = fixed_keys[i];
        const char *was = json_string_value(json_object_get(then, key));

        if (!vp_key_print(vp_key_find(key), config, value, sizeof(value)))
            value[0] = '\0';
        if (strcmp(was ? was : "", value) != 0)
            return vp_err_set(
                err, VP_ERR_INVALID,
                "%s: %s is %s, but %s was saved with %s; a run "
                "can only go on with the same: %s%s%s%s, or "
                "start a new run",
                vp_config_place(config, key), key, value[0] ? value : "not set",
                place, was ? was : "none", was ? "use --set " : "remove ", key,
                was ? "=" : "", was ? was : "");
    }
    VP_TRY(check_schedule(facts, config, place, err));
    if (!config->forward_only && !imported &&
        json_integer_value(batches) != vp_data_info(data)->n_batches)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: the data has %lld batches, but %s was saved "
                          "with %lld; resume with the same data",
                          vp_config_place(config, "data_dir"),
                          (long long)vp_data_info(data)->n_batches, place,
                          (long long)json_integer_value(batches));
    return VP_OK;
}

const char *vp_checkpoint_facts_schedule(const struct vp_facts *facts,
                                         const struct vp_config *config)
{
    const json_t *object = vp_facts_object(facts);
    const json_t *made_for = json_object_get(object, "schedule_for");
    char value[VALUE_BYTES];

    if (!made_for || !vp_generator_at(config->schedule)->planned ||
        json_is_true(json_object_get(made_for, "v_shape")) !=
            config->schedule_v)
        return NULL;
    for (size_t i = 0; i < VP_COUNT_OF(plan_keys); i++) {
        const char *key = plan_keys[i];
        const char *was = json_string_value(json_object_get(made_for, key));

        if (!vp_key_print(vp_key_find(key), config, value, sizeof(value)))
            value[0] = '\0';
        if (strcmp(was ? was : "", value) != 0)
            return NULL;
    }
    return json_string_value(json_object_get(object, "schedule"));
}

void vp_checkpoint_facts_compare(const struct vp_facts *facts,
                                 const struct vp_config *config,
                                 vp_notice_fn notice, void *ctx)
{
    const json_t *then = json_object_get(vp_facts_object(facts), "config");
    char line[512], value[VALUE_BYTES];
    size_t n = 0;

    for (size_t i = 0; i < VP_COUNT_OF(noted_keys) && n < sizeof(line); i++) {
        const char *key = noted_keys[i];
        const char *was = json_string_value(json_object_get(then, key));

        if (!vp_key_print(vp_key_find(key), config, value, sizeof(value)) ||
            !was || strcmp(was, value) == 0)
            continue;
        n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s is %s, was %s",
                              n > 0 ? ", " : "", key, value, was);
    }
    if (n > 0 && !config->forward_only)
        notice(ctx, line);
}

/* Returns the array at `key` if it has `n` entries, otherwise NULL. */
static const json_t *list_of(const json_t *object, const char *key, int n)
{
    const json_t *list = json_object_get(object, key);

    return json_is_array(list) && json_array_size(list) == (size_t)n ? list
                                                                     : NULL;
}

/* Facts of a checkpoint that are being read and checked. */
struct reading {
    const json_t *object;
    const char *place; /* checkpoint, for messages */
    int n_blocks;
    int64_t step;
    bool asp;
    int64_t group; /* minibatches per update; 1 in sync_mode asp */
};

static enum vp_status refuse(const struct reading *in, const char *key,
                             const char *want, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s/manifest.json: facts: %s: is not %s; resume from "
                      "another checkpoint",
                      in->place, key, want);
}

static bool in_range(const json_t *value, int64_t min, int64_t max)
{
    return json_is_integer(value) && json_integer_value(value) >= min &&
           json_integer_value(value) <= max;
}

/* Checks that `key` is a list of one integer from `min` to `max` per block. */
static enum vp_status check_list(const struct reading *in, const char *key,
                                 int64_t min, int64_t max, struct vp_err *err)
{
    const json_t *list = list_of(in->object, key, in->n_blocks);
    char want[128];

    for (int b = 0; list && b < in->n_blocks; b++)
        if (!in_range(json_array_get(list, (size_t)b), min, max))
            list = NULL;
    if (list)
        return VP_OK;
    snprintf(want, sizeof(want), "a list of %d whole numbers from %lld to %lld",
             in->n_blocks, (long long)min, (long long)max);
    return refuse(in, key, want, err);
}

/* Reads sync_mode and accumulation_steps of the saved run, whose configuration
 * may differ from that of an evaluation. */
static enum vp_status read_mode(struct reading *in, struct vp_err *err)
{
    const json_t *then = json_object_get(in->object, "config");
    const char *mode = json_string_value(json_object_get(then, "sync_mode"));
    const char *group = json_string_value(
        json_object_get(then, "accumulation_steps"));

    if (!mode || (strcmp(mode, "asp") != 0 && strcmp(mode, "bsp") != 0))
        return refuse(in, "config.sync_mode", "asp or bsp", err);
    in->asp = strcmp(mode, "asp") == 0;
    in->group = 1;
    if (!in->asp && (!group || !vp_text_to_i64(group, &in->group) ||
                     in->group < 1 || in->group > INT32_MAX))
        return refuse(in, "config.accumulation_steps", "a whole number from 1",
                      err);
    if (in->step > (in->asp ? INT32_MAX : INT64_MAX / in->group))
        return refuse(in, "step", "a step that a run can reach", err);
    return VP_OK;
}

/* In sync_mode bsp every step updates all blocks. In asp every minibatch is a
 * step, and a stage updates its blocks when a round ends. */
static enum vp_status check_counts(const struct reading *in, struct vp_err *err)
{
    const json_t *minibatch = json_object_get(in->object, "minibatch");
    const json_t *updates = json_object_get(in->object, "updates");
    int64_t want = in->step * in->group;
    char text[96];

    if (!in_range(minibatch, want, want)) {
        snprintf(text, sizeof(text), "%lld, the minibatches of %lld steps",
                 (long long)want, (long long)in->step);
        return refuse(in, "minibatch", text, err);
    }
    VP_TRY(check_list(in, "updates", 0, in->step, err));
    VP_TRY(check_list(in, "past_versions", 0, in->asp ? in->step : 0, err));
    if (!list_of(in->object, "past_is_cut", in->n_blocks))
        return refuse(in, "past_is_cut", "a list with a value for every block",
                      err);
    for (int b = 0; !in->asp && b < in->n_blocks; b++)
        if (json_integer_value(json_array_get(updates, (size_t)b)) != in->step)
            return refuse(in, "updates", "the step, for every block", err);
    return VP_OK;
}

/* Checkpoints from before loss scaling lack these facts: they count as zero. */
static enum vp_status check_scale(const struct reading *in, struct vp_err *err)
{
    const json_t *scale = json_object_get(in->object, "loss_scale");

    if (scale && (!json_is_number(scale) || json_number_value(scale) < 0 ||
                  json_number_value(scale) > (double)FLT_MAX))
        return refuse(in, "loss_scale", "a number from 0", err);
    if (json_object_get(in->object, "skipped"))
        VP_TRY(check_list(in, "skipped", 0, in->step, err));
    if (json_object_get(in->object, "in_a_row"))
        VP_TRY(check_list(in, "in_a_row", -INT32_MAX, INT32_MAX, err));
    return VP_OK;
}

static int64_t value_at(const struct reading *in, const char *key, int block)
{
    return json_integer_value(
        json_array_get(json_object_get(in->object, key), (size_t)block));
}

static struct vp_block_state read_block(const struct reading *in, int block)
{
    const json_t *cut = json_object_get(in->object, "past_is_cut");

    return (struct vp_block_state){
        .updates = value_at(in, "updates", block),
        .past = (int)value_at(in, "past_versions", block),
        .full = json_is_true(json_array_get(cut, (size_t)block)),
        .scale = {
            .value = (float)json_number_value(
                json_object_get(in->object, "loss_scale")),
            .in_a_row = (int)value_at(in, "in_a_row", block),
            .n_skipped = value_at(in, "skipped", block),
        },
    };
}

enum vp_status vp_checkpoint_facts_progress(const struct vp_facts *facts,
                                            const char *place, int n_blocks,
                                            struct vp_progress *progress,
                                            struct vp_block_state *blocks_out,
                                            struct vp_err *err)
{
    struct reading in = {
        .object = vp_facts_object(facts),
        .place = place,
        .n_blocks = n_blocks,
        .step = progress->step,
    };

    VP_TRY(read_mode(&in, err));
    VP_TRY(check_counts(&in, err));
    VP_TRY(check_scale(&in, err));
    for (int b = 0; b < n_blocks; b++) {
        blocks_out[b] = read_block(&in, b);
        if (blocks_out[b].past > blocks_out[b].updates)
            return refuse(&in, "past_versions", "at most the updates", err);
        if (blocks_out[b].scale.n_skipped > blocks_out[b].updates)
            return refuse(&in, "skipped", "at most the updates", err);
    }
    progress->minibatch = in.step * in.group;
    return VP_OK;
}
