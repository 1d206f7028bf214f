/* Constants of the trace file format, shared by its writer and reader. */
#ifndef VP_TRACE_CHROME_H
#define VP_TRACE_CHROME_H

#define VP_CHROME_FORMAT "vpipe trace"

enum {
    VP_CHROME_VERSION = 1,
    VP_CHROME_PID = 1,
    VP_CHROME_FIRST_TID = 1, /* tid of rank 0; Perfetto reserves tid 0 */
};

#endif
