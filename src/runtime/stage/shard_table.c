/* Lists the chunks of a stage's tensors that each replica owns, and the parts
 * of the sum of gradients that it needs. */
#include "runtime/stage/shard_table.h"

#include "plan/shard.h"

#include <stdlib.h>

void vp_shard_table_free(struct vp_shard_table *shard)
{
    if (!shard)
        return;
    free(shard->bounds);
    free(shard->ends);
    free(shard->item_ends);
    free(shard->parts);
    free(shard->tensor_of);
    free(shard->owner_of);
    free(shard->chunks);
    free(shard->tensors);
    free(shard->mine);
    free(shard->all);
    free(shard->ratios);
    free(shard->next);
    free(shard);
}

static int owner_at(const struct vp_shard_table *shard, int64_t element)
{
    int k = 0;

    while (element >= shard->bounds[k + 1])
        k++;
    return k;
}

static int count_chunks(const struct vp_optim_tensor *tensors, int n_tensors)
{
    int64_t n = 0;

    for (int i = 0; i < n_tensors; i++)
        n += (tensors[i].n + VP_OPTIM_CHUNK - 1) / VP_OPTIM_CHUNK;
    return (int)n;
}

static void list_chunks(struct vp_shard_table *shard,
                        const struct vp_optim_tensor *tensors, int n_tensors)
{
    for (int i = 0; i < n_tensors; i++)
        for (int64_t at = 0; at < tensors[i].n; at += VP_OPTIM_CHUNK) {
            struct vp_optim_tensor chunk = tensors[i];
            int owner = owner_at(shard, chunk.offset + at);

            shard->tensor_of[shard->n_all] = i;
            shard->owner_of[shard->n_all++] = owner;
            if (++shard->next[owner] > shard->most_chunks)
                shard->most_chunks = shard->next[owner];
            chunk.offset += at;
            chunk.grad += at;
            chunk.n -= at;
            if (chunk.n > VP_OPTIM_CHUNK)
                chunk.n = VP_OPTIM_CHUNK;
            if (owner != shard->index)
                continue;
            shard->tensors[shard->n_chunks] = i;
            shard->chunks[shard->n_chunks++] = chunk;
        }
}

static bool is_tied(const struct vp_param *param)
{
    return param->has_copies || param->tied_to != VP_NONE;
}

/* Finds the gradients of a tied parameter that contain element `at`, or else
 * the next ones after it: elements [*begin, *end). Returns false if there are
 * none. */
static bool find_tied(const struct vp_program *program, int64_t at,
                      int64_t *begin, int64_t *end)
{
    bool found = false;

    for (int i = 0; i < program->layout.n_entries; i++) {
        const struct vp_layout_entry *entry = &program->layout.entries[i];
        const struct vp_param *param = &program->graph->params[entry->par];
        int64_t first = entry->grad_offset / (int64_t)sizeof(float);
        int64_t n = param->rows * param->cols;

        if (param->constant || !is_tied(param) || first + n <= at ||
            (found && first >= *begin))
            continue;
        *begin = first;
        *end = first + n;
        found = true;
    }
    return found;
}

/* Gradients of tied weights are added to those of other uses after the sum over
 * replicas, so all replicas need them. Other gradients are needed only by the
 * owner of their shard. */
static void list_parts(const struct vp_program *program,
                       struct vp_shard_table *shard)
{
    int64_t n = program->layout.grad_bytes / (int64_t)sizeof(float);
    int64_t n_trained = shard->bounds[shard->n], at = 0;

    while (at < n) {
        int64_t begin = n, end = n;
        struct vp_sum_part part = { n, -1 };

        find_tied(program, at, &begin, &end);
        if (at < n_trained && begin > at) {
            part.owner = owner_at(shard, at);
            part.end = shard->bounds[part.owner + 1];
            part.end = begin < part.end ? begin : part.end;
        } else if (at < n_trained) {
            part.end = end;
        }
        shard->parts[shard->n_parts++] = part;
        at = part.end;
    }
}

static bool allocate(struct vp_shard_table *shard, size_t n_all,
                     size_t n_entries)
{
    size_t n = (size_t)shard->n;

    shard->bounds = calloc(n + 1, sizeof(*shard->bounds));
    shard->ends = calloc(n, sizeof(*shard->ends));
    shard->item_ends = calloc(n, sizeof(*shard->item_ends));
    shard->parts = calloc(n + 2 * n_entries + 2, sizeof(*shard->parts));
    shard->tensor_of = calloc(n_all + 1, sizeof(*shard->tensor_of));
    shard->owner_of = calloc(n_all + 1, sizeof(*shard->owner_of));
    shard->chunks = calloc(n_all + 1, sizeof(*shard->chunks));
    shard->tensors = calloc(n_all + 1, sizeof(*shard->tensors));
    shard->ratios = calloc(n_all + 1, sizeof(*shard->ratios));
    shard->next = calloc(n, sizeof(*shard->next));
    return shard->bounds && shard->ends && shard->item_ends && shard->parts &&
           shard->tensor_of && shard->owner_of && shard->chunks &&
           shard->tensors && shard->ratios && shard->next;
}

static enum vp_status fill(struct vp_shard_table *shard,
                           const struct vp_program *program,
                           const struct vp_optim_tensor *tensors, int n_tensors)
{
    int64_t size = vp_dtype_bytes(program->graph->dtype);
    size_t n_sums;

    if (!allocate(shard, (size_t)count_chunks(tensors, n_tensors),
                  (size_t)program->layout.n_entries))
        return VP_ERR_NOMEM;
    vp_shard_bounds(program, shard->n, shard->bounds);
    for (int k = 0; k < shard->n; k++)
        shard->ends[k] = shard->bounds[k + 1] * size;
    list_chunks(shard, tensors, n_tensors);
    list_parts(program, shard);
    n_sums = 2 * (size_t)shard->most_chunks + 1;
    shard->mine = calloc(n_sums, sizeof(*shard->mine));
    shard->all = calloc((size_t)shard->n * n_sums, sizeof(*shard->all));
    return shard->mine && shard->all ? VP_OK : VP_ERR_NOMEM;
}

enum vp_status vp_shard_table_create(const struct vp_stage_plan *plan,
                                     const struct vp_optim_tensor *tensors,
                                     int n_tensors, int index,
                                     struct vp_shard_table **out)
{
    struct vp_shard_table *shard = calloc(1, sizeof(*shard));
    enum vp_status st;

    if (!shard)
        return VP_ERR_NOMEM;
    shard->n = plan->n_shards;
    shard->index = index;
    st = fill(shard, &plan->train[0], tensors, n_tensors);
    if (st != VP_OK) {
        vp_shard_table_free(shard);
        return st;
    }
    *out = shard;
    return VP_OK;
}

size_t vp_shard_table_bytes(const struct vp_shard_table *shard)
{
    return 2 * (size_t)shard->most_chunks * sizeof(double);
}
