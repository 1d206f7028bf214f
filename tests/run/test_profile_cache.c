/* Profiles are read from the cache as they were written. Stale and damaged
 * files are not used, and a cache that cannot be written does no harm. */
#include "run/machine_profile.h"
#include "run/profile_cache.h"

#include "lib/removelib.h"
#include "lib/trainlib.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/vpipe-profile-XXXXXX";
static char notices[4096];
static int n_notices;

static void hear(void *ctx, const char *line)
{
    (void)ctx;
    assert_null(strchr(line, '\n'));
    snprintf(notices, sizeof(notices), "%s", line);
    n_notices++;
}

/* Finds the only file in the cache. */
static void find_file(const char *folder, char path[600])
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            snprintf(path, 600, "%s/%s", folder, entry->d_name);
            n++;
        }
    closedir(dir);
    assert_int_equal(n, 1); /* no temporary file is left */
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 18);

    assert_non_null(f);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 18) - 1, f) > 0);
    fclose(f);
    return text;
}

static void write_all(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static struct run model;

static struct vp_machine_profile_config config_of(const char *folder)
{
    notices[0] = '\0';
    n_notices = 0;
    return (struct vp_machine_profile_config){ .train = &model.config,
                                               .n_ranks = 1,
                                               .seconds = 1e-9,
                                               .n_repeats = 3,
                                               .folder = folder,
                                               .notice = hear };
}

static void get(const struct vp_machine_profile_config *config,
                struct vp_arena *arena, struct vp_device_profile *out)
{
    struct vp_err err = { .text = "" };

    if (vp_machine_profile_get(config, arena, out, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_true(out->n_blocks > 0 && out->blocks[0].alone.f > 0.0);
}

static bool same_seconds(const struct vp_device_profile *a,
                         const struct vp_device_profile *b)
{
    for (int i = 0; i < a->n_blocks; i++)
        if (fabs(a->blocks[i].alone.f / b->blocks[i].alone.f - 1.0) > 1e-9)
            return false;
    return a->n_blocks == b->n_blocks;
}

static void round_trip(void **state)
{
    char folder[300], path[600];
    struct vp_arena arena = { NULL };
    struct vp_device_profile first, second, other;
    struct vp_machine_profile_config config;

    (void)state;
    snprintf(folder, sizeof(folder), "%s/a/b", root);
    config = config_of(folder);
    get(&config, &arena, &first);
    find_file(folder, path);
    get(&config, &arena, &second);
    assert_true(same_seconds(&first, &second));
    assert_int_equal(n_notices, 0);
    config.measure = true;
    get(&config, &arena, &other);
    assert_false(same_seconds(&first, &other));
    config.measure = false;
    get(&config, &arena, &second); /* the file was overwritten */
    assert_true(same_seconds(&other, &second));
    find_file(folder, path);
    assert_int_equal(n_notices, 0);
    vp_arena_release(&arena);
}

/* Replaces the first `from` in the file by `to`. */
static void edit(const char *path, const char *from, const char *to)
{
    char *text = read_all(path), *at = strstr(text, from);
    size_t n = strlen(text) + strlen(to) + 1;
    char *edited = calloc(1, n);

    assert_non_null(at);
    snprintf(edited, n, "%.*s%s%s", (int)(at - text), text, to,
             at + strlen(from));
    write_all(path, edited);
    free(edited);
    free(text);
}

static void stale_and_damaged(void **state)
{
    char folder[300], path[600], want[1024], *text, *at;
    struct vp_arena arena = { NULL };
    struct vp_device_profile first, again;
    struct vp_machine_profile_config config;
    static const struct {
        const char *from, *to, *why;
    } edits[] = {
        { "\"build\": \"", "\"build\": \"x",
          "the profile is stale: build changed; measuring again" },
        { "\"libraries\": \"", "\"libraries\": \"x",
          "the profile is stale: libraries changed; measuring again" },
        { "\"blocks\"", "\"blobs\"", "the profile is damaged (" },
        { "{", "", "the profile is damaged (" },
        { "\"key\": \"", "\"key\": \"0", "the profile is damaged (" },
    };

    (void)state;
    snprintf(folder, sizeof(folder), "%s/stale", root);
    config = config_of(folder);
    get(&config, &arena, &first);
    find_file(folder, path);
    for (size_t i = 0; i < VP_COUNT_OF(edits); i++) {
        config = config_of(folder);
        edit(path, edits[i].from, edits[i].to);
        get(&config, &arena, &again);
        assert_int_equal(n_notices, 1);
        snprintf(want, sizeof(want), "%s: %s", path, edits[i].why);
        if (strncmp(notices, want, strlen(want)) != 0)
            fail_msg("%s\n%s", notices, want);
        n_notices = 0;
        get(&config, &arena, &again); /* the file was rewritten */
        assert_int_equal(n_notices, 0);
    }
    text = read_all(path);
    at = strstr(text, "\"key\": \"") + 8;
    *at = *at == '0' ? '1' : '0';
    write_all(path, text);
    free(text);
    n_notices = 0;
    get(&config, &arena, &again);
    assert_int_equal(n_notices, 1);
    assert_non_null(strstr(notices, "damaged (a block is missing)"));
    n_notices = 0;
    write_all(path, ""); /* a crash left an empty file */
    get(&config, &arena, &again);
    assert_int_equal(n_notices, 1);
    vp_arena_release(&arena);
}

/* A cache that cannot be written causes one notice. */
static void not_writable(void **state)
{
    char file[300], folder[400];
    struct vp_arena arena = { NULL };
    struct vp_device_profile profile;
    struct vp_machine_profile_config config;

    (void)state;
    snprintf(file, sizeof(file), "%s/file", root);
    write_all(file, "x");
    snprintf(folder, sizeof(folder), "%s/cache", file);
    config = config_of(folder);
    get(&config, &arena, &profile);
    assert_int_equal(n_notices, 1);
    assert_non_null(strstr(notices, file));
    vp_arena_release(&arena);
}

/* Each number of threads, number of ranks, precision and model has its own
 * profile. */
static void names_differ(void **state)
{
    char folder[300];
    struct vp_arena arena = { NULL };
    struct vp_profile_facts one, two;
    struct vp_machine_profile_config config;
    struct vp_train_config other = model.config;

    (void)state;
    snprintf(folder, sizeof(folder), "%s/names", root);
    config = config_of(folder);
    assert_int_equal(vp_machine_profile_facts(&config, &arena, &one), VP_OK);
    config.n_ranks = 2;
    assert_int_equal(vp_machine_profile_facts(&config, &arena, &two), VP_OK);
    assert_string_not_equal(one.device, two.device);
    assert_string_equal(one.build, two.build);
    assert_true(strlen(one.build) > 5);
    config.n_ranks = 1;
    config.train = &other;
    other.backend_config.n_threads++;
    assert_int_equal(vp_machine_profile_facts(&config, &arena, &two), VP_OK);
    assert_string_not_equal(one.device, two.device);
    vp_arena_release(&arena);
}

static void folders(void **state)
{
    char folder[300];

    (void)state;
    setenv("XDG_CACHE_HOME", "/x/cache", 1);
    setenv("HOME", "/home/me", 1);
    assert_true(vp_profile_cache_folder(folder, sizeof(folder)));
    assert_string_equal(folder, "/x/cache/vpipe/profiles");
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    assert_true(vp_profile_cache_folder(folder, sizeof(folder)));
    assert_string_equal(folder, "/home/me/.cache/vpipe/profiles");
    unsetenv("XDG_CACHE_HOME");
    assert_true(vp_profile_cache_folder(folder, sizeof(folder)));
    assert_string_equal(folder, "/home/me/.cache/vpipe/profiles");
    unsetenv("HOME");
    assert_false(vp_profile_cache_folder(folder, sizeof(folder)));
}

static int set_up(void **state)
{
    struct setup setup = usual;
    struct vp_err err = { .text = "" };

    (void)state;
    setup.threads = 1;
    return !mkdtemp(root) || run_create(&model, &setup, 0, &err) != VP_OK;
}

static int tear_down(void **state)
{
    (void)state;
    run_free(&model);
    return remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),   cmocka_unit_test(stale_and_damaged),
        cmocka_unit_test(not_writable), cmocka_unit_test(names_differ),
        cmocka_unit_test(folders),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
