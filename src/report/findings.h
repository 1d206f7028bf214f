/* Describes the causes in struct vp_limits in words, with remedies. */
#ifndef VP_REPORT_FINDINGS_H
#define VP_REPORT_FINDINGS_H

#include "report/limits.h"

/* Sets findings and n_findings of `limits`, whose other fields are set. There
 * is always at least one. Named causes come first, the most expensive at the
 * top; unexplained time comes last. */
void vp_findings_make(const struct vp_limit_facts *facts,
                      struct vp_limits *limits);

#endif
