/* The handshake in which a rank and its supervisor prove to each other that
 * they have the token of the job, without sending it. S and R are random
 * numbers that each side makes anew for every connection, so that a recorded
 * proof is useless on another one.
 *
 *   supervisor   challenge S
 *   rank         hello R PROOF ...    PROOF: HMAC(token, "rank", S, R, ...)
 *   supervisor   welcome PROOF        PROOF: HMAC(token, "supervisor", S, R)
 *
 * Messages after the handshake are not authenticated. To insert a line into an
 * established TCP connection, an attacker must see its packets or guess ports
 * and sequence numbers. An attacker that can read and change packets between
 * hosts can also change the weights that MPI sends. */
#ifndef VP_JOB_HANDSHAKE_H
#define VP_JOB_HANDSHAKE_H

#include "job/message.h"

/* Writes a random number in hexadecimal. Returns false if getrandom() fails. */
bool vp_nonce_make(char out[VP_NONCE_BYTES]);
/* Writes the proof of a hello that answers `challenge`. It covers all fields of
 * the hello. */
void vp_prove_hello(const char *token, const char *challenge,
                    const struct vp_message *hello, char out[VP_PROOF_BYTES]);
/* Writes the proof of the supervisor's welcome for that hello. */
void vp_prove_welcome(const char *token, const char *challenge,
                      const struct vp_message *hello, char out[VP_PROOF_BYTES]);
/* Compares in constant time. */
bool vp_same_proof(const char a[VP_PROOF_BYTES], const char b[VP_PROOF_BYTES]);

#endif
