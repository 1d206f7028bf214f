/* Parses eos_token_id and beam search settings of generation_config.json and
 * config.json. */
#include "hf/generation.h"

#include "hf/json.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

/* The files that may have a key, in order of precedence. */
static const char *const names[] = { "generation_config.json", "config.json" };

/* Reads file number `i`. Sets *root_out to NULL if it does not exist. */
static enum vp_status read_file(const char *path, size_t i, char file[PATH_MAX],
                                json_t **root_out, struct vp_err *err)
{
    *root_out = NULL;
    if (snprintf(file, PATH_MAX, "%s/%s", path, names[i]) >= PATH_MAX ||
        access(file, F_OK) != 0)
        return VP_OK;
    return vp_hf_json_read(file, MAX_BYTES, root_out, err);
}

/* ---- Ends --------------------------------------------------------------- */

static enum vp_status add(const char *path, const json_t *value,
                          struct vp_hf_end_ids *out, struct vp_err *err)
{
    json_int_t id = json_integer_value(value);

    if (!json_is_integer(value) || id < 0 || id > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: eos_token_id is neither an id nor a list of "
                          "ids; correct the file",
                          path);
    if (out->n == VP_HF_MAX_END_IDS)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: eos_token_id has more than %d ids; remove some",
                          path, VP_HF_MAX_END_IDS);
    out->at[out->n++] = (int32_t)id;
    return VP_OK;
}

static enum vp_status read_value(const char *path, const json_t *value,
                                 struct vp_hf_end_ids *out, struct vp_err *err)
{
    if (!value || json_is_null(value))
        return VP_OK;
    if (!json_is_array(value))
        return add(path, value, out, err);
    for (size_t i = 0; i < json_array_size(value); i++)
        VP_TRY(add(path, json_array_get(value, i), out, err));
    return VP_OK;
}

enum vp_status vp_hf_read_end_ids(const char *path, struct vp_hf_end_ids *out,
                                  struct vp_err *err)
{
    struct vp_hf_end_ids found = { .n = 0 };
    enum vp_status st = VP_OK;

    for (size_t i = 0; i < VP_COUNT_OF(names) && st == VP_OK && found.n == 0;
         i++) {
        char file[PATH_MAX];
        json_t *root;

        VP_TRY(read_file(path, i, file, &root, err));
        st = read_value(file, json_object_get(root, "eos_token_id"), &found,
                        err);
        json_decref(root);
    }
    if (st == VP_OK)
        *out = found;
    return st;
}

/* ---- Search ------------------------------------------------------------- */

/* The file that is being read, and the result so far. */
struct reading {
    const char *path;
    const json_t *root;
    struct vp_err *err;
    enum vp_status status;
};

/* Returns the value of a key, or NULL if it is missing or null. */
static const json_t *find(const struct reading *in, const char *key)
{
    const json_t *value = json_object_get(in->root, key);

    return json_is_null(value) ? NULL : value;
}

static void refuse(struct reading *in, const char *key, const char *wanted)
{
    in->status = vp_err_set(in->err, VP_ERR_INVALID,
                            "%s: %s is not %s; correct the file", in->path, key,
                            wanted);
}

/* Returns `known` if the key is not given. */
static int64_t read_count(struct reading *in, const char *key, int64_t least,
                          int64_t known)
{
    const json_t *value = find(in, key);
    json_int_t n = json_integer_value(value);

    if (!value)
        return known;
    if (!json_is_integer(value) || n < least || n > INT32_MAX)
        refuse(in, key, least > 0 ? "a number above 0" : "an id");
    return n;
}

static double read_number(struct reading *in, const char *key, double known)
{
    const json_t *value = find(in, key);

    if (!value)
        return known;
    if (!json_is_number(value))
        refuse(in, key, "a number");
    return json_number_value(value);
}

static enum vp_hf_early_stopping read_stop(struct reading *in,
                                           enum vp_hf_early_stopping known)
{
    const json_t *value = find(in, "early_stopping");

    if (!value)
        return known;
    if (json_is_string(value) && strcmp(json_string_value(value), "never") == 0)
        return VP_HF_STOP_NEVER;
    if (!json_is_boolean(value))
        refuse(in, "early_stopping", "true, false or \"never\"");
    return json_is_true(value) ? VP_HF_STOP_TRUE : VP_HF_STOP_FALSE;
}

static void read_search(struct reading *in, struct vp_hf_search *out)
{
    int64_t max_length = read_count(in, "max_length", 2, 0);

    out->n_beams = read_count(in, "num_beams", 1, out->n_beams);
    out->length_penalty = read_number(in, "length_penalty",
                                      out->length_penalty);
    out->early_stopping = read_stop(in, out->early_stopping);
    out->max_tokens = read_count(in, "max_new_tokens", 1,
                                 max_length > 0 ? max_length - 1
                                                : out->max_tokens);
    out->forced_bos = (int32_t)read_count(in, "forced_bos_token_id", 0,
                                          out->forced_bos);
    out->start = (int32_t)read_count(in, "decoder_start_token_id", 0,
                                     out->start);
}

enum vp_status vp_hf_read_search(const char *path, struct vp_hf_search *out,
                                 struct vp_err *err)
{
    struct vp_hf_search found = { .length_penalty = (double)NAN,
                                  .forced_bos = -1,
                                  .start = -1 };

    /* Read the last file first, so that values of the first replace them. */
    for (size_t i = VP_COUNT_OF(names); i-- > 0;) {
        char file[PATH_MAX];
        struct reading in = { .path = file, .err = err };
        json_t *root;

        VP_TRY(read_file(path, i, file, &root, err));
        in.root = root;
        read_search(&in, &found);
        json_decref(root);
        VP_TRY(in.status);
    }
    *out = found;
    return VP_OK;
}
