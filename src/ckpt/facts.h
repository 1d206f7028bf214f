/* Facts: named values of a run that a checkpoint stores besides tensors, such
 * as counts, seeds and the configuration. They are read back exactly as they
 * were set. Stored as a JSON object. */
#ifndef VP_CKPT_FACTS_H
#define VP_CKPT_FACTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct json_t;
struct vp_facts;

enum vp_status vp_facts_create(struct vp_facts **out);
void vp_facts_free(struct vp_facts *facts);

/* Setting a key again replaces its value. Return VP_ERR_INVALID if the value
 * cannot be stored: text that is not UTF-8, a number that is not finite (use
 * vp_facts_set_bits()), invalid JSON. */
enum vp_status vp_facts_set_text(struct vp_facts *facts, const char *key,
                                 const char *value);
enum vp_status vp_facts_set_int(struct vp_facts *facts, const char *key,
                                int64_t value);
enum vp_status vp_facts_set_real(struct vp_facts *facts, const char *key,
                                 double value);
/* Any 64 bits, such as seeds, counters and checksums; stored in hexadecimal. */
enum vp_status vp_facts_set_bits(struct vp_facts *facts, const char *key,
                                 uint64_t value);
/* Any JSON value, given as text: lists, objects. */
enum vp_status vp_facts_set_json(struct vp_facts *facts, const char *key,
                                 const char *text);

bool vp_facts_has(const struct vp_facts *facts, const char *key);

/* Return VP_ERR_INVALID and a message with the key if it is missing or has
 * another type. The text is borrowed: it is valid until the facts are freed or
 * the key is set again. */
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

/* Returns the JSON object, borrowed, for callers that use jansson. */
struct json_t *vp_facts_object(const struct vp_facts *facts);
/* Makes facts of `object`, which must be a JSON object; takes a reference. */
enum vp_status vp_facts_wrap(struct json_t *object, struct vp_facts **out);

#endif
