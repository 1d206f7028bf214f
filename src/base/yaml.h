/* A strict reader for the part of YAML that configurations need: scalars,
 * lists and maps in one document. Every node has its line and column.
 *
 * Refused with an error: anchors, aliases, tags, several documents,
 * duplicate keys, keys that are not words, control characters and line breaks
 * inside text, and files beyond the limits below. */
#ifndef VP_BASE_YAML_H
#define VP_BASE_YAML_H

#include "base/memory.h"

#define VP_YAML_MAX_DEPTH 16
#define VP_YAML_MAX_NODES 4096
#define VP_YAML_MAX_SCALAR 4096

enum vp_yaml_kind { VP_YAML_SCALAR, VP_YAML_LIST, VP_YAML_MAP };

struct vp_yaml_node {
    enum vp_yaml_kind kind;
    int line, column; /* position of the value; both start at 1 */
    const char *text; /* scalar: its text, one printable line */
    bool quoted;      /* scalar: was written in quotes */
    const char *key;  /* inside a map: its key; NULL elsewhere */
    int key_line, key_column;
    struct vp_yaml_node *child; /* list, map: the first entry, or NULL */
    struct vp_yaml_node *next;  /* the entry after this one, or NULL */
};

/* Reads a file. Nodes and texts are allocated in `arena`. Messages begin with
 * "path:line:column: " if the place is known, else with "path: ". */
enum vp_status vp_yaml_read(const char *path, struct vp_arena *arena,
                            const struct vp_yaml_node **root_out,
                            struct vp_err *err);

/* The same for bytes in memory; `name` replaces the path in messages. */
enum vp_status vp_yaml_parse(const char *name, const char *bytes,
                             size_t n_bytes, struct vp_arena *arena,
                             const struct vp_yaml_node **root_out,
                             struct vp_err *err);

/* The same without the limits on nodes and texts and without the check for
 * duplicate keys, for text that another parser has accepted. */
enum vp_status vp_yaml_parse_checked(const char *name, const char *bytes,
                                     size_t n_bytes, struct vp_arena *arena,
                                     const struct vp_yaml_node **root_out,
                                     struct vp_err *err);

/* Returns true if `text` fits on one line of a terminal: no ASCII or C1 control
 * characters, no Unicode line or paragraph separator. */
bool vp_yaml_printable(const char *text);

#endif
