/* HDF5 files with flipped bytes, cuts and random mutations are refused or read
 * without a crash, and known kinds of damage are named in the message. */
#include "fuzz/shard_input.h"
#include "lib/datalib.h"
#include "lib/golden.h"
#include "lib/hdf5lib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* libhdf5 opens files slowly under sanitizers, so only every fifth case runs
 * there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 5 };
#else
enum { STRIDE = 1 };
#endif

/* Reads a shard from memory. Returns the number of rows that differ from
 * `gold`, or -1 if the shard is refused. */
static int read_image(const unsigned char *bytes, int64_t n,
                      const struct gold *gold, int64_t first_row)
{
    struct setup setup = { .image = bytes, .n_image = (size_t)n };
    struct vp_err err = { .text = "" };
    struct shards shards;
    int n_wrong = 0;

    if (try_open(&setup, &shards, &err) != VP_OK) {
        if (!strstr(err.text, "image: ") || !strstr(err.text, "; ") ||
            strchr(err.text, '\n'))
            fail_msg("%s", err.text);
        return -1;
    }
    for (int64_t i = 0; i < shards.data->source.n_samples; i++) {
        int32_t ids[16] = { 0 }, types[16], mask[16], positions[16], labels[16];
        struct vp_masked row = { .tokens = ids,
                                 .types = types,
                                 .mask = mask,
                                 .positions = positions,
                                 .labels = labels };
        int32_t want[16];
        int64_t at = (first_row + i) * 16;

        assert_int_equal(
            vp_source_hdf5.masked(&shards.data->source, i, &row, &err), VP_OK);
        memset(want, -1, sizeof(want));
        for (int64_t k = 0; k < row.n_labels; k++)
            want[positions[k]] = labels[k];
        n_wrong += at + 16 > gold->n_rows * 16 ||
                   memcmp(ids, gold->ids + at, sizeof(ids)) != 0 ||
                   memcmp(types, gold->types + at, sizeof(types)) != 0 ||
                   memcmp(mask, gold->mask + at, sizeof(mask)) != 0 ||
                   memcmp(want, gold->labels + at, sizeof(want)) != 0;
    }
    close_shards(&shards);
    return n_wrong;
}

static const struct {
    const char *path, *gold;
    int64_t first_row; /* in `gold` */
    int step;          /* distance of the flipped bytes */
    bool has_sums;     /* all numbers are covered by checksums */
} images[] = {
    { GOLDEN "plain/x_training_0.h5", "plain", 0, 3, false },
    { GOLDEN "nvidia/books_training_0.hdf5", "nvidia", 0, 13, true },
    { GOLDEN "mixed/a_training.hdf5", "mixed", 0, 31, false },
    { GOLDEN "mixed/b_training.hdf5", "mixed", 43, 17, false },
    { GOLDEN "mixed/c_training.hdf5", "mixed", 65, 23, false },
    { GOLDEN "mixed/d_training.hdf5", "mixed", 82, 7, true },
};

/* A file with one wrong byte is refused, or at most one row differs. Up to
 * three exceptions are allowed: an address that now points into unused space
 * cannot be recognised. */
static void flipped_bytes_do_no_harm(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(images); k++) {
        struct gold gold = open_gold(images[k].gold);
        int64_t n;
        unsigned char *bytes = (unsigned char *)golden_slurp(images[k].path, "",
                                                             &n);
        int n_refused = 0, n_same = 0, n_wild = 0;

        assert_int_equal(read_image(bytes, n, &gold, images[k].first_row), 0);
        for (int64_t i = 0; i < n; i += images[k].step * STRIDE) {
            unsigned char old = bytes[i];
            int n_wrong;

            if (i % 4 == 3)
                bytes[i] = old == 0xFF ? 0 : 0xFF;
            else
                bytes[i] ^= (unsigned char)(1 << (i * 5 / 4 % 8));
            n_wrong = read_image(bytes, n, &gold, images[k].first_row);
            n_wild += n_wrong > (images[k].has_sums ? 0 : 1);
            n_refused += n_wrong < 0;
            n_same += n_wrong == 0;
            bytes[i] = old;
        }
        assert_true(n_refused > 20 && n_same > 20);
        assert_in_range(n_wild, 0, images[k].has_sums ? 0 : 3);
        free(bytes);
        golden_close(gold.file);
    }
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(images); k++) {
        struct gold gold = open_gold(images[k].gold);
        int64_t n;
        unsigned char *bytes = (unsigned char *)golden_slurp(images[k].path, "",
                                                             &n);

        for (int64_t i = 1; i < n; i += i < 200 ? 1 : 97) {
            /* Its own allocation, so that sanitizers see an overrun. */
            unsigned char *part = malloc((size_t)i);

            assert_non_null(part);
            memcpy(part, bytes, (size_t)i);
            assert_int_equal(read_image(part, i, &gold, 0), -1);
            free(part);
        }
        free(bytes);
        golden_close(gold.file);
    }
}

/* Cut files on disk, which are read in windows, and a folder named like a
 * shard. */
static void damaged_files_are_refused(void **state)
{
    struct setup setup = { .path = at("x") };
    struct shards shards;
    struct vp_err err = { .text = "" };
    int64_t n;
    char *bytes = golden_slurp(GOLDEN "mixed/a_training.hdf5", "", &n);

    (void)state;
    for (int64_t cut = 0; cut < n; cut += cut < 64 ? 9 : 1013) {
        write_file("x", bytes, (size_t)cut);
        assert_int_equal(try_open(&setup, &shards, &err), VP_ERR_INVALID);
        if (cut >= 96)
            assert_non_null(strstr(err.text, "x: has "));
    }
    free(bytes);
    setup.path = folder;
    mkdir(at("a_training.h5"), 0777);
    assert_int_equal(try_open(&setup, &shards, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "a_training.h5: cannot be read"));
}

#define PLAIN GOLDEN "plain/x_training_0.h5"

#define PACKED GOLDEN "nvidia/books_training_0.hdf5"

#define DEEP GOLDEN "deep/training.h5"

#define NEW GOLDEN "mixed/b_training.hdf5"

/* Numbers written into files, and the cause that the message must name. The
 * offsets follow the format specification: superblock at 0, root header at 96,
 * its tree at 136, heap at 680 with a hole at 6856, names at 1072, input_ids at
 * 800. */
static const struct {
    const char *path;
    int64_t at;
    uint64_t value;
    int n_bytes;
    const char *cause;
} damages[] = {
    { PLAIN, 0, 0x88, 1, "image: is not an HDF5 file" },
    { PLAIN, 8, 9, 1, "has a superblock of version 9" },
    { PLAIN, 13, 4, 1, "superblock is not valid for a single file" },
    { PLAIN, 16, 0, 2, "superblock is not valid for a single file" },
    { PLAIN, 24, 8, 8, "superblock is not valid for a single file" },
    { PLAIN, 48, 0, 8, "superblock is not valid for a single file" },
    { PLAIN, 72, 2, 4, "superblock is not valid for a single file" },
    { PLAIN, 40, 9105, 8, "has 9104 of 9105 bytes" },
    { PLAIN, 40, 9103, 8, "an array of 592 bytes at byte 8512 is outside" },
    { PLAIN, 64, 9100, 8, "a structure of 16 bytes at byte 9100 is outside" },
    { PLAIN, 64, UINT64_MAX, 8, "is outside the file" },
    { PLAIN, 64, 97, 8, "byte 97 does not begin a header" },
    { PLAIN, 80, 137, 8, "name different root groups" },
    { PLAIN, 88, 681, 8, "name different root groups" },
    /* Root header, tree, heap and names. */
    { PLAIN, 98, 2, 2, "its header has 1 of 2 messages" },
    { PLAIN, 104, 0, 4, "a part of its header is empty" },
    { PLAIN, 104, 23, 4, "a message of 16 bytes does not fit its header" },
    { PLAIN, 104, 28, 4, "a header has 4 bytes too many" },
    { PLAIN, 114, 12, 2, "a message of 12 bytes does not fit its header" },
    { PLAIN, 112, 9, 2, "has the unexpected header message 9" },
    { PLAIN, 112, 0, 2, "its root is not a group" },
    { PLAIN, 116, 2, 1, "has the unexpected header message 17" },
    { PLAIN, 136, 'X', 1, "byte 136 does not begin a node" },
    { PLAIN, 140, 1, 1, "byte 136 does not begin a node" },
    { PLAIN, 141, 9, 1, "byte 136 does not begin a node" },
    { PLAIN, 141, 1, 1, "byte 1072 does not begin a node" },
    { PLAIN, 142, 33, 2, "byte 136 does not begin a node" },
    { PLAIN, 142, 2, 2, "byte 0 does not begin a symbol table" },
    { PLAIN, 160, 176, 8, "a name does not end" },
    { PLAIN, 168, 9000, 8, "a symbol table of 328 bytes at byte 9000" },
    { PLAIN, 176, 1000, 8, "a name does not end" },
    { PLAIN, 680, 'X', 1, "byte 680 does not begin a heap" },
    { PLAIN, 688, 9000, 8, "a heap of 9000 bytes at byte 6736 is outside" },
    { PLAIN, 696, 161, 8, "a hole is outside its heap" },
    { PLAIN, 704, 9050, 8, "a heap of 176 bytes at byte 9050 is outside" },
    { PLAIN, 6856, 120, 8, "a list or tree is linked in a circle" },
    { PLAIN, 6864, 57, 8, "a hole is larger than its heap" },
    { PLAIN, 1072, 'X', 1, "byte 1072 does not begin a symbol table" },
    { PLAIN, 1078, 9, 2, "byte 1072 does not begin a symbol table" },
    { PLAIN, 1096, 2, 4, "input_ids occurs twice or is a link" },
    { PLAIN, 1096, 3, 4, "a symbol has an unknown type" },
    { PLAIN, 1120, 8, 8, "input_ids occurs twice or is a link" },
    { PLAIN, 1120, 175, 8, "input_mask: there is no such data set" },
    { PLAIN, 1128, 800, 8, "byte 816 belongs to two structures" },
    /* Header of input_ids: shape, type, fill value, layout. */
    { PLAIN, 802, 6, 2, "input_ids: its header has 5 of 6 messages" },
    { PLAIN, 936, 16, 2, "input_ids: a part of its header is empty" },
    { PLAIN, 936, 5, 2, "input_ids: header message 5 occurs twice" },
    { PLAIN, 936, 7, 2, "input_ids: is in other files" },
    { PLAIN, 904, 0, 2, "input_ids: it has no layout" },
    { PLAIN, 824, 3, 1, "input_ids: its shape is invalid" },
    { PLAIN, 825, 4, 1, "input_ids: its shape is invalid" },
    { PLAIN, 826, 2, 1, "input_ids: its shape is invalid" },
    { PLAIN, 832, UINT64_C(1) << 61, 8, "input_ids: its shape is too large" },
    { PLAIN, 832, 38, 8, "input_ids: only 2368 of 2432 bytes are stored" },
    { PLAIN, 872, 0x11, 1, "must hold integers, but has type class 1" },
    { PLAIN, 872, 0x1B, 1, "input_ids: its type is invalid" },
    { PLAIN, 876, 3, 4, "input_ids: its integer type is invalid" },
    { PLAIN, 880, 1, 2, "input_ids: its integer type is invalid" },
    { PLAIN, 882, 31, 2, "input_ids: its integer type is invalid" },
    { PLAIN, 896, 4, 1, "input_ids: its fill value is invalid" },
    { PLAIN, 897, 0, 1, "input_ids: its fill value is invalid" },
    { PLAIN, 900, 3, 4, "input_ids: its fill value has 3 bytes" },
    { PLAIN, 900, 4, 4, "input_ids: its fill value has 4 bytes" },
    { PLAIN, 912, 2, 1, "input_ids: has a layout of version 2" },
    { PLAIN, 913, 0, 1, "input_ids: its layout is cut off" },
    { PLAIN, 913, 2, 1, "input_ids: its chunks have -1 dimensions" },
    { PLAIN, 913, 3, 1, "input_ids: is in other files, by layout 3" },
    { PLAIN, 914, UINT64_MAX, 8, "input_ids: it was never written" },
    { PLAIN, 914, 9000, 8, "an array of 2368 bytes at byte 9000 is outside" },
    { PLAIN, 914, 2049, 8, "belongs to two structures" },
    { PLAIN, 922, 2367, 8, "input_ids: only 2367 of 2368 bytes are stored" },
    /* Filters, chunks and their tree. */
    { PACKED, 912, 3, 1, "input_ids: its list of filters is invalid" },
    { PACKED, 913, 0, 1, "input_ids: its list of filters is invalid" },
    { PACKED, 913, 2, 1, "input_ids: its filters are cut off" },
    { PACKED, 920, 4, 2, "input_ids: is compressed with filter 4" },
    { PACKED, 922, 7, 2, "input_ids: filter 1 is cut off" },
    { PACKED, 926, 2, 2, "input_ids: filter 1 is cut off" },
    { PACKED, 936, 10, 4, "input_ids: filter 1 has an invalid setting" },
    { PACKED, 953, 1, 1, "input_ids: it has filters but no chunks" },
    { PACKED, 954, 2, 1, "input_ids: its chunks have 1 dimensions" },
    { PACKED, 955, UINT64_MAX, 8, "input_ids: only 0 of 1 chunks are stored" },
    { PACKED, 955, 22000, 8, "at byte 22000 is outside the file" },
    { PACKED, 963, 0, 4, "input_ids: its chunks are too large" },
    { PACKED, 963, 1 << 30, 4, "input_ids: its chunks are too large" },
    { PACKED, 963, 71, 4, "has gzip chunks longer than its length 70" },
    { PACKED, 963, 69, 4, "only 1 of 2 chunks are stored" },
    { PACKED, 971, 8, 4,
      "input_ids: its chunks have elements of another size" },
    { PACKED, 1406, 0, 2, "input_ids: only 0 of 1 chunks are stored" },
    { PACKED, 1424, 0, 4, "a chunk of 4480 bytes is stored in 0" },
    { PACKED, 1424, 5000, 4, "a chunk of 4480 bytes is stored in 5000" },
    { PACKED, 1428, 1, 4, "a chunk of 4480 bytes is stored in 1559" },
    { PACKED, 1428, 2, 4, "skips a filter that is not in the list" },
    { PACKED, 1432, 7, 8, "a chunk is at 7 of 70" },
    { PACKED, 1432, UINT64_MAX, 8, "input_ids: its chunks are out of order" },
    { PACKED, 1448, 1, 8, "input_ids: its chunks are out of order" },
    { PACKED, 1456, 22000, 8, "a chunk of 1559 bytes at byte 22000" },
    { PACKED, 1456, 4017, 8, "belongs to two structures" },
    { DEEP, 1405, 2, 1, "byte 14952 does not begin a node" },
    { DEEP, 1472, 224, 8, "its chunks are out of order" },
    { DEEP, 1472, 232, 8, "its chunks are out of order" },
    { DEEP, 15024, 0, 8, "its chunks are out of order" },
    { DEEP, 17264, 300, 8, "its chunks are out of order" },
    { DEEP, 15048, 4016, 8, "byte 4016 belongs to two structures" },
    { DEEP, 12342, 10, 2, "only 67 of 68 chunks are stored" },
    /* Newer headers, which have checksums. */
    { NEW, 20, 0, 8, "has an extension at byte 0" },
    { NEW, 28, 17497, 8, "has 17496 of 17497 bytes" },
    { NEW, 36, 17491, 8, "a structure of 6 bytes at byte 17491 is outside" },
    { NEW, 48, 'X', 1, "byte 48 does not begin a header" },
    { NEW, 70, 0xEE, 1, "checksum of its header does not match" },
};

static void damages_are_named(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(damages); k++) {
        struct setup setup = { 0 };
        struct shards shards;
        struct vp_err err = { .text = "" };
        int64_t n;
        char *bytes = golden_slurp(damages[k].path, "", &n);
        enum vp_status st;

        for (int i = 0; i < damages[k].n_bytes; i++)
            bytes[damages[k].at + i] = (char)(damages[k].value >> 8 * i);
        setup.image = bytes;
        setup.n_image = (size_t)n;
        st = try_open(&setup, &shards, &err);
        if (st != VP_ERR_INVALID || !strstr(err.text, damages[k].cause))
            fail_msg("case %d: status %d: %s", (int)k, st, err.text);
        close_shards(&shards);
        free(bytes);
    }
}

/* Thousands of mutations of all kinds of files, the same in each run. */
static void mutated_files_do_no_harm(void **state)
{
    unsigned char mutant[40000], *bytes[VP_COUNT_OF(images)];
    int64_t n[VP_COUNT_OF(images)];

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(images); k++)
        bytes[k] = (unsigned char *)golden_slurp(images[k].path, "", &n[k]);
    for (uint32_t i = 0; i < N_MUTANTS; i += STRIDE) {
        size_t k = i % VP_COUNT_OF(images);
        struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, 0, i, 0, 0);

        memcpy(mutant, bytes[k], (size_t)n[k]);
        for (uint32_t j = 0; j < 1 + r.v[0] % 4; j++) {
            struct vp_rng4 s = vp_rng(1, VP_RNG_TEST, 1 + j, i, 0, 0);
            uint32_t to = vp_rng_below(s.v[0], (uint32_t)n[k] - 8);
            uint32_t from = vp_rng_below(s.v[1], (uint32_t)n[k] - 8);

            if (s.v[2] % 2) /* a word from elsewhere, or a random byte */
                memmove(mutant + to / 4 * 4, mutant + from / 4 * 4, 8);
            else
                mutant[to] = (unsigned char)s.v[3];
        }
        fuzz_hdf5(mutant, (size_t)n[k]);
    }
    for (size_t k = 0; k < VP_COUNT_OF(images); k++)
        free(bytes[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flipped_bytes_do_no_harm),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(damages_are_named),
        TEST_IN_FOLDER(damaged_files_are_refused),
        cmocka_unit_test(mutated_files_do_no_harm),
    };

    return cmocka_run_group_tests_name("hdf5_damage", tests, NULL, NULL);
}
