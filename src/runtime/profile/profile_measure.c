/* Measures a profile: windows of blocks, candidate sets, loads, copies and
 * messages. */
#include "runtime/profile/profile_measure.h"

#include "base/clock.h"
#include "runtime/profile/copies.h"
#include "runtime/profile/crowd.h"
#include "runtime/profile/handover.h"
#include "runtime/profile/median.h"
#include "runtime/profile/probe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* N_WARM: warm-up runs, in which kernels are chosen and lists are captured.
 * BESIDE: neighbours on each side of a measured block. */
enum { N_WARM = 3, N_LEAST = 3, N_USUAL = 9, N_MOST = 64, BESIDE = 1 };

struct window {
    int first, n; /* blocks */
};

struct meter {
    const struct vp_profile_request *request;
    const struct vp_graph *graph;
    int64_t end_ns;
    struct vp_block_key *keys; /* per block of the model */
    int *target; /* per block: the block that is measured in its place */
    struct window *windows;
    int n_windows;
    int *window_of; /* per block that is measured: its window */
    struct vp_device_profile *out;
};

/* ---- Windows ------------------------------------------------------------ */

static bool same_key(const struct vp_block_key *a, const struct vp_block_key *b)
{
    return a->low == b->low && a->high == b->high;
}

/* Returns the middle one of the blocks with the key of block `b`. */
static int middle_of(const struct meter *meter, int b)
{
    int n = 0, at = 0;

    for (int i = 0; i < meter->graph->n_blocks; i++)
        n += same_key(&meter->keys[i], &meter->keys[b]);
    for (int i = 0; i < meter->graph->n_blocks; i++)
        if (same_key(&meter->keys[i], &meter->keys[b]) && at++ == n / 2)
            return i;
    return b;
}

static struct window around(const struct meter *meter, int block)
{
    int first = block > BESIDE ? block - BESIDE : 0;
    int end = block + BESIDE + 1;

    end = end < meter->graph->n_blocks ? end : meter->graph->n_blocks;
    return (struct window){ first, end - first };
}

/* Adds a window, or extends the last one. Called in ascending order of
 * blocks. */
static int add_window(struct meter *meter, struct window add)
{
    struct window *last = meter->n_windows > 0
                              ? &meter->windows[meter->n_windows - 1]
                              : NULL;
    int end = add.first + add.n;

    if (last && add.first <= last->first + last->n &&
        end - last->first <= VP_PROBE_BLOCKS)
        last->n = end > last->first + last->n ? end - last->first : last->n;
    else
        meter->windows[meter->n_windows++] = add;
    return meter->n_windows - 1;
}

static void choose_windows(struct meter *meter)
{
    int n = meter->graph->n_blocks;

    for (int b = 0; b < n; b++)
        meter->target[b] = middle_of(meter, b);
    for (int b = 0; b < n; b++)
        meter->window_of[b] = meter->target[b] == b
                                  ? add_window(meter, around(meter, b))
                                  : VP_NONE;
}

/* ---- One stage ---------------------------------------------------------- */

static bool is_late(const struct meter *meter)
{
    return vp_clock_ns() > meter->end_ns;
}

static int n_repeats(const struct meter *meter)
{
    int n = meter->request->n_repeats;

    n = n > N_MOST ? N_MOST : n;
    return is_late(meter) ? N_LEAST : n > 0 ? n : N_USUAL;
}

/* Computes medians over several runs. `in_parts`: also times the blocks, in
 * alternate runs. */
static enum vp_status repeat(const struct meter *meter, struct vp_probe *probe,
                             bool in_parts, struct vp_probe_times *out)
{
    enum { N_NUMBERS = sizeof(struct vp_probe_times) / sizeof(double) };
    struct vp_probe_times *runs = calloc(N_MOST, sizeof(*runs));
    double numbers[N_MOST];
    enum vp_status st = runs ? VP_OK : VP_ERR_NOMEM;
    int n = 0, end = n_repeats(meter);

    for (int i = -N_WARM; st == VP_OK && i < end; i++) {
        struct vp_probe_times *to = &runs[i < 0 ? 0 : i];

        st = vp_probe_run(probe, false, to);
        if (st == VP_OK && in_parts)
            st = vp_probe_run(probe, true, to);
        if (st == VP_OK && in_parts)
            st = vp_probe_update(probe, to);
        n = i + 1;
        if (n >= N_LEAST && is_late(meter))
            break;
    }
    for (int k = 0; st == VP_OK && k < N_NUMBERS; k++) {
        for (int i = 0; i < n; i++)
            numbers[i] = ((const double *)&runs[i])[k];
        ((double *)out)[k] = vp_median(numbers, n);
    }
    free(runs);
    return st;
}

/* Returns the seconds of a list for block `b` of a window: its share of the
 * whole list. */
static double share_of(const struct vp_probe_times *times, enum vp_list list,
                       int b)
{
    double sum = 0.0;

    for (int i = 0; i < VP_PROBE_BLOCKS; i++)
        sum += times->blocks[list][i];
    return sum > 0.0 ? times->list[list] * times->blocks[list][b] / sum : 0.0;
}

static enum vp_status explain(enum vp_status st, struct vp_probe *probe,
                              struct vp_err *err)
{
    const struct vp_stage_spec *spec = &probe->stage.plan.spec;

    if (st == VP_OK)
        return VP_OK;
    return vp_err_set(err, st, "measuring blocks %d..%d: %s: %s",
                      spec->first_block, spec->first_block + spec->n_blocks - 1,
                      vp_status_name(st),
                      vp_device_last_error(vp_backend_device(probe->backend)));
}

/* ---- A window ----------------------------------------------------------- */

static struct vp_stage_spec spec_of(const struct meter *meter,
                                    const struct window *window)
{
    return (struct vp_stage_spec){
        .first_block = window->first,
        .n_blocks = window->n,
        .keep_all = meter->request->config->plan.keep_all,
        .w_linger = meter->request->config->backend->w_linger,
    };
}

/* Times of a window: backward in one list, with separate W, and beside
 * copies. */
struct window_times {
    struct vp_probe_times fused, split, beside;
};

/* Repeats the measurement while the copy engines work. Without copy engines the
 * times are those of `alone`. */
static enum vp_status measure_beside(const struct meter *meter,
                                     struct vp_probe *probe,
                                     const struct vp_probe_times *alone,
                                     struct vp_probe_times *out)
{
    struct vp_copy_load *load;
    enum vp_status st, ended;

    *out = *alone;
    if (vp_device_has_host_memory(probe->stage.device))
        return VP_OK;
    VP_TRY(vp_copy_load_start(probe->stage.device, &load));
    st = repeat(meter, probe, false, out);
    ended = vp_copy_load_stop(load);
    return st != VP_OK ? st : ended;
}

static enum vp_status measure_stage(const struct meter *meter,
                                    const struct vp_stage_spec *spec,
                                    struct vp_probe_times *alone,
                                    struct vp_probe_times *beside,
                                    struct vp_err *err)
{
    struct vp_probe *probe = calloc(1, sizeof(*probe));
    enum vp_status st;

    if (!probe)
        return vp_err_set(err, VP_ERR_NOMEM, "measuring: out of memory");
    st = vp_probe_init(probe, meter->request->config, 0, spec, 2, err);
    if (st == VP_OK)
        st = explain(repeat(meter, probe, true, alone), probe, err);
    if (st == VP_OK && beside)
        st = explain(measure_beside(meter, probe, alone, beside), probe, err);
    vp_probe_release(probe);
    free(probe);
    return st;
}

static double factor(double beside, double alone)
{
    return alone > 0.0 ? beside / alone : 1.0;
}

/* Returns the number of trained parameters of a block. */
static double n_trained(const struct vp_graph *graph, int block)
{
    double n = 0.0;

    for (vp_par par = 0; par < graph->n_params; par++)
        if (graph->params[par].block == block && !graph->params[par].constant)
            n += (double)graph->params[par].rows *
                 (double)graph->params[par].cols;
    return n;
}

static double update_share(const struct vp_graph *graph,
                           const struct window *window, int block)
{
    double sum = 0.0;

    for (int b = window->first; b < window->first + window->n; b++)
        sum += n_trained(graph, b);
    return sum > 0.0 ? n_trained(graph, block) / sum : 0.0;
}

/* Backward in one list takes b + w. The ratio of the two comes from the
 * measurement with separate W. */
static struct vp_block_seconds block_seconds(const struct window_times *times,
                                             int b)
{
    double whole = share_of(&times->fused, VP_LIST_B, b);
    double b_alone = share_of(&times->split, VP_LIST_B, b);
    double w_alone = share_of(&times->split, VP_LIST_W, b);
    double sum = b_alone + w_alone;

    return (struct vp_block_seconds){
        .f = share_of(&times->fused, VP_LIST_F, b),
        .b = sum > 0.0 ? whole * b_alone / sum : whole,
        .w = sum > 0.0 ? whole * w_alone / sum : 0.0,
    };
}

static struct vp_block_seconds slowed(const struct vp_block_seconds *alone,
                                      const struct window_times *times)
{
    double f = factor(times->beside.list[VP_LIST_F],
                      times->fused.list[VP_LIST_F]);
    double b = factor(times->beside.list[VP_LIST_B],
                      times->fused.list[VP_LIST_B]);

    return (struct vp_block_seconds){ f * alone->f, b * alone->b,
                                      b * alone->w };
}

static struct vp_profile_block *find_block(const struct meter *meter, int block)
{
    for (int i = 0; i < meter->out->n_blocks; i++)
        if (same_key(&meter->out->blocks[i].key, &meter->keys[block]))
            return &meter->out->blocks[i];
    return NULL;
}

static enum vp_status measure_window(struct meter *meter, int w,
                                     struct vp_err *err)
{
    const struct window *window = &meter->windows[w];
    struct vp_stage_spec spec = spec_of(meter, window);
    struct window_times *times = calloc(1, sizeof(*times));
    enum vp_status st;

    if (!times)
        return vp_err_set(err, VP_ERR_NOMEM, "measuring: out of memory");
    st = measure_stage(meter, &spec, &times->fused, &times->beside, err);
    spec.split_w = true;
    if (st == VP_OK)
        st = measure_stage(meter, &spec, &times->split, NULL, err);
    for (int b = window->first; st == VP_OK && b < window->first + window->n;
         b++) {
        struct vp_profile_block *to = find_block(meter, b);

        if (meter->window_of[b] != w)
            continue;
        to->alone = block_seconds(times, b - window->first);
        to->beside_copies = slowed(&to->alone, times);
        to->update = times->fused.update *
                     update_share(meter->graph, window, b);
    }
    free(times);
    return st;
}

/* ---- Recomputation ------------------------------------------------------ */

/* Chooses candidate set number `c` of every block of the window; the last one
 * of a block that has fewer. */
static void choose_sets(const struct meter *meter, const struct window *window,
                        int c, uint64_t sets[VP_PROBE_BLOCKS])
{
    for (int i = 0; i < window->n; i++) {
        uint64_t all[VP_PROFILE_MAX_SETS];
        int n = vp_profile_candidates(meter->graph, window->first + i, all);

        sets[i] = n == 0 ? 0 : all[c < n ? c : n - 1];
    }
}

static int most_sets(const struct meter *meter, int w)
{
    const struct window *window = &meter->windows[w];
    int most = 0;

    for (int b = window->first; b < window->first + window->n; b++)
        if (meter->window_of[b] == w && find_block(meter, b)->n_sets > most)
            most = find_block(meter, b)->n_sets;
    return most;
}

/* Used when the time limit is over: estimates a set from its share of F by
 * FLOPs and bytes. */
static void estimate_sets(const struct meter *meter, int block, int c)
{
    struct vp_profile_block *to = find_block(meter, block), guess;
    double share;

    vp_profile_estimate(meter->out, meter->graph, block, 0, &guess);
    share = guess.alone.f > 0.0 ? guess.sets[c].seconds / guess.alone.f : 0.0;
    to->sets[c].seconds = share * to->alone.f;
    to->sets[c].beside_copies = share * to->beside_copies.f;
}

static enum vp_status measure_set(struct meter *meter, int w, int c,
                                  struct vp_err *err)
{
    const struct window *window = &meter->windows[w];
    struct vp_stage_spec spec = spec_of(meter, window);
    uint64_t sets[VP_PROBE_BLOCKS];
    struct vp_probe_times alone = { .update = 0.0 }, beside;
    bool late = is_late(meter);

    choose_sets(meter, window, c, sets);
    spec.recompute = sets;
    if (!late)
        VP_TRY(measure_stage(meter, &spec, &alone, &beside, err));
    for (int b = window->first; b < window->first + window->n; b++) {
        struct vp_profile_block *to = find_block(meter, b);

        if (meter->window_of[b] != w || c >= to->n_sets)
            continue;
        if (late) {
            estimate_sets(meter, b, c);
            continue;
        }
        to->sets[c].seconds = share_of(&alone, VP_LIST_R, b - window->first);
        to->sets[c].beside_copies = to->sets[c].seconds *
                                    factor(beside.list[VP_LIST_R],
                                           alone.list[VP_LIST_R]);
    }
    return VP_OK;
}

/* ---- The machine -------------------------------------------------------- */

/* Returns the middle of the model, with the number of blocks of a stage of
 * `n_ranks` ranks. */
static struct window stage_window(const struct meter *meter, int n_ranks)
{
    int n_blocks = meter->graph->n_blocks, n = n_blocks / n_ranks;

    n = n < 1 ? 1 : n > VP_PROBE_BLOCKS ? VP_PROBE_BLOCKS : n;
    return (struct window){ (n_blocks - n) / 2, n };
}

/* Returns the slowdown relative to blocks, which were measured in small
 * windows: the factors include the time of a stage beyond that of its
 * blocks. */
static struct vp_profile_load load_of(const struct meter *meter,
                                      const struct window *window, int n_ranks,
                                      const struct vp_crowd_times *times)
{
    struct vp_crowd_times sum = { 0.0, 0.0, 0.0 };

    for (int b = window->first; b < window->first + window->n; b++) {
        const struct vp_profile_block *block = find_block(meter, b);

        sum.f += block->alone.f;
        sum.b += block->alone.b + block->alone.w;
        sum.update += block->update;
    }
    return (struct vp_profile_load){
        .n_ranks = n_ranks,
        .f = factor(times->f, sum.f),
        .b = factor(times->b, sum.b),
        .update = factor(times->update, sum.update),
    };
}

/* The capacity c is defined by: k ranks take k / c times as long as one. */
static double capacity_of(int n_ranks, const struct vp_crowd_times *alone,
                          const struct vp_crowd_times *together)
{
    double one = alone->f + alone->b, all = together->f + together->b;
    double capacity = one > 0.0 ? n_ranks * one / all : n_ranks;

    return capacity < 1.0 ? 1.0 : capacity > n_ranks ? n_ranks : capacity;
}

/* Returns the next number of ranks to measure: twice `n`, and finally all.
 * Where ranks share a device only all of them together are measured. */
static int next_load(const struct meter *meter, int n)
{
    int all = meter->request->n_ranks;
    bool cores = meter->request->config->backend->device->host_memory;

    return n >= all ? all + 1 : !cores || 2 * n > all ? all : 2 * n;
}

static enum vp_status measure_loads(struct meter *meter, struct vp_err *err)
{
    const struct vp_profile_request *request = meter->request;
    bool cores = request->config->backend->device->host_memory;
    struct vp_device_profile *out = meter->out;

    out->capacity = 1.0;
    for (int n = next_load(meter, 1);
         request->n_ranks > 1 && n <= request->n_ranks;
         n = next_load(meter, n)) {
        struct window window = stage_window(meter, n);
        struct vp_stage_spec spec = spec_of(meter, &window);
        struct vp_crowd_config crowd = { .config = request->config,
                                         .spec = &spec,
                                         .n_ranks = n,
                                         .n_repeats = n_repeats(meter) };
        struct vp_crowd_times alone, together;

        VP_TRY(vp_crowd_measure(&crowd, &alone, &together, err));
        out->capacity = capacity_of(n, &alone, &together);
        if (!cores || out->n_loads + 2 > VP_PROFILE_MAX_LOADS)
            continue;
        if (out->n_loads == 0) /* a whole stage, compared with its blocks */
            out->loads[out->n_loads++] = load_of(meter, &window, 1, &alone);
        out->loads[out->n_loads++] = load_of(meter, &window, n, &together);
    }
    return VP_OK;
}

static enum vp_status measure_links(struct meter *meter, struct vp_err *err)
{
    const struct vp_train_config *config = meter->request->config;
    struct vp_backend_config with = vp_train_backend_config(config, 0);
    struct vp_device_profile *out = meter->out;
    struct vp_copy_rates rates;
    struct vp_backend *backend;
    enum vp_status st;

    /* Before the thread is pinned: threads that it creates would share its
     * core. */
    st = vp_handover_measure(&out->same_host.seconds);
    if (st == VP_OK) {
        VP_TRY(vp_backend_open(config->backend, &with, &backend, err));
        vp_device_attach(vp_backend_device(backend));
        st = vp_copies_measure(vp_backend_device(backend), config->timeout_ms,
                               &rates);
        config->backend->close(backend);
    }
    if (st != VP_OK)
        return vp_err_set(err, st, "measuring copies and messages: %s",
                          vp_status_name(st));
    out->copy_out = rates.out;
    out->copy_in = rates.in;
    out->copy_out_both = rates.out_both;
    out->copy_in_both = rates.in_both;
    out->same_host.bytes_per_second = rates.out > 0.0 ? 1.0 / (1.0 / rates.out +
                                                               1.0 / rates.in)
                                                      : vp_copies_host_rate();
    if (!(out->same_host.bytes_per_second > 0.0))
        return vp_err_set(err, VP_ERR_NOMEM,
                          "measuring copies and messages: out of memory");
    return VP_OK;
}

/* Sets the rate that all blocks reached together, for blocks that are not in
 * the profile. */
static void set_rates(struct meter *meter)
{
    struct vp_profile_rates *rates = &meter->out->rates;
    double flops = 0.0, seconds = 0.0;

    for (int b = 0; b < meter->graph->n_blocks; b++) {
        const struct vp_block_seconds *at = &find_block(meter, b)->alone;

        flops += vp_graph_flops(meter->graph, b, 1);
        seconds += at->f + at->b + at->w;
    }
    if (!(flops > 0.0 && seconds > 0.0))
        return;
    for (int i = 0; i < 3; i++)
        rates->flops[i] = flops / seconds;
    rates->n_efficiency = 0;
    rates->kernel_seconds = 0.0;
}

/* ---- The whole ---------------------------------------------------------- */

static enum vp_status list_blocks(struct meter *meter, struct vp_arena *arena)
{
    struct vp_device_profile *out = meter->out;
    int n = meter->graph->n_blocks;

    out->blocks = vp_arena_alloc(arena, (size_t)n * sizeof(*out->blocks));
    if (!out->blocks)
        return VP_ERR_NOMEM;
    for (int b = 0; b < n; b++) {
        struct vp_profile_block *to = &out->blocks[out->n_blocks];
        uint64_t sets[VP_PROFILE_MAX_SETS];

        if (find_block(meter, b))
            continue;
        *to = (struct vp_profile_block){ .key = meter->keys[b] };
        to->name = vp_arena_strdup(arena, meter->graph->blocks[b].name);
        if (!to->name)
            return VP_ERR_NOMEM;
        to->n_sets = vp_profile_candidates(meter->graph, b, sets);
        for (int i = 0; i < to->n_sets; i++)
            to->sets[i].ops = sets[i];
        out->n_blocks++;
    }
    return VP_OK;
}

static enum vp_status prepare(struct meter *meter, struct vp_arena *arena)
{
    size_t n = (size_t)meter->graph->n_blocks;

    meter->keys = calloc(n, sizeof(*meter->keys));
    meter->target = calloc(n, sizeof(*meter->target));
    meter->windows = calloc(n, sizeof(*meter->windows));
    meter->window_of = calloc(n, sizeof(*meter->window_of));
    if (!meter->keys || !meter->target || !meter->windows || !meter->window_of)
        return VP_ERR_NOMEM;
    VP_TRY(vp_profile_keys(meter->graph, meter->keys));
    VP_TRY(list_blocks(meter, arena));
    choose_windows(meter);
    return VP_OK;
}

static enum vp_status measure_all(struct meter *meter, struct vp_err *err)
{
    VP_TRY(measure_links(meter, err));
    for (int w = 0; w < meter->n_windows; w++)
        VP_TRY(measure_window(meter, w, err));
    VP_TRY(measure_loads(meter, err));
    for (int w = 0; w < meter->n_windows; w++)
        for (int c = 0; c < most_sets(meter, w); c++)
            VP_TRY(measure_set(meter, w, c, err));
    set_rates(meter);
    return VP_OK;
}

/* The measurement runs on its own thread, because devices pin the thread that
 * runs their stages. */
struct work {
    struct meter *meter;
    struct vp_err *err;
    enum vp_status st;
};

static void *measure_on_thread(void *arg)
{
    struct work *work = arg;

    work->st = measure_all(work->meter, work->err);
    return NULL;
}

static enum vp_status measure_apart(struct meter *meter, struct vp_err *err)
{
    struct work work = { .meter = meter, .err = err };
    pthread_t thread;

    if (pthread_create(&thread, NULL, measure_on_thread, &work) != 0)
        return vp_err_set(err, VP_ERR_NOMEM, "measuring: no thread");
    pthread_join(thread, NULL);
    return work.st;
}

enum vp_status vp_profile_measure(const struct vp_profile_request *request,
                                  struct vp_arena *arena,
                                  struct vp_device_profile *out,
                                  struct vp_err *err)
{
    const struct vp_train_config *config = request->config;
    struct vp_device_profile made;
    struct meter meter = { .request = request,
                           .graph = &config->graphs[0],
                           .end_ns = INT64_MAX,
                           .out = &made };
    enum vp_status st;

    if (request->seconds > 0.0)
        meter.end_ns = vp_clock_ns() + (int64_t)(request->seconds * 1e9);
    vp_profile_synthetic(config->backend->device->host_memory,
                         meter.graph->dtype, &made);
    made.facts = request->facts;
    made.batch = meter.graph->batch;
    st = prepare(&meter, arena);
    if (st != VP_OK)
        vp_err_set(err, st, "measuring: out of memory");
    else
        st = measure_apart(&meter, err);
    free(meter.keys);
    free(meter.target);
    free(meter.windows);
    free(meter.window_of);
    if (st == VP_OK)
        *out = made;
    return st;
}
