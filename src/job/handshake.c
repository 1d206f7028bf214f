/* Random numbers and HMAC proofs of the handshake between a rank and its
 * supervisor. */
#include "job/handshake.h"

#include "base/sha256.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void to_hex(const unsigned char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

bool vp_nonce_make(char out[VP_NONCE_BYTES])
{
    unsigned char bytes[VP_NONCE_BYTES / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return false;
    to_hex(bytes, sizeof(bytes), out);
    return true;
}

static void prove(const char *token, const char *text, int n_text,
                  char out[VP_PROOF_BYTES])
{
    unsigned char code[VP_SHA256_BYTES];

    vp_hmac_sha256(token, strlen(token), text, (size_t)n_text, code);
    to_hex(code, sizeof(code), out);
}

void vp_prove_hello(const char *token, const char *challenge,
                    const struct vp_message *hello, char out[VP_PROOF_BYTES])
{
    const struct vp_hello *it = &hello->hello;
    char text[VP_MESSAGE_BYTES];
    int n = snprintf(text, sizeof(text), "rank %s %s %d %d %d %s %s", challenge,
                     hello->nonce, it->rank, it->n_ranks, it->pid, it->machine,
                     it->host);

    prove(token, text, n, out);
}

void vp_prove_welcome(const char *token, const char *challenge,
                      const struct vp_message *hello, char out[VP_PROOF_BYTES])
{
    char text[VP_MESSAGE_BYTES];
    int n = snprintf(text, sizeof(text), "supervisor %s %s", challenge,
                     hello->nonce);

    prove(token, text, n, out);
}

bool vp_same_proof(const char a[VP_PROOF_BYTES], const char b[VP_PROOF_BYTES])
{
    return vp_same_bytes(a, b, VP_PROOF_BYTES);
}
