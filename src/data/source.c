/* Notices that a data source gives to the start of a run. */
#include "data/source.h"

#include <stdarg.h>
#include <stdio.h>

void vp_source_notice(struct vp_source *source, const char *fmt, ...)
{
    va_list args;

    VP_BUG_ON(source->n_notices == VP_SOURCE_NOTICES);
    va_start(args, fmt);
    vsnprintf(source->notice[source->n_notices++], VP_SOURCE_NOTICE_BYTES, fmt,
              args);
    va_end(args);
}
