/* Initial weights of a run from key `init`: a Hugging Face folder, a
 * checkpoint, or a run. The optimizer starts with zero moments, at step 0. */
#ifndef VP_RUN_FIRST_WEIGHTS_H
#define VP_RUN_FIRST_WEIGHTS_H

#include "run/resume_config.h"
#include "runtime/state.h"

struct vp_first_weights;

/* Opens `with->path` and checks that its sizes match the configuration. Each of
 * several processes opens it and reads only the weights of its own blocks; all
 * must find the same weights. Sets `*agreed_out` to true if all processes know
 * of a failure. */
enum vp_status vp_first_weights_open(const struct vp_resume_config *with,
                                     struct vp_first_weights **out,
                                     bool *agreed_out, struct vp_err *err);
const struct vp_loader *vp_first_weights_loader(
    const struct vp_first_weights *first);
/* Copies the origin (hf/origin.h), which an export needs beside the weights, to
 * the run folder `run`. */
enum vp_status vp_first_weights_keep(const struct vp_first_weights *first,
                                     const char *run, struct vp_err *err);
void vp_first_weights_close(struct vp_first_weights *first);

/* Copies the origin for a run in folder `run` that is resumed from the
 * checkpoint `ckpt` of another run folder. */
enum vp_status vp_first_weights_pass_on(const char *ckpt, const char *run,
                                        struct vp_err *err);

/* Writes the path of the origin (hf/origin.h) of the checkpoint `ckpt`, which
 * lies in the folder of its run or import, to `out`. Returns false if there is
 * none. */
bool vp_first_weights_origin(const char *ckpt, char *out, size_t n);

#endif
