/* A growing array of token ids. */
#ifndef VP_TEXT_IDS_H
#define VP_TEXT_IDS_H

#include "base/status.h"

#include <stdint.h>

/* Initialise to zero. */
struct vp_ids {
    uint32_t *at;
    size_t n, capacity;
};

/* Makes room for `n_more` more ids. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_ids_reserve(struct vp_ids *ids, size_t n_more);
void vp_ids_release(struct vp_ids *ids);

#endif
