/* Names of tensors in Hugging Face's files. vpipe's parameters have the names
 * that current files use (graph.h: struct vp_part). This file handles the
 * differences: older names, tied tensors, buffers, and tensors without a
 * counterpart in vpipe. */
#ifndef VP_HF_NAMES_H
#define VP_HF_NAMES_H

#include "model/model.h"

#include <stdbool.h>

/* A model class that `architectures` of a config.json can name. */
struct vp_hf_arch;

/* Returns NULL if the class is not supported. */
const struct vp_hf_arch *vp_hf_arch_find(const char *name);
/* Returns the class that vpipe writes for a model of the table, and assumes if
 * a config.json does not name one. NULL: there is no class for the model. */
const struct vp_hf_arch *vp_hf_arch_of(const struct vp_model *model);
const char *vp_hf_arch_name(const struct vp_hf_arch *arch);
/* Returns the name in the model table: "bert", "gpt2", "translation". */
const char *vp_hf_arch_model(const struct vp_hf_arch *arch);
/* Returns a list of all supported classes, for messages. */
const char *vp_hf_arch_names(void);

enum vp_hf_kind {
    VP_HF_WEIGHT,  /* parameter of vpipe's model */
    VP_HF_TIED,    /* another name of a parameter */
    VP_HF_BUFFER,  /* constant that the configuration determines: dropped */
    VP_HF_ZERO,    /* bias that vpipe's model does not have: must be 0 */
    VP_HF_CARRIED, /* not a parameter of vpipe's model: kept for the export */
};

enum { VP_HF_NAME_BYTES = 512 };

/* Classifies the tensor `name` of a file and writes its current name; for
 * VP_HF_TIED, the name of the parameter that it equals. Never sets
 * VP_HF_CARRIED: the caller must check that the model has a VP_HF_WEIGHT, which
 * is carried otherwise. Returns VP_ERR_INVALID if the name is too long. */
enum vp_status vp_hf_name(const struct vp_hf_arch *arch,
                          const struct vp_model_config *config,
                          const char *name, enum vp_hf_kind *kind_out,
                          char out[VP_HF_NAME_BYTES], struct vp_err *err);

/* Returns the parameter that the tensor `name` equals if embeddings are tied;
 * NULL if it is not tied. */
const char *vp_hf_name_tied(const struct vp_hf_arch *arch, const char *name);

/* Finds number `i` of the tensors that Hugging Face's class has and vpipe's
 * model does not have. An export writes it as a copy of the parameter *of_out.
 * Returns false past the last. */
bool vp_hf_name_copy(const struct vp_hf_arch *arch,
                     const struct vp_model_config *config, int i,
                     const char **name_out, const char **of_out);

/* Writes the name of the bias that Hugging Face's class has for the weight
 * `name`, and that a model without attention_bias does not have. An export
 * writes it as zeros. Returns false if the model has the bias or the class has
 * none. */
bool vp_hf_name_bias(const struct vp_hf_arch *arch,
                     const struct vp_model_config *config, const char *name,
                     char out[VP_HF_NAME_BYTES]);

#endif
