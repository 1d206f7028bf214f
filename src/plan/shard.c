/* Cuts the trained weights of a stage into shards of about the same length. */
#include "plan/shard.h"

#include "optim/optim.h"

static int64_t n_trained(const struct vp_program *program)
{
    return program->layout.train_bytes / (int64_t)sizeof(float);
}

/* Returns the last position not beyond `wish` at which the tensor with the
 * elements [begin, begin + n) may be cut; -1: none. */
static int64_t place_in(int64_t begin, int64_t n, int64_t wish)
{
    int64_t last = wish < begin + n ? wish : begin + n - 1;

    return wish < begin
               ? -1
               : begin + (last - begin) / VP_OPTIM_CHUNK * VP_OPTIM_CHUNK;
}

/* Returns the last position not beyond `wish` at which any tensor may be
 * cut. */
static int64_t place_before(const struct vp_program *program, int64_t wish)
{
    const struct vp_layout *layout = &program->layout;
    int64_t size = vp_dtype_bytes(program->graph->dtype), place = 0;

    for (int i = 0; i < layout->n_entries; i++) {
        const struct vp_layout_entry *entry = &layout->entries[i];
        const struct vp_param *param = &program->graph->params[entry->par];

        if (param->constant || entry->storage != i)
            continue;
        for (int j = 0; j < param->n_parts; j++) {
            int64_t begin = entry->offset / size +
                            param->part[j].row * param->cols;
            int64_t at = place_in(begin, param->part[j].rows * param->cols,
                                  wish);

            place = at > place ? at : place;
        }
    }
    return place;
}

void vp_shard_bounds(const struct vp_program *program, int n_shards,
                     int64_t *bounds_out)
{
    int64_t n = n_trained(program);

    bounds_out[0] = 0;
    for (int k = 1; k < n_shards; k++)
        bounds_out[k] = place_before(program, n * k / n_shards);
    bounds_out[n_shards] = n;
}

int64_t vp_shard_room(const struct vp_program *program, int n_shards)
{
    int64_t n = n_trained(program), begin = 0, most = 0;

    if (n_shards < 2)
        return n;
    for (int k = 1; k <= n_shards; k++) {
        int64_t end = k < n_shards ? place_before(program, n * k / n_shards)
                                   : n;

        most = end - begin > most ? end - begin : most;
        begin = end;
    }
    return (most + VP_SHARD_ALIGN - 1) / VP_SHARD_ALIGN * VP_SHARD_ALIGN;
}
