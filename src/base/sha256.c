/* SHA-256 in plain C, written after FIPS 180-4; sections are those of the
 * standard. */
#include "base/sha256.h"

#include <string.h>

/* FIPS 180-4, section 4.2.2: the first 32 bits of the fractional parts of the
 * cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

static void store(unsigned char *at, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(x >> (24 - 8 * i));
}

/* Section 6.2.2, steps 1 to 4; v holds the working variables a to h. */
static void add_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];

    for (int t = 0; t < 16; t++)
        w[t] = load(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];

        w[t] = (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10) + w[t - 7] +
               (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 16];
    }
    memcpy(v, state, sizeof(v));
    for (int t = 0; t < 64; t++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                      ((e & v[5]) ^ (~e & v[6])) + round_constants[t] + w[t];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void vp_sha256_init(struct vp_sha256 *sha)
{
    *sha = (struct vp_sha256){
        .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                   0x9b05688c, 0x1f83d9ab, 0x5be0cd19 },
    };
}

void vp_sha256_update(struct vp_sha256 *sha, const void *data, size_t n_bytes)
{
    const unsigned char *at = data;

    while (n_bytes > 0) {
        size_t used = sha->n_bytes % VP_SHA256_BLOCK;
        size_t n = VP_SHA256_BLOCK - used;

        n = n < n_bytes ? n : n_bytes;
        memcpy(sha->block + used, at, n);
        sha->n_bytes += n;
        at += n;
        n_bytes -= n;
        if (used + n == VP_SHA256_BLOCK)
            add_block(sha->state, sha->block);
    }
}

/* Padding: a bit 1, zeros, and the length in bits as the last 8 bytes. */
void vp_sha256_final(struct vp_sha256 *sha, unsigned char out[VP_SHA256_BYTES])
{
    static const unsigned char padding[VP_SHA256_BLOCK] = { 0x80 };
    uint64_t n_bits = 8 * sha->n_bytes;
    size_t used = sha->n_bytes % VP_SHA256_BLOCK;
    unsigned char length[8];

    store(length, (uint32_t)(n_bits >> 32));
    store(length + 4, (uint32_t)n_bits);
    vp_sha256_update(sha, padding,
                     used < VP_SHA256_BLOCK - 8
                         ? VP_SHA256_BLOCK - 8 - used
                         : 2 * VP_SHA256_BLOCK - 8 - used);
    vp_sha256_update(sha, length, sizeof(length));
    for (int i = 0; i < 8; i++)
        store(out + 4 * i, sha->state[i]);
}

/* H((key ^ pad) data) */
static void hash_padded(const unsigned char key[VP_SHA256_BLOCK],
                        unsigned char pad, const void *data, size_t n_data,
                        unsigned char out[VP_SHA256_BYTES])
{
    unsigned char padded[VP_SHA256_BLOCK];
    struct vp_sha256 sha;

    for (int i = 0; i < VP_SHA256_BLOCK; i++)
        padded[i] = key[i] ^ pad;
    vp_sha256_init(&sha);
    vp_sha256_update(&sha, padded, sizeof(padded));
    vp_sha256_update(&sha, data, n_data);
    vp_sha256_final(&sha, out);
}

void vp_hmac_sha256(const void *key, size_t n_key, const void *data,
                    size_t n_data, unsigned char out[VP_SHA256_BYTES])
{
    unsigned char block[VP_SHA256_BLOCK] = { 0 }, inner[VP_SHA256_BYTES];
    struct vp_sha256 sha;

    if (n_key > VP_SHA256_BLOCK) { /* a long key is replaced by its hash */
        vp_sha256_init(&sha);
        vp_sha256_update(&sha, key, n_key);
        vp_sha256_final(&sha, block);
    } else if (n_key > 0) {
        memcpy(block, key, n_key);
    }
    hash_padded(block, 0x36, data, n_data, inner);
    hash_padded(block, 0x5c, inner, sizeof(inner), out);
}

bool vp_same_bytes(const void *a, const void *b, size_t n_bytes)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char difference = 0;

    for (size_t i = 0; i < n_bytes; i++)
        difference |= x[i] ^ y[i];
    return difference == 0;
}
