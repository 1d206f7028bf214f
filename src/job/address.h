/* Where a supervisor listens, and the token that it shares with its ranks, as
 * one text: "/run/user/1000/vpipe-1000-aB3xYz/socket:TOKEN" or, by TCP,
 * "10.0.0.1,10.1.0.1:4711:TOKEN", whose addresses are tried one after the other. */
#ifndef VP_JOB_ADDRESS_H
#define VP_JOB_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>

enum { VP_MAX_ADDRESSES = 8 };

struct vp_address {
    char path[108];                   /* of a local socket; empty: TCP */
    char hosts[VP_MAX_ADDRESSES][48]; /* numbers, not names */
    int n_hosts;
    int port;
    char token[65]; /* hexadecimal digits */
};

/* This machine's addresses for TCP: of `interface`, or of all that are up if it
 * is NULL. With `local`, the loopback address; `interface` is checked only. */
enum vp_status vp_address_find(const char *interface, bool local,
                               struct vp_address *out, struct vp_err *err);
/* 256 random bits. */
enum vp_status vp_address_make_token(struct vp_address *out,
                                     struct vp_err *err);

void vp_address_print(const struct vp_address *address, char *out, size_t n);
bool vp_address_parse(const char *text, struct vp_address *out);

#endif
