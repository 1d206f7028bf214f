/* Writes a plan as JSON. */
#include "plan/plan_json.h"

#include "base/strbuf.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Begins an entry. */
static void key(struct vp_strbuf *b, const char *name)
{
    vp_strbuf_addf(b, "%s    \"%s\": ", b->n_bytes > 2 ? ",\n" : "", name);
}

/* Prints the shortest of two forms that reads back as the same number. */
static void print_real(struct vp_strbuf *b, double value)
{
    char text[40];

    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof(text), "%.17g", value);
    vp_strbuf_adds(b, text);
}

static void print_int(struct vp_strbuf *b, const char *name, int64_t value)
{
    key(b, name);
    vp_strbuf_addf(b, "%lld", (long long)value);
}

static void print_bool(struct vp_strbuf *b, const char *name, bool value)
{
    key(b, name);
    vp_strbuf_adds(b, value ? "true" : "false");
}

static void print_ints(struct vp_strbuf *b, const char *name, const int *at,
                       int n)
{
    if (!at)
        return;
    key(b, name);
    for (int i = 0; i < n; i++)
        vp_strbuf_addf(b, "%s%d", i ? ", " : "[", at[i]);
    vp_strbuf_adds(b, "]");
}

/* JSON would escape control characters too; schedule texts have none. */
static void print_text(struct vp_strbuf *b, const char *text, size_t n)
{
    vp_strbuf_adds(b, "\"");
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"' || text[i] == '\\')
            vp_strbuf_adds(b, "\\");
        vp_strbuf_add(b, text + i, 1);
    }
    vp_strbuf_adds(b, "\"");
}

/* ---- The cut ------------------------------------------------------------ */

static void print_ratios(struct vp_strbuf *b, const char *name,
                         const double *ratios, int n)
{
    key(b, name);
    for (int s = 0; s < n; s++) {
        vp_strbuf_adds(b, s ? ", " : "[");
        print_real(b, ratios ? ratios[s] : 0.0);
    }
    vp_strbuf_adds(b, "]");
}

static void print_cut(struct vp_strbuf *b, const struct vp_plan *plan,
                      int n_blocks)
{
    int n = vp_plan_n_stages(plan);

    print_ints(b, "partition", plan->partition ? plan->partition : &n_blocks,
               plan->partition ? n : 1);
    print_ratios(b, "recompute_ratio", plan->recompute_ratio, n);
}

/* Prints the bit numbers of every block's set: [[0, 2], []]. */
static void print_set_list(struct vp_strbuf *b, const uint64_t *sets,
                           int n_blocks)
{
    for (int i = 0; i < n_blocks; i++) {
        const char *between = "";

        vp_strbuf_adds(b, i ? ", [" : "[[");
        for (int bit = 0; bit < 64; bit++) {
            if (!(sets[i] >> bit & 1))
                continue;
            vp_strbuf_addf(b, "%s%d", between, bit);
            between = ", ";
        }
        vp_strbuf_adds(b, "]");
    }
    vp_strbuf_adds(b, "]");
}

static void print_sets(struct vp_strbuf *b, const char *name,
                       const uint64_t *sets, int n_blocks)
{
    if (!sets)
        return;
    key(b, name);
    print_set_list(b, sets, n_blocks);
}

static void print_slots(struct vp_strbuf *b, const struct vp_plan *plan,
                        int n_blocks)
{
    if (plan->n_slots == 0)
        return;
    key(b, "slots");
    for (int i = 0; i < plan->n_slots; i++) {
        const struct vp_plan_slot *slot = &plan->slots[i];

        vp_strbuf_adds(b, i ? ", {" : "[{");
        if (slot->recompute_sets) {
            vp_strbuf_adds(b, "\"recompute\": ");
            print_set_list(b, slot->recompute_sets, n_blocks);
        }
        if (slot->swap_sets) {
            vp_strbuf_adds(b, slot->recompute_sets ? ", \"swap\": "
                                                   : "\"swap\": ");
            print_set_list(b, slot->swap_sets, n_blocks);
        }
        vp_strbuf_adds(b, "}");
    }
    vp_strbuf_adds(b, "]");
}

/* ---- The schedule ------------------------------------------------------- */

static void print_lines(struct vp_strbuf *b, const char *text)
{
    const char *between = "[\n        ";

    key(b, "schedule_text");
    while (*text) {
        size_t n = strcspn(text, "\n");

        vp_strbuf_adds(b, between);
        print_text(b, text, n);
        between = ",\n        ";
        text += n + (text[n] == '\n');
    }
    vp_strbuf_adds(b, "\n    ]");
}

static void print_schedule(struct vp_strbuf *b, const struct vp_plan *plan)
{
    const char *name = plan->schedule ? plan->schedule : "1f1b";
    const struct vp_generator *generator = vp_generator_find(name);

    key(b, "schedule");
    print_text(b, name, strlen(name));
    if (plan->schedule_memory > 0)
        print_int(b, "schedule_memory", plan->schedule_memory);
    if (plan->schedule_text && plan->schedule_text[0])
        print_lines(b, plan->schedule_text);
    if (plan->schedule_v)
        print_bool(b, "schedule_v", true);
    print_bool(b, "early_recompute", plan->early_recompute);
    if (plan->accumulation_steps > 0 && !(generator && generator->stream))
        print_int(b, "accumulation_steps", plan->accumulation_steps);
    print_int(b, "stages", plan->n_stages > 0 ? plan->n_stages : 1);
    if (plan->n_chunks > 1)
        print_int(b, "chunks", plan->n_chunks);
}

/* ---- Ranks -------------------------------------------------------------- */

static const char *const edge_words[] = {
    [VP_EDGE_LOCAL] = "local",
    [VP_EDGE_HOST] = "host",
    [VP_EDGE_DEVICE] = "device",
};

static void print_edges(struct vp_strbuf *b, const char *name,
                        const enum vp_edge_kind *edges, int n)
{
    if (!edges || n == 0)
        return;
    key(b, name);
    for (int s = 0; s < n; s++)
        vp_strbuf_addf(b, "%s\"%s\"", s ? ", " : "[", edge_words[edges[s]]);
    vp_strbuf_adds(b, "]");
}

static void print_ranks(struct vp_strbuf *b, const struct vp_plan *plan)
{
    int n = plan->n_stages > 0 ? plan->n_stages : 1, n_ranks = 0;

    for (int s = 0; s < n; s++)
        n_ranks += plan->replicas ? plan->replicas[s] : 1;
    print_ints(b, "replicas", plan->replicas, n);
    print_ints(b, "warmup_depths", plan->depth, n);
    print_ints(b, "ranks", plan->ranks, n_ranks);
    print_ints(b, "devices", plan->devices, vp_plan_n_ranks(plan));
    print_int(b, "tensor_parallel",
              plan->tensor_parallel > 0 ? plan->tensor_parallel : 1);
    if (plan->sequence_parallel)
        print_bool(b, "sequence_parallel", true);
    if (plan->keep_gathered)
        print_bool(b, "keep_gathered", true);
    print_edges(b, "edges", plan->edges, vp_plan_n_stages(plan) - 1);
    print_edges(b, "replica_edges", plan->replica_edges,
                vp_plan_n_stages(plan));
    if (plan->tie_edge != VP_EDGE_LOCAL) {
        key(b, "tie_edge");
        vp_strbuf_addf(b, "\"%s\"", edge_words[plan->tie_edge]);
    }
    print_bool(b, "compress_activations", plan->compress);
    if (plan->shard_optimizer)
        print_bool(b, "shard_optimizer", true);
    if (plan->bundle_bytes > 0)
        print_int(b, "bundle_bytes", plan->bundle_bytes);
}

/* Without the cache of keys and values, which training does not have. */
static void print_kinds(struct vp_strbuf *b,
                        const struct vp_memory *const *memory, int n_stages)
{
    static const struct {
        const char *name;
        size_t offset;
    } kinds[] = {
        { "weights", offsetof(struct vp_memory, weights) },
        { "gradients", offsetof(struct vp_memory, gradients) },
        { "moments", offsetof(struct vp_memory, moments) },
        { "activations", offsetof(struct vp_memory, activations) },
        { "boundary", offsetof(struct vp_memory, boundary) },
        { "work", offsetof(struct vp_memory, work) },
    };

    vp_strbuf_adds(b, "\"memory_kinds\": {");
    for (size_t k = 0; k < VP_COUNT_OF(kinds); k++) {
        vp_strbuf_addf(b, "%s\"%s\": [", k ? ", " : "", kinds[k].name);
        for (int s = 0; s < n_stages; s++) {
            int64_t bytes;

            memcpy(&bytes, (const char *)memory[s] + kinds[k].offset,
                   sizeof(bytes));
            vp_strbuf_addf(b, "%s%lld", s ? ", " : "", (long long)bytes);
        }
        vp_strbuf_adds(b, "]");
    }
    vp_strbuf_adds(b, "}, ");
}

static void print_forecast(struct vp_strbuf *b, const struct vp_plan *plan,
                           const struct vp_plan_forecast *forecast)
{
    key(b, "forecast");
    vp_strbuf_adds(b, "{");
    if (forecast->step_seconds > 0.0) {
        vp_strbuf_adds(b, "\"step_seconds\": ");
        print_real(b, forecast->step_seconds);
        vp_strbuf_adds(b, ", ");
    }
    for (int s = 0; forecast->bytes && s < vp_plan_n_stages(plan); s++)
        vp_strbuf_addf(b, "%s%lld", s ? ", " : "\"memory\": [",
                       (long long)forecast->bytes[s]);
    vp_strbuf_adds(b, forecast->bytes ? "], " : "");
    if (forecast->memory)
        print_kinds(b, forecast->memory, vp_plan_n_stages(plan));
    vp_strbuf_adds(b, "\"bubble\": ");
    print_real(b, forecast->bubble);
    vp_strbuf_adds(b, "}");
}

enum vp_status vp_plan_print(const struct vp_plan *plan, int n_blocks,
                             const struct vp_plan_forecast *forecast,
                             char **text_out)
{
    struct vp_strbuf b = VP_STRBUF_INIT;

    vp_strbuf_adds(&b, "{\n");
    print_cut(&b, plan, n_blocks);
    print_int(&b, "version", VP_PLAN_VERSION);
    print_sets(&b, "recompute", plan->recompute_sets, n_blocks);
    if (plan->swap_ratio)
        print_ratios(&b, "swap_ratio", plan->swap_ratio,
                     vp_plan_n_stages(plan));
    print_sets(&b, "swap", plan->swap_sets, n_blocks);
    if (plan->swap_buffers)
        print_ints(&b, "swap_buffers", plan->swap_buffers,
                   vp_plan_n_stages(plan));
    print_slots(&b, plan, n_blocks);
    if (plan->recompute_in_b)
        print_bool(&b, "recompute_in_backward", true);
    if (plan->w_recomputed)
        print_bool(&b, "w_recomputed", true);
    if (plan->keep_all)
        print_bool(&b, "keep_all", true);
    print_schedule(&b, plan);
    print_ranks(&b, plan);
    if (forecast)
        print_forecast(&b, plan, forecast);
    vp_strbuf_adds(&b, "\n}\n");
    return vp_strbuf_detach(&b, text_out);
}
