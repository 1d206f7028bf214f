/* Superblock and root group of an HDF5 file: finds the headers of the named
 * data sets and has each data set checked. */
#include "data/hdf5_check.h"

#include "data/hdf5_parse.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRY_BYTES = 40, MAX_NAMES = 16 };

/* The required data sets and the addresses of their headers. */
struct wanted {
    const char *const *names;
    int n;
    uint64_t headers[MAX_NAMES]; /* VP_H5_NOWHERE: not found yet */
};

/* ---- Superblock --------------------------------------------------------- */

/* Address of the root group's header. A classic superblock may also hold copies
 * of two addresses from that header. */
struct root {
    uint64_t header;
    bool has_copy; /* `tree` and `heap` are set */
    uint64_t tree, heap;
};

/* Superblock 0 and 1, sizes in bytes: signature (8), versions and sizes (8),
 * node sizes (8 or 12), addresses of base, free space, end and driver (8 each),
 * symbol table entry of the root group. */
static enum vp_status read_classic(struct vp_h5 *h5, int version,
                                   struct root *root)
{
    uint64_t n_head = version == 0 ? 24 : 28;
    unsigned char b[100], *p = b + n_head;

    VP_TRY(vp_h5_fetch(h5, 0, n_head + 72, b));
    h5->leaf_k = vp_h5_number(b + 16, 2);
    h5->group_k = vp_h5_number(b + 18, 2);
    h5->chunk_k = version == 0 ? 32 : vp_h5_number(b + 24, 2);
    if (b[9] != 0 || b[10] != 0 || b[12] != 0 || b[13] != 8 || b[14] != 8 ||
        h5->leaf_k == 0 || h5->group_k == 0 || h5->chunk_k == 0 ||
        vp_h5_number(p, 8) != 0 || vp_h5_number(p + 24, 8) != VP_H5_NOWHERE ||
        vp_h5_number(p + 48, 4) > 1)
        return vp_h5_damaged(h5,
                             "its superblock is not valid for a single file");
    h5->end = vp_h5_number(p + 16, 8);
    root->header = vp_h5_number(p + 40, 8);
    root->has_copy = vp_h5_number(p + 48, 4) == 1;
    root->tree = vp_h5_number(p + 56, 8);
    root->heap = vp_h5_number(p + 64, 8);
    return VP_OK;
}

/* Superblock 2 and 3: signature (8), version and sizes (4), addresses of base,
 * extension, end and root (8 each). Extensions are refused because they can
 * change node sizes. */
static enum vp_status read_new(struct vp_h5 *h5, struct root *root)
{
    unsigned char b[48];

    VP_TRY(vp_h5_fetch(h5, 0, 48, b));
    if (b[9] != 8 || b[10] != 8 || vp_h5_number(b + 12, 8) != 0)
        return vp_h5_damaged(h5,
                             "its superblock is not valid for a single file");
    h5->chunk_k = 32;
    h5->end = vp_h5_number(b + 28, 8);
    root->header = vp_h5_number(b + 36, 8);
    if (vp_h5_number(b + 20, 8) != VP_H5_NOWHERE)
        return vp_h5_refuse(h5, "has an extension at byte",
                            vp_h5_number(b + 20, 8),
                            "write it with the default settings of HDF5");
    return VP_OK;
}

static enum vp_status read_superblock(struct vp_h5 *h5, struct root *root)
{
    static const unsigned char signature[8] = "\211HDF\r\n\032\n";
    uint64_t n_bytes = h5->bytes->n_bytes;
    unsigned char b[9] = { 0 };

    h5->end = n_bytes;
    if (n_bytes >= sizeof(b))
        VP_TRY(vp_h5_fetch(h5, 0, sizeof(b), b));
    if (memcmp(b, signature, sizeof(signature)) != 0)
        return vp_err_set(h5->err, VP_ERR_INVALID,
                          "%s: is not an HDF5 file; " VP_H5_ANEW
                          ", or move it out of data_dir",
                          h5->bytes->path);
    h5->is_classic = b[8] < 2;
    if (b[8] > 3)
        return vp_h5_refuse(h5, "has a superblock of version", b[8],
                            "write it in the format of HDF5 1.10 or 1.8");
    VP_TRY(h5->is_classic ? read_classic(h5, b[8], root) : read_new(h5, root));
    if (h5->end > n_bytes)
        return vp_h5_damaged(h5, "has %llu of %llu bytes",
                             (unsigned long long)n_bytes,
                             (unsigned long long)h5->end);
    return VP_OK;
}

/* ---- Names, classic: a heap of strings, a tree of symbol tables --------- */

static enum vp_status read_heap(struct vp_h5 *h5, uint64_t at)
{
    unsigned char b[32];
    uint64_t hole;

    VP_TRY(vp_h5_take(h5, (struct vp_h5_part){ at, 32 }, "a heap"));
    VP_TRY(vp_h5_fetch(h5, at, 32, b));
    if (memcmp(b, "HEAP", 5) != 0)
        return vp_h5_damaged(h5, "byte %llu does not begin a heap",
                             (unsigned long long)at);
    h5->heap = (struct vp_h5_part){ vp_h5_number(b + 24, 8),
                                    vp_h5_number(b + 8, 8) };
    VP_TRY(vp_h5_take(h5, h5->heap, "a heap"));
    /* Holes are a linked list of offsets; offset 1 ends it. */
    for (hole = vp_h5_number(b + 16, 8); hole != 1; hole = vp_h5_number(b, 8)) {
        VP_TRY(vp_h5_step(h5));
        if (hole > h5->heap.n || h5->heap.n - hole < 16)
            return vp_h5_damaged(h5, "a hole is outside its heap");
        VP_TRY(vp_h5_fetch(h5, h5->heap.at + hole, 16, b));
        if (vp_h5_number(b + 8, 8) < 16 ||
            vp_h5_number(b + 8, 8) > h5->heap.n - hole)
            return vp_h5_damaged(h5, "a hole is larger than its heap");
    }
    return VP_OK;
}

/* Reads the name at `offset` of the heap and checks that it ends inside the
 * heap. *which_out: its index in `wanted`, or -1. */
static enum vp_status read_name(struct vp_h5 *h5, uint64_t offset,
                                const struct wanted *wanted, int *which_out)
{
    char name[64];
    size_t n = 0;
    unsigned char byte;

    do {
        if (offset >= h5->heap.n)
            return vp_h5_damaged(h5, "a name does not end");
        VP_TRY(vp_h5_fetch(h5, h5->heap.at + offset++, 1, &byte));
        if (n < sizeof(name))
            name[n++] = (char)byte;
    } while (byte != 0);
    *which_out = -1;
    for (int i = 0; i < wanted->n; i++) {
        if (n == strlen(wanted->names[i]) + 1 &&
            memcmp(name, wanted->names[i], n) == 0)
            *which_out = i;
    }
    return VP_OK;
}

/* Each entry: name (8), header (8), cache type (4), reserved and cache (20). */
static enum vp_status read_symbols(struct vp_h5 *h5, uint64_t at,
                                   struct wanted *wanted)
{
    uint64_t capacity = 2 * h5->leaf_k, n;
    unsigned char b[ENTRY_BYTES];
    int which = -1;

    VP_TRY(vp_h5_take(h5, (struct vp_h5_part){ at, 8 + capacity * ENTRY_BYTES },
                      "a symbol table"));
    VP_TRY(vp_h5_fetch(h5, at, 8, b));
    n = vp_h5_number(b + 6, 2);
    if (memcmp(b, "SNOD\1", 5) != 0 || n > capacity)
        return vp_h5_damaged(h5, "byte %llu does not begin a symbol table",
                             (unsigned long long)at);
    for (uint64_t i = 0; i < n; i++) {
        VP_TRY(vp_h5_step(h5));
        VP_TRY(vp_h5_fetch(h5, at + 8 + i * ENTRY_BYTES, ENTRY_BYTES, b));
        VP_TRY(read_name(h5, vp_h5_number(b, 8), wanted, &which));
        if (vp_h5_number(b + 16, 4) > 2)
            return vp_h5_damaged(h5, "a symbol has an unknown type");
        if (which < 0)
            continue;
        if (wanted->headers[which] != VP_H5_NOWHERE ||
            vp_h5_number(b + 16, 4) == 2)
            return vp_h5_damaged(h5, "%s occurs twice or is a link",
                                 wanted->names[which]);
        wanted->headers[which] = vp_h5_number(b + 8, 8);
    }
    return VP_OK;
}

/* Keys are offsets of names; children are nodes or, at level 0, symbol
 * tables. */
static enum vp_status read_tree(struct vp_h5 *h5, uint64_t at, int level,
                                struct wanted *wanted)
{
    unsigned char b[24];
    uint64_t n;
    int which = -1;

    VP_TRY(vp_h5_node(h5, at, 0, 2 * h5->group_k, 8, &level, &n));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t child;

        VP_TRY(vp_h5_fetch(h5, at + 24 + 16 * i, 24, b));
        child = vp_h5_number(b + 8, 8);
        VP_TRY(read_name(h5, vp_h5_number(b, 8), wanted, &which));
        VP_TRY(read_name(h5, vp_h5_number(b + 16, 8), wanted, &which));
        VP_TRY(level == 0 ? read_symbols(h5, child, wanted)
                          : read_tree(h5, child, level - 1, wanted));
    }
    return VP_OK;
}

static enum vp_status find_classic(struct vp_h5 *h5, const struct root *root,
                                   const struct vp_h5_header *header,
                                   struct wanted *wanted)
{
    struct vp_h5_part group = header->message[VP_H5_GROUP];
    uint64_t tree, heap;
    unsigned char b[16];

    if (group.n < 16)
        return vp_h5_damaged(h5, "its root is not a group");
    VP_TRY(vp_h5_fetch(h5, group.at, 16, b));
    tree = vp_h5_number(b, 8);
    heap = vp_h5_number(b + 8, 8);
    if (root->has_copy && (root->tree != tree || root->heap != heap))
        return vp_h5_damaged(h5, "superblock and root header name different "
                                 "root groups");
    VP_TRY(read_heap(h5, heap));
    return read_tree(h5, tree, -1, wanted);
}

/* ---- Names, new: link messages ------------------------------------------ */

/* Version and flags (1 each); depending on flags: type (1), creation order (8),
 * character set (1); length of the name (1, 2, 4 or 8), name; for a hard link
 * its address (8). Links that are too short are skipped: the header has a
 * checksum, so they are not damaged, but of another kind. */
static enum vp_status read_link(struct vp_h5 *h5, struct vp_h5_part link,
                                struct wanted *wanted)
{
    unsigned char b[128];
    uint64_t n = link.n < sizeof(b) ? link.n : sizeof(b);
    uint64_t at = 2, n_name;
    int n_length;

    VP_TRY(vp_h5_fetch(h5, link.at, n, b));
    if (n < 16 || b[0] != 1 || ((b[1] & 0x08) && b[2] != 0))
        return VP_OK;
    at += (b[1] & 0x08 ? 1 : 0) + (b[1] & 0x04 ? 8 : 0) + (b[1] & 0x10 ? 1 : 0);
    n_length = 1 << (b[1] & 3);
    if (at + (uint64_t)n_length > n)
        return VP_OK;
    n_name = vp_h5_number(b + at, n_length);
    at += (uint64_t)n_length;
    if (n_name > n - at || n - at - n_name < 8)
        return VP_OK;
    for (int i = 0; i < wanted->n; i++) {
        if (n_name == strlen(wanted->names[i]) &&
            memcmp(b + at, wanted->names[i], n_name) == 0)
            wanted->headers[i] = vp_h5_number(b + at + n_name, 8);
    }
    return VP_OK;
}

/* Version and flags (1 each); depending on flags: creation order (8); address
 * of a heap (8), which is used if there are more links than fit in the
 * header. */
static enum vp_status find_new(struct vp_h5 *h5,
                               const struct vp_h5_header *header,
                               struct wanted *wanted)
{
    struct vp_h5_part info = header->message[VP_H5_LINK_INFO];
    unsigned char b[18];
    uint64_t n, heap;

    if (info.n < 2)
        return vp_h5_damaged(h5, "its root is not a group");
    VP_TRY(vp_h5_fetch(h5, info.at, info.n < 18 ? info.n : 18, b));
    n = b[1] & 1 ? 18 : 10;
    if (info.n < n)
        return vp_h5_damaged(h5, "its root is not a group");
    heap = vp_h5_number(b + n - 8, 8);
    if (heap != VP_H5_NOWHERE)
        return vp_h5_refuse(h5, "has its names in a heap at byte", heap,
                            "write at most 8 data sets into a shard");
    for (int i = 0; i < header->n_links; i++)
        VP_TRY(read_link(h5, header->links[i], wanted));
    return VP_OK;
}

static enum vp_status check_all(struct vp_h5 *h5, const char *const *names,
                                int n_names)
{
    struct wanted wanted = { .names = names, .n = n_names };
    struct vp_h5_header header;
    struct root root = { 0 };

    VP_BUG_ON(n_names > MAX_NAMES);
    for (int i = 0; i < n_names; i++)
        wanted.headers[i] = VP_H5_NOWHERE;
    VP_TRY(read_superblock(h5, &root));
    VP_TRY(vp_h5_take(h5, (struct vp_h5_part){ 0, 48 }, "a superblock"));
    VP_TRY(vp_h5_header(h5, root.header, &header));
    VP_TRY(h5->is_classic ? find_classic(h5, &root, &header, &wanted)
                          : find_new(h5, &header, &wanted));
    for (int i = 0; i < n_names; i++) {
        h5->place = names[i];
        if (wanted.headers[i] == VP_H5_NOWHERE)
            return vp_err_set(h5->err, VP_ERR_INVALID,
                              "%s: %s: there is no such data set; write it, "
                              "or move the file out of data_dir",
                              h5->bytes->path, names[i]);
        VP_TRY(vp_h5_header(h5, wanted.headers[i], &header));
        VP_TRY(vp_h5_check_set(h5, &header));
    }
    return vp_h5_check_taken(h5);
}

enum vp_status vp_h5_check(const struct vp_h5_bytes *bytes,
                           const char *const *names, int n_names,
                           struct vp_err *err)
{
    struct vp_h5 h5 = { .bytes = bytes, .err = err };
    enum vp_status st = check_all(&h5, names, n_names);

    free(h5.taken);
    return st;
}
