/* Import: reads a Hugging Face folder and writes its weights as a checkpoint
 * with the ckpt writer. */
#include "run/import.h"

#include "ckpt/writer.h"
#include "config/init_folder.h"
#include "config/load.h"
#include "hf/folder.h"
#include "hf/origin.h"
#include "run/checkpoint_facts.h"
#include "run/export.h"
#include "run/folder.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_MS = 30 * 60 * 1000 };

/* Makes the configuration of a run with this model, which the facts are made
 * from. */
static enum vp_status make_config(const struct vp_hf_folder *folder,
                                  struct vp_config *out, struct vp_err *err)
{
    char model[64], json[PATH_MAX];
    const char *const sets[] = { json };

    snprintf(model, sizeof(model), "model_type: %s\n",
             vp_hf_model(folder)->name);
    if (snprintf(json, sizeof(json), "config=%s/config.json",
                 vp_hf_path(folder)) >= PATH_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%.80s...: path is too long; move the folder",
                          vp_hf_path(folder));
    return vp_config_parse("import", model, strlen(model), sets, 1, out, err);
}

/* A checkpoint stores a table of one row as a vector. */
static struct vp_ckpt_item item_of(const struct vp_hf_param *param)
{
    struct vp_ckpt_item item = { .block = param->block,
                                 .name = param->name,
                                 .type = VP_ST_F32,
                                 .n_dims = param->n_dims,
                                 .dims = { param->dims[0], param->dims[1] } };

    if (item.n_dims == 2 && item.dims[0] == 1) {
        item.n_dims = 1;
        item.dims[0] = param->dims[1];
        item.dims[1] = 0;
    }
    return item;
}

static enum vp_status fill(const struct vp_hf_folder *folder,
                           const struct vp_facts *facts,
                           struct vp_ckpt_writer *writer, struct vp_err *err)
{
    const struct vp_hf_params *params = vp_hf_params(folder);

    VP_TRY(vp_ckpt_writer_begin(writer, 0, WRITE_MS, err));
    for (int i = 0; i < params->n; i++)
        VP_TRY(vp_hf_read(folder, params->at[i].name, 1,
                          vp_hf_param_elements(&params->at[i]), false,
                          vp_ckpt_writer_buffer(writer, i), err));
    VP_TRY(vp_ckpt_writer_commit(writer, facts, (double)NAN, err));
    return vp_ckpt_writer_finish(writer, WRITE_MS, err);
}

/* Both kinds of files have the same layout, so nothing is transposed. */
static enum vp_status write_weights(const struct vp_hf_folder *folder,
                                    const struct vp_facts *facts,
                                    const char *to, struct vp_err *err)
{
    const struct vp_hf_params *params = vp_hf_params(folder);
    struct vp_ckpt_item *items = calloc((size_t)params->n, sizeof(*items));
    struct vp_ckpt_writer *writer = NULL;
    int64_t n_bytes = 0;
    enum vp_status st;

    if (!items)
        return vp_err_set(err, VP_ERR_NOMEM, "import: out of memory");
    for (int i = 0; i < params->n; i++) {
        items[i] = item_of(&params->at[i]);
        n_bytes += vp_hf_param_elements(&params->at[i]) *
                   (int64_t)sizeof(float);
    }
    st = vp_ckpt_space(to, vp_ckpt_disk_bytes(n_bytes, params->n_blocks), err);
    if (st == VP_OK)
        st = vp_ckpt_writer_create(to, NULL, 0, items, params->n, &writer, err);
    free(items);
    if (st == VP_OK)
        st = fill(folder, facts, writer, err);
    vp_ckpt_writer_free(writer);
    return st;
}

static enum vp_status import(const struct vp_hf_folder *folder, const char *to,
                             struct vp_err *err)
{
    char origin[PATH_MAX];
    struct vp_facts *facts = NULL;
    struct vp_config config = { .path = NULL };
    enum vp_status st = make_config(folder, &config, err);

    if (st == VP_OK &&
        vp_checkpoint_facts_import(&config, vp_hf_params(folder)->n_blocks,
                                   &facts) != VP_OK)
        st = vp_err_set(err, VP_ERR_NOMEM, "import: out of memory");
    vp_config_release(&config);
    if (st == VP_OK && snprintf(origin, sizeof(origin),
                                "%s/" VP_HUGGINGFACE_FOLDER, to) >= PATH_MAX)
        st = vp_err_set(err, VP_ERR_INVALID,
                        "%.80s...: path is too long; name another folder", to);
    if (st == VP_OK)
        st = vp_folder_make(to, err);
    if (st == VP_OK)
        st = vp_hf_origin_save(folder, origin, err);
    if (st == VP_OK)
        st = write_weights(folder, facts, to, err);
    vp_facts_free(facts);
    return st;
}

enum vp_status vp_import(const char *from, const char *to, vp_notice_fn note,
                         void *ctx, struct vp_import_result *out,
                         struct vp_err *err)
{
    struct vp_hf_folder *folder;
    enum vp_status st;

    VP_TRY(vp_hf_open(from, &folder, err));
    st = vp_hf_check_values(folder, err);
    if (st == VP_OK)
        st = vp_export_check_place(to, err);
    if (st == VP_OK)
        st = import(folder, to, err);
    if (st == VP_OK) {
        *out = (struct vp_import_result){
            .architecture = vp_hf_arch_name(vp_hf_arch(folder)),
            .model = vp_hf_model(folder)->name,
            .n_files = vp_hf_n_shards(folder),
        };
        for (int i = 0; i < vp_hf_params(folder)->n; i++)
            out->n_params += vp_hf_param_elements(&vp_hf_params(folder)->at[i]);
        vp_hf_origin_tell(folder, note, ctx);
    }
    vp_hf_close(folder);
    return st;
}
