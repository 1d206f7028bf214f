/* Prints a configuration: as a file, with the origin of every value; and
 * describes the table of keys. */
#include "config/config.h"
#include "config/key.h"
#include "config/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* VALUE_BYTES: enough for the longest list of machines. */
enum { VALUE_BYTES = 512 * 1024, ORIGIN_COLUMN = 44 };

/* ---- Origins ------------------------------------------------------------ */

/* Prints the key that chose the sizes of the model. */
static void print_chooser(FILE *out, const struct vp_config *config)
{
    static const char *const keys[] = { "module", "size", "config", "init" };

    for (size_t i = 0; i < VP_COUNT_OF(keys); i++) {
        for (int j = 0; j < config->n_origins; j++) {
            const struct vp_origin *origin = &config->origins[j];

            if (strcmp(origin->key, keys[i]) != 0 || !origin->place)
                continue;
            fprintf(out, "%s %s, %s", keys[i], origin->text, origin->place);
            return;
        }
    }
    fprintf(out, "size %s, the default of model_type %s",
            config->model->sizes[0].name, config->model->name);
}

static void print_origin(FILE *out, const struct vp_config *config, int i)
{
    const struct vp_origin *origin = &config->origins[i];
    const struct vp_key *key = &vp_keys[i];
    char value[256];

    if (origin->place && origin->via)
        fprintf(out, "%s, named at %s", origin->place, origin->via);
    else if (origin->place)
        fprintf(out, "%s", origin->place);
    else if (origin->why)
        fprintf(out, "derived: %s", origin->why);
    else if (strncmp(key->fallback, "(by size", 8) == 0)
        print_chooser(out, config);
    else if (key->from &&
             vp_key_print(vp_key_find(key->from), config, value, sizeof(value)))
        fprintf(out, "default of %s %s", key->from, value);
    else
        fprintf(out, "default");
}

/* ---- Lines -------------------------------------------------------------- */

/* With `explain`, keys that only choose defaults of others are printed as
 * comments. */
static void print_row(FILE *out, const struct vp_config *config, int i,
                      bool explain, char *value)
{
    const struct vp_key *key = &vp_keys[i];
    const char *comment = "";
    int n;

    if (!vp_key_print(key, config, value, VALUE_BYTES)) {
        if (!explain || !config->origins[i].place || !config->origins[i].text)
            return;
        comment = "# ";
        snprintf(value, VALUE_BYTES, "%s", config->origins[i].text);
    }
    n = fprintf(out, "%s%s: %s", comment, key->name, value);
    if (explain) {
        fprintf(out, "%*s# ", n < ORIGIN_COLUMN ? ORIGIN_COLUMN - n : 1, "");
        print_origin(out, config, i);
    }
    fputc('\n', out);
}

static enum vp_status print_all(FILE *out, const struct vp_config *config,
                                bool explain, struct vp_err *err)
{
    const char *group = "";
    char *value = malloc(VALUE_BYTES);

    if (!value)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "configuration: out of memory; close other programs");
    for (int i = 0; i < vp_n_keys && vp_keys[i].group; i++) {
        if (strcmp(vp_keys[i].group, group) != 0) {
            group = vp_keys[i].group;
            fprintf(out, "%s# %s\n", i > 0 ? "\n" : "", group);
        }
        print_row(out, config, i, explain, value);
    }
    free(value);
    return VP_OK;
}

enum vp_status vp_config_write(const struct vp_config *config, const char *path,
                               struct vp_err *err)
{
    FILE *file = fopen(path, "w");
    enum vp_status st;
    bool failed;

    if (!file)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be written: %s; %s", path,
                          strerror(errno), vp_write_remedy(errno));
    st = print_all(file, config, false, err);
    failed = ferror(file);
    if ((fclose(file) != 0 || failed) && st == VP_OK)
        st = vp_err_set(err, VP_ERR_IO, "%s: cannot be written: %s; %s", path,
                        strerror(errno), vp_write_remedy(errno));
    return st;
}

enum vp_status vp_config_explain(const struct vp_config *config,
                                 char **text_out, struct vp_err *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    enum vp_status st = VP_ERR_NOMEM;

    if (out)
        st = print_all(out, config, true, err);
    for (int i = 0; out && i < config->n_notices; i++)
        fprintf(out, "%s# %s\n", i == 0 ? "\n" : "", config->notices[i]);
    if (!out || fclose(out) != 0 || !text)
        st = vp_err_set(err, VP_ERR_NOMEM,
                        "configuration: out of memory; close other programs");
    if (st == VP_OK)
        *text_out = text;
    else
        free(text);
    return st;
}

/* ---- The table ---------------------------------------------------------- */

bool vp_config_key_help(int i, struct vp_key_help *out)
{
    const struct vp_key *key;

    if (i < 0 || i >= vp_n_keys || vp_keys[i].type == VP_KEY_LATER)
        return false;
    key = &vp_keys[i];
    *out = (struct vp_key_help){
        .group = key->group,
        .name = key->name,
        .fallback = key->fallback,
        .meaning = key->meaning,
        .path = vp_key_takes_path(key),
    };
    vp_key_expects(key, NULL, out->type, sizeof(out->type));
    vp_key_words(key, out->words, sizeof(out->words));
    return true;
}
