/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104). */
#ifndef VP_BASE_SHA256_H
#define VP_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VP_SHA256_BYTES = 32, VP_SHA256_BLOCK = 64 };

struct vp_sha256 {
    uint32_t state[8];
    uint64_t n_bytes; /* length of the message so far */
    unsigned char block[VP_SHA256_BLOCK];
};

/* Call init once, update any number of times, then final. */
void vp_sha256_init(struct vp_sha256 *sha);
void vp_sha256_update(struct vp_sha256 *sha, const void *data, size_t n_bytes);
void vp_sha256_final(struct vp_sha256 *sha, unsigned char out[VP_SHA256_BYTES]);

/* Writes the authentication code of `data` under `key`. */
void vp_hmac_sha256(const void *key, size_t n_key, const void *data,
                    size_t n_data, unsigned char out[VP_SHA256_BYTES]);

/* Returns true if both have the same `n_bytes`. Takes constant time, for
 * secrets and authentication codes. */
bool vp_same_bytes(const void *a, const void *b, size_t n_bytes);

#endif
