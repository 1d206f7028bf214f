/* Builds a small tree from the events of libyaml. The limit on depth bounds the
 * recursion. */
#include "base/yaml.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    const char *name;
    struct vp_arena *arena;
    struct vp_err *err;
    yaml_parser_t parser;
    int n_nodes;
    bool checked; /* see vp_yaml_parse_checked() */
};

static enum vp_status read_node(struct reader *r, const yaml_event_t *event,
                                int depth, struct vp_yaml_node **out);

bool vp_yaml_printable(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    for (; *s; s++) {
        if (*s < 0x20 || *s == 0x7F)
            return false;
        if (*s == 0xC2 && s[1] >= 0x80 && s[1] <= 0x9F)
            return false;
        if (*s == 0xE2 && s[1] == 0x80 && (s[2] == 0xA8 || s[2] == 0xA9))
            return false;
    }
    return true;
}

static enum vp_status no_memory(struct reader *r)
{
    vp_err_set(r->err, VP_ERR_NOMEM, "%s: out of memory; close other programs",
               r->name);
    return VP_ERR_NOMEM;
}

static enum vp_status refuse(struct reader *r, yaml_mark_t mark,
                             const char *what)
{
    vp_err_set(r->err, VP_ERR_INVALID, "%s:%zu:%zu: %s", r->name, mark.line + 1,
               mark.column + 1, what);
    return VP_ERR_INVALID;
}

/* Adds a remedy to libyaml's description of the problem. */
static enum vp_status syntax_error(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "it cannot be read";
    const char *remedy = "check indentation, colons and quotes near this line";

    if (p->error == YAML_MEMORY_ERROR)
        return no_memory(r);
    if (p->error == YAML_READER_ERROR)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          "%s: byte %zu is not YAML text: %s; save the file as "
                          "UTF-8 text",
                          r->name, p->problem_offset, problem);
    if (strstr(problem, "tab character"))
        remedy = "indent with spaces";
    if (strstr(problem, "cannot start any token"))
        remedy = "use spaces, not tabs, and quote text with special characters";
    return vp_err_set(r->err, VP_ERR_INVALID, "%s:%zu:%zu: not YAML: %s; %s",
                      r->name, p->problem_mark.line + 1,
                      p->problem_mark.column + 1, problem, remedy);
}

static enum vp_status next_event(struct reader *r, yaml_event_t *event)
{
    if (!yaml_parser_parse(&r->parser, event))
        return syntax_error(r);
    return VP_OK;
}

static enum vp_status new_node(struct reader *r, enum vp_yaml_kind kind,
                               yaml_mark_t mark, struct vp_yaml_node **out)
{
    struct vp_yaml_node *node;

    if (++r->n_nodes > VP_YAML_MAX_NODES && !r->checked)
        return refuse(r, mark,
                      "the file has too many entries; a configuration "
                      "needs a few dozen");
    node = vp_arena_alloc(r->arena, sizeof(*node));
    if (!node)
        return no_memory(r);
    node->kind = kind;
    node->line = (int)mark.line + 1;
    node->column = (int)mark.column + 1;
    *out = node;
    return VP_OK;
}

static enum vp_status copy_text(struct reader *r, const yaml_event_t *event,
                                const char **out)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;

    if (n > VP_YAML_MAX_SCALAR && !r->checked)
        return refuse(r, event->start_mark,
                      "this text is too long; shorten it");
    if (memchr(text, 0, n) || !vp_yaml_printable(text))
        return refuse(r, event->start_mark,
                      "this text holds a line break or control character; "
                      "write it on one line without them");
    *out = vp_arena_strdup(r->arena, text);
    return *out ? VP_OK : no_memory(r);
}

static enum vp_status read_scalar(struct reader *r, const yaml_event_t *event,
                                  struct vp_yaml_node **out)
{
    if (event->data.scalar.anchor)
        return refuse(r, event->start_mark,
                      "anchors are not supported; write the value itself");
    if (event->data.scalar.tag)
        return refuse(r, event->start_mark,
                      "tags are not supported; remove the word that starts "
                      "with '!'");
    VP_TRY(new_node(r, VP_YAML_SCALAR, event->start_mark, out));
    (*out)->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return copy_text(r, event, &(*out)->text);
}

static const struct vp_yaml_node *find_key(const struct vp_yaml_node *map,
                                           const char *key)
{
    const struct vp_yaml_node *entry;

    for (entry = map->child; entry; entry = entry->next)
        if (strcmp(entry->key, key) == 0)
            return entry;
    return NULL;
}

/* Reads the key of a map entry: a scalar that is not empty and not a key of
 * `map` yet. */
static enum vp_status read_key(struct reader *r, const yaml_event_t *event,
                               const struct vp_yaml_node *map,
                               struct vp_yaml_node **out)
{
    const struct vp_yaml_node *twin;

    if (event->type == YAML_ALIAS_EVENT)
        return refuse(r, event->start_mark,
                      "aliases are not supported; write the key itself");
    if (event->type != YAML_SCALAR_EVENT)
        return refuse(r, event->start_mark,
                      "a key must be a word; write 'key: value'");
    VP_TRY(read_scalar(r, event, out));
    if (!(*out)->text[0])
        return refuse(r, event->start_mark,
                      "a key is missing before ':'; write 'key: value'");
    twin = r->checked ? NULL : find_key(map, (*out)->text);
    if (twin)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          "%s:%d:%d: key '%.40s' appears twice, first on line "
                          "%d; keep one",
                          r->name, (*out)->line, (*out)->column, (*out)->text,
                          twin->key_line);
    return VP_OK;
}

/* Reads all entries of a list or map and its end event. */
static enum vp_status read_entries(struct reader *r, struct vp_yaml_node *node,
                                   int depth)
{
    struct vp_yaml_node **tail = &node->child;
    bool is_map = node->kind == VP_YAML_MAP;
    yaml_event_t event;

    for (;;) {
        struct vp_yaml_node *key = NULL, *value = NULL;
        enum vp_status st;

        VP_TRY(next_event(r, &event));
        if (event.type == YAML_SEQUENCE_END_EVENT ||
            event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return VP_OK;
        }
        if (is_map) {
            st = read_key(r, &event, node, &key);
            yaml_event_delete(&event);
            if (st != VP_OK)
                return st;
            VP_TRY(next_event(r, &event));
        }
        st = read_node(r, &event, depth, &value);
        yaml_event_delete(&event);
        if (st != VP_OK)
            return st;
        if (is_map) {
            value->key = key->text;
            value->key_line = key->line;
            value->key_column = key->column;
        }
        *tail = value;
        tail = &value->next;
    }
}

static enum vp_status read_collection(struct reader *r,
                                      const yaml_event_t *event, int depth,
                                      struct vp_yaml_node **out)
{
    bool is_map = event->type == YAML_MAPPING_START_EVENT;

    if (is_map ? !!event->data.mapping_start.anchor
               : !!event->data.sequence_start.anchor)
        return refuse(r, event->start_mark,
                      "anchors are not supported; write the value itself");
    if (is_map ? !!event->data.mapping_start.tag
               : !!event->data.sequence_start.tag)
        return refuse(r, event->start_mark,
                      "tags are not supported; remove the word that starts "
                      "with '!'");
    if (depth >= VP_YAML_MAX_DEPTH)
        return refuse(r, event->start_mark,
                      "nested too deeply; a configuration needs two levels");
    VP_TRY(new_node(r, is_map ? VP_YAML_MAP : VP_YAML_LIST, event->start_mark,
                    out));
    return read_entries(r, *out, depth + 1);
}

static enum vp_status read_node(struct reader *r, const yaml_event_t *event,
                                int depth, struct vp_yaml_node **out)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event, out);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return read_collection(r, event, depth, out);
    case YAML_ALIAS_EVENT:
        return refuse(r, event->start_mark,
                      "aliases are not supported; write the value itself");
    default:
        return refuse(r, event->start_mark,
                      "a value is missing; write 'key: value'");
    }
}

/* Reads the whole stream, which must have exactly one document. */
static enum vp_status read_document(struct reader *r,
                                    struct vp_yaml_node **root_out)
{
    yaml_event_t event;
    enum vp_status st = VP_OK;
    bool at_end = false;

    *root_out = NULL;
    while (!at_end) {
        VP_TRY(next_event(r, &event));
        switch (event.type) {
        case YAML_STREAM_END_EVENT:
            at_end = true;
            break;
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_DOCUMENT_START_EVENT:
            if (*root_out)
                st = refuse(r, event.start_mark,
                            "a second document begins here; keep one per file");
            break;
        default:
            st = read_node(r, &event, 0, root_out);
        }
        yaml_event_delete(&event);
        if (st != VP_OK)
            return st;
    }
    if (!*root_out)
        return vp_err_set(r->err, VP_ERR_INVALID,
                          "%s: the file holds no configuration; write at least "
                          "'model_type: bert'",
                          r->name);
    return VP_OK;
}

static enum vp_status parse(struct reader *r, const char *bytes, size_t n_bytes,
                            const struct vp_yaml_node **root_out)
{
    struct vp_yaml_node *root;
    enum vp_status st;

    if (!yaml_parser_initialize(&r->parser))
        return no_memory(r);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)bytes,
                                 n_bytes);
    st = read_document(r, &root);
    yaml_parser_delete(&r->parser);
    if (st == VP_OK)
        *root_out = root;
    return st;
}

enum vp_status vp_yaml_parse(const char *name, const char *bytes,
                             size_t n_bytes, struct vp_arena *arena,
                             const struct vp_yaml_node **root_out,
                             struct vp_err *err)
{
    struct reader r = { .name = name, .arena = arena, .err = err };

    return parse(&r, bytes, n_bytes, root_out);
}

enum vp_status vp_yaml_parse_checked(const char *name, const char *bytes,
                                     size_t n_bytes, struct vp_arena *arena,
                                     const struct vp_yaml_node **root_out,
                                     struct vp_err *err)
{
    struct reader r = {
        .name = name, .arena = arena, .err = err, .checked = true
    };

    return parse(&r, bytes, n_bytes, root_out);
}

enum vp_status vp_yaml_read(const char *path, struct vp_arena *arena,
                            const struct vp_yaml_node **root_out,
                            struct vp_err *err)
{
    enum vp_status st;
    char *bytes;
    size_t n;

    VP_TRY(vp_file_read(path, "YAML", &bytes, &n, err));
    st = vp_yaml_parse(path, bytes, n, arena, root_out, err);
    free(bytes);
    return st;
}
