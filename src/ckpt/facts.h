/* What a checkpoint says about the run besides its tensors: named values that
 * come back exactly as they were given. A JSON object inside. */
#ifndef VP_CKPT_FACTS_H
#define VP_CKPT_FACTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct json_t;
struct vp_facts;

enum vp_status vp_facts_create(struct vp_facts **out);
void vp_facts_free(struct vp_facts *facts);

/* A key may be set again; the last value counts. VP_ERR_INVALID if it cannot
 * be stored: text that is not UTF-8, a number that is not finite (give its
 * bits), JSON that is none. */
enum vp_status vp_facts_set_text(struct vp_facts *facts, const char *key,
                                 const char *value);
enum vp_status vp_facts_set_int(struct vp_facts *facts, const char *key,
                                int64_t value);
enum vp_status vp_facts_set_real(struct vp_facts *facts, const char *key,
                                 double value);
/* Written in hexadecimal: seeds, counters, checksums, any 64 bits. */
enum vp_status vp_facts_set_bits(struct vp_facts *facts, const char *key,
                                 uint64_t value);
/* Any JSON value, as text: lists, objects. */
enum vp_status vp_facts_set_json(struct vp_facts *facts, const char *key,
                                 const char *text);

bool vp_facts_has(const struct vp_facts *facts, const char *key);

/* VP_ERR_INVALID and a message with the key if it is missing or of another
 * kind. The text is borrowed and ends with the facts or the next set. */
enum vp_status vp_facts_text(const struct vp_facts *facts, const char *key,
                             const char **out, struct vp_err *err);
enum vp_status vp_facts_int(const struct vp_facts *facts, const char *key,
                            int64_t *out, struct vp_err *err);
enum vp_status vp_facts_real(const struct vp_facts *facts, const char *key,
                             double *out, struct vp_err *err);
enum vp_status vp_facts_bits(const struct vp_facts *facts, const char *key,
                             uint64_t *out, struct vp_err *err);
/* The caller frees the text. */
enum vp_status vp_facts_json(const struct vp_facts *facts, const char *key,
                             char **out, struct vp_err *err);

/* The object itself, for those who use jansson; borrowed. */
struct json_t *vp_facts_object(const struct vp_facts *facts);
/* Shares `object`, which must be an object. */
enum vp_status vp_facts_wrap(struct json_t *object, struct vp_facts **out);

#endif
