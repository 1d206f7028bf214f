/* Builds model, data and trainer of a measured run; runs it; cuts its
 * stages. */
#include "lab.h"

#include "base/clock.h"
#include "forecast.h"
#include "model/model.h"
#include "plan/balance.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 120000, N_DIMS = 2 };

struct lab {
    struct lab_spec spec;
    struct vp_dims dims[N_DIMS];
    struct vp_graph graphs[N_DIMS];
    int n_dims;
    struct vp_data *data;
    double ratios[VP_MAX_STAGES];
    int replicas[VP_MAX_STAGES];
    int devices[VP_MAX_STAGES];
    bool stream;
    struct vp_backend_ops ops; /* those of spec.backend, with counters */
    struct vp_device_ops device;
    struct vp_train_config train;
    struct vp_trainer *trainer;   /* NULL: there is only a plan */
    struct vp_priced_plan priced; /* without a trainer */
    struct vp_backend *backend;
    int64_t allocated;
};

/* The backend that trainers open, the one that was opened last, and the bytes
 * allocated since the last lab was opened. */
static const struct vp_backend_ops *opens = &vp_backend_cpu;
static struct vp_backend *opened;
static atomic_llong n_allocated;

static enum vp_status open_backend(const struct vp_backend_config *config,
                                   struct vp_backend **out, struct vp_err *err)
{
    VP_TRY(opens->open(config, out, err));
    opened = *out;
    return VP_OK;
}

static enum vp_status count_alloc(struct vp_device *device, size_t n_bytes,
                                  void **out)
{
    atomic_fetch_add(&n_allocated, (long long)n_bytes);
    return opens->device->alloc(device, n_bytes, out);
}

_Noreturn void lab_die(const char *what, const struct vp_err *err)
{
    fprintf(stderr, "bench: %s: %s\n", what, err->text);
    exit(1);
}

/* ---- Opening ------------------------------------------------------------ */

static const struct vp_model *model_of(const struct lab_size *size)
{
    const struct vp_model *model = vp_model_find(size->model ? size->model
                                                             : "bert");

    if (!model)
        lab_die("model", &(struct vp_err){ .text = "unknown" });
    return model;
}

static struct vp_model_config model_config(const struct lab_size *size)
{
    struct vp_model_config config = model_of(size)->sizes[0].config;

    config.vocab = size->vocab;
    config.hidden = size->hidden;
    config.layers = size->layers;
    config.decoder_layers = size->layers;
    config.heads = size->heads;
    config.ffn = 4 * (int64_t)size->hidden;
    config.positions = size->seq;
    config.dropout = (float)size->dropout;
    config.attention_dropout = (float)size->dropout;
    config.tie_embeddings = size->tied;
    config.pad = VP_TOKEN_PAD;
    config.dtype = size->dtype;
    return config;
}

static void add_dims(struct lab *lab, int64_t tgt_seq, int64_t n_labels)
{
    const struct lab_size *s = &lab->spec.size;

    lab->dims[lab->n_dims++] = (struct vp_dims){ s->batch, s->seq, tgt_seq,
                                                 n_labels };
}

/* Masked LM has two buckets: one with labelled rows only, and one with all rows
 * for batches that have more labels. */
static void open_graphs(struct lab *lab)
{
    const struct lab_size *s = &lab->spec.size;
    const struct vp_model *model = model_of(s);
    struct vp_model_config config = model_config(s);
    struct vp_err err = { .text = "" };

    if (model->task == VP_TASK_MASKED_LM) {
        if (s->labels < s->seq)
            add_dims(lab, 0, (int64_t)s->batch * s->labels);
        add_dims(lab, 0, (int64_t)s->batch * s->seq);
    } else {
        add_dims(lab, model->task == VP_TASK_TRANSLATION ? s->seq : 0, 0);
    }
    for (int i = 0; i < lab->n_dims; i++)
        if (vp_model_build(model, &config, &lab->dims[i], &lab->graphs[i],
                           &err) != VP_OK)
            lab_die("model", &err);
}

static void open_data(struct lab *lab)
{
    static const enum vp_data_task tasks[] = {
        [VP_TASK_MASKED_LM] = VP_DATA_MASKED_LM,
        [VP_TASK_CAUSAL_LM] = VP_DATA_CAUSAL_LM,
        [VP_TASK_TRANSLATION] = VP_DATA_PAIRS,
    };
    struct vp_data_config config = {
        .source = VP_DATA_SYNTHETIC,
        .task = tasks[model_of(&lab->spec.size)->task],
        .vocab = lab->spec.size.vocab,
        .seed = 1,
        .mask_prob = 0.15f,
        .dims = lab->dims,
        .n_dims = lab->n_dims
    };
    struct vp_err err = { .text = "" };

    if (vp_data_open(&config, &lab->data, &err) != VP_OK)
        lab_die("data", &err);
}

static void open_trainer(struct lab *lab)
{
    const struct lab_spec *spec = &lab->spec;
    struct vp_train_config *config = &lab->train;
    struct vp_err err = { .text = "" };

    *config = (struct vp_train_config){
        .spread = spec->dry, /* planned for other machines */
        .graphs = lab->graphs,
        .n_graphs = lab->n_dims,
        .data = lab->data,
        .backend = &lab->ops,
        .backend_config = { .n_threads = spec->n_threads ? spec->n_threads
                                                         : 1 },
        .init = vp_param_init_range,
        .optim = vp_optim_defaults(VP_OPTIM_ADAMW),
        .lr = { .policy = VP_LR_CONSTANT,
                .base = spec->lr > 0.0f ? spec->lr : 1e-4f },
        .seed = 1,
        .prefetch = 4,
        .plan.devices = spec->pinned ? lab->devices : NULL,
        .plan.schedule = spec->schedule,
        .plan.schedule_text = spec->schedule_text,
        .plan.schedule_v = spec->schedule_v,
        .plan.n_stages = spec->n_stages,
        .plan.n_chunks = spec->n_chunks,
        .plan.partition = spec->partition,
        .plan.depth = spec->depth,
        .plan.recompute_ratio = lab->ratios,
        .plan.keep_all = spec->keep_all,
        .plan.replicas = spec->n_replicas > 1 ? lab->replicas : NULL,
        .plan.accumulation_steps = lab->stream ? 1 : spec->n_mb,
        .timeout_ms = TIMEOUT_MS,
        .saver = spec->saver,
        .world = spec->world,
    };
    if (spec->plan)
        config->plan = *spec->plan;
    for (int s = 0; s < VP_MAX_STAGES; s++) {
        lab->ratios[s] = spec->recompute;
        lab->replicas[s] = spec->n_replicas;
        lab->devices[s] = spec->first_device + s;
    }
    opens = spec->backend ? spec->backend : &vp_backend_cpu;
    lab->ops = *opens;
    lab->ops.open = open_backend;
    lab->device = *opens->device;
    lab->device.alloc = count_alloc;
    lab->ops.device = &lab->device;
    atomic_store(&n_allocated, 0);
    if (spec->dry) {
        if (vp_priced_plan_make(config, &lab->priced, &err) != VP_OK)
            lab_die("plan", &err);
        return;
    }
    if (vp_trainer_create(config, &lab->trainer, &err) != VP_OK)
        lab_die("trainer", &err);
    lab->backend = opened;
    lab->allocated = atomic_load(&n_allocated);
}

struct lab *lab_open(const struct lab_spec *spec)
{
    const struct vp_generator *generator = vp_generator_find(spec->schedule);
    struct lab *lab = calloc(1, sizeof(*lab));

    if (!lab || !generator)
        lab_die("setting up", &(struct vp_err){ .text = "unknown schedule" });
    lab->spec = *spec;
    lab->stream = generator->stream;
    open_graphs(lab);
    open_data(lab);
    open_trainer(lab);
    return lab;
}

void lab_close(struct lab *lab)
{
    vp_trainer_free(lab->trainer);
    vp_priced_plan_release(&lab->priced);
    vp_data_close(lab->data);
    for (int i = 0; i < lab->n_dims; i++)
        vp_graph_release(&lab->graphs[i]);
    free(lab);
}

struct vp_trainer *lab_trainer(struct lab *lab)
{
    return lab->trainer;
}

const struct vp_train_config *lab_train_config(const struct lab *lab)
{
    return &lab->train;
}

int64_t lab_allocated(const struct lab *lab)
{
    return lab->allocated;
}

const struct vp_stage_price *lab_prices(const struct lab *lab)
{
    return lab->trainer ? vp_trainer_prices(lab->trainer) : lab->priced.stages;
}

const struct vp_schedule *lab_schedule(const struct lab *lab)
{
    return lab->trainer ? vp_trainer_schedule(lab->trainer)
                        : &lab->priced.schedule;
}

struct vp_backend *lab_backend(struct lab *lab)
{
    return lab->backend;
}

const struct vp_data *lab_data(const struct lab *lab)
{
    return lab->data;
}

const struct vp_graph *lab_graph(const struct lab *lab)
{
    return &lab->graphs[0];
}

/* ---- Running ------------------------------------------------------------ */

double lab_run(struct lab *lab, int n_mb)
{
    int n_steps = lab->stream ? n_mb : n_mb / lab->spec.n_mb;
    struct vp_err err = { .text = "" };
    int64_t start = vp_clock_ns();

    if (vp_trainer_run(lab->trainer, n_steps, NULL, NULL, &err) != VP_OK)
        lab_die("training", &err);
    return vp_clock_seconds(start, vp_clock_ns());
}

double lab_flops(struct lab *lab)
{
    struct vp_step_report report;
    struct vp_err err = { .text = "" };

    if (vp_trainer_step(lab->trainer, &report, &err) != VP_OK)
        lab_die("training", &err);
    return report.flops;
}

struct copy {
    struct lab *lab;
    int n_mb;
    pthread_barrier_t *start;
    double seconds;
};

static void *run_copy(void *arg)
{
    struct copy *copy = arg;

    pthread_barrier_wait(copy->start);
    copy->seconds = lab_run(copy->lab, copy->n_mb);
    return NULL;
}

double lab_run_together(struct lab *const *labs, int n, int n_mb)
{
    pthread_barrier_t start;
    struct copy *copies = calloc((size_t)n, sizeof(*copies));
    pthread_t *threads = calloc((size_t)n, sizeof(*threads));
    double sum = 0.0;

    if (!copies || !threads)
        lab_die("copies", &(struct vp_err){ .text = "out of memory" });
    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        copies[i] = (struct copy){ labs[i], n_mb, &start, 0.0 };
        if (pthread_create(&threads[i], NULL, run_copy, &copies[i]))
            lab_die("copies",
                    &(struct vp_err){ .text = "starting a thread failed" });
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        sum += copies[i].seconds;
    }
    pthread_barrier_destroy(&start);
    free(copies);
    free(threads);
    return sum / n;
}

/* ---- Properties --------------------------------------------------------- */

int64_t lab_rank_bytes(struct lab *lab, int rank)
{
    const struct vp_schedule *schedule = lab_schedule(lab);
    const struct vp_rank_list *list = &schedule->ranks[rank];
    int64_t sum = 0;

    for (int i = 0; i < list->n_stages; i++)
        sum += lab_prices(lab)[list->stages[i]].memory.total;
    return sum;
}

/* ---- Cutting ------------------------------------------------------------ */

int lab_n_blocks(const struct lab_size *size)
{
    struct vp_model_config config = model_config(size);

    return (int)model_of(size)->n_blocks(&config);
}

void lab_cut_evenly(const struct lab_size *size, int n_stages, int *partition)
{
    int n = lab_n_blocks(size);

    for (int s = 0; s < n_stages; s++)
        partition[s] = n * (s + 1) / n_stages - n * s / n_stages;
}

/* One block per stage and one minibatch in the pipe: no two blocks compute at
 * the same time, so each is timed alone. */
void lab_time_blocks(const struct lab_spec *spec, struct vp_stage_costs *out)
{
    enum { N_TIMES = 4 };
    bool split = vp_generator_find(spec->schedule)->split;
    int n = lab_n_blocks(&spec->size);
    int ones[VP_MAX_STAGES];
    struct lab_spec blocks = *spec;
    struct lab *lab;

    if (n > VP_MAX_STAGES)
        lab_die("blocks", &(struct vp_err){ .text = "too many of them" });
    for (int i = 0; i < n; i++)
        ones[i] = 1;
    blocks.schedule = split ? "zb-h1" : "1f1b";
    blocks.n_mb = 1;
    blocks.n_stages = n;
    blocks.n_chunks = 0;
    blocks.partition = ones;
    blocks.world = NULL;
    blocks.pinned = false; /* more blocks than cores */
    lab = lab_open(&blocks);
    lab_run(lab, 1);
    lab_run(lab, N_TIMES);
    forecast_costs(lab->trainer, N_TIMES, out);
    lab_close(lab);
}

void lab_cut_by(const struct lab_spec *spec,
                const struct vp_stage_costs *blocks, int *partition)
{
    int n = lab_n_blocks(&spec->size);
    int n_stages = spec->n_stages * (spec->n_chunks ? spec->n_chunks : 1);
    double *costs = calloc((size_t)n * (size_t)n_stages, sizeof(*costs));

    if (!costs || n < n_stages)
        lab_die("partition", &(struct vp_err){ .text = "too many stages" });
    for (int i = 0; i < n * n_stages; i++) {
        const struct vp_stage_costs *c = &blocks[i % n];

        costs[i] = c->f + c->r + c->b + c->w + c->update / spec->n_mb;
    }
    if (vp_plan_balance(costs, n, n_stages, partition) != VP_OK)
        lab_die("partition", &(struct vp_err){ .text = "out of memory" });
    free(costs);
}

void lab_cut_by_flops(const struct lab_spec *spec, int *partition)
{
    struct lab lab = { .spec = *spec };
    int n = lab_n_blocks(&spec->size);
    int n_stages = spec->n_stages * (spec->n_chunks ? spec->n_chunks : 1);
    double *costs = calloc((size_t)n * (size_t)n_stages, sizeof(*costs));
    struct vp_sched_config sched = { .name = spec->schedule,
                                     .n_stages = spec->n_stages,
                                     .n_chunks = spec->n_chunks,
                                     .v_shape = spec->schedule_v };
    int rank[VP_MAX_STAGES], n_replicas;

    if (!costs || n < n_stages)
        lab_die("partition", &(struct vp_err){ .text = "too many stages" });
    open_graphs(&lab);
    for (int i = 0; i < n * n_stages; i++)
        costs[i] = vp_graph_flops(&lab.graphs[0], i % n, 1);
    for (int s = 0; s < n_stages; s++)
        vp_sched_place(&sched, s, &rank[s], &n_replicas);
    if ((n_stages > spec->n_stages
             ? vp_plan_balance_ranks(costs, n, n_stages, rank, spec->n_stages,
                                     partition)
             : vp_plan_balance(costs, n, n_stages, partition)) != VP_OK)
        lab_die("partition", &(struct vp_err){ .text = "out of memory" });
    for (int i = 0; i < lab.n_dims; i++)
        vp_graph_release(&lab.graphs[i]);
    free(costs);
}

void lab_cut_measured(const struct lab_spec *spec, int *partition)
{
    struct vp_stage_costs blocks[VP_MAX_STAGES];

    lab_time_blocks(spec, blocks);
    lab_cut_by(spec, blocks, partition);
}

void lab_join_blocks(const struct vp_stage_costs *blocks, const int *partition,
                     int n_stages, struct vp_stage_costs *stages_out)
{
    for (int s = 0; s < n_stages; s++) {
        struct vp_stage_costs sum = { .f = 0.0 };

        for (int i = 0; i < partition[s]; i++, blocks++) {
            sum.f += blocks->f;
            sum.r += blocks->r;
            sum.b += blocks->b;
            sum.w += blocks->w;
            sum.reduce += blocks->reduce;
            sum.update += blocks->update;
            sum.act = blocks->act;
            if (i == 0)
                sum.grad = blocks->grad;
        }
        stages_out[s] = sum;
    }
}
