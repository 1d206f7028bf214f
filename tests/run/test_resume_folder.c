/* A folder has one run. A checkpoint is resumed in its own run, and newer
 * checkpoints and foreign files are kept. */
#include "lib/resumelib.h"

#include <dirent.h>
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

/* Makes a run of four steps with checkpoints of steps 2 and 4. */
static void make_run(void)
{
    struct job job = sync_job;

    job.max_steps = 4;
    must_run_job(&job);
}

/* Checks that resuming `resume` is refused with `text`. */
static void refuse(const char *resume, const char *text)
{
    struct job job = sync_job;

    job.resume = resume;
    job.output = NULL;
    assert_int_equal(run_job(&job), 1);
    if (!strstr(job_shared->error_text, text))
        fail_msg("wanted '%s' in: %s", text, job_shared->error_text);
}

static void a_folder_has_one_run(void **state)
{
    struct job job = sync_job;

    (void)state;
    job.max_steps = 2;
    must_run_job(&job);
    assert_int_equal(run_job(&job), 1);
    assert_non_null(strstr(job_shared->error_text, "--resume"));
    assert_int_equal(newest_step("run"), 2);
    /* A folder with checkpoints only also counts as a run. */
    assert_int_equal(unlink(path_in_root("run/metrics.jsonl")), 0);
    assert_int_equal(run_job(&job), 1);
    assert_int_equal(newest_step("run"), 2);
    forget("run");
}

/* The folder of a run that ended early can be used again or resumed, or the
 * message says what to do. */
static void a_run_that_ended_early(void **state)
{
    struct job job = sync_job, killed = sync_job;

    (void)state;
    killed.strike_at = 1; /* when the folder of checkpoints is made */
    assert_int_equal(run_job(&killed), STOPPED);
    refuse("run", "/run holds no checkpoint: the run ended before its first "
                  "step; start it anew with --output ");
    must_run_job(&job);
    assert_int_equal(newest_step("run"), 8);
    /* The run has steps but no checkpoint. */
    forget("run/checkpoints");
    assert_int_equal(run_job(&job), 1);
    assert_non_null(strstr(job_shared->error_text,
                           "/run holds a run already, without a checkpoint; "
                           "choose another --output, or remove it"));
    refuse("run", "/run holds no checkpoint: the run ended before its first; "
                  "start anew with another --output, and set checkpoint_every");
    forget("run");
}

static void files_are_no_folders(void **state)
{
    struct job job = sync_job;

    (void)state;
    refuse("config.yml", "/config.yml is no folder; give --resume the folder");
    refuse("nowhere", "/nowhere is no folder; give --resume the folder");
    refuse("", "/ holds no checkpoint; give --resume the folder of a run");
    job.output = "config.yml";
    assert_int_equal(run_job(&job), 1);
    assert_non_null(strstr(job_shared->error_text,
                           "/config.yml is a file, not a folder; choose "
                           "another --output or log_directory"));
    job.output = "config.yml/run";
    assert_int_equal(run_job(&job), 1);
    assert_non_null(strstr(job_shared->error_text,
                           "/config.yml is a file, not a folder; choose "
                           "another --output or log_directory"));
}

static bool is_there(const char *name)
{
    return access(path_in_root(name), F_OK) == 0;
}

/* Checks that a checkpoint has only its own files. */
static void assert_untouched(const char *name)
{
    DIR *dir = opendir(path_in_root(name));
    const struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' &&
            strncmp(entry->d_name, "block-", 6) != 0 &&
            strcmp(entry->d_name, "manifest.json") != 0)
            fail_msg("%s/%s", name, entry->d_name);
    closedir(dir);
}

static void a_checkpoint_goes_on_in_its_run(void **state)
{
    struct job whole = sync_job, rest = sync_job;
    char *want;

    (void)state;
    whole.output = "whole";
    must_run_job(&whole);
    want = trace_of("whole");
    make_run();
    rest.resume = "run/checkpoints/step-4/";
    rest.output = NULL;
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, 4);
    assert_same_trace("run", want);
    assert_int_equal(newest_step("run"), 8);
    assert_untouched("run/checkpoints/step-4");
    /* The folder of all checkpoints also names the run. */
    rest.resume = "run/checkpoints";
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, 8);
    assert_false(is_there("run/checkpoints/metrics.jsonl"));
    free(want);
    forget("whole");
    forget("run");
}

static void newer_checkpoints_are_not_lost(void **state)
{
    struct job rest = sync_job;
    char *before, *after;

    (void)state;
    make_run();
    before = trace_of("run");
    refuse("run/checkpoints/step-2", "/run went on to step 4; to go on from "
                                     "step 2, name another folder: --output");
    assert_same_trace("run", before);
    assert_int_equal(newest_step("run"), 4);
    assert_untouched("run/checkpoints/step-2");
    rest.resume = "run/checkpoints/step-2";
    rest.output = "other";
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, 2);
    after = trace_of("other");
    assert_non_null(strstr(after, "{\"step\": 3,"));
    assert_null(strstr(after, "{\"step\": 2,"));
    assert_same_trace("run", before);
    assert_int_equal(newest_step("run"), 4);
    free(before);
    free(after);
    forget("other");
    forget("run");
}

static void a_copied_checkpoint_needs_a_folder(void **state)
{
    struct job rest = sync_job;

    (void)state;
    make_run();
    assert_int_equal(rename(path_in_root("run/checkpoints/step-4"),
                            path_in_root("run/checkpoints/best")),
                     0);
    refuse("run/checkpoints/best", "does not have the name it was saved under");
    assert_int_equal(
        rename(path_in_root("run/checkpoints/best"), path_in_root("copy")), 0);
    refuse("copy", "/copy is not in the folder of a run; name a folder for the "
                   "run that goes on: --output DIR");
    assert_untouched("copy");
    rest.resume = "copy";
    rest.output = "other";
    must_run_job(&rest);
    assert_int_equal(job_shared->resumed, 4);
    assert_untouched("copy");
    /* A folder with the names of a run but without its configuration is no
     * run. */
    assert_int_equal(mkdir(path_in_root("backup"), 0777), 0);
    assert_int_equal(mkdir(path_in_root("backup/checkpoints"), 0777), 0);
    assert_int_equal(
        rename(path_in_root("copy"), path_in_root("backup/checkpoints/step-4")),
        0);
    refuse("backup/checkpoints/step-4", "is not in the folder of a run");
    forget("backup");
    forget("other");
    forget("run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_has_one_run),
        cmocka_unit_test(a_run_that_ended_early),
        cmocka_unit_test(files_are_no_folders),
        cmocka_unit_test(a_checkpoint_goes_on_in_its_run),
        cmocka_unit_test(newer_checkpoints_are_not_lost),
        cmocka_unit_test(a_copied_checkpoint_needs_a_folder),
    };

    return cmocka_run_group_tests(tests, make_root_folder, remove_root_folder);
}
