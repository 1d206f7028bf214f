/* Who may ask a dashboard: the Host header and the token. Pure. */
#ifndef VP_MONITOR_ACCESS_H
#define VP_MONITOR_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

/* Hexadecimal digits of 32 random bytes, with the final zero. */
enum { VP_TOKEN_BYTES = 65 };

/* Whether `text` is the token; the time does not depend on where they differ.
 * NULL is not. */
bool vp_access_is_token(const char *token, const char *text, size_t n_bytes);
/* Whether the header "Authorization: Bearer TOKEN", or the cookie `name` of the
 * header "Cookie", has the token. Both may be NULL. */
bool vp_access_has_bearer(const char *token, const char *authorization);
bool vp_access_has_cookie(const char *token, const char *name,
                          const char *cookies);

/* Whether a Host header, "name:port", names this server: an IP address, localhost,
 * or one of `names`, up to a NULL. */
bool vp_access_is_host(const char *host, const char *const *names);

#endif
