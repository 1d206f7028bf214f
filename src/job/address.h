/* The address at which a supervisor listens, and the token that it shares with
 * its ranks, as one text: "/run/user/1000/vpipe-1000-aB3xYz/socket:TOKEN" or,
 * by TCP, "10.0.0.1,10.1.0.1:4711:TOKEN". Ranks try the addresses in this
 * order. */
#ifndef VP_JOB_ADDRESS_H
#define VP_JOB_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>

enum { VP_MAX_ADDRESSES = 8 };

struct vp_address {
    char path[108];                   /* the local socket; empty: TCP */
    char hosts[VP_MAX_ADDRESSES][48]; /* IPv4 addresses, not host names */
    int n_hosts;
    int port;
    char token[65]; /* hexadecimal digits */
};

/* Fills `out` with this machine's IPv4 addresses: those of `interface`, or of
 * all interfaces that are up if `interface` is NULL. With `local`, fills in
 * only the loopback address, and checks that `interface` exists and is up.
 * Fails with VP_ERR_INVALID if there is no such interface. */
enum vp_status vp_address_find(const char *interface, bool local,
                               struct vp_address *out, struct vp_err *err);
/* Fills out->token with 256 random bits in hexadecimal. */
enum vp_status vp_address_make_token(struct vp_address *out,
                                     struct vp_err *err);

/* Writes the text form, cut off at `n` bytes. */
void vp_address_print(const struct vp_address *address, char *out, size_t n);
/* Returns false if `text` is not an address. */
bool vp_address_parse(const char *text, struct vp_address *out);

#endif
