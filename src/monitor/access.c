/* Parses the headers Authorization, Cookie and Host. */
#include "monitor/access.h"

#include "base/sha256.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool vp_access_is_token(const char *token, const char *text, size_t n_bytes)
{
    return text && n_bytes == VP_TOKEN_BYTES - 1 &&
           vp_same_bytes(token, text, n_bytes);
}

bool vp_access_has_bearer(const char *token, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    const size_t n = sizeof(scheme) - 1;

    return authorization && strncasecmp(authorization, scheme, n) == 0 &&
           vp_access_is_token(token, authorization + n,
                              strlen(authorization + n));
}

bool vp_access_has_cookie(const char *token, const char *name,
                          const char *cookies)
{
    size_t n_name = strlen(name);
    bool found = false;

    while (cookies && *cookies) {
        size_t n;

        cookies += strspn(cookies, "; ");
        n = strcspn(cookies, ";");
        if (n > n_name && strncmp(cookies, name, n_name) == 0 &&
            cookies[n_name] == '=')
            found |= vp_access_is_token(token, cookies + n_name + 1,
                                        n - n_name - 1);
        cookies += n;
    }
    return found;
}

/* Writes the host without the port. Returns false if `host` is malformed. */
static bool split_host(const char *host, char *out, size_t n_bytes)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    size_t n = end ? (size_t)(end - host) - 1 : strcspn(host, ":");
    const char *port = end ? end + 1 : host + n;

    if (n == 0 || n >= n_bytes || (host[0] == '[' && !end))
        return false;
    if (*port && (*port != ':' || !port[1] ||
                  strspn(port + 1, "0123456789") != strlen(port + 1)))
        return false;
    snprintf(out, n_bytes, "%.*s", (int)n, end ? host + 1 : host);
    return true;
}

bool vp_access_is_host(const char *host, const char *const *names)
{
    unsigned char address[sizeof(struct in6_addr)];
    char name[256];

    if (!host || !split_host(host, name, sizeof(name)))
        return false;
    if (host[0] == '[')
        return inet_pton(AF_INET6, name, address) == 1;
    if (inet_pton(AF_INET, name, address) == 1 ||
        strcasecmp(name, "localhost") == 0)
        return true;
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}
