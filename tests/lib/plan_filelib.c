#include "lib/plan_filelib.h"

#include "config/load.h"
#include "lib/config_text.h"
#include "lib/configlib.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Files in one temporary folder -------------------------------------- */

char *read_plan_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 65536);

    assert_non_null(file);
    assert_non_null(text);
    assert_in_range(fread(text, 1, 65535, file), 0, 65534);
    fclose(file);
    return text;
}

void load_file(const char *path, const char *set, struct vp_config *out)
{
    struct vp_err err = { .text = "" };

    if (vp_config_load(path, &set, set ? 1 : 0, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

const char *refused_message(const char *yaml)
{
    static struct vp_err err;
    struct vp_config config;

    err = (struct vp_err){ .text = "" };
    write_text_file("a.yml", yaml);
    if (vp_config_load("a.yml", NULL, 0, &config, &err) == VP_OK)
        fail_msg("taken:\n%s", yaml);
    vp_config_release(&config);
    return err.text;
}

/* ---- The program -------------------------------------------------------- */

static void read_back(FILE *file, char *text, size_t n_bytes)
{
    size_t n;

    rewind(file);
    n = fread(text, 1, n_bytes - 1, file);
    text[n] = 0;
    fclose(file);
}

void run_program(struct program_outcome *outcome, const char *const *arguments)
{
    char *argv[40] = { (char *)VP_PROGRAM };
    FILE *out = tmpfile(), *err = tmpfile();
    pid_t child;
    int status;

    assert_non_null(out);
    assert_non_null(err);
    for (int i = 0; arguments[i]; i++) {
        assert_true(i < 38);
        argv[i + 1] = (char *)arguments[i];
    }
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_RDONLY);

        dup2(null, 0);
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        execv(VP_PROGRAM, argv);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_back(out, outcome->out, sizeof(outcome->out));
    read_back(err, outcome->err, sizeof(outcome->err));
}
