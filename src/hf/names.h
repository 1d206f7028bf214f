/* Names of tensors in Hugging Face's files. vpipe's parameters have the names
 * that today's files use (graph.h: struct vp_part); what differs is here: older
 * names, tied tensors, buffers, and tensors without a counterpart in vpipe. */
#ifndef VP_HF_NAMES_H
#define VP_HF_NAMES_H

#include "model/model.h"

#include <stdbool.h>

/* A model class, as `architectures` of a config.json names it. */
struct vp_hf_arch;

/* NULL if unknown. */
const struct vp_hf_arch *vp_hf_arch_find(const char *name);
/* The class that vpipe writes for a model of the table, and assumes where a
 * config.json names none. */
const struct vp_hf_arch *vp_hf_arch_of(const struct vp_model *model);
const char *vp_hf_arch_name(const struct vp_hf_arch *arch);
/* The name in the model table: "bert", "gpt2", "translation". */
const char *vp_hf_arch_model(const struct vp_hf_arch *arch);
/* All classes, for messages. */
const char *vp_hf_arch_names(void);

enum vp_hf_kind {
    VP_HF_WEIGHT,  /* a parameter of vpipe's, or carried: see below */
    VP_HF_TIED,    /* another name of a parameter */
    VP_HF_BUFFER,  /* a constant that follows from the configuration: dropped */
    VP_HF_ZERO,    /* a bias that vpipe's model does not have: must be 0 */
    VP_HF_CARRIED, /* no parameter of vpipe's: kept for the export */
};

enum { VP_HF_NAME_BYTES = 512 };

/* Classifies the tensor `name` of a file, and writes the name that today's files
 * have for it; for VP_HF_TIED the name of the parameter that it equals. Does not
 * return VP_HF_CARRIED for all that is: a VP_HF_WEIGHT that the model does not
 * have is carried, too. VP_ERR_INVALID if the name is too long. */
enum vp_status vp_hf_name(const struct vp_hf_arch *arch,
                          const struct vp_model_config *config,
                          const char *name, enum vp_hf_kind *kind_out,
                          char out[VP_HF_NAME_BYTES], struct vp_err *err);

/* The parameter that the tensor `name` equals where embeddings are tied; NULL:
 * it is tied to none. */
const char *vp_hf_name_tied(const struct vp_hf_arch *arch, const char *name);

/* Tensors that Hugging Face's class has and vpipe's model has not, number `i`: to
 * be written as a copy of the parameter `*of_out`. False past the last one. */
bool vp_hf_name_copy(const struct vp_hf_arch *arch,
                     const struct vp_model_config *config, int i,
                     const char **name_out, const char **of_out);

/* The bias that Hugging Face's class has beside the weight `name`, and that a
 * model without attention_bias lacks: to be written as zeros. False if the model
 * has it, or there is none. */
bool vp_hf_name_bias(const struct vp_hf_arch *arch,
                     const struct vp_model_config *config, const char *name,
                     char out[VP_HF_NAME_BYTES]);

#endif
