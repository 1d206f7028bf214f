/* Shared libraries are found beside the program, whatever its path looks like,
 * and never in the working directory.
 *
 *   test_plugin beside FILE     prints the library found beside this copy
 *
 * With NO_PROC in the environment, /proc/self/exe cannot be read. */
#include "base/host.h"
#include "base/plugin.h"
#include "lib/removelib.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PROBE "libvpipe_probe.so"

/* Folder names with characters special to glob(), to lists like PATH or to a
 * shell. */
static const char *const odd[] = { "plain", "a[b]c", "a*b?", "a\\b",
                                   "a:b",   "a b$c", "[" };

static char root[PATH_MAX];

ssize_t __real_readlink(const char *path, char *out, size_t n_bytes);
ssize_t __wrap_readlink(const char *path, char *out, size_t n_bytes);

ssize_t __wrap_readlink(const char *path, char *out, size_t n_bytes)
{
    if (getenv("NO_PROC") && strcmp(path, "/proc/self/exe") == 0) {
        errno = ENOENT;
        return -1;
    }
    return __real_readlink(path, out, n_bytes);
}

/* ---- Files -------------------------------------------------------------- */

static void copy(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t n;

    assert_non_null(in);
    assert_non_null(out);
    while ((n = fread(bytes, 1, sizeof(bytes), in)) > 0)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0755), 0);
}

/* Makes `folder`, given relative to the root, and its parents. Returns its
 * path. */
static const char *make_folder(const char *folder)
{
    static char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/", root);

    snprintf(path + n, sizeof(path) - (size_t)n, "%s", folder);
    for (char *c = path + n; *c; c++)
        if (*c == '/') {
            *c = '\0';
            mkdir(path, 0777);
            *c = '/';
        }
    mkdir(path, 0777);
    return path;
}

/* Puts a library that can be loaded into `folder`: a copy of the system's
 * libm. */
static void put_probe(const char *folder)
{
    char path[PATH_MAX];
    Dl_info info;

    assert_true(dladdr((void *)(uintptr_t)&cbrt, &info) != 0);
    assert_true(snprintf(path, sizeof(path), "%s/" PROBE, folder) <
                (int)sizeof(path));
    copy(info.dli_fname, path);
}

static const char *path_of(void *handle)
{
    struct link_map *map;

    return handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name
                                                                : "nothing";
}

/* Fails unless `handle` is the library in `folder`. */
static void check_found(void *handle, const char *folder)
{
    char want[PATH_MAX], got[PATH_MAX];

    assert_true(snprintf(want, sizeof(want), "%s/" PROBE, folder) <
                (int)sizeof(want));
    if (!handle || !realpath(path_of(handle), got) || strcmp(got, want) != 0)
        fail_msg("%s, not %s", path_of(handle), want);
    dlclose(handle);
}

static int set_up(void **state)
{
    char name[] = "/tmp/vpipe_plugin_XXXXXX";

    (void)state;
    unsetenv("VPIPE_LIBRARIES");
    unsetenv("VPIPE_PLUGINS");
    unsetenv("CUDA_HOME");
    return !mkdtemp(name) || !realpath(name, root);
}

static int tear_down(void **state)
{
    (void)state;
    return chdir("/") | remove_tree(root);
}

/* ---- Folders and lists of folders --------------------------------------- */

static void folders_are_literal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        char folder[PATH_MAX], below[64];

        snprintf(below, sizeof(below), "literal/%s", odd[i]);
        snprintf(folder, sizeof(folder), "%.3000s", make_folder(below));
        assert_null(vp_library_in(folder, "", PROBE));
        put_probe(folder);
        check_found(vp_library_in(folder, "", PROBE), folder);
        snprintf(below, sizeof(below), "literal/%s/lib64", odd[i]);
        put_probe(make_folder(below));
        check_found(vp_library_in(folder, "/lib*", PROBE), make_folder(below));
        assert_null(vp_library_in(folder, "/lob*", PROBE));
    }
}

static void lists_have_their_order(void **state)
{
    char list[4 * PATH_MAX];

    (void)state;
    snprintf(list, sizeof(list), ":%s/none::%s/[x]:%s/y", root, root, root);
    put_probe(make_folder("y"));
    check_found(vp_library_in_list(list, false, "", PROBE), make_folder("y"));
    put_probe(make_folder("[x]"));
    check_found(vp_library_in_list(list, false, "", PROBE), make_folder("[x]"));
    assert_null(vp_library_in_list(NULL, false, "", PROBE));
    assert_null(vp_library_in_list("", false, "", PROBE));
}

/* ---- The working directory ---------------------------------------------- */

static void the_working_directory_is_not_searched(void **state)
{
    char path[PATH_MAX + 64];

    (void)state;
    put_probe(make_folder("here"));
    put_probe(make_folder("lib/python3.11/site-packages/nvidia/x/lib"));
    assert_int_equal(chdir(make_folder("here")), 0);
    assert_null(vp_library_beside(PROBE));
    assert_null(vp_plugin_open(PROBE));
    setenv("NO_PROC", "1", 1);
    assert_null(vp_library_beside(PROBE));
    assert_null(vp_plugin_open(PROBE));
    unsetenv("NO_PROC");
    setenv("CUDA_HOME", "", 1);
    setenv("PATH", ".:bin", 1);
    assert_null(vp_library_open(PROBE));
    snprintf(path, sizeof(path), ".:%s/here", root);
    setenv("PATH", path, 1);
    check_found(vp_library_open(PROBE),
                make_folder("lib/python3.11/site-packages/nvidia/x/lib"));
}

/* ---- dlerror() ---------------------------------------------------------- */

/* The error of a library that was not found must not be reported as that of a
 * missing plugin. */
static void a_missing_plugin_has_no_reason(void **state)
{
    (void)state;
    assert_null(vp_library_open("libvpipe_nowhere.so.7"));
    assert_null(vp_plugin_open("libvpipe_nothing.so"));
    assert_null(dlerror());
}

/* ---- The path of the program -------------------------------------------- */

static void the_program_is_known_without_proc(void **state)
{
    char with[PATH_MAX], without[PATH_MAX];

    (void)state;
    assert_true(vp_program_path(with, sizeof(with)));
    setenv("NO_PROC", "1", 1);
    assert_true(vp_program_path(without, sizeof(without)));
    assert_string_equal(with, without);
    assert_false(vp_program_path(without, strlen(with)));
    unsetenv("NO_PROC");
    assert_false(vp_program_path(without, strlen(with)));
    assert_true(vp_program_path(without, strlen(with) + 1));
}

/* Runs the copy of this program at `program`; out receives the path of the
 * library found beside it. */
static void run_copy(const char *program, char out[PATH_MAX])
{
    int ends[2], status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(program, "other name", "beside", PROBE, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    n = read(ends[0], out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void libraries_stand_beside_the_program(void **state)
{
    static const char *const places[] = { "bin", "lib/vpipe",
                                          "lib/x86_64-linux-gnu/vpipe" };
    char own[PATH_MAX], got[PATH_MAX];

    (void)state;
    assert_true(vp_program_path(own, sizeof(own)));
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        for (int k = 0; k < 6; k++) {
            char below[128], program[PATH_MAX + 16], want[PATH_MAX + 64];

            snprintf(below, sizeof(below), "%s%d/bin", odd[i], k);
            snprintf(program, sizeof(program), "%s/p", make_folder(below));
            copy(own, program);
            snprintf(below, sizeof(below), "%s%d/%s", odd[i], k, places[k / 2]);
            snprintf(want, sizeof(want), "%s/" PROBE, make_folder(below));
            put_probe(make_folder(below));
            if (k % 2)
                setenv("NO_PROC", "1", 1);
            run_copy(program, got);
            unsetenv("NO_PROC");
            assert_string_equal(got, want);
            unlink(program);
        }
}

/* Child side of run_copy(). */
static int print_beside(const char *file)
{
    void *handle = vp_library_beside(file);
    char path[PATH_MAX];

    if (!handle || !realpath(path_of(handle), path))
        printf("nothing: %s", dlerror());
    else
        fputs(path, stdout);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_literal),
        cmocka_unit_test(lists_have_their_order),
        cmocka_unit_test(a_missing_plugin_has_no_reason),
        cmocka_unit_test(the_program_is_known_without_proc),
        cmocka_unit_test(libraries_stand_beside_the_program),
        cmocka_unit_test(the_working_directory_is_not_searched),
    };

    if (argc == 3 && strcmp(argv[1], "beside") == 0)
        return print_beside(argv[2]);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
