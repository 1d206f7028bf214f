/* Where a supervisor listens, as ranks are told: "10.0.0.1,10.1.0.1:4711:TOKEN".
 * The addresses are tried one after the other; whoever does not know the token
 * is not listened to. Private to launch. */
#ifndef VP_LAUNCH_ADDRESS_H
#define VP_LAUNCH_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>

enum { VP_MAX_ADDRESSES = 8 };

struct vp_address {
    char hosts[VP_MAX_ADDRESSES][48]; /* numbers, not names */
    int n_hosts;
    int port;
    char token[40];
};

/* This machine's addresses: of one interface, or of all that are up; without
 * others, the one for ranks on this machine alone. */
enum vp_status vp_address_find(const char *interface, bool local,
                               struct vp_address *out, struct vp_err *err);
/* A token that nobody can guess. */
enum vp_status vp_address_make_token(struct vp_address *out,
                                     struct vp_err *err);

void vp_address_print(const struct vp_address *address, char *out, size_t n);
bool vp_address_parse(const char *text, struct vp_address *out);

#endif
