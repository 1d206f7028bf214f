/* Prints the value of a key as YAML. */
#include "config/key.h"
#include "config/plan_file.h"
#include "config/planned_keys.h"
#include "config/schedule_file.h"

#include "base/value.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_quoted(const char *text, char **out, const char *end)
{
    for (; *text && *out + 4 < end; text++) {
        if (*text == '"' || *text == '\\')
            *(*out)++ = '\\';
        *(*out)++ = *text;
    }
}

static bool print_text(const char *text, char *out, size_t n_bytes)
{
    const char *end = out + n_bytes;

    if (!text)
        return false;
    *out++ = '"';
    print_quoted(text, &out, end);
    *out++ = '"';
    *out = 0;
    return true;
}

/* Prints an absolute path: a relative one starts at the working directory now,
 * but at the folder of the new file when that is read. */
static bool print_path(const char *path, char *out, size_t n_bytes)
{
    const char *end = out + n_bytes;
    char folder[4096];

    if (!path)
        return false;
    *out++ = '"';
    if (path[0] != '/' && getcwd(folder, sizeof(folder))) {
        print_quoted(folder, &out, end);
        *out++ = '/';
    }
    print_quoted(path, &out, end);
    *out++ = '"';
    *out = 0;
    return true;
}

/* 0 means "not set" if it is below the key's range. */
static bool print_number(const struct vp_key *key, long long value, char *out,
                         size_t n_bytes)
{
    if (value == 0 && key->min > 0)
        return false;
    snprintf(out, n_bytes, "%lld", value);
    return true;
}

static bool print_ints(const struct vp_int_list *list, char *out,
                       size_t n_bytes)
{
    size_t used = 0;

    for (int i = 0; i < list->n && used < n_bytes; i++)
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%d%s",
                                 i ? ", " : "[", list->at[i],
                                 i + 1 < list->n ? "" : "]");
    return list->n > 0;
}

static bool print_reals(const struct vp_real_list *list, char *out,
                        size_t n_bytes)
{
    size_t used = 0;
    char text[32];

    for (int i = 0; i < list->n && used < n_bytes; i++) {
        vp_real_to_text(list->at[i], text, sizeof(text));
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%s%s",
                                 i ? ", " : "[", text,
                                 i + 1 < list->n ? "" : "]");
    }
    return list->n > 0;
}

/* Host names need no escapes. */
static bool print_machines(const struct vp_machine_list *list, char *out,
                           size_t n_bytes)
{
    size_t used = 0;

    for (int i = 0; i < list->n && used < n_bytes; i++)
        used += (size_t)snprintf(
            out + used, n_bytes - used, "%s\"%s:%d\"%s", i ? ", " : "[",
            list->at[i].host, list->at[i].device, i + 1 < list->n ? "" : "]");
    return list->n > 0;
}

static bool print_words(const struct vp_key *key, unsigned set, char *out,
                        size_t n_bytes)
{
    const char *word, *between = "[";
    size_t used = 0;

    for (int i = 0; (word = key->word(i)) && used < n_bytes; i++) {
        if (!(set >> i & 1))
            continue;
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%s", between,
                                 word);
        between = ", ";
    }
    if (set && used < n_bytes)
        snprintf(out + used, n_bytes - used, "]");
    return set;
}

static bool print_word(const char *word, char *out, size_t n_bytes)
{
    if (!word)
        return false;
    snprintf(out, n_bytes, "%s", word);
    return true;
}

static bool print_scale(const struct vp_scale_config *scale, char *out,
                        size_t n_bytes)
{
    if (scale->dynamic)
        return print_word("dynamic", out, n_bytes);
    if (scale->start == 0.0f)
        return print_word("off", out, n_bytes);
    vp_float_to_text(scale->start, out, n_bytes);
    return true;
}

bool vp_key_print(const struct vp_key *key, const struct vp_config *config,
                  char *out, size_t n_bytes)
{
    const void *field = (const char *)config + key->offset;
    int i;

    if (key->applies && !key->applies(config))
        return false;
    if (vp_planned_keys_is_auto(config, key))
        return print_word("auto", out, n_bytes);
    switch (key->type) {
    case VP_KEY_I64:
        return print_number(key, *(const int64_t *)field, out, n_bytes);
    case VP_KEY_EVERY:
        if (*(const int64_t *)field == VP_EVERY_EPOCH)
            return print_word("epoch", out, n_bytes);
        return print_number(key, *(const int64_t *)field, out, n_bytes);
    case VP_KEY_INT:
        return print_number(key, *(const int *)field, out, n_bytes);
    case VP_KEY_U64:
        return print_number(key, (long long)*(const uint64_t *)field, out,
                            n_bytes);
    case VP_KEY_BYTES:
        return print_number(key, (long long)*(const size_t *)field, out,
                            n_bytes);
    case VP_KEY_F32:
    case VP_KEY_WARMUP:
        vp_float_to_text(*(const float *)field, out, n_bytes);
        return true;
    case VP_KEY_SCALE:
        return print_scale(field, out, n_bytes);
    case VP_KEY_BOOL:
        i = *(const bool *)field;
        return print_word(key->word ? key->word(i)
                          : i       ? "true"
                                    : "false",
                          out, n_bytes);
    case VP_KEY_SCHEDULE:
        if (config->schedule_file && !config->schedule_file->in_plan)
            return print_path(config->schedule_file->path, out, n_bytes);
        /* fall through */
    case VP_KEY_ENUM:
        memcpy(&i, field, sizeof(i));
        return print_word(key->word(i), out, n_bytes);
    case VP_KEY_MODEL:
        return print_word(config->model->name, out, n_bytes);
    case VP_KEY_MODULE:
        return print_word(config->module, out, n_bytes);
    case VP_KEY_PLAN:
        if (vp_plan_file_is_needed(config))
            return config->plan_file->found
                       ? print_text(VP_PLAN_FILE_NAME, out, n_bytes)
                       : print_path(config->plan_file->path, out, n_bytes);
        /* fall through */
    case VP_KEY_INTS:
        return print_ints(field, out, n_bytes);
    case VP_KEY_REALS:
        return print_reals(field, out, n_bytes);
    case VP_KEY_MACHINES:
        return print_machines(field, out, n_bytes);
    case VP_KEY_WORDS:
        return print_words(key, *(const unsigned *)field, out, n_bytes);
    case VP_KEY_TEXT:
        return print_text(*(const char *const *)field, out, n_bytes);
    case VP_KEY_PATH:
    case VP_KEY_INIT:
        return print_path(*(const char *const *)field, out, n_bytes);
    default:
        return false;
    }
}
