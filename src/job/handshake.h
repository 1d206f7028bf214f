/* How a rank and its supervisor prove to each other that they know the token of
 * the job, which is never sent. S and R are random numbers that each side makes
 * anew for every connection, so that a proof that was overheard is worth
 * nothing on another one.
 *
 *   supervisor   challenge S
 *   rank         hello R PROOF ...    PROOF: HMAC(token, "rank", S, R, ...)
 *   supervisor   welcome PROOF        PROOF: HMAC(token, "supervisor", S, R)
 *
 * Messages after the handshake carry no code of their own. To put a line into an
 * established TCP connection, an attacker must see its packets or guess ports
 * and sequence numbers. One who sees and changes packets between hosts can
 * change the weights that MPI sends, too; codes here would not stop that. */
#ifndef VP_JOB_HANDSHAKE_H
#define VP_JOB_HANDSHAKE_H

#include "job/message.h"

/* A random number. False if the system gives none. */
bool vp_nonce_make(char out[VP_NONCE_BYTES]);
/* The proof of a hello that answers `challenge`; covers all its fields. */
void vp_prove_hello(const char *token, const char *challenge,
                    const struct vp_message *hello, char out[VP_PROOF_BYTES]);
/* The proof of the supervisor's answer to it. */
void vp_prove_welcome(const char *token, const char *challenge,
                      const struct vp_message *hello, char out[VP_PROOF_BYTES]);
bool vp_same_proof(const char a[VP_PROOF_BYTES], const char b[VP_PROOF_BYTES]);

#endif
