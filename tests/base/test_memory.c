/* Sizes are multiplied with overflow checks, arenas and guarded pages keep
 * their contracts, and the free memory of the host and of the address space is
 * computed correctly. */
#include "base/batch.h"
#include "base/cores.h"
#include "base/halves.h"
#include "base/host.h"
#include "base/limit.h"
#include "base/memory.h"
#include "base/numa.h"
#include "base/status.h"
#include "lib/signal_of_child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Helpers ------------------------------------------------------------ */

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

/* ---- Sizes -------------------------------------------------------------- */

static void test_mul(void **state)
{
    static const struct {
        int64_t a, b;
        bool ok;
        int64_t want;
    } cases[] = {
        { 0, 0, true, 0 },
        { 0, INT64_MAX, true, 0 },
        { INT64_MAX, 0, true, 0 },
        { INT64_MAX, 1, true, INT64_MAX },
        { 1, INT64_MAX, true, INT64_MAX },
        { 30528, 1024, true, 31260672 },
        { INT64_C(3037000499), INT64_C(3037000499), true,
          INT64_C(9223372030926249001) },
        { INT64_C(3037000500), INT64_C(3037000500), false, 0 },
        { INT64_C(1) << 32, INT64_C(1) << 31, false, 0 },
        { INT64_C(1) << 31, INT64_C(1) << 31, true, INT64_C(1) << 62 },
        { INT64_MAX, 2, false, 0 },
        { INT64_MAX / 2 + 1, 2, false, 0 },
        { -1, 1, false, 0 },
        { 1, -1, false, 0 },
        { -1, 0, false, 0 },
        { 0, INT64_MIN, false, 0 },
        { INT64_MIN, -1, false, 0 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        int64_t out = 77;

        assert_int_equal(vp_mul_i64(cases[i].a, cases[i].b, &out), cases[i].ok);
        assert_true(out == (cases[i].ok ? cases[i].want : 77));
    }
}

static void test_align_up(void **state)
{
    static const size_t aligns[] = { 1, 2, 16, 24, 256, 4096 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(aligns); i++) {
        for (size_t n = 0; n < 9000; n += n < 600 ? 1 : 97) {
            size_t want = n;

            while (want % aligns[i] != 0)
                want++;
            assert_int_equal(vp_align_up(n, aligns[i]), want);
        }
    }
}

static void test_dims_role(void **state)
{
    /* n_labels and tgt_seq set the kind of batch: masked LM, causal LM,
     * translation. */
    static const struct {
        struct vp_dims dims;
        int64_t want[VP_ROLE_COUNT]; /* in the order of enum vp_role */
    } cases[] = {
        { { 4, 128, 0, 80 }, { 0, 512, 512, 512, 80, 80, 0 } },
        { { 2, 64, 0, 0 }, { 0, 128, 128, 128, 0, 128, 0 } },
        { { 3, 10, 7, 0 }, { 0, 30, 30, 30, 0, 21, 21 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (int role = 0; role < VP_ROLE_COUNT; role++)
            assert_int_equal(vp_dims_role(&cases[i].dims, (enum vp_role)role),
                             cases[i].want[role]);
}

/* ---- Arena -------------------------------------------------------------- */

/* Allocates blocks of many sizes, some larger than a chunk. Each must be
 * aligned and zeroed, and must keep its own pattern after all others were
 * written. */
static void test_arena_blocks(void **state)
{
    enum { N = 500 };
    struct vp_arena arena = { NULL };
    unsigned char *block[N];
    size_t size[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        size[i] = (size_t)i * 37 % 1000;
        if (i % 50 == 49)
            size[i] = 60000 + (size_t)i * 331; /* up to 3 chunks */
        block[i] = vp_arena_alloc(&arena, size[i]);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % 16, 0);
        assert_true(all_zero(block[i], size[i]));
        memset(block[i], 1 + i % 255, size[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(block[i][j], 1 + i % 255);
    vp_arena_release(&arena);
    assert_null(arena.head);
}

static void test_arena_empty_blocks_differ(void **state)
{
    struct vp_arena arena = { NULL };
    void *a = vp_arena_alloc(&arena, 0);
    void *b = vp_arena_alloc(&arena, 0);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    vp_arena_release(&arena);
}

static void test_arena_text(void **state)
{
    struct vp_arena arena = { NULL };
    char big[100000];
    char *copy;

    (void)state;
    memset(big, 'q', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';

    copy = vp_arena_strdup(&arena, "layer.0");
    assert_string_equal(copy, "layer.0");
    assert_string_equal(vp_arena_strdup(&arena, ""), "");
    assert_string_equal(vp_arena_strdup(&arena, "100%d"), "100%d");
    assert_string_equal(
        vp_arena_printf(&arena, "%s.%d", big, 3) + sizeof(big) - 1, ".3");
    assert_string_equal(copy, "layer.0");
    vp_arena_release(&arena);
}

static void test_arena_reuse(void **state)
{
    struct vp_arena arena = { NULL };

    (void)state;
    vp_arena_release(&arena); /* an empty arena may be released */
    for (int i = 0; i < 3; i++) {
        unsigned char *p = vp_arena_alloc(&arena, 100);

        assert_non_null(p);
        assert_true(all_zero(p, 100));
        memset(p, 0xFF, 100);
        vp_arena_release(&arena);
    }
}

/* ---- Guarded pages ------------------------------------------------------ */

static const size_t page_sizes[] = { 0,    1,    255,  256,   257,
                                     4095, 4096, 4097, 65536, 1000003 };

static void test_pages_contents(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(page_sizes); i++) {
        size_t n = page_sizes[i];
        void *pages = NULL;

        assert_int_equal(vp_pages_alloc(n, &pages), VP_OK);
        assert_non_null(pages);
        assert_int_equal((uintptr_t)pages % VP_TENSOR_ALIGN, 0);
        assert_true(all_zero(pages, n));
        memset(pages, 0xA5, n);
        vp_pages_free(pages, n);
    }
    vp_pages_free(NULL, 100);
}

/* vp_pages_touch() makes pages resident and changes no byte. */
static void test_pages_touch(void **state)
{
    enum { PAGES = 7 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = PAGES * page - 100;
    unsigned char *p, present[PAGES] = { 0 };
    void *pages;

    (void)state;
    assert_int_equal(vp_pages_alloc(n, &pages), VP_OK);
    p = pages;
    p[2 * page] = 1;
    if (!vp_pages_touch(p + page, n - page)) {
        print_message("skipped: Linux is older than 5.14\n");
        skip();
    }
    assert_int_equal(
        mincore((void *)((uintptr_t)p / page * page), PAGES * page, present),
        0);
    assert_int_equal(present[0] & 1, 0);
    for (int i = 1; i < PAGES; i++)
        assert_int_equal(present[i] & 1, 1);
    assert_int_equal(p[2 * page], 1);
    p[2 * page] = 0;
    assert_true(all_zero(p, n));
    assert_true(vp_pages_touch(p, 0));
    vp_pages_free(pages, n);
}

static void touch(void *arg)
{
    *(volatile unsigned char *)arg = 1;
}

static void test_pages_guards(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(page_sizes); i++) {
        size_t n = page_sizes[i];
        size_t end = vp_align_up(n, VP_TENSOR_ALIGN);
        size_t slack;
        void *pages;
        unsigned char *p;

        assert_int_equal(vp_pages_alloc(n, &pages), VP_OK);
        p = pages;
        slack = (uintptr_t)p % page;
        if (n == 0)
            slack = page; /* size 0 maps one page without access */
        assert_int_equal(signal_of_child(touch, p + end, NULL, 0), SIGSEGV);
        assert_int_equal(signal_of_child(touch, p + end + page - 1, NULL, 0),
                         SIGSEGV);
        assert_int_equal(signal_of_child(touch, p - slack - 1, NULL, 0),
                         SIGSEGV);
        if (n > 0) {
            assert_int_equal(signal_of_child(touch, p, NULL, 0), 0);
            assert_int_equal(signal_of_child(touch, p + n - 1, NULL, 0), 0);
        }
        vp_pages_free(pages, n);
    }
}

/* After free, buffer and guards are unmapped: msync() refuses each page. */
static void test_pages_are_returned(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(page_sizes); i++) {
        size_t n = page_sizes[i];
        size_t inner = vp_align_up(n > 0 ? n : 1, page);
        unsigned char *first;
        void *pages;

        assert_int_equal(vp_pages_alloc(n, &pages), VP_OK);
        first = (unsigned char *)pages + vp_align_up(n, VP_TENSOR_ALIGN) -
                inner - page;
        for (size_t at = 0; at < inner + 2 * page; at += page)
            assert_int_equal(msync(first + at, page, MS_ASYNC), 0);
        vp_pages_free(pages, n);
        for (size_t at = 0; at < inner + 2 * page; at += page)
            assert_int_equal(msync(first + at, page, MS_ASYNC), -1);
    }
}

static void test_pages_exhausted(void **state)
{
    int dummy;
    void *pages = &dummy;

    (void)state;
    assert_int_equal(vp_pages_alloc((size_t)1 << 60, &pages), VP_ERR_NOMEM);
    assert_ptr_equal(pages, &dummy);
}

/* ---- Memory of the host and NUMA nodes ---------------------------------- */

static void put(const char *root, const char *path, const char *text)
{
    char whole[512];
    FILE *file;

    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    for (char *end = strchr(whole + strlen(root) + 1, '/'); end;
         end = strchr(end + 1, '/')) {
        *end = '\0';
        mkdir(whole, 0700);
        *end = '/';
    }
    file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_host_memory(void **state)
{
    static const char *const files[] = {
        "sys/fs/cgroup/a/b/memory.max",
        "sys/fs/cgroup/a/memory.max",
        "sys/fs/cgroup/memory.max",
        "proc/self/cgroup",
        "proc/meminfo",
        "sys/fs/cgroup/a/b",
        "sys/fs/cgroup/a",
        "sys/fs/cgroup",
        "sys/fs",
        "sys",
        "proc/self",
        "proc",
    };
    char root[] = "/tmp/vp-room-XXXXXX", path[512];

    (void)state;
    assert_non_null(mkdtemp(root));
    assert_true(vp_host_memory(root) == SIZE_MAX);
    put(root, "proc/meminfo",
        "MemTotal:  4000 kB\nMemFree:  100 kB\nMemAvailable:  2000 kB\n"
        "SwapTotal:  900 kB\nSwapFree:   500 kB\n");
    assert_int_equal(vp_host_memory(root), 2500 * 1024);
    put(root, "proc/self/cgroup", "4:cpu:/x\n0::/a/b\n");
    put(root, "sys/fs/cgroup/memory.max", "max\n");
    assert_int_equal(vp_host_memory(root), 2500 * 1024);
    put(root, "sys/fs/cgroup/a/b/memory.max", "1000000\n");
    assert_int_equal(vp_host_memory(root), 1000000);
    put(root, "sys/fs/cgroup/a/memory.max", "900000\n");
    assert_int_equal(vp_host_memory(root), 900000);
    put(root, "sys/fs/cgroup/memory.max", "800000\n");
    assert_int_equal(vp_host_memory(root), 800000);
    put(root, "sys/fs/cgroup/memory.max", "90000000\n");
    assert_int_equal(vp_host_memory(root), 900000);
    for (size_t i = 0; i < VP_COUNT_OF(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, files[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(root), 0);
}

/* Every machine has node 0. A kernel without NUMA refuses the calls and leaves
 * the policy unchanged. */
static void test_numa(void **state)
{
    static const char *const files[] = {
        "sys/bus/pci/devices/0000:4a:00.0/numa_node",
        "sys/bus/pci/devices/0000:4a:00.0",
        "sys/bus/pci/devices",
        "sys/bus/pci",
        "sys/bus",
        "sys",
    };
    char root[] = "/tmp/vp-numa-XXXXXX", path[512];
    struct vp_numa_policy before, between, after;

    (void)state;
    assert_non_null(mkdtemp(root));
    put(root, files[0], "1\n");
    assert_int_equal(vp_numa_node_of_pci(root, "0000:4A:00.0"), 1);
    assert_int_equal(vp_numa_node_of_pci(root, "0000:4B:00.0"), -1);
    put(root, files[0], "-1\n");
    assert_int_equal(vp_numa_node_of_pci(root, "0000:4a:00.0"), -1);
    for (size_t i = 0; i < VP_COUNT_OF(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, files[i]);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(rmdir(root), 0);

    vp_numa_prefer(-1, &before);
    assert_int_equal(before.mode, -1);
    vp_numa_prefer(0, &before);
    vp_numa_prefer(0, &between);
    if (before.mode >= 0) {
        assert_int_not_equal(between.mode, before.mode);
        assert_int_equal(between.nodes[0], 1);
    }
    vp_numa_restore(&between);
    vp_numa_restore(&before);
    vp_numa_prefer(0, &after);
    vp_numa_restore(&after);
    assert_int_equal(after.mode, before.mode);
}

/* ---- Sizes as text, and address space ----------------------------------- */

static void bytes_have_units(void **state)
{
    static const struct {
        int64_t bytes;
        const char *want;
    } cases[] = { { 0, "0 B" },
                  { 999, "999 B" },
                  { 1048063, "1023 KiB" },
                  { 1048064, "1 MiB" },
                  { 1023, "1023 B" },
                  { 1024, "1 KiB" },
                  { 1536, "1.5 KiB" },
                  { 49178214, "46.9 MiB" },
                  { INT64_C(11) << 30, "11 GiB" },
                  { INT64_C(1) << 52, "4096 TiB" } };
    char text[32];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        vp_bytes_text(cases[i].bytes, text, sizeof(text));
        assert_string_equal(text, cases[i].want);
    }
}

/* Two different amounts in one message never read the same: where both would
 * round to the same text, they are written as bytes. */
static void bytes_that_differ_look_different(void **state)
{
    char a[VP_BYTES_TEXT], b[VP_BYTES_TEXT];

    (void)state;
    vp_bytes_texts(21390950, 20342375, a, b, sizeof(a));
    assert_string_equal(a, "20.4 MiB");
    assert_string_equal(b, "19.4 MiB");
    vp_bytes_texts(20971521, 20971520, a, b, sizeof(a));
    assert_string_equal(a, "20971521 bytes");
    assert_string_equal(b, "20971520 bytes");
}

/* The limits set here are far above what this test maps. */
static void address_space_left(void **state)
{
    const rlim_t high = (rlim_t)1 << 46;
    struct rlimit old_as, old_data, limit;
    char root[] = "/tmp/vp-space-XXXXXX", path[64];

    (void)state;
    assert_non_null(mkdtemp(root));
    put(root, "proc/self/status", "VmSize:\t 1024 kB\nVmData:\t  2048 kB\n");
    assert_int_equal(getrlimit(RLIMIT_AS, &old_as), 0);
    assert_int_equal(getrlimit(RLIMIT_DATA, &old_data), 0);
    if (old_as.rlim_cur == RLIM_INFINITY && old_data.rlim_cur == RLIM_INFINITY)
        assert_true(vp_host_address_space(root) == SIZE_MAX);
    limit = (struct rlimit){ high, old_as.rlim_max };
    if (setrlimit(RLIMIT_AS, &limit) == 0) {
        assert_true(vp_host_address_space(root) == high - (1 << 20));
        limit = (struct rlimit){ high / 2, old_data.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
        assert_true(vp_host_address_space(root) == high / 2 - (2 << 20));
        put(root, "proc/self/status", "VmSize: 99999999999 kB\n");
        assert_int_equal(vp_host_address_space(root), 0);
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &old_as), 0);
    assert_int_equal(setrlimit(RLIMIT_DATA, &old_data), 0);
    snprintf(path, sizeof(path), "%s/proc/self/status", root);
    assert_int_equal(remove(path), 0);
    snprintf(path, sizeof(path), "%s/proc/self", root);
    assert_int_equal(remove(path), 0);
    snprintf(path, sizeof(path), "%s/proc", root);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mul),
        cmocka_unit_test(test_align_up),
        cmocka_unit_test(test_dims_role),
        cmocka_unit_test(test_arena_blocks),
        cmocka_unit_test(test_arena_empty_blocks_differ),
        cmocka_unit_test(test_arena_text),
        cmocka_unit_test(test_arena_reuse),
        cmocka_unit_test(test_pages_contents),
        cmocka_unit_test(test_pages_touch),
        cmocka_unit_test(test_pages_guards),
        cmocka_unit_test(test_pages_are_returned),
        cmocka_unit_test(test_pages_exhausted),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_numa),
        cmocka_unit_test(bytes_have_units),
        cmocka_unit_test(bytes_that_differ_look_different),
        cmocka_unit_test(address_space_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
