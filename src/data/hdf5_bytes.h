/* Access to the bytes of an HDF5 file whose structure is checked. */
#ifndef VP_DATA_HDF5_BYTES_H
#define VP_DATA_HDF5_BYTES_H

#include <stdint.h>

/* The bytes are in memory at `image`, or in the open file `fd` if `image` is
 * NULL. */
struct vp_h5_bytes {
    const char *path; /* for messages */
    int fd;
    const unsigned char *image;
    uint64_t n_bytes;
};

/* Remedy in messages about a damaged file. */
#define VP_H5_ANEW "copy or write the shard anew"

#endif
