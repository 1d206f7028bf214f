/* Parser for bytes, object headers and data sets of an HDF5 file, used by
 * hdf5_check.c. Follows the "HDF5 File Format Specification", version 3;
 * numbers are little-endian. */
#ifndef VP_DATA_HDF5_PARSE_H
#define VP_DATA_HDF5_PARSE_H

#include "base/status.h"
#include "data/hdf5_bytes.h"

#include <stdbool.h>

#define VP_H5_NOWHERE UINT64_MAX /* undefined address */

enum { VP_H5_WINDOW = 4096, VP_H5_MAX_LINKS = 16 };

/* Messages of object headers, section IV.A.2. */
enum vp_h5_message {
    VP_H5_NIL = 0x00,
    VP_H5_SPACE = 0x01,
    VP_H5_LINK_INFO = 0x02,
    VP_H5_TYPE = 0x03,
    VP_H5_OLD_FILL = 0x04,
    VP_H5_FILL = 0x05,
    VP_H5_LINK = 0x06,
    VP_H5_EXTERNAL = 0x07,
    VP_H5_LAYOUT = 0x08,
    VP_H5_FILTERS = 0x0B,
    VP_H5_ATTRIBUTE = 0x0C,
    VP_H5_COMMENT = 0x0D,
    VP_H5_OLD_TIME = 0x0E,
    VP_H5_MORE = 0x10,
    VP_H5_GROUP = 0x11,
    VP_H5_TIME = 0x12,
    VP_H5_N_MESSAGES,
};

/* `n` bytes of the file from address `at`. */
struct vp_h5_part {
    uint64_t at, n;
};

struct vp_h5_header {
    struct vp_h5_part message[VP_H5_N_MESSAGES]; /* n 0: no such message */
    struct vp_h5_part links[VP_H5_MAX_LINKS];
    int n_links;
};

/* State of a check. */
struct vp_h5 {
    const struct vp_h5_bytes *bytes;
    struct vp_err *err;
    const char *place;                 /* data set, for messages; NULL: none */
    bool is_classic;                   /* superblock 0 or 1 */
    uint64_t end;                      /* valid addresses are below it */
    uint64_t leaf_k, group_k, chunk_k; /* half the entries of a node */
    uint64_t n_steps;                  /* entries visited, see vp_h5_step() */
    struct vp_h5_part heap;            /* names of the root group */
    struct vp_h5_part *taken;          /* parts in use, see vp_h5_take() */
    size_t n_taken, capacity;

    unsigned char window[VP_H5_WINDOW]; /* bytes of the file from window_at */
    uint64_t window_at, n_window;
};

static inline uint64_t vp_h5_number(const unsigned char *p, int n_bytes)
{
    uint64_t value = 0;

    for (int i = n_bytes; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

/* Sets the error "file: place: cause, so it is damaged; remedy". Returns
 * VP_ERR_INVALID. */
enum vp_status vp_h5_damaged(struct vp_h5 *h5, const char *fmt, ...)
    VP_PRINTF(2, 3);

/* Sets the error "file: place: what n; remedy", for valid HDF5 that is not
 * supported. Returns VP_ERR_INVALID. */
enum vp_status vp_h5_refuse(struct vp_h5 *h5, const char *what, uint64_t n,
                            const char *remedy);

/* Copies `n` bytes, at most VP_H5_WINDOW, from address `at`. Refuses addresses
 * outside the file. */
enum vp_status vp_h5_fetch(struct vp_h5 *h5, uint64_t at, uint64_t n,
                           unsigned char *out);

/* Refuses a part that is not inside the file. `what` names it in the
 * message. */
enum vp_status vp_h5_inside(struct vp_h5 *h5, struct vp_h5_part part,
                            const char *what);

/* Like vp_h5_inside(), and records the part as used by one structure. At the
 * end vp_h5_check_taken() refuses overlapping parts, which most changes of an
 * address cause. The caller frees h5->taken. */
enum vp_status vp_h5_take(struct vp_h5 *h5, struct vp_h5_part part,
                          const char *what);
enum vp_status vp_h5_check_taken(struct vp_h5 *h5);

/* Call once per entry of a list or tree. Refuses the file after more calls than
 * it has bytes: structures linked in a circle would be walked forever. */
enum vp_status vp_h5_step(struct vp_h5 *h5);

/* Reads and checks the head of a tree node at `at`, with space for `capacity`
 * entries and one more key of `key` bytes. *level: expected level, or -1 for
 * any; afterwards the level of the node. *n_out: number of its entries. */
enum vp_status vp_h5_node(struct vp_h5 *h5, uint64_t at, int type,
                          uint64_t capacity, uint64_t key, int *level,
                          uint64_t *n_out);

/* Reads the object header at `at`. */
enum vp_status vp_h5_header(struct vp_h5 *h5, uint64_t at,
                            struct vp_h5_header *header);

/* Checks the data set with this header; in hdf5_parse_set.c. */
enum vp_status vp_h5_check_set(struct vp_h5 *h5,
                               const struct vp_h5_header *header);

#endif
