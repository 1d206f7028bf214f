/* safetensors files of the Python package are read and written byte for byte,
 * every rule of the format is enforced, and arbitrary bytes never break the
 * parser. */
#include "lib/ckptlib.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/types.safetensors"

/* The tensors of tests/golden/make_safetensors.py. */
static const struct vp_st_tensor golden[] = {
    { .name = "weight", .type = VP_ST_F32, .n_dims = 2, .dims = { 3, 5 } },
    { .name = "bias", .type = VP_ST_F32, .n_dims = 1, .dims = { 7 } },
    { .name = "moment", .type = VP_ST_F64, .n_dims = 3, .dims = { 2, 2, 2 } },
    { .name = "half", .type = VP_ST_F16, .n_dims = 1, .dims = { 9 } },
    { .name = "brain", .type = VP_ST_BF16, .n_dims = 2, .dims = { 1, 5 } },
    { .name = "ids", .type = VP_ST_I32, .n_dims = 1, .dims = { 4 } },
    { .name = "steps", .type = VP_ST_I64, .n_dims = 1, .dims = { 3 } },
    { .name = "bits", .type = VP_ST_U64, .n_dims = 1, .dims = { 2 } },
    { .name = "bytes", .type = VP_ST_U8, .n_dims = 1, .dims = { 13 } },
    { .name = "scalar", .type = VP_ST_F32 },
    { .name = "empty", .type = VP_ST_F32, .n_dims = 2, .dims = { 0, 4 } },
    { .name = "alpha", .type = VP_ST_U64, .n_dims = 1, .dims = { 1 } },
    { .name = "a \"name\" with \\ and \n and \x01",
      .type = VP_ST_F32,
      .n_dims = 1,
      .dims = { 2 } },
    { .name = "gr\xc3\xb6\xc3\x9f"
              "e/\xe6\xa8\xa1\xe5\x9e\x8b",
      .type = VP_ST_F32,
      .n_dims = 1,
      .dims = { 1 } },
    { .name = "flags", .type = VP_ST_BOOL, .n_dims = 1, .dims = { 3 } },
    { .name = "small", .type = VP_ST_I8, .n_dims = 1, .dims = { 5 } },
    { .name = "short", .type = VP_ST_I16, .n_dims = 1, .dims = { 3 } },
    { .name = "unsigned short", .type = VP_ST_U16, .n_dims = 1, .dims = { 2 } },
    { .name = "unsigned", .type = VP_ST_U32, .n_dims = 1, .dims = { 2 } },
};
enum { N_GOLDEN = VP_COUNT_OF(golden) };

static const struct vp_st_meta golden_meta = { "format", "pt" };

static unsigned char golden_byte(int place, size_t j)
{
    return (unsigned char)(37u * (unsigned)place + 11u * j + 5u);
}

/* ---- Comparison with the Python package --------------------------------- */

static void reads_what_python_wrote(void **state)
{
    struct vp_st_file *file = NULL;
    const struct vp_st_header *header;
    struct vp_err err = { .text = "" };

    (void)state;
    if (vp_st_open(GOLDEN, NULL, &file, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_string_equal(vp_st_path(file), GOLDEN);
    header = vp_st_header(file);
    assert_int_equal(header->n_tensors, N_GOLDEN);
    assert_int_equal(header->n_meta, 1);
    assert_string_equal(header->meta[0].key, "format");
    assert_string_equal(header->meta[0].value, "pt");
    for (int i = 0; i < N_GOLDEN; i++) {
        const struct vp_st_tensor *t = vp_st_header_find(header,
                                                         golden[i].name);
        unsigned char bytes[256];

        assert_non_null(t);
        assert_string_equal(t->name, golden[i].name);
        assert_int_equal(t->type, golden[i].type);
        assert_int_equal(t->n_dims, golden[i].n_dims);
        for (int d = 0; d < t->n_dims; d++)
            assert_int_equal(t->dims[d], golden[i].dims[d]);
        assert_true(t->n_bytes < (int64_t)sizeof(bytes));
        assert_int_equal(vp_st_read(file, t, bytes, &err), VP_OK);
        for (int64_t j = 0; j < t->n_bytes; j++)
            assert_int_equal(bytes[j], golden_byte(i, (size_t)j));
    }
    assert_null(vp_st_header_find(header, "weigh"));
    assert_null(vp_st_header_find(header, "__metadata__"));
    vp_st_close(file);
}

static void writes_what_python_writes(void **state)
{
    struct vp_st_tensor tensors[N_GOLDEN];
    unsigned char data[N_GOLDEN][256], *want, *got;
    const void *from[N_GOLDEN];
    size_t n_want, n_got;
    struct vp_err err = { .text = "" };

    (void)state;
    want = read_file(GOLDEN, &n_want);
    /* The order of the given tensors does not change the file. */
    for (int shift = 0; shift < N_GOLDEN; shift++) {
        for (int i = 0; i < N_GOLDEN; i++) {
            int k = (i * 3 + shift) % N_GOLDEN;

            tensors[k] = golden[i];
            for (size_t j = 0; j < sizeof(data[k]); j++)
                data[k][j] = golden_byte(i, j);
            from[k] = data[k];
        }
        if (vp_st_write(at("own.safetensors"), tensors, from, N_GOLDEN,
                        &golden_meta, 1, &err) != VP_OK)
            fail_msg("%s", err.text);
        got = read_file(at("own.safetensors"), &n_got);
        assert_int_equal(n_got, n_want);
        assert_memory_equal(got, want, n_got);
        free(got);
    }
    free(want);
}

static void types_and_shapes_have_names(void **state)
{
    static const struct {
        const char *name;
        int n_bytes;
    } want[VP_ST_COUNT] = {
        { "BOOL", 1 }, { "U8", 1 },   { "I8", 1 },  { "I16", 2 }, { "U16", 2 },
        { "F16", 2 },  { "BF16", 2 }, { "I32", 4 }, { "U32", 4 }, { "F32", 4 },
        { "F64", 8 },  { "I64", 8 },  { "U64", 8 },
    };
    char text[256];

    (void)state;
    for (int i = 0; i < VP_ST_COUNT; i++) {
        assert_string_equal(vp_st_type_name((enum vp_st_type)i), want[i].name);
        assert_int_equal(vp_st_type_bytes((enum vp_st_type)i), want[i].n_bytes);
    }
    vp_st_describe(&golden[2], text, sizeof(text));
    assert_string_equal(text, "F64 [2, 2, 2]");
    vp_st_describe(&golden[9], text, sizeof(text));
    assert_string_equal(text, "F32 []");
    vp_st_describe(&golden[2], text, 9); /* text is cut */
    assert_string_equal(text, "F64 [2, ");
}

/* ---- Round trips -------------------------------------------------------- */

static void round_trip(uint32_t seed)
{
    enum { MOST = 12, ROOM = 4096 };
    static unsigned char data[MOST][ROOM], got[ROOM];
    struct vp_st_tensor tensors[MOST];
    const void *from[MOST];
    char names[MOST][32];
    struct vp_st_file *file = NULL;
    struct vp_err err = { .text = "" };
    int n = (int)draw(seed, 0, MOST + 1);
    int64_t sum = 0, end = 0;
    struct stat info;

    for (int i = 0; i < n; i++) {
        uint32_t k = 100u * (uint32_t)(i + 1);
        struct vp_st_tensor t = { .name = names[i] };

        snprintf(names[i], sizeof(names[i]), "t%u.%d", draw(seed, k, 99), i);
        t.type = (enum vp_st_type)draw(seed, k + 1, VP_ST_COUNT);
        t.n_dims = (int)draw(seed, k + 2, 4);
        for (int d = 0; d < t.n_dims; d++)
            t.dims[d] = draw(seed, k + 3 + (uint32_t)d, 8);
        for (int j = 0; j < ROOM; j++)
            data[i][j] = (unsigned char)draw(seed + 1, k + (uint32_t)j, 256);
        tensors[i] = t;
        from[i] = data[i];
    }
    if (vp_st_write(at("round"), tensors, from, n, NULL, 0, &err) != VP_OK ||
        vp_st_open(at("round"), NULL, &file, &err) != VP_OK)
        fail_msg("seed %u: %s", seed, err.text);
    assert_int_equal(vp_st_header(file)->n_tensors, n);
    assert_int_equal(vp_st_header(file)->n_meta, 0);
    for (int i = 0; i < n; i++) {
        const struct vp_st_tensor *t = vp_st_header_find(vp_st_header(file),
                                                         names[i]);

        assert_non_null(t);
        assert_int_equal(t->offset, tensors[i].offset);
        assert_int_equal(t->n_bytes, tensors[i].n_bytes);
        assert_int_equal(t->offset % vp_st_type_bytes(t->type), 0);
        assert_int_equal(vp_st_read(file, t, got, &err), VP_OK);
        assert_memory_equal(got, data[i], (size_t)t->n_bytes);
        sum += t->n_bytes;
        if (t->offset + t->n_bytes > end)
            end = t->offset + t->n_bytes;
    }
    assert_int_equal(stat(at("round"), &info), 0);
    if (n > 0)
        assert_int_equal(info.st_size, end);
    assert_true(info.st_size >= sum);
    vp_st_close(file);
}

static void tensors_come_back(void **state)
{
    (void)state;
    fault_start(FAULT_NONE, 0, 0); /* with fsync() stubbed */
    for (uint32_t seed = 0; seed < 300; seed++)
        round_trip(seed);
    assert_int_equal(fault.n_open, 0);
}

static void refuses_to_write_nonsense(void **state)
{
    static const struct {
        struct vp_st_tensor t[2];
        int n;
        const char *want;
    } cases[] = {
        { { { .name = "a" }, { .name = "a", .type = VP_ST_U64 } },
          2,
          "tensor a: the name is used twice" },
        { { { .name = "a" }, { .name = "a" } },
          2,
          "tensor a: the name is used twice" },
        { { { .name = "__metadata__" } },
          1,
          "\"__metadata__\": is not a valid name for" },
        { { { .name = "" } }, 1, "tensor \"\": is not a valid name for" },
        { { { .name = "a\xff" } }, 1, "is not valid UTF-8" },
        { { { .name = "a", .n_dims = 1, .dims = { -1 } } }, 1, "tensor a: " },
        { { { .name = "a", .n_dims = 2, .dims = { INT64_MAX, 2 } } },
          1,
          "more than 2^63 bytes" },
        { { { .name = "a", .n_dims = 1, .dims = { INT64_MAX / 2 } },
            { .name = "b", .n_dims = 1, .dims = { INT64_MAX / 2 } } },
          2,
          "tensor b: the file would be too large" },
    };
    const struct vp_st_meta odd_meta = { "key", "\xc3" };
    struct vp_st_tensor good = { .name = "a" };
    struct vp_st_head head;
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_st_tensor t[2] = { cases[i].t[0], cases[i].t[1] };

        assert_int_equal(vp_st_layout(t, cases[i].n, NULL, 0, &head, &err),
                         VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].want))
            fail_msg("case %d: %s", (int)i, err.text);
    }
    assert_int_equal(vp_st_layout(&good, 1, &odd_meta, 1, &head, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text, "metadata key: is not valid UTF-8");
    assert_int_equal(vp_st_layout(&good, 1, NULL, 0, &head, NULL), VP_OK);
    free(head.bytes);
}

/* Whichever call fails, the path holds the complete old or the complete new
 * file. */
static void writes_all_or_nothing(void **state)
{
    struct vp_st_tensor t = {
        .name = "a", .type = VP_ST_F32, .n_dims = 1, .dims = { 2 }
    };
    static const float first[2] = { 1, 2 }, second[2] = { 3, 4 };
    const void *from = first;
    struct vp_err err = { .text = "" };
    int n_failed = 0;
    char names[256];

    (void)state;
    assert_int_equal(vp_st_write(at("w"), &t, &from, 1, NULL, 0, &err), VP_OK);
    from = second;
    for (int k = 1;; k++) {
        struct vp_st_file *file = NULL;
        float got[2];
        enum vp_status st;

        fault_start(FAULT_FAIL, k, EIO);
        st = vp_st_write(at("w"), &t, &from, 1, NULL, 0, &err);
        fault_end();
        assert_int_equal(fault.n_open, 0);
        if (fault.n < k)
            break;
        n_failed += st == VP_ERR_IO;
        list_folder(folder, names, sizeof(names));
        assert_string_equal(names, "w ");
        assert_int_equal(vp_st_open(at("w"), NULL, &file, &err), VP_OK);
        assert_int_equal(
            vp_st_read(file, vp_st_header(file)->tensors, got, &err), VP_OK);
        assert_true((got[0] == 1 && got[1] == 2) ||
                    (got[0] == 3 && got[1] == 4));
        vp_st_close(file);
    }
    assert_int_equal(n_failed, 9); /* open write write fsync close rename open
                                    * fsync close */
}

/* ---- Rules of the format ------------------------------------------------ */

/* Parses a header with this JSON, padded, for a file with `n_data` bytes of
 * data. */
static enum vp_status parse_json(const char *json, int64_t n_data,
                                 struct vp_st_header *header,
                                 struct vp_err *err)
{
    size_t n = strlen(json), n_pad = vp_align_up(n, 8);
    unsigned char *head = malloc(8 + n_pad);
    enum vp_status st;

    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)(n_pad >> (8 * i));
    memcpy(head + 8, json, n);
    memset(head + 8 + n, ' ', n_pad - n);
    st = vp_st_parse(head, 8 + n_pad, 8 + (int64_t)n_pad + n_data, header, err);
    free(head);
    return st;
}

#define T(dtype, shape, begin, end)                                            \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin \
    "," #end "]}"

static const struct {
    const char *json;
    int n_data;
    const char *want; /* NULL = accepted */
} rules[] = {
    { "{}", 0, NULL },
    { "{\"__metadata__\":{}}", 0, NULL },
    { "{\"a\":" T("F32", "", 0, 4) "}", 4, NULL },
    { "{\"a\":" T("F32", "2,0", 0, 0) "}", 0, NULL },
    { "{ \"b\" : " T("U8", "3", 4, 7) ",\"a\":" T("F32", "1", 0, 4) "}", 7,
      NULL },
    { "{\"e\":" T("F32", "0", 4, 4) ",\"a\":" T("F32", "1", 0, 4) ",\"b\":" T(
          "F32", "1", 4, 8) "}",
      8, NULL },
    { "{\"b\":" T("F32", "1", 4, 8) ",\"a\":" T("F32", "1", 0, 4) ",\"e\":" T(
          "F32", "0", 4, 4) "}",
      8, NULL },
    { "{\"a\":" T("F32", "1,1,1,1,1,1,1,1", 0, 4) "}", 4, NULL },
    /* not JSON, or not an object */
    { "[]", 0, "does not start with {" },
    { " {}", 0, "does not start with {" },
    { "{\"a\":" T("F32", "1", 0, 4) "", 4, "header, byte" },
    { "{} x", 0, "header, byte" },
    { "{\"\xff\":" T("F32", "1", 0, 4) "}", 4, "header, byte" },
    { "{\"a\\u0000b\":" T("F32", "1", 0, 4) "}", 4, "header, byte" },
    { "{\"a\":" T("F32", "1", 0, 4) ",\"a\":" T("F32", "1", 4, 8) "}", 8,
      "duplicate" },
    { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[0,4]}}",
      4, "duplicate" },
    /* metadata */
    { "{\"__metadata__\":[]}", 0, "__metadata__ is not an object" },
    { "{\"__metadata__\":{\"k\":1}}", 0, "__metadata__: k is not a string" },
    /* one tensor */
    { "{\"\":" T("F32", "1", 0, 4) "}", 4, "tensor : has no name" },
    { "{\"a\":7}", 0, "tensor a: is not described by an object" },
    { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
      "tensor a: dtype is missing" },
    { "{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
      "tensor a: dtype is missing" },
    { "{\"a\":" T("F8_E4M3", "1", 0, 1) "}", 1,
      "tensor a: dtype F8_E4M3 is not supported" },
    { "{\"a\":" T("f32", "1", 0, 4) "}", 4, "dtype f32 is not supported" },
    { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
      "tensor a: shape is missing" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4,
      "tensor a: shape is missing or not a list" },
    { "{\"a\":" T("F32", "-1", 0, 4) "}", 4, "values that are not sizes" },
    { "{\"a\":" T("F32", "1.0", 0, 4) "}", 4, "values that are not sizes" },
    { "{\"a\":" T("F32", "null", 0, 4) "}", 4, "values that are not sizes" },
    { "{\"a\":" T("F32", "1,1,1,1,1,1,1,1,1", 0, 4) "}", 4,
      "shape has 9 dimensions" },
    { "{\"a\":" T("F32", "4611686018427387904,4", 0, 0) "}", 0,
      "more than 2^63 bytes" },
    { "{\"a\":" T("U8", "9223372036854775807,9223372036854775807", 0, 1) "}", 1,
      "more than 2^63 bytes" },
    { "{\"a\":" T("U8", "99999999999999999999", 0, 1) "}", 1, "header, byte" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not two whole numbers" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
      "not two whole numbers" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,2,4]}}", 4,
      "not two whole numbers" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}", 4,
      "not two whole numbers" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":{}}}", 4,
      "not two whole numbers" },
    { "{\"a\":" T("F32", "1", -4, 0) "}", 4,
      "are outside the 4 bytes of data" },
    { "{\"a\":" T("F32", "1", 4, 0) "}", 4, "are outside the 4 bytes of data" },
    { "{\"a\":" T("F32", "2", 0, 8) "}", 7, "are outside the 7 bytes of data" },
    { "{\"a\":" T("F32", "2", 0, 9223372036854775807) "}", 8,
      "are outside the 8 bytes of data" },
    { "{\"a\":" T("F32", "2", 0, 4) "}", 4,
      "hold 4 bytes, but the shape needs" },
    { "{\"a\":" T("F32", "1", 0, 8) "}", 8,
      "hold 8 bytes, but the shape needs" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],"
      "\"x\":1}}",
      4, "has keys besides" },
    { "{\"b\":" T("U8", "2", 0, 2) ",\"a\":" T("F32", "1", 2, 6) "}", 6,
      "tensor a: its data starts at byte" },
    { "{\"b\":" T("F32", "1", 0, 4) ",\"a\":" T("F64", "1", 4, 12) "}", 12,
      "not a multiple of its number size 8" },
    /* all tensors */
    { "{\"a\":" T("F32", "2", 0, 8) ",\"b\":" T("F32", "1", 4, 8) "}", 8,
      "tensor b: its data overlaps that of a" },
    { "{\"a\":" T("F32", "1", 0, 4) ",\"b\":" T("F32", "1", 0, 4) "}", 4,
      "its data overlaps that of" },
    { "{\"a\":" T("F32", "2", 0, 8) ",\"e\":" T("F32", "0", 4, 4) "}", 8,
      "tensor e: its data overlaps that of a" },
    { "{\"a\":" T("F32", "1", 0, 4) ",\"b\":" T("F32", "1", 8, 12) "}", 12,
      "tensor b: a gap of 4 bytes before it" },
    { "{\"a\":" T("F32", "1", 4, 8) "}", 8, "tensor a: a gap of 4 bytes" },
    { "{\"a\":" T("F32", "1", 0, 4) "}", 5,
      "1 bytes after the last tensor belong to no tensor" },
    { "{}", 8, "8 bytes after the last tensor belong to no tensor" },
    { "{\"a\\nb\\u007f\":7}", 0, "tensor a b : is not" },
};

static void every_rule_is_enforced(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(rules); i++) {
        struct vp_st_header header;
        struct vp_err err = { .text = "" };
        enum vp_status st = parse_json(rules[i].json, rules[i].n_data, &header,
                                       &err);

        if (!rules[i].want) {
            if (st != VP_OK)
                fail_msg("%s: %s", rules[i].json, err.text);
            vp_st_header_release(&header);
            continue;
        }
        if (st == VP_OK || !strstr(err.text, rules[i].want))
            fail_msg("%s: %s", rules[i].json, err.text);
        assert_null(strchr(err.text, '\n'));
        assert_true(parse_json(rules[i].json, rules[i].n_data, &header, NULL) ==
                    st);
    }
}

static void the_length_is_checked(void **state)
{
    static const struct {
        unsigned char first[8];
        int64_t file_bytes;
        const char *want;
    } cases[] = {
        { { 2 }, 10, NULL },
        { { 0, 225, 245, 5 }, 200000000, NULL }, /* 100 000 000 */
        { { 1, 225, 245, 5 }, 200000000, "at most 100000000 are possible" },
        { { 3 }, 10, "the file only 10" },
        { { 2, 0, 0, 0, 0, 0, 0, 128 }, 10, "at most 100000000" },
        { { 255, 255, 255, 255, 255, 255, 255, 255 }, 10, "at most 100000000" },
    };
    struct vp_st_header header;
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        int64_t n = -1;
        enum vp_status st = vp_st_head_bytes(cases[i].first,
                                             cases[i].file_bytes, &n, &err);

        assert_int_equal(st, cases[i].want ? VP_ERR_INVALID : VP_OK);
        if (cases[i].want)
            assert_non_null(strstr(err.text, cases[i].want));
        else
            assert_true(n == 8 + cases[i].first[0] + 256 * cases[i].first[1] +
                                 65536 * cases[i].first[2] +
                                 16777216 * (int64_t)cases[i].first[3]);
    }
    assert_int_equal(
        vp_st_parse((const unsigned char *)"\2\0\0", 3, 3, &header, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "has 3 bytes"));
    assert_int_equal(vp_st_parse((const unsigned char *)"\2\0\0\0\0\0\0\0{} ",
                                 11, 11, &header, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "ends at byte 10, not at 11"));
    assert_int_equal(vp_st_parse((const unsigned char *)"\0\0\0\0\0\0\0\0", 8,
                                 8, &header, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "does not start with {"));
}

/* ---- Files -------------------------------------------------------------- */

static void open_fails(const char *path, const char *want)
{
    struct vp_st_file *file = NULL;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_st_open(path, NULL, &file, &err);

    if (st == VP_OK || !strstr(err.text, want) ||
        strncmp(err.text, path, strlen(path)) != 0)
        fail_msg("%s: %s", path, err.text);
    assert_null(file);
}

static void bad_files_are_refused(void **state)
{
    unsigned char *bytes;
    size_t n;

    (void)state;
    open_fails(at("none"), "cannot be opened (No such file");
    open_fails(folder, "is not a file");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    open_fails(at("pipe"), "is not a file");
    write_path(at("short"), "1234567", 7);
    open_fails(at("short"), "has 7 bytes");
    bytes = read_file(GOLDEN, &n);
    for (size_t k = 0; k < n; k++) { /* cut at every length */
        write_path(at("cut"), bytes, k);
        open_fails(at("cut"), "");
    }
    write_path(at("long"), bytes, n + 1);
    open_fails(at("long"), "1 bytes after the last tensor");
    free(bytes);
}

/* Sets the modification time of the file to `when` plus `ns` nanoseconds. */
static void set_time(const char *path, struct timespec when, long ns)
{
    const struct timespec times[2] = {
        when, { when.tv_sec, (when.tv_nsec + ns) % 1000000000 }
    };

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A file that changes after it was opened gives an error, not a crash. */
static void changed_files_are_noticed(void **state)
{
    struct vp_st_file *file = NULL;
    const struct vp_st_tensor *t;
    unsigned char *bytes, buf[64];
    struct vp_err err = { .text = "" };
    struct stat info;
    size_t n;

    (void)state;
    bytes = read_file(GOLDEN, &n);
    write_path(at("f"), bytes, n);
    assert_int_equal(stat(at("f"), &info), 0);
    assert_int_equal(vp_st_open(at("f"), NULL, &file, &err), VP_OK);
    t = vp_st_header_find(vp_st_header(file), "weight");
    assert_int_equal(vp_st_read(file, t, buf, &err), VP_OK);

    /* Another length, then the original content again. */
    assert_int_equal(truncate(at("f"), (off_t)n - 1), 0);
    set_time(at("f"), info.st_mtim, 0);
    assert_int_equal(vp_st_read(file, t, buf, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "/f: tensor weight: was changed or"));
    write_path(at("f"), bytes, n);
    set_time(at("f"), info.st_mtim, 0);
    assert_int_equal(vp_st_read(file, t, buf, &err), VP_OK);

    /* Another time, another file with the same time, no file. */
    set_time(at("f"), info.st_mtim, 1);
    assert_int_equal(vp_st_read(file, t, buf, &err), VP_ERR_INVALID);
    write_path(at("g"), bytes, n);
    set_time(at("g"), info.st_mtim, 0);
    assert_int_equal(rename(at("g"), at("f")), 0);
    assert_int_equal(vp_st_read(file, t, buf, &err), VP_ERR_INVALID);
    assert_int_equal(unlink(at("f")), 0);
    assert_int_equal(vp_st_read(file, t, buf, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "cannot be opened"));
    vp_st_close(file);
    free(bytes);
}

static void reads_fail_cleanly(void **state)
{
    struct vp_st_file *file = NULL;
    const struct vp_st_tensor *t;
    unsigned char buf[64];
    struct vp_err err;

    (void)state;
    for (int k = 1;; k++) {
        enum vp_status st;

        fault_start(FAULT_FAIL, k, EIO);
        st = vp_st_open(GOLDEN, NULL, &file, &err);
        if (st == VP_OK) {
            t = vp_st_header_find(vp_st_header(file), "weight");
            st = vp_st_read(file, t, buf, &err);
            vp_st_close(file);
        }
        fault_end();
        assert_int_equal(fault.n_open, 0);
        if (fault.n < k) {
            assert_int_equal(st, VP_OK);
            assert_int_equal(k, 8); /* open pread pread close, open ... */
            break;
        }
        if (k != 4 && k != 7) { /* a failed close after a good read */
            assert_int_equal(st, VP_ERR_IO);
            assert_non_null(strstr(err.text, GOLDEN ": "));
            assert_non_null(strstr(err.text, strerror(EIO)));
        }
    }
    /* The file is truncated while it is read. */
    for (int k = 2; k <= 6; k += k == 3 ? 3 : 1) {
        enum vp_status st;

        fault_start(FAULT_EOF, k, 0);
        st = vp_st_open(GOLDEN, NULL, &file, &err);
        assert_int_equal(st, k < 4 ? VP_ERR_INVALID : VP_OK);
        if (st == VP_OK) {
            t = vp_st_header_find(vp_st_header(file), "weight");
            st = vp_st_read(file, t, buf, &err);
            vp_st_close(file);
        }
        assert_int_equal(st, VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "is cut short; it was changed"));
        fault_end();
    }
    fault_start(FAULT_NONE, 0, 0);
    fault.choppy = true;
    assert_int_equal(vp_st_open(GOLDEN, NULL, &file, &err), VP_OK);
    t = vp_st_header_find(vp_st_header(file), "weight");
    assert_int_equal(vp_st_read(file, t, buf, &err), VP_OK);
    for (size_t j = 0; j < 60; j++)
        assert_int_equal(buf[j], golden_byte(0, j));
    vp_st_close(file);
    fault_end();
}

/* ---- Random bytes ------------------------------------------------------- */

/* Checks that the tensors of an accepted header cover the data exactly. */
static void check_accepted(const struct vp_st_header *h, int64_t n_head,
                           int64_t file_bytes)
{
    int64_t end = n_head;

    for (int i = 0; i < h->n_tensors; i++) {
        const struct vp_st_tensor *t = &h->tensors[i];
        int64_t n = vp_st_type_bytes(t->type);

        for (int d = 0; d < t->n_dims; d++)
            n *= t->dims[d];
        assert_int_equal(t->n_bytes, n);
        assert_int_equal(t->offset, end);
        assert_ptr_equal(vp_st_header_find(h, t->name), t);
        end += n;
    }
    assert_int_equal(end, file_bytes);
}

static void no_bytes_break_the_parser(void **state)
{
    enum { ROOM = 4096 };
    unsigned char *bytes = malloc(ROOM), *seed_file;
    uint32_t n_mutants = getenv("VP_FULL") ? 3000000 : 400000;
    int n_accepted = 0;
    size_t n_seed;

    (void)state;
    seed_file = read_file(GOLDEN, &n_seed);
    for (uint32_t m = 0; m < n_mutants; m++) {
        size_t rule = m % (VP_COUNT_OF(rules) + 4);
        struct vp_st_header header;
        struct vp_err err = { .text = "" };
        int64_t file_bytes;
        size_t n;

        if (rule < VP_COUNT_OF(rules)) {
            n = strlen(rules[rule].json);
            memcpy(bytes + 8, rules[rule].json, n);
            file_bytes = rules[rule].n_data;
        } else {
            n = (size_t)seed_file[0] + 256u * seed_file[1];
            memcpy(bytes + 8, seed_file + 8, n);
            file_bytes = (int64_t)(n_seed - n - 8);
        }
        n = mutate(bytes + 8, n, ROOM - 16, m);
        while (n % 8 != 0)
            bytes[8 + n++] = ' ';
        for (int i = 0; i < 8; i++)
            bytes[i] = (unsigned char)(n >> (8 * i));
        file_bytes += 8 + (int64_t)n;
        if (vp_st_parse(bytes, 8 + n, file_bytes, &header, &err) == VP_OK) {
            check_accepted(&header, 8 + (int64_t)n, file_bytes);
            vp_st_header_release(&header);
            n_accepted++;
        } else {
            assert_true(err.text[0] != '\0');
            assert_null(strchr(err.text, '\n'));
        }
    }
    /* The bounds show that mutants get past the first check. */
    assert_in_range(n_accepted, n_mutants / 200, n_mutants / 2);
    free(seed_file);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_python_wrote),
        TEST_IN_FOLDER(writes_what_python_writes),
        cmocka_unit_test(types_and_shapes_have_names),
        TEST_IN_FOLDER(tensors_come_back),
        cmocka_unit_test(refuses_to_write_nonsense),
        TEST_IN_FOLDER(writes_all_or_nothing),
        cmocka_unit_test(every_rule_is_enforced),
        cmocka_unit_test(the_length_is_checked),
        TEST_IN_FOLDER(bad_files_are_refused),
        TEST_IN_FOLDER(changed_files_are_noticed),
        TEST_IN_FOLDER(reads_fail_cleanly),
        cmocka_unit_test(no_bytes_break_the_parser),
    };

    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
