/* Finds this machine's addresses, makes the job's token, and prints and parses
 * the text form of a supervisor's address. */
#include "job/address.h"

#include "base/value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* ---- This machine ------------------------------------------------------- */

static void add_host(struct vp_address *out, const struct sockaddr *address)
{
    const struct sockaddr_in *in = (const void *)address;

    if (out->n_hosts == VP_MAX_ADDRESSES)
        return;
    if (inet_ntop(AF_INET, &in->sin_addr, out->hosts[out->n_hosts],
                  sizeof(out->hosts[0])))
        out->n_hosts++;
}

static bool is_wanted(const struct ifaddrs *it, const char *interface)
{
    if (!it->ifa_addr || it->ifa_addr->sa_family != AF_INET ||
        !(it->ifa_flags & IFF_UP))
        return false;
    if (interface)
        return strcmp(it->ifa_name, interface) == 0;
    return !(it->ifa_flags & IFF_LOOPBACK);
}

/* Writes the names of all IPv4 interfaces: "lo, eth0". */
static void name_all(const struct ifaddrs *list, char *out, size_t n)
{
    size_t used = 0;

    out[0] = '\0';
    for (const struct ifaddrs *it = list; it && used < n; it = it->ifa_next)
        if (it->ifa_addr && it->ifa_addr->sa_family == AF_INET)
            used += (size_t)snprintf(out + used, n - used, "%s%s",
                                     used ? ", " : "", it->ifa_name);
}

static enum vp_status use_loopback(struct vp_address *out)
{
    snprintf(out->hosts[0], sizeof(out->hosts[0]), "127.0.0.1");
    out->n_hosts = 1;
    return VP_OK;
}

enum vp_status vp_address_find(const char *interface, bool local,
                               struct vp_address *out, struct vp_err *err)
{
    struct ifaddrs *list;
    char names[256];

    *out = (struct vp_address){ 0 };
    if (local && !interface)
        return use_loopback(out);
    if (getifaddrs(&list) != 0)
        return vp_err_set(err, VP_ERR_IO,
                          "this machine's network interfaces cannot be listed "
                          "(%s)",
                          strerror(errno));
    for (const struct ifaddrs *it = list; it; it = it->ifa_next)
        if (is_wanted(it, interface))
            add_host(out, it->ifa_addr);
    name_all(list, names, sizeof(names));
    freeifaddrs(list);
    if (out->n_hosts > 0)
        return local ? use_loopback(out) : VP_OK;
    if (interface)
        return vp_err_refuse(err, "network_interface",
                             "key 'network_interface': this machine has no "
                             "interface '%s' that is up; use one of %s",
                             interface, names);
    return vp_err_set(err, VP_ERR_INVALID,
                      "this machine has no network interface but %s, so other "
                      "hosts cannot reach it; connect it to their network",
                      names);
}

enum vp_status vp_address_make_token(struct vp_address *out, struct vp_err *err)
{
    unsigned char bytes[sizeof(out->token) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return vp_err_set(err, VP_ERR_IO,
                          "the kernel returned no random bytes (%s)",
                          strerror(errno));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out->token + 2 * i, 3, "%02x", bytes[i]);
    return VP_OK;
}

/* ---- Text --------------------------------------------------------------- */

void vp_address_print(const struct vp_address *address, char *out, size_t n)
{
    size_t used = 0;

    if (address->path[0]) {
        snprintf(out, n, "%s:%s", address->path, address->token);
        return;
    }
    for (int i = 0; i < address->n_hosts && used < n; i++)
        used += (size_t)snprintf(out + used, n - used, "%s%s", i ? "," : "",
                                 address->hosts[i]);
    if (used < n)
        snprintf(out + used, n - used, ":%d:%s", address->port, address->token);
}

/* Copies the text up to the first of `ends` and moves `*at` there. Returns
 * false if that text is empty or does not fit into `n` bytes. */
static bool take(const char **at, const char *ends, char *out, size_t n)
{
    size_t length = strcspn(*at, ends);

    if (length == 0 || length >= n)
        return false;
    memcpy(out, *at, length);
    out[length] = '\0';
    *at += length;
    return true;
}

static bool take_token(const char **at, struct vp_address *out)
{
    return *(*at)++ == ':' && take(at, " :", out->token, sizeof(out->token)) &&
           **at == '\0';
}

bool vp_address_parse(const char *text, struct vp_address *out)
{
    const char *at = text;
    char number[16];
    int64_t port;

    *out = (struct vp_address){ 0 };
    if (text[0] == '/')
        return take(&at, ":", out->path, sizeof(out->path)) &&
               take_token(&at, out);
    do {
        at += out->n_hosts > 0; /* the comma */
        if (out->n_hosts == VP_MAX_ADDRESSES ||
            !take(&at, ",:", out->hosts[out->n_hosts], sizeof(out->hosts[0])))
            return false;
        out->n_hosts++;
    } while (*at == ',');
    if (*at++ != ':' || !take(&at, ":", number, sizeof(number)) ||
        !vp_text_to_i64(number, &port) || port < 1 || port > 65535)
        return false;
    out->port = (int)port;
    return take_token(&at, out);
}
