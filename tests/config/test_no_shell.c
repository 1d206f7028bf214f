/* Text in configurations, paths and names is never run by a shell. */
#include "config/config.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/load.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "lib/plan_filelib.h"
#include "lib/tempfolder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Text in YAML quotes, and the value that it stands for. */
static const struct {
    const char *yaml, *text;
} payloads[] = {
    { "; touch injected", "; touch injected" },
    { "`touch injected`", "`touch injected`" },
    { "$(touch injected)", "$(touch injected)" },
    { "x\\n touch injected \\n", "x\n touch injected \n" },
    { "'; touch injected; '", "'; touch injected; '" },
    { "| touch injected #", "| touch injected #" },
    { "\\\"; touch injected; \\\"", "\"; touch injected; \"" },
    { "-oProxyCommand=touch injected:0", "-oProxyCommand=touch injected:0" },
    { "localhost;touch injected:0", "localhost;touch injected:0" },
    { "../../x && touch injected", "../../x && touch injected" },
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);

    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* Fails unless the value equals the text. Only keys for free text may accept
 * it. */
static void assert_verbatim(const struct vp_key *key,
                            const struct vp_config *config, const char *text)
{
    const void *field = (const char *)config + key->offset;

    switch (key->type) {
    case VP_KEY_TEXT:
        assert_string_equal(*(const char *const *)field, text);
        break;
    case VP_KEY_PATH:
    case VP_KEY_INIT:
        assert_true(ends_with(*(const char *const *)field, text));
        break;
    default:
        fail_msg("key '%s' takes '%s'", key->name, text);
    }
}

/* An accepted text survives writing and loading; a refused one gives one line.
 * Returns true if it was accepted. */
static bool check_payload(const struct vp_key *key, const char *path,
                          const char *set, const char *text)
{
    struct vp_config c, again;
    struct vp_err err = { .text = "" };
    bool taken = vp_config_load(path, &set, set ? 1 : 0, &c, &err) == VP_OK;

    if (taken) {
        assert_verbatim(key, &c, text);
        assert_int_equal(vp_config_write(&c, "b.yml", &err), VP_OK);
        load_file("b.yml", NULL, &again);
        assert_verbatim(key, &again, text);
        vp_config_release(&again);
    } else {
        assert_true(err.text[0] != '\0');
        assert_null(strchr(err.text, '\n'));
    }
    vp_config_release(&c);
    assert_int_equal(access("injected", F_OK), -1);
    return taken;
}

/* Tries every text in every key: all of them with the library, some with the
 * program. */
static void test_no_shell(void **state)
{
    const char *const arguments[] = { "train", "a.yml", "--dry-run", "--quiet",
                                      NULL };
    int n = 0, n_taken = 0;

    (void)state;
    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];
        bool list = vp_key_is_list(key);
        /* With generated data, data_dir is not opened. */
        const char *base = strcmp(key->name, "synthetic_data") == 0 ? NINE
                                                                    : NINE
                               "synthetic_data: true\n";

        for (size_t j = 0; j < VP_COUNT_OF(payloads); j++) {
            const char *text = payloads[j].text;
            struct program_outcome outcome;
            char line[512];

            snprintf(line, sizeof(line), "%s%s: %s\"%s\"%s\n",
                     key->type == VP_KEY_MODEL ? "" : base, key->name,
                     list ? "[" : "", payloads[j].yaml, list ? "]" : "");
            write_text_file("a.yml", line);
            n_taken += check_payload(key, "a.yml", NULL, text);
            if (n++ % 7 == 0) {
                run_program(&outcome, arguments);
                assert_in_range(outcome.status, 0, 2);
                assert_int_equal(access("injected", F_OK), -1);
            }
            write_text_file("c.yml", base);
            snprintf(line, sizeof(line), "%s=%s", key->name, text);
            n_taken += check_payload(key, "c.yml", line, text);
        }
    }
    assert_int_equal(n, vp_n_keys * (int)VP_COUNT_OF(payloads));
    /* Only these keys accept such text, and none a line break: container,
     * data_dir, init, log_directory, profile, prometheus_file, sample_prompts,
     * text_key, valid_split. */
    assert_int_equal(n_taken, 9 * 2 * ((int)VP_COUNT_OF(payloads) - 1));
}

/* A whole training run with such text in paths and names. */
static void test_no_shell_in_a_run(void **state)
{
    static const char folder[] = "$(touch injected); `touch injected`";
    const char *const arguments[] = { "train", "a.yml", NULL };
    struct program_outcome outcome;
    char path[256];

    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof(path), "%s/text.txt", folder);
    write_text_file(path,
                    "the quick brown fox jumps over the lazy dog, and the lazy "
                    "dog does not mind; the fox jumps again and again\n");
    write_text_file("a.yml",
                    BERT "vocab: 264\nlayers: 1\nhidden: 16\nheads: 2\n"
                         "seq_length: 8\nbatch_size: 1\nstages: 2\n"
                         "accumulation_steps: 2\ntotal_steps: 2\n"
                         "machines: ['localhost:0', 'localhost:1']\n"
                         "data_dir: \"$(touch injected); `touch "
                         "injected`\"\n"
                         "container: \"; touch injected\"\n"
                         "log_directory: \"logs; touch injected\"\n");
    run_program(&outcome, arguments);
    assert_string_equal(outcome.err, "");
    assert_int_equal(outcome.status, 0);
    assert_int_equal(access("logs; touch injected", F_OK), 0);
    assert_int_equal(access("injected", F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_shell),
        cmocka_unit_test(test_no_shell_in_a_run),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
