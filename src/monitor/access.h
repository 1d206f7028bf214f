/* Access control of the dashboard: checks the token and the Host header of a
 * request. Pure functions. */
#ifndef VP_MONITOR_ACCESS_H
#define VP_MONITOR_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

/* Size of a token: the hexadecimal digits of 32 random bytes, and a NUL. */
enum { VP_TOKEN_BYTES = 65 };

/* Returns true if `text`, which may be NULL, is the token. Compares in constant
 * time. */
bool vp_access_is_token(const char *token, const char *text, size_t n_bytes);
/* Return true if the header "Authorization: Bearer TOKEN", or the cookie `name`
 * in the header "Cookie", has the token. Headers may be NULL. */
bool vp_access_has_bearer(const char *token, const char *authorization);
bool vp_access_has_cookie(const char *token, const char *name,
                          const char *cookies);

/* Returns true if a Host header, "name:port", names this server: an IP address,
 * localhost, or one of `names`, a list that ends with NULL. */
bool vp_access_is_host(const char *host, const char *const *names);

#endif
