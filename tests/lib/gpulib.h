/* For tests on a GPU: the device, element types, and images. An image is device
 * memory with copies on the host, in which tensors lie between guard zones. */
#ifndef VP_TESTS_LIB_GPULIB_H
#define VP_TESTS_LIB_GPULIB_H

#include "backend/plugin.h"
#include "lib/one_op.h"

#include <stddef.h>
#include <stdint.h>

/* ---- The device --------------------------------------------------------- */

typedef enum vp_status (*try_fn)(struct vp_backend *backend,
                                 const struct vp_kargs *args,
                                 enum vp_phase phase);

typedef int (*try_fused_fn)(struct vp_backend *backend, struct vp_kargs *args,
                            const enum vp_phase *phases, int n);

typedef enum vp_status (*try_nonfinite_fn)(struct vp_backend *backend,
                                           const void *data, int64_t n,
                                           enum vp_dtype dtype, bool *out);

struct gpu {
    const struct vp_backend_ops *ops;
    struct vp_backend *backend;
    struct vp_device *device;
    struct vp_stream *stream;
    struct vp_event *event;
    try_fn try_call;
    try_fused_fn try_fused;
    try_nonfinite_fn try_nonfinite;
};

extern struct gpu gpu;

/* Returns an error where there is no plugin or no device: the test is
 * skipped. */
enum vp_status gpu_open(struct vp_err *err);

/* Returns false if the plugin lacks a function for tests: the test fails. */
bool gpu_start(void);

void gpu_stop(void);

void gpu_close(void);

void gpu_sync(void);

void gpu_copy(void *dst, const void *src, size_t n_bytes);

/* ---- Element types ------------------------------------------------------ */

extern const char *const dtype_names[4];

/* Stores a value as element `i` of an array in that type. */
void element_set(void *data, enum vp_dtype dtype, int64_t i, double value);

double element_rounded(enum vp_dtype dtype, double value);

/* ---- Images ------------------------------------------------------------- */

enum { MAX_IMAGE = 24, GUARD_BYTES = 512, GUARD = 0xA5 };

struct tensor {
    const char *name;
    int64_t n;
    enum vp_dtype dtype;
    size_t begin, n_bytes; /* place in the image */
    bool scratch;          /* contents are not compared */
};

/* All tensors are added before image_make(). */
struct image {
    struct tensor tensors[MAX_IMAGE];
    int n_tensors;
    size_t n_bytes;
    unsigned char *before; /* bytes that are sent to the device */
    unsigned char *after;  /* bytes of a run, after it */
    unsigned char *again;  /* bytes of another run */
    unsigned char *device;
};

struct tensor *image_add(struct image *image, const char *name, int64_t n,
                         enum vp_dtype dtype);

struct tensor *image_add_scratch(struct image *image, size_t n_bytes);

void image_make(struct image *image);

void image_free(struct image *image);

void *image_address(const struct image *image, const struct tensor *t);

void image_put(struct image *image, const struct tensor *t, int64_t i,
               double value);

double image_get(const struct image *image, const struct tensor *t, int64_t i);

void image_fill(struct image *image, const struct tensor *t, uint32_t stream);

void image_send(struct image *image);

/* Copies the device's bytes to `after` or `again`. */
void image_fetch(struct image *image, unsigned char *to);

void image_check_guards(const struct image *image, const char *what);

/* Checks that a tensor in `after` has the bits of `other`. */
void image_check_bits(const struct image *image, const struct tensor *t,
                      const unsigned char *other, const char *what,
                      const char *why);

void image_check_same(const struct image *image, const unsigned char *other,
                      const char *what, const char *why);

#endif
