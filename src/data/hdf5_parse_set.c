/* Checks one data set of an HDF5 file: type, shape, filters, and that all of
 * its bytes or chunks are stored. */
#include "data/hdf5_parse.h"

enum { MAX_RANK = 32 };
enum { FILTER_GZIP = 1, FILTER_SHUFFLE, FILTER_FLETCHER, N_FILTERS };
enum { LAYOUT_COMPACT, LAYOUT_CONTIGUOUS, LAYOUT_CHUNKED };

struct set {
    int rank;
    uint64_t dim[MAX_RANK];
    uint64_t element; /* bytes */
    uint64_t n_bytes;
    int n_filters;
    int filter[N_FILTERS]; /* in the order in which writing applies them */

    /* Chunks: */
    uint64_t chunk[MAX_RANK + 1]; /* shape; last: bytes of an element */
    uint64_t chunk_bytes;
    uint64_t n_chunks; /* found so far */
};

/* ---- Type, shape, fill value -------------------------------------------- */

/* Class and version (1), details (3), size (4); offset (2), precision (2). */
static enum vp_status read_type(struct vp_h5 *h5, struct vp_h5_part part,
                                struct set *set)
{
    unsigned char b[12];
    int kind;

    if (part.n < 12)
        return vp_h5_damaged(h5, "it has no type");
    VP_TRY(vp_h5_fetch(h5, part.at, 12, b));
    kind = b[0] & 0x0F;
    set->element = vp_h5_number(b + 4, 4);
    if (kind > 10)
        return vp_h5_damaged(h5, "its type is invalid");
    if (kind != 0)
        return vp_h5_refuse(h5, "must hold integers, but has type class",
                            (uint64_t)kind,
                            "write it with an integer type, such as i4");
    if (b[0] >> 4 == 0 || set->element == 0 || set->element > 8 ||
        (set->element & (set->element - 1)) != 0 ||
        vp_h5_number(b + 8, 2) != 0 ||
        vp_h5_number(b + 10, 2) != 8 * set->element)
        return vp_h5_damaged(h5, "its integer type is invalid");
    return VP_OK;
}

/* Version, rank, flags, kind (1 each), in version 1 reserved (4); dimensions (8
 * each); depending on flags their maxima (8 each). */
static enum vp_status read_space(struct vp_h5 *h5, struct vp_h5_part part,
                                 struct set *set)
{
    uint64_t head, n_elements = 1;
    unsigned char b[8];

    if (part.n < 4)
        return vp_h5_damaged(h5, "it has no shape");
    VP_TRY(vp_h5_fetch(h5, part.at, 4, b));
    head = b[0] == 1 ? 8 : 4;
    set->rank = b[1];
    if (b[0] < 1 || b[0] > 2 || (b[0] == 2 && b[3] > 1) || b[2] > 1 ||
        set->rank > MAX_RANK ||
        part.n < head + (uint64_t)set->rank * (b[2] ? 16 : 8))
        return vp_h5_damaged(h5, "its shape is invalid");
    for (int d = 0; d < set->rank; d++) {
        VP_TRY(vp_h5_fetch(h5, part.at + head + 8 * (uint64_t)d, 8, b));
        set->dim[d] = vp_h5_number(b, 8);
        if (set->dim[d] != 0 && n_elements > INT64_MAX / 8 / set->dim[d])
            return vp_h5_damaged(h5, "its shape is too large");
        n_elements *= set->dim[d];
    }
    set->n_bytes = n_elements * set->element;
    return VP_OK;
}

static enum vp_status check_value(struct vp_h5 *h5, const struct set *set,
                                  uint64_t n, uint64_t capacity)
{
    if (n > capacity || (n != 0 && n != set->element))
        return vp_h5_damaged(h5, "its fill value has %llu bytes",
                             (unsigned long long)n);
    return VP_OK;
}

/* The fill value of elements that were never written: size (4), value of no
 * bytes or of one element. */
static enum vp_status check_old_fill(struct vp_h5 *h5, struct vp_h5_part part,
                                     const struct set *set)
{
    unsigned char b[4];

    if (part.n == 0)
        return VP_OK;
    if (part.n < 4)
        return vp_h5_damaged(h5, "its fill value is cut off");
    VP_TRY(vp_h5_fetch(h5, part.at, 4, b));
    return check_value(h5, set, vp_h5_number(b, 4), part.n - 4);
}

/* Version (1). Version 3: flags (1), size (4). Earlier: allocation time, write
 * time, value defined (1 each), size (4). */
static enum vp_status check_fill(struct vp_h5 *h5, struct vp_h5_part part,
                                 const struct set *set)
{
    uint64_t head;
    unsigned char b[8];
    bool has_value;

    if (part.n == 0)
        return VP_OK;
    if (part.n < 2)
        return vp_h5_damaged(h5, "its fill value is cut off");
    VP_TRY(vp_h5_fetch(h5, part.at, part.n < 8 ? part.n : 8, b));
    head = b[0] == 3 ? 2 : 4;
    if (b[0] < 1 || b[0] > 3 || part.n < head ||
        (b[0] != 3 && (b[1] < 1 || b[1] > 3 || b[2] > 2 || b[3] > 1)))
        return vp_h5_damaged(h5, "its fill value is invalid");
    /* Version 1 always has a size. */
    has_value = b[0] == 3 ? b[1] & 0x20 : b[0] == 1 || b[3] == 1;
    if (!has_value)
        return VP_OK;
    if (part.n < head + 4)
        return vp_h5_damaged(h5, "its fill value is cut off");
    return check_value(h5, set, vp_h5_number(b + head, 4), part.n - head - 4);
}

/* ---- Filters ------------------------------------------------------------ */

/* Id, in version 1 length of the name, flags, number of settings (2 each);
 * name; settings (4 each), in version 1 padded to an even number. */
static enum vp_status read_filter(struct vp_h5 *h5, int version,
                                  struct vp_h5_part *part, struct set *set)
{
    uint64_t head = version == 1 ? 8 : 6;
    uint64_t id, n_name, n_settings, n;
    unsigned char b[8], setting[4] = { 0 };

    if (part->n < head)
        return vp_h5_damaged(h5, "its filters are cut off");
    VP_TRY(vp_h5_fetch(h5, part->at, head, b));
    id = vp_h5_number(b, 2);
    if (id < FILTER_GZIP || id > FILTER_FLETCHER)
        return vp_h5_refuse(h5, "is compressed with filter", id,
                            "write it with gzip or without compression");
    n_name = version == 1 ? vp_h5_number(b + 2, 2) : 0;
    n_settings = vp_h5_number(b + head - 2, 2);
    n = head + n_name + 4 * n_settings;
    if (version == 1)
        n += 4 * (n_settings % 2);
    if (n > part->n || n_name % 8 != 0 || n_settings != (id != FILTER_FLETCHER))
        return vp_h5_damaged(h5, "filter %d is cut off", (int)id);
    if (n_settings == 1)
        VP_TRY(vp_h5_fetch(h5, part->at + head + n_name, 4, setting));
    if ((id == FILTER_GZIP && vp_h5_number(setting, 4) > 9) ||
        (id == FILTER_SHUFFLE && vp_h5_number(setting, 4) != set->element))
        return vp_h5_damaged(h5, "filter %d has an invalid setting", (int)id);
    set->filter[set->n_filters++] = (int)id;
    part->at += n;
    part->n -= n;
    return VP_OK;
}

static enum vp_status read_filters(struct vp_h5 *h5, struct vp_h5_part part,
                                   struct set *set)
{
    unsigned char b[2];
    uint64_t head;

    if (part.n == 0)
        return VP_OK;
    if (part.n < 8)
        return vp_h5_damaged(h5, "its filters are cut off");
    VP_TRY(vp_h5_fetch(h5, part.at, 2, b));
    if (b[0] < 1 || b[0] > 2 || b[1] < 1 || b[1] >= N_FILTERS)
        return vp_h5_damaged(h5, "its list of filters is invalid");
    head = b[0] == 1 ? 8 : 2;
    part = (struct vp_h5_part){ part.at + head, part.n - head };
    for (int i = 0; i < b[1]; i++) {
        VP_TRY(read_filter(h5, b[0], &part, set));
        /* No filter repeats, and the checksum is last: it covers the bytes that
         * are stored. */
        for (int k = 0; k < i; k++) {
            if (set->filter[k] == set->filter[i] ||
                set->filter[k] == FILTER_FLETCHER)
                return vp_h5_damaged(h5, "its filters are out of order");
        }
    }
    return VP_OK;
}

/* ---- Chunks ------------------------------------------------------------- */

/* Key of a chunk: stored bytes (4), mask of skipped filters (4), position: one
 * number per dimension and one for the element (8 each). */
static uint64_t key_bytes(const struct set *set)
{
    return 8 + 8 * ((uint64_t)set->rank + 1);
}

static uint64_t key_place(const unsigned char *key, int d)
{
    return vp_h5_number(key + 8 + 8 * d, 8);
}

static int compare_places(const struct set *set, const unsigned char *a,
                          const unsigned char *b)
{
    for (int d = 0; d <= set->rank; d++) {
        if (key_place(a, d) != key_place(b, d))
            return key_place(a, d) < key_place(b, d) ? -1 : 1;
    }
    return 0;
}

/* Checks stored size and position of a chunk. Without gzip the size must be
 * exact, with gzip it must be possible.
 *
 * libhdf5 does not check that gzip produced enough bytes. It does if the
 * chunk's shape is right, and the shape is confirmed by the positions of the
 * other chunks. A single chunk that is longer than the data set would not be
 * confirmed and is refused. */
static enum vp_status check_chunk(struct vp_h5 *h5, const struct set *set,
                                  const unsigned char *key, uint64_t at)
{
    uint64_t n = vp_h5_number(key, 4), left_out = vp_h5_number(key + 4, 4);
    uint64_t want = set->chunk_bytes;
    bool is_packed = false;

    if (left_out >> set->n_filters != 0)
        return vp_h5_damaged(h5, "a chunk skips a filter that is not in the "
                                 "list");
    for (int i = 0; i < set->n_filters; i++) {
        if (left_out >> i & 1)
            continue;
        is_packed |= set->filter[i] == FILTER_GZIP;
        want += set->filter[i] == FILTER_FLETCHER ? 4 : 0;
    }
    if (is_packed ? n < 8 || n > want + want / 64 + 64 : n != want)
        return vp_h5_damaged(h5, "a chunk of %llu bytes is stored in %llu",
                             (unsigned long long)want, (unsigned long long)n);
    for (int d = 0; d < set->rank; d++) {
        uint64_t place = key_place(key, d);

        if (place % set->chunk[d] != 0 || place >= set->dim[d])
            return vp_h5_damaged(h5, "a chunk is at %llu of %llu",
                                 (unsigned long long)place,
                                 (unsigned long long)set->dim[d]);
        if (is_packed && set->chunk[d] > set->dim[d])
            return vp_h5_refuse(h5, "has gzip chunks longer than its length",
                                set->dim[d], "write it with smaller chunks");
    }
    return vp_h5_take(h5, (struct vp_h5_part){ at, n }, "a chunk");
}

/* Checks the tree of chunks below `at`. The keys of a node must ascend, and
 * those of a child must lie between the keys on both sides of it. Then no chunk
 * occurs twice, and a search finds each of them. left, right: these two keys,
 * or NULL at the root. */
static enum vp_status read_chunks(struct vp_h5 *h5, struct set *set,
                                  uint64_t at, int level,
                                  const unsigned char *left,
                                  const unsigned char *right)
{
    unsigned char b[2 * (8 + 8 * (MAX_RANK + 1)) + 8];
    uint64_t key = key_bytes(set), n;
    const unsigned char *next = b + key + 8;

    VP_TRY(vp_h5_node(h5, at, 1, 2 * h5->chunk_k, key, &level, &n));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t child;

        VP_TRY(vp_h5_fetch(h5, at + 24 + i * (key + 8), 2 * key + 8, b));
        child = vp_h5_number(b + key, 8);
        if (compare_places(set, b, next) >= 0 || key_place(b, set->rank) != 0 ||
            (i == 0 && left && compare_places(set, left, b) != 0) ||
            (i == n - 1 && right && compare_places(set, next, right) > 0))
            return vp_h5_damaged(h5, "its chunks are out of order");
        if (level == 0) {
            VP_TRY(check_chunk(h5, set, b, child));
            set->n_chunks++;
        } else {
            VP_TRY(read_chunks(h5, set, child, level - 1, b, next));
        }
    }
    return VP_OK;
}

/* Version, layout, number of dimensions (1 each), address of the tree (8),
 * shape of a chunk (4 each). */
static enum vp_status check_chunked(struct vp_h5 *h5, struct vp_h5_part part,
                                    struct set *set)
{
    int n_dims = set->rank + 1;
    unsigned char b[11 + 4 * (MAX_RANK + 1)];
    uint64_t n = 11 + 4 * (uint64_t)n_dims, tree, n_chunks = 1;

    if (part.n < n)
        return vp_h5_damaged(h5, "its layout is cut off");
    VP_TRY(vp_h5_fetch(h5, part.at, n, b));
    if (b[2] != n_dims)
        return vp_h5_damaged(h5, "its chunks have %d dimensions", b[2] - 1);
    tree = vp_h5_number(b + 3, 8);
    set->chunk_bytes = 1;
    for (int d = 0; d < n_dims; d++) {
        set->chunk[d] = vp_h5_number(b + 11 + 4 * d, 4);
        if (set->chunk[d] == 0 || set->chunk[d] > UINT32_MAX / set->chunk_bytes)
            return vp_h5_damaged(h5, "its chunks are too large");
        set->chunk_bytes *= set->chunk[d];
        if (d < set->rank)
            n_chunks *= (set->dim[d] - 1) / set->chunk[d] + 1;
    }
    if (set->chunk[set->rank] != set->element)
        return vp_h5_damaged(h5, "its chunks have elements of another size");
    if (tree != VP_H5_NOWHERE)
        VP_TRY(read_chunks(h5, set, tree, -1, NULL, NULL));
    if (set->n_chunks != n_chunks)
        return vp_h5_damaged(h5, "only %llu of %llu chunks are stored",
                             (unsigned long long)set->n_chunks,
                             (unsigned long long)n_chunks);
    return VP_OK;
}

/* ---- All together ------------------------------------------------------- */

/* Version, layout (1 each); compact: size (2), data; contiguous: address and
 * size (8 each). */
static enum vp_status check_layout(struct vp_h5 *h5, struct vp_h5_part part,
                                   struct set *set)
{
    struct vp_h5_part stored;
    unsigned char b[18] = { 0 };

    VP_TRY(vp_h5_fetch(h5, part.at, part.n < 18 ? part.n : 18, b));
    if (b[1] == LAYOUT_CHUNKED)
        return set->n_bytes == 0 ? VP_OK : check_chunked(h5, part, set);
    if (set->n_filters > 0)
        return vp_h5_damaged(h5, "it has filters but no chunks");
    if (b[1] == LAYOUT_COMPACT)
        stored = (struct vp_h5_part){ part.at + 4, vp_h5_number(b + 2, 2) };
    else
        stored = (struct vp_h5_part){ vp_h5_number(b + 2, 8),
                                      vp_h5_number(b + 10, 8) };
    if (part.n < (b[1] == LAYOUT_COMPACT ? 4 + stored.n : 18))
        return vp_h5_damaged(h5, "its layout is cut off");
    if (stored.n != set->n_bytes)
        return vp_h5_damaged(h5, "only %llu of %llu bytes are stored",
                             (unsigned long long)stored.n,
                             (unsigned long long)set->n_bytes);
    if (stored.n == 0)
        return VP_OK;
    if (stored.at == VP_H5_NOWHERE)
        return vp_h5_damaged(h5, "it was never written");
    /* Compact data is part of the header, which is already taken. */
    return b[1] == LAYOUT_COMPACT ? VP_OK : vp_h5_take(h5, stored, "an array");
}

enum vp_status vp_h5_check_set(struct vp_h5 *h5,
                               const struct vp_h5_header *header)
{
    struct vp_h5_part layout = header->message[VP_H5_LAYOUT];
    struct set set = { .rank = 0 };
    unsigned char b[2]; /* version, layout */

    if (layout.n < 4)
        return vp_h5_damaged(h5, "it has no layout");
    VP_TRY(vp_h5_fetch(h5, layout.at, 2, b));
    if (header->message[VP_H5_EXTERNAL].n > 0 || b[1] > LAYOUT_CHUNKED)
        return vp_h5_refuse(h5, "is in other files, by layout", b[1],
                            "write the numbers into the shard");
    VP_TRY(read_type(h5, header->message[VP_H5_TYPE], &set));
    VP_TRY(read_space(h5, header->message[VP_H5_SPACE], &set));
    VP_TRY(check_old_fill(h5, header->message[VP_H5_OLD_FILL], &set));
    VP_TRY(check_fill(h5, header->message[VP_H5_FILL], &set));
    VP_TRY(read_filters(h5, header->message[VP_H5_FILTERS], &set));
    if (b[0] == 4 && !h5->is_classic)
        return VP_OK; /* the index of its chunks has checksums, too */
    if (b[0] != 3)
        return vp_h5_refuse(h5, "has a layout of version", b[0],
                            "write it in the format of HDF5 1.10 or 1.8");
    return check_layout(h5, layout, &set);
}
