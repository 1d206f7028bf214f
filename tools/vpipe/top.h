/* The screen of `vpipe top`: the state of a run as text. */
#ifndef VP_TOOLS_TOP_H
#define VP_TOOLS_TOP_H

#include "base/strbuf.h"
#include "monitor/live.h"

/* Seconds without a new status.json after which a run is not taken to be live. */
enum { TOP_STALE_SECONDS = 5 };

/* What the state says of itself, and what else is known. */
enum top_news {
    TOP_NEWS_FRESH,
    TOP_NEWS_STALE, /* no new state for a while */
    TOP_NEWS_DIED,  /* and no process holds the lock of the run */
};

struct top_view {
    const char *folder; /* as the user named it */
    const struct vp_live *live;
    enum top_news news;
    double age; /* seconds since the state was written */
    bool utf8;  /* the terminal shows it */
    int width;  /* longest line; 0: no limit */
};

/* Whether no other state will follow. */
bool top_has_ended(const struct top_view *view);
/* Appends lines. */
void top_print(const struct top_view *view, struct vp_strbuf *out);

#endif
