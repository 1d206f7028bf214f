/* Looks over the structure of an HDF5 file before libhdf5 does.
 *
 * libhdf5 trusts what it reads, and most files have no checksums: one flipped
 * bit in an address, a count or a size ends in a crash or an endless loop. Here
 * everything on the way to the named data sets is checked that libhdf5 follows
 * and no checksum guards: of the classic format (superblock 0 and 1) names,
 * headers and trees of chunks, of the newer one the trees. */
#ifndef VP_DATA_HDF5_CHECK_H
#define VP_DATA_HDF5_CHECK_H

#include "base/status.h"
#include "data/hdf5_bytes.h"

/* Refuses a file unless its root group holds the `n_names` data sets, each of
 * integers, complete, and stored plainly, in chunks, or with gzip, shuffle and
 * fletcher32. Their shapes are the caller's business. */
enum vp_status vp_h5_check(const struct vp_h5_bytes *bytes,
                           const char *const *names, int n_names,
                           struct vp_err *err);

#endif
