/* Checks the structure of an HDF5 file before libhdf5 opens it.
 *
 * libhdf5 does not check all that it reads, and most files have no checksums:
 * one flipped bit in an address, a count or a size can cause a crash or an
 * endless loop. This check covers everything on the path to the named data sets
 * that libhdf5 reads and that no checksum protects: names, headers and trees of
 * chunks in the classic format (superblock 0 and 1), trees of chunks in the
 * newer one. */
#ifndef VP_DATA_HDF5_CHECK_H
#define VP_DATA_HDF5_CHECK_H

#include "base/status.h"
#include "data/hdf5_bytes.h"

/* Refuses a file unless its root group holds the `n_names` data sets, each of
 * integers, complete, contiguous or in chunks, without filters or with gzip,
 * shuffle and fletcher32. Does not check their shapes. */
enum vp_status vp_h5_check(const struct vp_h5_bytes *bytes,
                           const char *const *names, int n_names,
                           struct vp_err *err);

#endif
