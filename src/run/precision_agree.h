/* What `precision: auto` becomes, for all processes of a job. */
#ifndef VP_RUN_PRECISION_AGREE_H
#define VP_RUN_PRECISION_AGREE_H

#include "comm/comm.h"
#include "config/load.h"

enum { VP_PRECISION_ISA_BYTES = 16 };

/* One rank's preference. */
struct vp_precision_wish {
    enum vp_precision precision;
    char isa[VP_PRECISION_ISA_BYTES]; /* of its cores; "": it uses a GPU */
};

/* What `n` ranks agree on: bf16 if all prefer it and those on cores have the same
 * instruction set, by which products of bf16 have their bits; else fp32. */
enum vp_precision vp_precision_choose(const struct vp_precision_wish *wishes,
                                      int n);

/* All processes of the world come here after they have joined it. Where `config`
 * says auto, the lead decides:
 *   a run that goes on (`resume` is not NULL)  fp32 or bf16, as its checkpoint
 *   every rank prefers bf16, and those on
 *   cores have the same instruction set        bf16
 *   else                                       fp32
 * If this process preferred another, `config` is loaded again from `source`.
 * `*precision_out` is what auto became; `source->precision` points to it, for
 * whatever loads the configuration again. `world`: NULL if there is one process.
 * A failure is known to all processes. */
enum vp_status vp_precision_agree(struct vp_config *config,
                                  struct vp_config_source *source,
                                  const char *resume, struct vp_world *world,
                                  enum vp_precision *precision_out,
                                  struct vp_err *err);

#endif
