/* The causes of struct vp_limits in words. */
#ifndef VP_REPORT_FINDINGS_H
#define VP_REPORT_FINDINGS_H

#include "report/limits.h"

/* Fills findings and n_findings of `limits`, whose other fields are known. There
 * is always at least one; causes that have a name come first, the most expensive
 * of them at the top. */
void vp_findings_make(const struct vp_limit_facts *facts,
                      struct vp_limits *limits);

#endif
