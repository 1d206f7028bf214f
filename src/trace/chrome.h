/* Numbers and words that the writer and the reader of trace files share. */
#ifndef VP_TRACE_CHROME_H
#define VP_TRACE_CHROME_H

#define VP_CHROME_FORMAT "vpipe trace"

enum {
    VP_CHROME_VERSION = 1,
    VP_CHROME_PID = 1,
    VP_CHROME_FIRST_TID = 1, /* of rank 0: Perfetto keeps thread 0 for idling */
};

#endif
