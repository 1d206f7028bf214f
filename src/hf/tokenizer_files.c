/* Copies tokenizer files and makes tokenizer_config.json. */
#include "hf/tokenizer_files.h"

#include "hf/json.h"
#include "text/tokenizer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_FILE "tokenizer_config.json"

/* Adds the special tokens that the tokenizer has, under the keys of Hugging
 * Face's tokenizer classes. */
static void add_special(const struct vp_tokenizer *tokenizer, json_t *root)
{
    static const struct {
        enum vp_special special;
        const char *key;
    } keys[] = {
        { VP_SPECIAL_PAD, "pad_token" },   { VP_SPECIAL_UNKNOWN, "unk_token" },
        { VP_SPECIAL_CLS, "cls_token" },   { VP_SPECIAL_SEP, "sep_token" },
        { VP_SPECIAL_MASK, "mask_token" }, { VP_SPECIAL_BEGIN, "bos_token" },
        { VP_SPECIAL_END, "eos_token" },
    };

    for (size_t i = 0; i < VP_COUNT_OF(keys); i++) {
        int32_t id = vp_tokenizer_special(tokenizer, keys[i].special);
        size_t n = 0;
        const char *token = id < 0 ? NULL
                                   : vp_tokenizer_token(tokenizer, (uint32_t)id,
                                                        &n);

        if (token)
            json_object_set_new(root, keys[i].key, json_stringn(token, n));
    }
}

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof(path), "%s/%s", folder, name) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* tokenizer.json is complete, so the generic class can load it. A vocabulary
 * needs the class of its model. */
static const char *class_of(const char *path, const struct vp_model *model)
{
    if (exists(path, "tokenizer.json"))
        return "PreTrainedTokenizerFast";
    switch (model->task) {
    case VP_TASK_MASKED_LM:
        return "BertTokenizer";
    case VP_TASK_CAUSAL_LM:
        return "GPT2Tokenizer";
    default:
        return "PreTrainedTokenizerFast";
    }
}

static enum vp_status write_config(const char *path, const char *file,
                                   const struct vp_hf_write *with,
                                   struct vp_err *err)
{
    struct vp_tokenizer *tokenizer;
    json_t *root;
    int rc = -1;

    VP_TRY(vp_tokenizer_open(path, &tokenizer, err));
    root = json_pack("{s:s, s:I, s:s}", "tokenizer_class",
                     class_of(path, with->model), "model_max_length",
                     (json_int_t)with->config->positions, "padding_side",
                     "right");
    if (root) {
        add_special(tokenizer, root);
        rc = json_dump_file(root, file, JSON_INDENT(2));
    }
    json_decref(root);
    vp_tokenizer_free(tokenizer);
    return rc == 0 ? VP_OK : vp_err_write(err, file, errno);
}

/* The files of an imported folder are written unchanged. Only for M2M100 a
 * missing tokenizer_config.json is added, because it does not load without. */
enum vp_status vp_hf_tokenizer_files(const char *path,
                                     const struct vp_hf_write *with, int *n_out,
                                     struct vp_err *err)
{
    const char *from = with->origin ? with->origin->path : with->tokenizer;
    char file[PATH_MAX];

    *n_out = 0;
    if (from)
        VP_TRY(vp_hf_copy_tokenizer(from, path, n_out, err));
    if (*n_out == 0 ||
        (with->origin && with->model->task != VP_TASK_TRANSLATION))
        return VP_OK;
    if (snprintf(file, sizeof(file), "%s/" CONFIG_FILE, path) >= PATH_MAX)
        return vp_err_set(err, VP_ERR_INVALID, "%.80s...: path is too long",
                          path);
    return exists(path, CONFIG_FILE) ? VP_OK
                                     : write_config(path, file, with, err);
}
