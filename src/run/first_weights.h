/* The first weights of a run, from key `init`: a Hugging Face folder, a
 * checkpoint, or a run. The optimizer starts anew, at step 0. */
#ifndef VP_RUN_FIRST_WEIGHTS_H
#define VP_RUN_FIRST_WEIGHTS_H

#include "run/resume_config.h"
#include "runtime/state.h"

struct vp_first_weights;

/* Opens `with->path` and checks that the sizes agree with the configuration. Of
 * several processes each opens it and reads only the weights of its own blocks;
 * all must see the same. `agreed_out`: a failure is known to all processes. */
enum vp_status vp_first_weights_open(const struct vp_resume_config *with,
                                     struct vp_first_weights **out,
                                     bool *agreed_out, struct vp_err *err);
const struct vp_loader *vp_first_weights_loader(
    const struct vp_first_weights *first);
/* Keeps in the run folder `run` what an export needs beside the weights. */
enum vp_status vp_first_weights_keep(const struct vp_first_weights *first,
                                     const char *run, struct vp_err *err);
void vp_first_weights_close(struct vp_first_weights *first);

/* The same for a run that goes on in another folder, from the checkpoint
 * `ckpt`. */
enum vp_status vp_first_weights_pass_on(const char *ckpt, const char *run,
                                        struct vp_err *err);

/* The origin (hf/origin.h) that belongs to the checkpoint `ckpt`, in the folder
 * of its run or import. False if there is none. */
bool vp_first_weights_origin(const char *ckpt, char *out, size_t n);

#endif
