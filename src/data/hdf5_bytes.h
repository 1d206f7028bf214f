/* The bytes of an HDF5 file that is checked. */
#ifndef VP_DATA_HDF5_BYTES_H
#define VP_DATA_HDF5_BYTES_H

#include <stdint.h>

/* Where the bytes are: in memory, or in an open file where `image` is NULL. */
struct vp_h5_bytes {
    const char *path; /* for messages */
    int fd;
    const unsigned char *image;
    uint64_t n_bytes;
};

/* The remedy for a file that is not as it was written. */
#define VP_H5_ANEW "copy or write the shard anew"

#endif
