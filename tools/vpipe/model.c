#include "model.h"

#include "base/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int model_init(struct model *model, const char *command, int argc)
{
    *model = (struct model){
        .command = command,
        .sets = calloc(2 * (size_t)argc + 2, sizeof(*model->sets)),
    };
    if (model->sets)
        return TOOL_OK;
    fprintf(stderr, "%s: out of memory; close other programs\n", command);
    return TOOL_FAILED;
}

int model_set_path(struct model *model, const char *path)
{
    if (!path[0])
        return tool_usage_error("%s: the name of the model is empty; name the "
                                "folder of a run",
                                model->command);
    model->path = path;
    return TOOL_OK;
}

void model_needs_no_data(struct model *model)
{
    model->sets[model->n_sets++] = "synthetic_data=true";
}

int model_take_count(const struct model *model, const char *option,
                     const char *value, int64_t least, int64_t most,
                     int64_t *out)
{
    if (vp_text_to_i64(value, out) && *out >= least && *out <= most)
        return TOOL_OK;
    return tool_usage_error("%s: option '%s': '%.24s' is not a whole number "
                            "from %" PRId64 " to %" PRId64,
                            model->command, option, value, least, most);
}

int model_take_ids(const struct model *model, const char *value,
                   struct sequences *list)
{
    struct vp_err err = { .text = "" };

    if (strchr(value, ':'))
        return tool_usage_error("%s: option '--ids': '%.24s' has a decoder "
                                "input; remove ':' and what follows",
                                model->command, value);
    if (sequences_add_ids(list, value, strlen(value), &err) == VP_OK)
        return TOOL_OK;
    return tool_usage_error("%s: option '--ids': %s", model->command, err.text);
}

int model_fail(const struct model *model, enum vp_status st,
               const struct vp_err *err)
{
    fprintf(stderr, "%s: %s\n", model->command,
            err->text[0] ? err->text : "out of memory; close other programs");
    return tool_exit_status(st);
}

void model_notice(void *ctx, const char *line)
{
    const struct model *model = ctx;

    fprintf(stderr, "%s: %s\n", model->command, line);
}

int model_open(struct model *model)
{
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (!model->path)
        return tool_usage_error("%s: no model; name the folder of a run, a "
                                "checkpoint or a Hugging Face folder",
                                model->command);
    st = vp_model_source_open(model->path, model_notice, model, &model->source,
                              &err);
    if (st == VP_OK)
        st = vp_model_source_config(model->source, model->sets, model->n_sets,
                                    &model->config, &err);
    return st == VP_OK ? TOOL_OK : model_fail(model, st, &err);
}

int model_run(struct model *model,
              enum vp_status (*run)(void *ctx, struct vp_err *err), void *ctx)
{
    struct vp_err err = { .text = "" };
    int status = model_open(model);
    enum vp_status st;

    if (status != TOOL_OK)
        return status;
    st = run(ctx, &err);
    return st == VP_OK ? TOOL_OK : model_fail(model, st, &err);
}

void model_release(struct model *model)
{
    vp_config_release(&model->config);
    vp_model_source_close(model->source);
    free(model->sets);
}
