/* The models of tests/golden/make_golden.py. A test fails if one cannot be
 * built. */
#ifndef VP_TESTS_LIB_TINY_MODEL_H
#define VP_TESTS_LIB_TINY_MODEL_H

#include "model/model.h"

const struct vp_model *find_model(const char *name);

struct vp_model_config model_size(const char *model, const char *size);

/* Returns a configuration with two layers and without dropout. */
struct vp_model_config tiny_config(const char *model, bool tied);

struct vp_dims tiny_dims(const char *model);

void build_outputs(const char *model, const struct vp_model_config *config,
                   const struct vp_dims *dims, unsigned outputs,
                   struct vp_graph *graph);

void build_model(const char *model, const struct vp_model_config *config,
                 const struct vp_dims *dims, struct vp_graph *graph);

#endif
