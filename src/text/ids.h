/* A list of token ids that grows. */
#ifndef VP_TEXT_IDS_H
#define VP_TEXT_IDS_H

#include "base/status.h"

#include <stdint.h>

/* All zero: empty. */
struct vp_ids {
    uint32_t *at;
    size_t n, capacity;
};

/* Makes room for `n_more` further ids. VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_ids_reserve(struct vp_ids *ids, size_t n_more);
void vp_ids_release(struct vp_ids *ids);

#endif
