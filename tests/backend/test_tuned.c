/* Kernel choices that are stored in a file are found by other processes, the
 * newest of a key first. A damaged or unusable file only lacks entries. */
#include "backend/tuned.h"
#include "lib/tempfolder.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_value(const char *path, const char *key, const char *want)
{
    char value[64] = "before";

    if (!want) {
        assert_false(vp_tuned_find(path, key, value, sizeof(value)));
        assert_string_equal(value, "before");
        return;
    }
    assert_true(vp_tuned_find(path, key, value, sizeof(value)));
    assert_string_equal(value, want);
}

static void values_come_back(void **state)
{
    const char *path = "a/b/products";
    char small[4];

    (void)state;
    assert_value(path, "m 1", NULL);
    vp_tuned_add(path, "m 1", "one");
    vp_tuned_add(path, "m 11", "eleven");
    vp_tuned_add(path, "m 2", "");
    assert_value(path, "m 1", "one");
    assert_value(path, "m 11", "eleven");
    assert_value(path, "m 2", "");
    assert_value(path, "m", NULL);
    assert_value(path, "m 111", NULL);
    vp_tuned_add(path, "m 1", "uno");
    assert_value(path, "m 1", "uno");
    assert_value(path, "m 11", "eleven");
    assert_true(vp_tuned_find(path, "m 1", small, sizeof(small)));
    assert_false(vp_tuned_find(path, "m 11", small, sizeof(small)));
}

static void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* A truncated line, malformed lines, a file that is too long, and a folder in
 * place of the file. */
static void damage_is_not_found(void **state)
{
    static const char text[] = "k\tgood\nnonsense\n\n\tx\nk\tcut";
    char *many = malloc(300000);

    (void)state;
    assert_non_null(many);
    write_bytes("damaged", text, strlen(text));
    assert_value("damaged", "k", "good");
    assert_value("damaged", "nonsense", NULL);
    /* Longer than the reader accepts: the next entry starts a new file. */
    memset(many, 'x', 300000);
    write_bytes("long", many, 300000);
    assert_value("long", "k", NULL);
    vp_tuned_add("long", "k", "v");
    assert_value("long", "k", "v");
    memset(many, 'y', 2000);
    many[2000] = '\0';
    vp_tuned_add("long", "k", many); /* too long: not stored */
    assert_value("long", "k", "v");
    assert_int_equal(mkdir("folder", 0777), 0);
    vp_tuned_add("folder", "k", "v");
    assert_value("folder", "k", NULL);
    free(many);
}

/* Four processes add a hundred lines each: none is lost or mixed. */
static void processes_add_at_once(void **state)
{
    enum { PROCESSES = 4, LINES = 100 };
    char key[32];

    (void)state;
    for (int p = 0; p < PROCESSES; p++)
        if (fork() == 0) {
            for (int i = 0; i < LINES; i++) {
                snprintf(key, sizeof(key), "%d of %d", i, p);
                vp_tuned_add("together", key, key);
            }
            _exit(0);
        }
    for (int p = 0; p < PROCESSES; p++) {
        int status = 1;

        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    for (int p = 0; p < PROCESSES; p++)
        for (int i = 0; i < LINES; i++) {
            snprintf(key, sizeof(key), "%d of %d", i, p);
            assert_value("together", key, key);
        }
}

static void path_is_in_the_cache(void **state)
{
    char path[PATH_MAX];

    (void)state;
    assert_int_equal(setenv("XDG_CACHE_HOME", "/c", 1), 0);
    assert_true(vp_tuned_path("products", path, sizeof(path)));
    assert_string_equal(path, "/c/vpipe/tuned/products");
    assert_false(vp_tuned_path("products", path, 10));
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", "/h", 1), 0);
    assert_true(vp_tuned_path("products", path, sizeof(path)));
    assert_string_equal(path, "/h/.cache/vpipe/tuned/products");
    assert_int_equal(unsetenv("HOME"), 0);
    assert_false(vp_tuned_path("products", path, sizeof(path)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(damage_is_not_found),
        cmocka_unit_test(processes_add_at_once),
        cmocka_unit_test(path_is_in_the_cache),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
