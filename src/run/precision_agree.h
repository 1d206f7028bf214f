/* Resolves `precision: auto` to one value for all processes of a job. */
#ifndef VP_RUN_PRECISION_AGREE_H
#define VP_RUN_PRECISION_AGREE_H

#include "comm/comm.h"
#include "config/load.h"

enum { VP_PRECISION_ISA_BYTES = 16 };

/* One rank's preference. */
struct vp_precision_wish {
    enum vp_precision precision;
    char isa[VP_PRECISION_ISA_BYTES]; /* instruction set; "": uses a GPU */
};

/* Returns the precision for `n` ranks: bf16 if all prefer it and all CPU ranks
 * have the same instruction set, which determines the bits of bf16 products;
 * otherwise fp32. */
enum vp_precision vp_precision_choose(const struct vp_precision_wish *wishes,
                                      int n);

/* To be called by all processes of `world` after they have joined it; NULL:
 * there is one process. If `config` says auto, the lead decides:
 *   a resumed run (`resume` is not NULL)       as in its checkpoint
 *   every rank prefers bf16, and all CPU
 *   ranks have the same instruction set        bf16
 *   otherwise                                  fp32
 * If this process preferred another value, `config` is loaded again from
 * `source`. `*precision_out` is the value of auto; `source->precision` points
 * to it, for later loads of the configuration. All processes return a failure
 * of any of them. */
enum vp_status vp_precision_agree(struct vp_config *config,
                                  struct vp_config_source *source,
                                  const char *resume, struct vp_world *world,
                                  enum vp_precision *precision_out,
                                  struct vp_err *err);

#endif
