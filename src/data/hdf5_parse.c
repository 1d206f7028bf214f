/* Reads bytes, tree nodes and object headers of an HDF5 file, with all checks
 * of addresses and sizes. */
#include "data/hdf5_parse.h"

#include "base/blocking.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SHARED = 0x02,  /* flag of a message that is stored elsewhere */
    MAX_LEVEL = 8,  /* highest level of a tree: allows more than 64^8 leaves */
    MAX_PARTS = 64, /* largest number of parts of an object header */
};

#define BIT(name) (1u << VP_H5_##name)

/* Messages that a classic header may have. libhdf5 does not parse the last four
 * when it opens a data set. */
#define KNOWN                                                              \
    (BIT(NIL) | BIT(SPACE) | BIT(TYPE) | BIT(OLD_FILL) | BIT(FILL) |       \
     BIT(EXTERNAL) | BIT(LAYOUT) | BIT(FILTERS) | BIT(MORE) | BIT(GROUP) | \
     BIT(ATTRIBUTE) | BIT(COMMENT) | BIT(OLD_TIME) | BIT(TIME))
/* Messages that may occur more than once. */
#define MANY (BIT(NIL) | BIT(ATTRIBUTE) | BIT(MORE) | BIT(LINK))

/* ---- Bytes -------------------------------------------------------------- */

enum vp_status vp_h5_damaged(struct vp_h5 *h5, const char *fmt, ...)
{
    char cause[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cause, sizeof(cause), fmt, args);
    va_end(args);
    return vp_err_set(h5->err, VP_ERR_INVALID,
                      "%s: %s%s%s, so it is damaged; " VP_H5_ANEW,
                      h5->bytes->path, h5->place ? h5->place : "",
                      h5->place ? ": " : "", cause);
}

enum vp_status vp_h5_refuse(struct vp_h5 *h5, const char *what, uint64_t n,
                            const char *remedy)
{
    return vp_err_set(h5->err, VP_ERR_INVALID, "%s: %s%s%s %llu; %s",
                      h5->bytes->path, h5->place ? h5->place : "",
                      h5->place ? ": " : "", what, (unsigned long long)n,
                      remedy);
}

static enum vp_status move_window(struct vp_h5 *h5, uint64_t at)
{
    uint64_t left = h5->bytes->n_bytes - at;
    size_t want = left < VP_H5_WINDOW ? (size_t)left : VP_H5_WINDOW;
    size_t n = 0;

    h5->window_at = at;
    h5->n_window = 0;
    while (n < want) {
        int call = vp_blocking_begin(VP_BLOCKING_FILE, "reading",
                                     h5->bytes->path, -1);
        ssize_t got = pread(h5->bytes->fd, h5->window + n, want - n,
                            (off_t)(at + n));

        vp_blocking_end(call);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return vp_err_set(h5->err, VP_ERR_IO,
                              "%s: cannot be read at byte %llu: %s; check the "
                              "disk that holds data_dir",
                              h5->bytes->path, (unsigned long long)(at + n),
                              got < 0 ? strerror(errno) : "the file ends");
        n += (size_t)got;
    }
    h5->n_window = want;
    return VP_OK;
}

enum vp_status vp_h5_fetch(struct vp_h5 *h5, uint64_t at, uint64_t n,
                           unsigned char *out)
{
    VP_BUG_ON(n > VP_H5_WINDOW);
    VP_TRY(vp_h5_inside(h5, (struct vp_h5_part){ at, n }, "a structure"));
    if (h5->bytes->image) {
        memcpy(out, h5->bytes->image + at, (size_t)n);
        return VP_OK;
    }
    if (at < h5->window_at || at + n > h5->window_at + h5->n_window)
        VP_TRY(move_window(h5, at));
    memcpy(out, h5->window + (at - h5->window_at), (size_t)n);
    return VP_OK;
}

enum vp_status vp_h5_inside(struct vp_h5 *h5, struct vp_h5_part part,
                            const char *what)
{
    if (part.at > h5->end || part.n > h5->end - part.at)
        return vp_h5_damaged(h5,
                             "%s of %llu bytes at byte %llu is outside the "
                             "file",
                             what, (unsigned long long)part.n,
                             (unsigned long long)part.at);
    return VP_OK;
}

enum vp_status vp_h5_take(struct vp_h5 *h5, struct vp_h5_part part,
                          const char *what)
{
    VP_TRY(vp_h5_inside(h5, part, what));
    if (h5->n_taken == h5->capacity) {
        size_t capacity = h5->capacity ? 2 * h5->capacity : 256;
        void *grown = realloc(h5->taken, capacity * sizeof(*h5->taken));

        if (!grown)
            return vp_err_set(h5->err, VP_ERR_NOMEM, "%s: out of memory",
                              h5->bytes->path);
        h5->taken = grown;
        h5->capacity = capacity;
    }
    h5->taken[h5->n_taken++] = part;
    return VP_OK;
}

static int compare_parts(const void *a, const void *b)
{
    const struct vp_h5_part *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

enum vp_status vp_h5_check_taken(struct vp_h5 *h5)
{
    h5->place = NULL;
    qsort(h5->taken, h5->n_taken, sizeof(*h5->taken), compare_parts);
    for (size_t i = 1; i < h5->n_taken; i++) {
        if (h5->taken[i].at - h5->taken[i - 1].at < h5->taken[i - 1].n)
            return vp_h5_damaged(h5, "byte %llu belongs to two structures",
                                 (unsigned long long)h5->taken[i].at);
    }
    return VP_OK;
}

enum vp_status vp_h5_step(struct vp_h5 *h5)
{
    if (h5->n_steps++ > h5->bytes->n_bytes)
        return vp_h5_damaged(h5, "a list or tree is linked in a circle");
    return VP_OK;
}

enum vp_status vp_h5_node(struct vp_h5 *h5, uint64_t at, int type,
                          uint64_t capacity, uint64_t key, int *level,
                          uint64_t *n_out)
{
    uint64_t n_bytes = 24 + capacity * (key + 8) + key;
    unsigned char b[24];

    VP_TRY(vp_h5_step(h5));
    VP_TRY(vp_h5_take(h5, (struct vp_h5_part){ at, n_bytes }, "a node"));
    VP_TRY(vp_h5_fetch(h5, at, 24, b));
    *n_out = vp_h5_number(b + 6, 2);
    if (memcmp(b, "TREE", 4) != 0 || b[4] != type || *n_out > capacity ||
        b[5] > MAX_LEVEL || (*level >= 0 && b[5] != *level))
        return vp_h5_damaged(h5, "byte %llu does not begin a node of its tree",
                             (unsigned long long)at);
    *level = b[5];
    return VP_OK;
}

/* ---- Object headers ----------------------------------------------------- */

/* The parts of a header; messages VP_H5_MORE add parts while it is read. */
struct parts {
    struct vp_h5_part part[MAX_PARTS];
    int n;
    int head; /* size of a message's head */
    uint64_t n_messages;
};

static enum vp_status take_message(struct vp_h5 *h5, uint64_t type,
                                   struct vp_h5_part at, struct parts *parts,
                                   struct vp_h5_header *header)
{
    unsigned char b[16];

    if (type >= VP_H5_N_MESSAGES)
        return VP_OK;
    if (header->message[type].n > 0 && !(MANY >> type & 1))
        return vp_h5_damaged(h5, "header message %d occurs twice", (int)type);
    header->message[type] = at;
    if (type == VP_H5_LINK) {
        if (header->n_links == VP_H5_MAX_LINKS)
            return vp_h5_refuse(h5, "has more data sets than", VP_H5_MAX_LINKS,
                                "write fewer into a shard");
        header->links[header->n_links++] = at;
    }
    if (type != VP_H5_MORE)
        return VP_OK;
    if (at.n < 16 || parts->n == MAX_PARTS)
        return vp_h5_damaged(h5, "its header does not end");
    VP_TRY(vp_h5_fetch(h5, at.at, 16, b));
    parts->part[parts->n++] = (struct vp_h5_part){ vp_h5_number(b, 8),
                                                   vp_h5_number(b + 8, 8) };
    return VP_OK;
}

/* Head of a message, classic: type (2), size (2), flags (1), reserved (3);
 * sizes are multiples of 8. New: type (1), size (2), flags (1), optionally a
 * creation order (2); a gap may follow the last message. */
static enum vp_status read_messages(struct vp_h5 *h5, struct vp_h5_part part,
                                    struct parts *parts,
                                    struct vp_h5_header *header)
{
    uint64_t head = (uint64_t)parts->head;
    unsigned char b[8];

    if (part.n < head)
        return vp_h5_damaged(h5, "a part of its header is empty");
    VP_TRY(vp_h5_take(h5, part, "a header"));
    while (part.n >= (h5->is_classic ? 1 : head)) {
        uint64_t type, n;
        int flags;

        if (part.n < head)
            return vp_h5_damaged(h5, "a header has %d bytes too many",
                                 (int)part.n);
        VP_TRY(vp_h5_fetch(h5, part.at, head, b));
        type = vp_h5_number(b, h5->is_classic ? 2 : 1);
        n = vp_h5_number(b + (h5->is_classic ? 2 : 1), 2);
        flags = b[h5->is_classic ? 4 : 3];
        part.at += head;
        part.n -= head;
        if (n > part.n || (h5->is_classic && n % 8 != 0))
            return vp_h5_damaged(h5,
                                 "a message of %d bytes does not fit its "
                                 "header",
                                 (int)n);
        if (h5->is_classic && (type >= VP_H5_N_MESSAGES ||
                               !(KNOWN >> type & 1) || (flags & SHARED)))
            return vp_h5_refuse(h5, "has the unexpected header message", type,
                                "write the shard with plain data sets");
        VP_TRY(take_message(h5, type, (struct vp_h5_part){ part.at, n }, parts,
                            header));
        part.at += n;
        part.n -= n;
        parts->n_messages++;
    }
    return VP_OK;
}

static enum vp_status read_classic(struct vp_h5 *h5, uint64_t at,
                                   struct vp_h5_header *header)
{
    struct parts parts = { .n = 1, .head = 8 };
    unsigned char b[16];

    VP_TRY(vp_h5_fetch(h5, at, 16, b));
    if (b[0] != 1)
        return vp_h5_damaged(h5, "byte %llu does not begin a header",
                             (unsigned long long)at);
    parts.part[0] = (struct vp_h5_part){ at + 16, vp_h5_number(b + 8, 4) };
    for (int i = 0; i < parts.n; i++)
        VP_TRY(read_messages(h5, parts.part[i], &parts, header));
    if (parts.n_messages != vp_h5_number(b + 2, 2))
        return vp_h5_damaged(h5, "its header has %d of %d messages",
                             (int)parts.n_messages,
                             (int)vp_h5_number(b + 2, 2));
    return VP_OK;
}

#define ROTATE(x, k) ((x) << (k) | (x) >> (32 - (k)))

/* Bob Jenkins' lookup3, the checksum at the end of each part of a new
 * header. */
static void mix(uint32_t *h)
{
    static const int turns[6] = { 4, 6, 8, 16, 19, 4 };

    for (int i = 0; i < 6; i++) {
        uint32_t *a = &h[i % 3], *b = &h[(i + 1) % 3], *c = &h[(i + 2) % 3];

        *a -= *c;
        *a ^= ROTATE(*c, turns[i]);
        *c += *b;
    }
}

static void mix_last(uint32_t *h)
{
    static const int turns[7] = { 14, 11, 25, 16, 4, 14, 24 };

    for (int i = 0; i < 7; i++) {
        uint32_t *a = &h[(i + 2) % 3], *b = &h[(i + 1) % 3];

        *a ^= *b;
        *a -= ROTATE(*b, turns[i]);
    }
}

/* Checks that the last 4 bytes are the checksum of the bytes before them. */
static enum vp_status check_sum(struct vp_h5 *h5, struct vp_h5_part part)
{
    uint64_t n = part.n - 4;
    uint32_t h[3];
    unsigned char b[12];

    h[0] = h[1] = h[2] = 0xDEADBEEFu + (uint32_t)n;
    for (uint64_t i = 0; i < n; i += 12) {
        memset(b, 0, sizeof(b));
        VP_TRY(vp_h5_fetch(h5, part.at + i, n - i < 12 ? n - i : 12, b));
        for (int k = 0; k < 3; k++)
            h[k] += (uint32_t)vp_h5_number(b + 4 * k, 4);
        if (n - i > 12)
            mix(h);
        else
            mix_last(h);
    }
    VP_TRY(vp_h5_fetch(h5, part.at + n, 4, b));
    if (vp_h5_number(b, 4) != h[2])
        return vp_h5_damaged(h5, "the checksum of its header does not match");
    return VP_OK;
}

/* "OHDR", version, flags; depending on flags: times (16), limits (4); size of
 * the first part. All parts end in a checksum. Parts after the first also begin
 * with a signature, and their size includes both. */
static enum vp_status read_new(struct vp_h5 *h5, uint64_t at,
                               struct vp_h5_header *header)
{
    struct parts parts = { .n = 1 };
    uint64_t begin = at;
    unsigned char b[8];
    int n_size;

    VP_TRY(vp_h5_fetch(h5, at, 6, b));
    if (memcmp(b, "OHDR\2", 5) != 0)
        return vp_h5_damaged(h5, "byte %llu does not begin a header",
                             (unsigned long long)at);
    parts.head = b[5] & 0x04 ? 6 : 4;
    n_size = 1 << (b[5] & 3);
    at += 6 + (b[5] & 0x20 ? 16 : 0) + (b[5] & 0x10 ? 4 : 0);
    VP_TRY(vp_h5_fetch(h5, at, (uint64_t)n_size, b));
    parts.part[0] = (struct vp_h5_part){ at + (uint64_t)n_size,
                                         vp_h5_number(b, n_size) };
    for (int i = 0; i < parts.n; i++) {
        struct vp_h5_part part = parts.part[i], whole = part;

        VP_TRY(vp_h5_inside(h5, part, "a header"));
        if (i == 0)
            whole = (struct vp_h5_part){ begin, part.at - begin + part.n + 4 };
        if (whole.n < 8)
            return vp_h5_damaged(h5, "its header is cut off");
        VP_TRY(check_sum(h5, whole));
        if (i > 0)
            part = (struct vp_h5_part){ part.at + 4, part.n - 8 };
        VP_TRY(read_messages(h5, part, &parts, header));
    }
    return VP_OK;
}

enum vp_status vp_h5_header(struct vp_h5 *h5, uint64_t at,
                            struct vp_h5_header *header)
{
    memset(header, 0, sizeof(*header));
    return h5->is_classic ? read_classic(h5, at, header)
                          : read_new(h5, at, header);
}
