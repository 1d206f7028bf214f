/* The screen of `vpipe top`: prints the state of a run as text. */
#ifndef VP_TOOLS_TOP_H
#define VP_TOOLS_TOP_H

#include "base/strbuf.h"
#include "monitor/live.h"

/* Seconds without a new status.json after which the state counts as stale. */
enum { TOP_STALE_SECONDS = 5 };

/* Age of the state that was read. */
enum top_news {
    TOP_NEWS_FRESH,
    TOP_NEWS_STALE, /* no new state for TOP_STALE_SECONDS */
    TOP_NEWS_DIED,  /* stale, and no process holds the lock of the run */
};

struct top_view {
    const char *folder; /* path that the user gave */
    const struct vp_live *live;
    enum top_news news;
    double age; /* seconds since the state was written */
    bool utf8;  /* the terminal supports it */
    int width;  /* longest line; 0: no limit */
};

/* Returns true if no other state will follow. */
bool top_has_ended(const struct top_view *view);
/* Appends the lines of the screen. */
void top_print(const struct top_view *view, struct vp_strbuf *out);

#endif
