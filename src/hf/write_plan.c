/* Distributes the tensors of an export to files: those of the origin, or new
 * ones. */
#include "hf/write_plan.h"

#include <stdlib.h>
#include <string.h>

/* The default of transformers version 4; version 5 uses 50 GB. */
static const int64_t default_shard_bytes = 5000000000;

static const struct vp_st_meta format_meta[] = { { "format", "pt" } };

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "export: out of memory");
}

/* ---- One tensor --------------------------------------------------------- */

static bool is_float(enum vp_st_type type)
{
    return type == VP_ST_F32 || type == VP_ST_F16 || type == VP_ST_BF16;
}

static void set_bytes(struct vp_st_tensor *tensor)
{
    tensor->n_bytes = vp_st_type_bytes(tensor->type);
    for (int i = 0; i < tensor->n_dims; i++)
        tensor->n_bytes *= tensor->dims[i];
}

/* Returns the requested type for floats, or else `own`. */
static enum vp_st_type type_for(const struct vp_hf_write *with,
                                enum vp_st_type own)
{
    return is_float(own) && with->type != VP_ST_COUNT ? with->type : own;
}

/* Finds the source of the value of tensor `name` and sets its shape. Returns
 * false if there is none. */
static bool find_item(const struct vp_hf_plan *plan,
                      const struct vp_hf_write *with, const char *name,
                      enum vp_st_type type, struct vp_st_tensor *tensor,
                      struct vp_hf_item *item)
{
    const struct vp_hf_param *param = vp_hf_params_find(&plan->params, name);
    char bias[VP_HF_NAME_BYTES];

    *item = (struct vp_hf_item){ .param = param };
    if (param) {
        *tensor = vp_hf_param_tensor(param, type_for(with, type));
        set_bytes(tensor);
        return true;
    }
    if (with->origin && with->origin->carried)
        item->carried = vp_st_header_find(vp_st_header(with->origin->carried),
                                          name);
    if (item->carried) {
        *tensor = *item->carried;
        tensor->type = type_for(with, item->carried->type);
        set_bytes(tensor);
        return true;
    }
    /* A bias has the length of its weight. */
    for (int i = 0; i < plan->params.n; i++) {
        const struct vp_hf_param *weight = &plan->params.at[i];

        if (!vp_hf_name_bias(plan->arch, with->config, weight->name, bias) ||
            strcmp(bias, name) != 0)
            continue;
        *tensor = (struct vp_st_tensor){ .name = name,
                                         .type = type_for(with, type),
                                         .n_dims = 1,
                                         .dims = { weight->dims[0] } };
        set_bytes(tensor);
        return true;
    }
    return false;
}

/* ---- Files of the origin ------------------------------------------------ */

static enum vp_status plan_shard(struct vp_hf_plan *plan,
                                 const struct vp_hf_write *with,
                                 const struct vp_hf_layout_shard *shard,
                                 struct vp_hf_file *file, struct vp_err *err)
{
    file->name = shard->file;
    file->meta = shard->meta;
    file->n_meta = shard->n_meta;
    file->tensors = vp_arena_alloc(
        &plan->arena, ((size_t)shard->n_tensors + 1) * sizeof(*file->tensors));
    file->items = vp_arena_alloc(&plan->arena, ((size_t)shard->n_tensors + 1) *
                                                   sizeof(*file->items));
    if (!file->tensors || !file->items)
        return no_memory(err);
    for (; file->n < shard->n_tensors; file->n++) {
        const struct vp_hf_layout_tensor *t = &shard->tensors[file->n];

        if (!find_item(plan, with, t->name, t->type, &file->tensors[file->n],
                       &file->items[file->n]))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%.2000s: tensor %.200s is not in the model that "
                              "is exported; import the folder again",
                              with->origin->path, t->name);
    }
    return VP_OK;
}

static enum vp_status plan_origin(struct vp_hf_plan *plan,
                                  const struct vp_hf_write *with,
                                  struct vp_err *err)
{
    int n_found = 0;

    plan->n_files = with->origin->n_shards;
    plan->files = vp_arena_alloc(&plan->arena,
                                 (size_t)plan->n_files * sizeof(*plan->files));
    if (!plan->files)
        return no_memory(err);
    for (int s = 0; s < plan->n_files; s++) {
        VP_TRY(plan_shard(plan, with, &with->origin->shards[s], &plan->files[s],
                          err));
        for (int i = 0; i < plan->files[s].n; i++)
            n_found += plan->files[s].items[i].param != NULL;
    }
    if (n_found == plan->params.n)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%.2000s: names %d of the model's %d tensors; import the "
                      "folder again",
                      with->origin->path, n_found, plan->params.n);
}

/* ---- New files ---------------------------------------------------------- */

/* All tensors in one list, before they are distributed to files. */
struct list {
    struct vp_st_tensor *tensors;
    struct vp_hf_item *items;
    int n;
};

/* Returns the type of the tensor in the origin, or else that of the origin's
 * first tensor if it is a float type, or else F32. */
static enum vp_st_type own_type(const struct vp_hf_write *with,
                                const char *name)
{
    const struct vp_hf_origin *origin = with->origin;

    for (int s = 0; origin && s < origin->n_shards; s++)
        for (int i = 0; i < origin->shards[s].n_tensors; i++)
            if (strcmp(origin->shards[s].tensors[i].name, name) == 0)
                return origin->shards[s].tensors[i].type;
    return origin && origin->shards[0].n_tensors > 0 &&
                   is_float(origin->shards[0].tensors[0].type)
               ? origin->shards[0].tensors[0].type
               : VP_ST_F32;
}

static void add_param(struct list *list, const struct vp_hf_write *with,
                      const struct vp_hf_param *param, const char *name)
{
    struct vp_st_tensor *tensor = &list->tensors[list->n];

    list->items[list->n++] = (struct vp_hf_item){ .param = param };
    *tensor = vp_hf_param_tensor(param, type_for(with, own_type(with, name)));
    tensor->name = name;
    set_bytes(tensor);
}

static enum vp_status add_bias(struct list *list, struct vp_hf_plan *plan,
                               const struct vp_hf_write *with,
                               const struct vp_hf_param *weight,
                               struct vp_err *err)
{
    struct vp_st_tensor *tensor = &list->tensors[list->n];
    char bias[VP_HF_NAME_BYTES];

    if (!vp_hf_name_bias(plan->arch, with->config, weight->name, bias))
        return VP_OK;
    *tensor = (struct vp_st_tensor){
        .name = vp_arena_strdup(&plan->arena, bias),
        .type = type_for(with, own_type(with, bias)),
        .n_dims = 1,
        .dims = { weight->dims[0] }
    };
    set_bytes(tensor);
    list->items[list->n++] = (struct vp_hf_item){ .param = NULL };
    return tensor->name ? VP_OK : no_memory(err);
}

static void add_carried(struct list *list, const struct vp_hf_write *with)
{
    const struct vp_st_header *header;

    if (!with->origin || !with->origin->carried)
        return;
    header = vp_st_header(with->origin->carried);
    for (int i = 0; i < header->n_tensors; i++) {
        struct vp_st_tensor *tensor = &list->tensors[list->n];

        list->items[list->n++] = (struct vp_hf_item){
            .carried = &header->tensors[i]
        };
        *tensor = header->tensors[i];
        tensor->type = type_for(with, tensor->type);
        set_bytes(tensor);
    }
}

static bool is_carried(const struct vp_hf_write *with, const char *name)
{
    return with->origin && with->origin->carried &&
           vp_st_header_find(vp_st_header(with->origin->carried), name);
}

static enum vp_status list_all(struct vp_hf_plan *plan,
                               const struct vp_hf_write *with,
                               struct list *list, struct vp_err *err)
{
    size_t most = 2 * (size_t)plan->params.n + 8;
    const char *name, *of;

    if (with->origin && with->origin->carried)
        most += (size_t)vp_st_header(with->origin->carried)->n_tensors;
    list->tensors = vp_arena_alloc(&plan->arena, most * sizeof(*list->tensors));
    list->items = vp_arena_alloc(&plan->arena, most * sizeof(*list->items));
    if (!list->tensors || !list->items)
        return no_memory(err);
    for (int i = 0; i < plan->params.n; i++) {
        add_param(list, with, &plan->params.at[i], plan->params.at[i].name);
        VP_TRY(add_bias(list, plan, with, &plan->params.at[i], err));
    }
    add_carried(list, with);
    for (int i = 0; vp_hf_name_copy(plan->arch, with->config, i, &name, &of);
         i++)
        if (!is_carried(with, name))
            add_param(list, with, vp_hf_params_find(&plan->params, of), name);
    return VP_OK;
}

/* Divides the list into files of at most `most` bytes, each as full as
 * possible. ends: index after the last tensor of each file. Returns the number
 * of files. */
static int divide_files(const struct list *list, int64_t most, int *ends)
{
    int64_t bytes = 0;
    int n = 0;

    for (int i = 0; i < list->n; i++) {
        if (bytes > 0 && bytes + list->tensors[i].n_bytes > most) {
            ends[n++] = i;
            bytes = 0;
        }
        bytes += list->tensors[i].n_bytes;
    }
    ends[n++] = list->n;
    return n;
}

static enum vp_status plan_new_files(struct vp_hf_plan *plan,
                                     const struct vp_hf_write *with,
                                     struct vp_err *err)
{
    struct list list = { .n = 0 };
    int *ends;

    VP_TRY(list_all(plan, with, &list, err));
    ends = vp_arena_alloc(&plan->arena, (size_t)list.n * sizeof(*ends));
    if (!ends)
        return no_memory(err);
    plan->n_files = divide_files(
        &list, with->shard_bytes > 0 ? with->shard_bytes : default_shard_bytes,
        ends);
    plan->files = vp_arena_alloc(&plan->arena,
                                 (size_t)plan->n_files * sizeof(*plan->files));
    if (!plan->files)
        return no_memory(err);
    for (int f = 0; f < plan->n_files; f++) {
        int first = f > 0 ? ends[f - 1] : 0;

        plan->files[f] = (struct vp_hf_file){
            .name = plan->n_files == 1
                        ? "model.safetensors"
                        : vp_arena_printf(&plan->arena,
                                          "model-%05d-of-%05d.safetensors",
                                          f + 1, plan->n_files),
            .tensors = list.tensors + first,
            .items = list.items + first,
            .n = ends[f] - first,
            .meta = format_meta,
            .n_meta = 1,
        };
        if (!plan->files[f].name)
            return no_memory(err);
    }
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

enum vp_status vp_hf_plan_make(const struct vp_hf_write *with,
                               struct vp_hf_plan *out, struct vp_err *err)
{
    struct vp_hf_plan plan = { .n_files = 0 };
    enum vp_status st;

    plan.arch = with->origin ? vp_hf_arch_find(with->origin->arch)
                             : vp_hf_arch_of(with->model);
    if (with->origin && !plan.arch)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.2000s: the class %.60s is not supported",
                          with->origin->path, with->origin->arch);
    if (!plan.arch)
        return vp_err_set(
            err, VP_ERR_UNSUPPORTED,
            "model_type %.60s: Hugging Face has no class for this "
            "model; export one of %s",
            with->model->name, vp_hf_arch_names());
    VP_TRY(vp_hf_params_list(with->model, with->config, &plan.params, err));
    st = with->origin && with->shard_bytes == 0 &&
                 with->origin->tied == with->config->tie_embeddings
             ? plan_origin(&plan, with, err)
             : plan_new_files(&plan, with, err);
    if (st != VP_OK) {
        vp_hf_plan_release(&plan);
        return st;
    }
    *out = plan;
    return VP_OK;
}

void vp_hf_plan_release(struct vp_hf_plan *plan)
{
    vp_hf_params_release(&plan->params);
    vp_arena_release(&plan->arena);
    *plan = (struct vp_hf_plan){ .n_files = 0 };
}
