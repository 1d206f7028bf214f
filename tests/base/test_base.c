/* The base folder: messages, checked sizes, arenas, guarded pages, the host's
 * memory, random numbers. The thread pool has a file of its own. */
#include "base/batch.h"
#include "base/blocking.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/dtype.h"
#include "base/halves.h"
#include "base/host.h"
#include "base/limit.h"
#include "base/memory.h"
#include "base/numa.h"
#include "base/rng.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Helpers ------------------------------------------------------------ */

/* Runs `fn(arg)` in a child process; returns the signal that ended it (0 for
 * none) and, if wanted, what it wrote to stderr. */
static int signal_of_child(void (*fn)(void *arg), void *arg, char *text,
                           size_t n_text)
{
    int fds[2];
    int status;
    ssize_t got = 0;
    size_t n = 0;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = { 0, 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        /* A sanitizer or cmocka may have taken these over. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        fn(arg);
        _exit(0);
    }
    close(fds[1]);
    while (n + 1 < n_text && (got = read(fds[0], text + n, n_text - 1 - n)) > 0)
        n += (size_t)got;
    if (n_text > 0)
        text[n] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

/* ---- Status and messages ------------------------------------------------ */

static void test_status_names(void **state)
{
    (void)state;
    assert_string_equal(vp_status_name(VP_OK), "ok");
    assert_string_equal(vp_status_name(VP_ERR_NOMEM), "out of memory");
    assert_string_equal(vp_status_name(VP_ERR_END), "end of data");
    for (int a = VP_OK; a <= VP_ERR_END; a++)
        for (int b = VP_OK; b < a; b++)
            assert_string_not_equal(vp_status_name((enum vp_status)a),
                                    vp_status_name((enum vp_status)b));
    assert_string_equal(vp_status_name((enum vp_status)1000), "unknown status");
    assert_string_equal(vp_status_name((enum vp_status) - 1), "unknown status");
}

static void test_err_set(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_err_set(&err, VP_ERR_IO, "%s:%d: bad", "a.yml", 7),
                     VP_ERR_IO);
    assert_string_equal(err.text, "a.yml:7: bad");
    assert_int_equal(vp_err_set(NULL, VP_ERR_TIMEOUT, "%d", 1), VP_ERR_TIMEOUT);
}

static void test_err_names_fields(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_err_refuse(&err, "heads hidden", "%d heads", 3),
                     VP_ERR_INVALID);
    assert_string_equal(err.text, "3 heads");
    assert_string_equal(err.fields, "heads hidden");
    vp_err_prefix(&err, "a.yml:1");
    assert_string_equal(err.text, "a.yml:1: 3 heads");
    vp_err_suffix(&err, "; use %d", 4);
    assert_string_equal(err.text, "a.yml:1: 3 heads; use 4");
    vp_err_suffix(NULL, "nobody listens");
    assert_string_equal(err.fields, "heads hidden");
    vp_err_set(&err, VP_ERR_IO, "another");
    assert_null(err.fields);
    assert_int_equal(vp_err_refuse(NULL, "heads", "none"), VP_ERR_INVALID);
}

static void test_err_write(void **state)
{
    static const struct {
        int error;
        const char *want;
    } cases[] = {
        { ENOSPC, "a/b: cannot be written (No space left on device); free some "
                  "space" },
        { EDQUOT, "a/b: cannot be written (Disk quota exceeded); free some "
                  "space" },
        { EFBIG, "a/b: cannot be written (File too large); raise the limit of "
                 "file sizes (ulimit -f)" },
        { EACCES, "a/b: cannot be written (Permission denied); make its folder "
                  "writable, or choose another" },
        { ENOENT,
          "a/b: cannot be written (No such file or directory); see that "
          "its folder is there, or choose another" },
        { EIO, "a/b: cannot be written (Input/output error); choose another "
               "folder" },
    };
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        assert_int_equal(vp_err_write(&err, "a/b", cases[i].error), VP_ERR_IO);
        assert_string_equal(err.text, cases[i].want);
    }
}

static void test_err_prefix(void **state)
{
    struct vp_err err = { .text = "cause" };

    (void)state;
    vp_err_prefix(&err, "stage %d", 3);
    assert_string_equal(err.text, "stage 3: cause");
    vp_err_prefix(&err, "rank %d", 1);
    assert_string_equal(err.text, "rank 1: stage 3: cause");
    vp_err_prefix(NULL, "nobody listens");
}

/* Long text is cut, never written past the end, and stays a string. */
static void test_err_is_bounded(void **state)
{
    struct {
        struct vp_err err;
        char canary[16];
    } box;
    char text[3 * sizeof(box.err.text)];

    (void)state;
    memset(&box, 'c', sizeof(box));
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';

    vp_err_set(&box.err, VP_ERR_INVALID, "%s", text);
    assert_int_equal(strlen(box.err.text), sizeof(box.err.text) - 1);
    vp_err_prefix(&box.err, "front");
    assert_int_equal(strlen(box.err.text), sizeof(box.err.text) - 1);
    assert_memory_equal(box.err.text, "front: xxx", 10);
    vp_err_prefix(&box.err, "%s", text);
    assert_int_equal(strlen(box.err.text), sizeof(box.err.text) - 1);
    assert_memory_equal(box.canary, "cccccccccccccccc", 16);
}

static enum vp_status try_twice(enum vp_status first, int *reached)
{
    VP_TRY(first);
    *reached = 1;
    VP_TRY(VP_OK);
    *reached = 2;
    return VP_OK;
}

static void test_try(void **state)
{
    int reached = 0;

    (void)state;
    assert_int_equal(try_twice(VP_ERR_NONFINITE, &reached), VP_ERR_NONFINITE);
    assert_int_equal(reached, 0);
    assert_int_equal(try_twice(VP_OK, &reached), VP_OK);
    assert_int_equal(reached, 2);
}

static void trip_bug(void *arg)
{
    VP_BUG_ON(*(int *)arg == 42);
}

static void test_bug_on(void **state)
{
    char text[512];
    int n = 41;

    (void)state;
    assert_int_equal(signal_of_child(trip_bug, &n, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    n = 42;
    assert_int_equal(signal_of_child(trip_bug, &n, text, sizeof(text)),
                     SIGABRT);
    assert_non_null(strstr(text, "test_base.c:"));
    assert_non_null(strstr(text, "*(int *)arg == 42"));
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
    /* n_labels, tgt_seq: masked LM, causal LM, translation. */
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

/* Blocks of many sizes, some larger than a chunk: aligned, zeroed, and each
 * still holds its own pattern after all the others were written. */
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
    vp_arena_release(&arena); /* an empty one may be released */
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

/* Pages become present, and no byte changes. */
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
    if (!vp_pages_touch(p + page, n - page))
        skip(); /* an old kernel */
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
            slack = page; /* one page is there, and none of it is ours */
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

/* ---- The host ----------------------------------------------------------- */

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

/* Node 0 is everywhere; a kernel without NUMA refuses the calls, and then the
 * policy is what it was. */
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

/* ---- Random numbers ----------------------------------------------------- */

/* Known answers published with Random123 for philox4x32-10. */
static void test_philox_known_answers(void **state)
{
    static const struct {
        struct vp_rng4 counter;
        uint32_t k0, k1;
        uint32_t want[4];
    } cases[] = {
        { { { 0, 0, 0, 0 } },
          0,
          0,
          { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff } },
          0xffffffff,
          0xffffffff,
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 } },
          0xa4093822,
          0x299f31d0,
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_rng4 got = vp_philox(cases[i].counter, cases[i].k0,
                                       cases[i].k1);

        assert_memory_equal(got.v, cases[i].want, sizeof(got.v));
    }
}

/* How arguments become key and counter is part of every stored run, so it is
 * pinned by values computed elsewhere from the definition. */
static void test_rng_is_pinned(void **state)
{
    static const struct {
        uint64_t seed;
        enum vp_rng_purpose purpose;
        uint32_t stream, c0, c1;
        uint64_t c23;
        uint32_t want[4];
    } cases[] = {
        { 1,
          VP_RNG_INIT,
          0,
          0,
          0,
          0,
          { 0x3995bf09, 0x7f77cb5e, 0xd6c25622, 0x5446138d } },
        { 0x0123456789abcdef,
          VP_RNG_DROPOUT,
          7,
          3,
          5,
          0xfedcba9876543210,
          { 0x6e74350e, 0x99c2316a, 0xb9c2004a, 0x2d8881e8 } },
        { UINT64_MAX,
          VP_RNG_MASKING,
          0xffffff,
          UINT32_MAX,
          UINT32_MAX,
          UINT64_MAX,
          { 0xece409bb, 0x5b443676, 0x1f087d06, 0x9d347151 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_rng4 got = vp_rng(cases[i].seed, cases[i].purpose,
                                    cases[i].stream, cases[i].c0, cases[i].c1,
                                    cases[i].c23);

        assert_memory_equal(got.v, cases[i].want, sizeof(got.v));
    }
}

/* Each of the 128 bits is set half of the time: within 5 sigma of n/2. */
static void test_rng_bits_are_balanced(void **state)
{
    enum { N = 1 << 16 };
    int ones[128] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        struct vp_rng4 r = vp_rng(3, VP_RNG_TEST, 0, i, 0, 0);

        for (int bit = 0; bit < 128; bit++)
            ones[bit] += r.v[bit / 32] >> bit % 32 & 1;
    }
    for (int bit = 0; bit < 128; bit++)
        assert_in_range(ones[bit], N / 2 - 5 * 128, N / 2 + 5 * 128);
}

static void test_rng_below(void **state)
{
    static const uint32_t ns[] = { 1, 2, 3, 7, 100, 260, 30528, UINT32_MAX };
    int count[7] = { 0 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(ns); i++) {
        assert_int_equal(vp_rng_below(0, ns[i]), 0);
        assert_int_equal(vp_rng_below(UINT32_MAX, ns[i]), ns[i] - 1);
    }
    for (uint32_t i = 0; i < 70000; i++)
        count[vp_rng_below(vp_rng(5, VP_RNG_TEST, 1, i, 0, 0).v[0], 7)]++;
    for (int i = 0; i < 7; i++) /* sigma is 93 */
        assert_in_range(count[i], 10000 - 465, 10000 + 465);
}

static void test_rng_unit(void **state)
{
    double sum = 0;

    (void)state;
    assert_true(vp_rng_unit(0) > 0.0);
    assert_true(vp_rng_unit(0) < 1e-9);
    assert_true(vp_rng_unit(UINT32_MAX) < 1.0);
    assert_true(vp_rng_unit(UINT32_MAX) > 1.0 - 1e-9);
    assert_true(vp_rng_unit(0x80000000u) > 0.5);
    assert_true(vp_rng_unit(0x7fffffffu) < 0.5);
    for (uint32_t i = 0; i < 10000; i++)
        sum += vp_rng_unit(vp_rng(9, VP_RNG_TEST, 2, i, 0, 0).v[3]);
    assert_true(sum / 10000 > 0.5 - 0.0145); /* 5 sigma */
    assert_true(sum / 10000 < 0.5 + 0.0145);
}

static void test_rng_byte(void **state)
{
    struct vp_rng4 r = { { 0x03020100, 0x07060504, 0x0b0a0908, 0xff0e0d0c } };

    (void)state;
    for (int i = 0; i < 15; i++)
        assert_int_equal(vp_rng_byte(r, i), i);
    assert_int_equal(vp_rng_byte(r, 15), 0xff);
}

/* The quantised probability is within half a step, and the factor keeps the
 * expectation: keep probability times factor is one. */
static void test_dropout_quantisation(void **state)
{
    (void)state;
    assert_int_equal(vp_dropout_threshold(0.0f), 0);
    assert_int_equal(vp_dropout_threshold(0.1f), 26);
    assert_int_equal(vp_dropout_threshold(0.5f), 128);
    assert_true(vp_dropout_scale(0.0f) == 1.0f);
    assert_true(vp_dropout_scale(0.5f) == 2.0f);
    for (int i = 0; i <= 99; i++) {
        float p = (float)i / 100;
        double q = vp_dropout_threshold(p) / 256.0;

        assert_true(q - p <= 0.5 / 256 + 1e-6);
        assert_true(p - q <= 0.5 / 256 + 1e-6);
        assert_true(vp_dropout_scale(p) * (1.0 - q) > 1 - 1e-6);
        assert_true(vp_dropout_scale(p) * (1.0 - q) < 1 + 1e-6);
    }
}

/* ---- Clock -------------------------------------------------------------- */

static void test_clock(void **state)
{
    int64_t start = vp_clock_ns();
    int64_t last = start;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t now = vp_clock_ns();

        assert_true(now >= last);
        last = now;
    }
    usleep(20000);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) >= 0.02);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 20);
    assert_true(vp_clock_seconds(0, 1500000000) == 1.5);
}

#define MS INT64_C(1000000)

/* The oldest call of a kind is told, with the path of its file. */
static void test_blocking_calls(void **state)
{
    int64_t n = vp_blocking_count();
    struct vp_blocking call;
    char path[1000], text[VP_BLOCKING_TEXT];
    int first, second, third, fd = open("/dev/null", O_RDONLY);

    (void)state;
    assert_false(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    first = vp_blocking_begin(VP_BLOCKING_FILE, "opening", "/a/b", -1);
    second = vp_blocking_begin(VP_BLOCKING_FILE, "reading", NULL, fd);
    third = vp_blocking_begin(VP_BLOCKING_PEERS, "waiting", NULL, -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    assert_string_equal(call.text, "opening /a/b");
    assert_true(call.since_ns <= vp_clock_ns());
    vp_blocking_end(first);
    assert_int_equal(vp_blocking_count(), n + 1);
    first = vp_blocking_begin(VP_BLOCKING_FILE, "opening", "/newer", -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    assert_string_equal(call.text, "reading /dev/null");
    vp_blocking_end(second);
    vp_blocking_end(first);
    close(fd);
    assert_int_equal(vp_blocking_count(), n + 3);
    assert_false(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    assert_true(vp_blocking_longest(VP_BLOCKING_PEERS, &call));
    assert_string_equal(call.text, "waiting");
    vp_blocking_end(third);
    assert_int_equal(vp_blocking_count(), n + 3);
    memset(path, 'x', sizeof(path)); /* the name is at the end */
    memcpy(path + sizeof(path) - 5, "/end", 5);
    first = vp_blocking_begin(VP_BLOCKING_FILE, "opening", path, -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    snprintf(text, sizeof(text), "%s", call.text);
    assert_string_equal(text + strlen(text) - 4, "/end");
    vp_blocking_end(first);
}

/* More calls at once than there is room for. */
static void test_many_blocking_calls(void **state)
{
    int calls[100];
    int64_t n = vp_blocking_count();
    struct vp_blocking call;

    (void)state;
    for (int i = 0; i < 100; i++)
        calls[i] = vp_blocking_begin(VP_BLOCKING_FILE, "reading", "/x", -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    for (int i = 0; i < 100; i++)
        vp_blocking_end(calls[i]);
    assert_int_equal(vp_blocking_count(), n + 100);
    assert_false(vp_blocking_longest(VP_BLOCKING_FILE, &call));
}

static void test_cores(void **state)
{
    static const struct {
        int64_t ran, delayed, ns;
        bool starved;
    } cases[] = {
        { 10, 90, 100, true }, { 10, 51, 100, true },  { 10, 50, 100, false },
        { 30, 61, 100, true }, { 30, 60, 100, false }, { 100, 0, 100, false },
        { 0, 0, 100, false },  { 0, -50, 100, false }, { 10, 300, 100, true },
    };
    struct vp_cores before = { 7, 1000 }, now = vp_cores_read();

    (void)state;
    assert_true(now.ran_ns > 0 && now.delayed_ns >= 0);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        /* In hundredths of the time that is evidence enough. */
        const int64_t unit = VP_CORES_EVIDENCE_NS / 100;

        now.ran_ns = before.ran_ns + cases[i].ran * unit;
        now.delayed_ns = before.delayed_ns + cases[i].delayed * unit;
        assert_int_equal(vp_cores_starved(&before, &now, cases[i].ns * unit),
                         cases[i].starved);
        assert_false(vp_cores_starved(&before, &now, cases[i].ns * unit - 1));
    }
}

/* What is counted between two looks, and what is a gap. */
static void test_job_clock(void **state)
{
    static const struct {
        int64_t passed_ms, counted_ms;
        bool gap;
    } cases[] = {
        { 0, 0, false },     { 1, 1, false },     { 200, 200, false },
        { 400, 400, false }, { 401, 400, false }, { 1000, 400, false },
        { 1001, 400, true }, { 5000, 400, true }, { 86400000, 400, true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_job_clock clock = { 0 };
        int64_t start = 7000 * MS, now = start + cases[i].passed_ms * MS;

        assert_false(vp_job_clock_tick(&clock, start)); /* starts it */
        assert_int_equal(clock.ns, 0);
        assert_int_equal(vp_job_clock_tick(&clock, now), cases[i].gap);
        assert_int_equal(clock.ns, cases[i].counted_ms * MS);
        assert_int_equal(clock.resumed_ns, cases[i].gap ? now : 0);
        assert_false(vp_job_clock_tick(&clock, now + 10 * MS));
        assert_int_equal(clock.ns, (cases[i].counted_ms + 10) * MS);
    }
}

static void test_limits(void **state)
{
    struct vp_limit now = VP_LIMIT_NOW, never = VP_LIMIT_NEVER, limit;
    int64_t start;

    (void)state;
    assert_true(vp_limit_is_over(&now));
    for (int i = 0; i < 3; i++)
        assert_false(vp_limit_is_over_at(&never, INT64_MAX / 4 * i + 1));
    limit = vp_limit_ms(INT64_MAX / 1000);
    assert_int_equal(limit.length_ns, INT64_MAX);
    limit = vp_limit_ms(300);
    start = limit.clock.seen_ns;
    assert_false(vp_limit_is_over_at(&limit, start + 200 * MS));
    assert_int_equal(vp_limit_left_ns(&limit), 100 * MS);
    assert_false(vp_limit_is_over_at(&limit, start + 299 * MS));
    assert_true(vp_limit_is_over_at(&limit, start + 300 * MS));
    assert_int_equal(vp_limit_left_ns(&limit), 0);
}

/* 2.9 s of 3 are over when the process is frozen for 5 s. */
static void test_a_frozen_wait_starts_anew(void **state)
{
    struct vp_limit limit = vp_limit_ms(3000);
    int64_t at = limit.clock.seen_ns;

    (void)state;
    for (int i = 0; i < 29; i++)
        assert_false(vp_limit_is_over_at(&limit, at += 100 * MS));
    assert_false(vp_limit_is_over_at(&limit, at += 5000 * MS));
    assert_int_equal(limit.clock.resumed_ns, at);
    for (int i = 0; i < 29; i++)
        assert_false(vp_limit_is_over_at(&limit, at += 100 * MS));
    assert_true(vp_limit_is_over_at(&limit, at + 100 * MS));
}

/* ---- Two-byte numbers --------------------------------------------------- */

static uint16_t rounded(enum vp_dtype dtype, float x)
{
    uint16_t bits;

    vp_dtype_round(dtype, &bits, &x, 1);
    return bits;
}

static float expanded(enum vp_dtype dtype, uint16_t bits)
{
    float x;

    vp_dtype_expand(dtype, &x, &bits, 1);
    return x;
}

/* Every number there is comes back; halfway between two of them, the one with
 * the even last bit wins, and a little off, the nearer one. */
static void two_byte_numbers(void **state)
{
    static const enum vp_dtype types[] = { VP_DTYPE_BF16, VP_DTYPE_F16 };

    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(types); t++)
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            float x = expanded(types[t], (uint16_t)bits);
            float next = expanded(types[t], (uint16_t)(bits + 1));
            float middle = 0.5f * x + 0.5f * next;
            uint16_t even = (uint16_t)(bits + (bits & 1));

            if (isnan(x)) {
                assert_true(isnan(expanded(types[t], rounded(types[t], x))));
                continue;
            }
            assert_int_equal(rounded(types[t], x), bits);
            if (!isfinite(x) || !isfinite(next) || x == 0.0f || next == 0.0f)
                continue;
            assert_int_equal(rounded(types[t], middle), even);
            vp_dtype_shorten(types[t], &middle, 1);
            assert_true(middle == expanded(types[t], even));
            middle = 0.5f * x + 0.5f * next;
            assert_int_equal(rounded(types[t], nextafterf(middle, x)), bits);
            assert_int_equal(rounded(types[t], nextafterf(middle, next)),
                             (uint16_t)(bits + 1));
        }
}

static void known_two_byte_numbers(void **state)
{
    (void)state;
    assert_int_equal(rounded(VP_DTYPE_BF16, 1.0f), 0x3F80);
    assert_int_equal(rounded(VP_DTYPE_F16, 1.0f), 0x3C00);
    assert_int_equal(rounded(VP_DTYPE_F16, -2.0f), 0xC000);
    assert_int_equal(rounded(VP_DTYPE_F16, 65504.0f), 0x7BFF);
    assert_int_equal(rounded(VP_DTYPE_F16, 65519.0f), 0x7BFF);
    assert_int_equal(rounded(VP_DTYPE_F16, 65520.0f), 0x7C00);
    assert_int_equal(rounded(VP_DTYPE_F16, 0x1p-24f), 0x0001);
    assert_int_equal(rounded(VP_DTYPE_F16, 0x1p-25f), 0x0000);
    assert_int_equal(rounded(VP_DTYPE_F16, 0x1.8p-25f), 0x0001);
    assert_int_equal(rounded(VP_DTYPE_F16, -INFINITY), 0xFC00);
    assert_int_equal(rounded(VP_DTYPE_BF16, FLT_MAX), 0x7F80);
    assert_true(expanded(VP_DTYPE_F16, 0x0001) == 0x1p-24f);
    assert_int_equal(vp_dtype_bytes(VP_DTYPE_BF16), 2);
    assert_int_equal(vp_dtype_bytes(VP_DTYPE_I32), 4);
}

/* Floats that share the upper half of their bits: each comes back, and its high
 * half is the nearest BF16, of two as near the one farther from zero. */
static void check_halves(uint32_t upper, const uint16_t *lower, int n)
{
    static float x[0x10000], joined[0x10000];
    static uint16_t high[0x10000], low[0x10000], nearest[0x10000];
    int n_wrong = 0;

    for (int i = 0; i < n; i++) {
        uint32_t bits = upper << 16 | lower[i];

        memcpy(&x[i], &bits, sizeof(bits));
    }
    vp_halves_split_all(high, low, x, n);
    vp_halves_join_all(joined, high, low, n);
    vp_dtype_round(VP_DTYPE_BF16, nearest, x, n);
    for (int i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &joined[i], sizeof(bits));
        if (isnan(x[i]))
            n_wrong += !isnan(joined[i]) ||
                       !isnan(expanded(VP_DTYPE_BF16, high[i]));
        else if (low[i] == 0x8000)
            n_wrong += high[i] != upper + 1;
        else
            n_wrong += high[i] != nearest[i];
        n_wrong += !isnan(x[i]) && bits != (upper << 16 | lower[i]);
    }
    if (n_wrong > 0)
        fail_msg("%d of the floats 0x%04X....", n_wrong, upper);
}

static void floats_in_two_halves(void **state)
{
    static const uint16_t ends[] = { 0x7FFF, 0x8000, 0x8001, 0xFFFF };
    static uint16_t lower[0x10000];
    int step = getenv("VP_FULL") ? 1 : 251, n = 0;

    (void)state;
    for (int bits = 0; bits < 0x10000; bits += step)
        lower[n++] = (uint16_t)bits;
    for (size_t i = 0; step > 1 && i < VP_COUNT_OF(ends); i++)
        lower[n++] = ends[i];
    for (uint32_t upper = 0; upper < 0x10000; upper++)
        check_halves(upper, lower, n);
}

static void known_halves(void **state)
{
    static const struct {
        float x;
        uint16_t high, low;
    } cases[] = {
        { 0.0f, 0, 0 },
        { -0.0f, 0x8000, 0 },
        { 1.0f, 0x3F80, 0 },
        { 0x1.00fffep0f, 0x3F80, 0x7FFF },
        { 0x1.01p0f, 0x3F81, 0x8000 },  /* a tie, up from an even one */
        { 0x1.03p0f, 0x3F82, 0x8000 },  /* and from an odd one */
        { -0x1.01p0f, 0xBF81, 0x8000 }, /* away from zero */
        { 0x1.fffffep0f, 0x4000, 0xFFFF },
        { 0x1p-149f, 0, 1 },
        { FLT_MAX, 0x7F80, 0xFFFF }, /* infinite, but not together */
        { -FLT_MAX, 0xFF80, 0xFFFF },
        { INFINITY, 0x7F80, 0 },
        { NAN, 0x7FC0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_halves halves = vp_halves_split(cases[i].x);

        assert_int_equal(halves.high, cases[i].high);
        assert_int_equal(halves.low, cases[i].low);
    }
    assert_true(vp_halves_join(0x7F80, 0xFFFF) == FLT_MAX);
    assert_true(vp_halves_join(0x3F81, 0x8000) == 0x1.01p0f);
}

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

/* Numbers that a message asks to compare do not look equal. */
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

/* Limits are far above what the test itself maps. */
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
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_err_set),
        cmocka_unit_test(test_err_names_fields),
        cmocka_unit_test(test_err_write),
        cmocka_unit_test(test_err_prefix),
        cmocka_unit_test(test_err_is_bounded),
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_bug_on),
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
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_rng_is_pinned),
        cmocka_unit_test(test_rng_bits_are_balanced),
        cmocka_unit_test(test_rng_below),
        cmocka_unit_test(test_rng_unit),
        cmocka_unit_test(test_rng_byte),
        cmocka_unit_test(test_dropout_quantisation),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_blocking_calls),
        cmocka_unit_test(test_many_blocking_calls),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_job_clock),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_frozen_wait_starts_anew),
        cmocka_unit_test(bytes_have_units),
        cmocka_unit_test(bytes_that_differ_look_different),
        cmocka_unit_test(two_byte_numbers),
        cmocka_unit_test(known_two_byte_numbers),
        cmocka_unit_test(floats_in_two_halves),
        cmocka_unit_test(known_halves),
        cmocka_unit_test(address_space_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
