/* Sends a text in pieces by vp_world_share(). */
#include "run/share_text.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 4096 }; /* limit of vp_world_share() */

enum vp_status vp_share_text(struct vp_world *world, const char *text,
                             char **out, struct vp_err *err)
{
    uint64_t n = text ? strlen(text) : 0;
    enum vp_status st = vp_world_share(world, &n, sizeof(n), VP_LIMIT_NEVER);
    char *copy = st == VP_OK ? calloc(1, (size_t)n + 1) : NULL;

    if (st == VP_OK && !copy)
        return vp_err_set(err, VP_ERR_NOMEM, "plan: out of memory");
    if (text && copy)
        memcpy(copy, text, (size_t)n);
    for (uint64_t i = 0; i < n && st == VP_OK; i += PIECE_BYTES)
        st = vp_world_share(world, copy + i,
                            n - i < PIECE_BYTES ? (size_t)(n - i) : PIECE_BYTES,
                            VP_LIMIT_NEVER);
    if (st != VP_OK) {
        free(copy);
        return vp_err_set(err, VP_ERR_ABORTED,
                          "plan: process 0 has ended; see its messages");
    }
    *out = copy;
    return VP_OK;
}
