/* The YAML parser builds the expected tree, and refuses text beyond its limits
 * of depth, entries and size. */
#include "base/file.h"
#include "base/yaml.h"
#include "lib/tempfolder.h"
#include "lib/textfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void parse(const char *text, struct vp_arena *arena,
                  const struct vp_yaml_node **root)
{
    struct vp_err err = { .text = "" };

    if (vp_yaml_parse("t", text, strlen(text), arena, root, &err) != VP_OK)
        fail_msg("%s\n%s", text, err.text);
}

static void test_yaml_tree(void **state)
{
    struct vp_arena arena = { 0 };
    const struct vp_yaml_node *root, *a, *b, *c;

    (void)state;
    parse("# comment\n"
          "a: 1\n"
          "  \n"
          "long key:   \"quoted: text\"\n"
          "list:\n"
          "  - x\n"
          "  - {y: 2, z: []}\n",
          &arena, &root);
    assert_int_equal(root->kind, VP_YAML_MAP);
    a = root->child;
    b = a->next;
    c = b->next;
    assert_null(c->next);

    assert_string_equal(a->key, "a");
    assert_string_equal(a->text, "1");
    assert_false(a->quoted);
    assert_int_equal(a->key_line, 2);
    assert_int_equal(a->key_column, 1);
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 4);

    assert_string_equal(b->key, "long key");
    assert_string_equal(b->text, "quoted: text");
    assert_true(b->quoted);
    assert_int_equal(b->line, 4);
    assert_int_equal(b->column, 13);

    assert_int_equal(c->kind, VP_YAML_LIST);
    assert_int_equal(c->key_line, 5);
    assert_int_equal(c->line, 6);
    assert_string_equal(c->child->text, "x");
    assert_null(c->child->key);
    assert_int_equal(c->child->next->kind, VP_YAML_MAP);
    assert_string_equal(c->child->next->child->key, "y");
    assert_int_equal(c->child->next->child->column, 9);
    assert_int_equal(c->child->next->child->next->kind, VP_YAML_LIST);
    assert_null(c->child->next->child->next->child);
    assert_null(c->child->next->next);
    vp_arena_release(&arena);
}

static void test_yaml_printable(void **state)
{
    (void)state;
    assert_true(vp_yaml_printable(""));
    assert_true(vp_yaml_printable("daten/b\xC3\xBC"
                                  "cher \xE2\x80\x93 1"));
    assert_false(vp_yaml_printable("a\nb"));
    assert_false(vp_yaml_printable("a\x1b[1m"));
    assert_false(vp_yaml_printable("a\x7f"));
    assert_false(vp_yaml_printable("a\xC2\x85"));
    assert_false(vp_yaml_printable("a\xE2\x80\xA8"));
    assert_false(vp_yaml_printable("a\xE2\x80\xA9"));
}

/* Parses "[[[...]]]": `depth` nested lists. */
static enum vp_status parse_nested(int depth, struct vp_err *err)
{
    struct vp_arena arena = { 0 };
    const struct vp_yaml_node *root;
    char text[2 * 4096];
    enum vp_status st;

    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    st = vp_yaml_parse("t", text, 2 * (size_t)depth, &arena, &root, err);
    vp_arena_release(&arena);
    return st;
}

static void test_yaml_limits(void **state)
{
    struct vp_arena arena = { 0 };
    const struct vp_yaml_node *root;
    struct vp_err err = { .text = "" };
    char *big = malloc(VP_FILE_MAX_BYTES + 2);

    (void)state;
    assert_int_equal(parse_nested(VP_YAML_MAX_DEPTH, &err), VP_OK);
    assert_int_equal(parse_nested(VP_YAML_MAX_DEPTH + 1, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "t:1:17: nested too deeply; a configuration "
                                  "needs two levels");
    assert_int_equal(parse_nested(4096, &err), VP_ERR_INVALID);

    assert_non_null(big);
    memset(big, '\n', VP_FILE_MAX_BYTES + 1);
    write_bytes("a.yml", big, VP_FILE_MAX_BYTES + 1);
    assert_int_equal(vp_yaml_read("a.yml", &arena, &root, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text, "a.yml: is larger than 256 kB; give a "
                                  "configuration, not data");

    /* One list with more entries than allowed: "[,1,1,1...". */
    for (size_t i = 0; i < VP_FILE_MAX_BYTES; i++)
        big[i] = i % 2 ? '1' : ',';
    big[0] = '[';
    assert_int_equal(
        vp_yaml_parse("t", big, VP_FILE_MAX_BYTES, &arena, &root, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "the file has too many entries"));

    memset(big, 'x', VP_YAML_MAX_SCALAR + 1);
    assert_int_equal(
        vp_yaml_parse("t", big, VP_YAML_MAX_SCALAR, &arena, &root, &err),
        VP_OK);
    assert_int_equal(
        vp_yaml_parse("t", big, VP_YAML_MAX_SCALAR + 1, &arena, &root, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text, "t:1:1: this text is too long; shorten it");
    free(big);
    vp_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml_tree),
        cmocka_unit_test(test_yaml_printable),
        cmocka_unit_test(test_yaml_limits),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
