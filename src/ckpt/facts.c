/* Facts as a JSON object of jansson. */
#include "ckpt/facts.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vp_facts {
    json_t *object;
};

enum vp_status vp_facts_wrap(struct json_t *object, struct vp_facts **out)
{
    struct vp_facts *facts;

    VP_BUG_ON(!json_is_object(object));
    facts = calloc(1, sizeof(*facts));
    if (!facts)
        return VP_ERR_NOMEM;
    facts->object = json_incref(object);
    *out = facts;
    return VP_OK;
}

enum vp_status vp_facts_create(struct vp_facts **out)
{
    json_t *object = json_object();
    enum vp_status st;

    if (!object)
        return VP_ERR_NOMEM;
    st = vp_facts_wrap(object, out);
    json_decref(object);
    return st;
}

void vp_facts_free(struct vp_facts *facts)
{
    if (!facts)
        return;
    json_decref(facts->object);
    free(facts);
}

struct json_t *vp_facts_object(const struct vp_facts *facts)
{
    return facts->object;
}

/* ---- Set ---------------------------------------------------------------- */

/* `value` is NULL if jansson cannot represent it. */
static enum vp_status set(struct vp_facts *facts, const char *key,
                          json_t *value)
{
    if (!value || json_object_set_new(facts->object, key, value) != 0)
        return VP_ERR_INVALID;
    return VP_OK;
}

enum vp_status vp_facts_set_text(struct vp_facts *facts, const char *key,
                                 const char *value)
{
    return set(facts, key, json_string(value));
}

enum vp_status vp_facts_set_int(struct vp_facts *facts, const char *key,
                                int64_t value)
{
    return set(facts, key, json_integer(value));
}

enum vp_status vp_facts_set_real(struct vp_facts *facts, const char *key,
                                 double value)
{
    return set(facts, key, json_real(value));
}

enum vp_status vp_facts_set_bits(struct vp_facts *facts, const char *key,
                                 uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "0x%016llx", (unsigned long long)value);
    return set(facts, key, json_string(text));
}

enum vp_status vp_facts_set_json(struct vp_facts *facts, const char *key,
                                 const char *text)
{
    return set(
        facts, key,
        json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL));
}

/* ---- Get ---------------------------------------------------------------- */

static enum vp_status missing(const struct vp_facts *facts, const char *key,
                              const char *wanted, struct vp_err *err)
{
    if (!vp_facts_has(facts, key))
        return vp_err_set(err, VP_ERR_INVALID, "%s: is missing", key);
    return vp_err_set(err, VP_ERR_INVALID, "%s: is not %s", key, wanted);
}

bool vp_facts_has(const struct vp_facts *facts, const char *key)
{
    return json_object_get(facts->object, key) != NULL;
}

enum vp_status vp_facts_text(const struct vp_facts *facts, const char *key,
                             const char **out, struct vp_err *err)
{
    const json_t *value = json_object_get(facts->object, key);

    if (!json_is_string(value))
        return missing(facts, key, "a text", err);
    *out = json_string_value(value);
    return VP_OK;
}

enum vp_status vp_facts_int(const struct vp_facts *facts, const char *key,
                            int64_t *out, struct vp_err *err)
{
    const json_t *value = json_object_get(facts->object, key);

    if (!json_is_integer(value))
        return missing(facts, key, "a whole number", err);
    *out = json_integer_value(value);
    return VP_OK;
}

enum vp_status vp_facts_real(const struct vp_facts *facts, const char *key,
                             double *out, struct vp_err *err)
{
    const json_t *value = json_object_get(facts->object, key);

    if (!json_is_real(value))
        return missing(facts, key, "a fraction", err);
    *out = json_real_value(value);
    return VP_OK;
}

enum vp_status vp_facts_bits(const struct vp_facts *facts, const char *key,
                             uint64_t *out, struct vp_err *err)
{
    const char *text = json_string_value(json_object_get(facts->object, key));
    uint64_t bits = 0;

    if (!text || strlen(text) != 18 || strncmp(text, "0x", 2) != 0)
        return missing(facts, key, "0x and 16 hexadecimal digits", err);
    for (const char *c = text + 2; *c; c++) {
        const char *digits = "0123456789abcdef";
        const char *digit = strchr(digits, *c);

        if (!digit)
            return missing(facts, key, "0x and 16 hexadecimal digits", err);
        bits = bits << 4 | (uint64_t)(digit - digits);
    }
    *out = bits;
    return VP_OK;
}

enum vp_status vp_facts_json(const struct vp_facts *facts, const char *key,
                             char **out, struct vp_err *err)
{
    const json_t *value = json_object_get(facts->object, key);
    char *text;

    if (!value)
        return missing(facts, key, "there", err);
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!text)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", key);
    *out = text;
    return VP_OK;
}
