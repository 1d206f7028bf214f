/* The one table of configuration keys, and what is done with a row: set a
 * field from text, print it back, say what it expects. */
#ifndef VP_CONFIG_KEYS_H
#define VP_CONFIG_KEYS_H

#include "base/yaml.h"
#include "config/config.h"

/* What the user wrote for one key. */
struct vp_entry {
    const char *key;     /* as written, for messages */
    const char *place;   /* "configs/a.yml:12", "--set" or "default" */
    const char *via;     /* the place that named its file, or NULL */
    const char *folder;  /* relative paths start here... */
    bool from_file;      /* ... or, if true, at key `directory` if given */
    const char *quote;   /* how to write it: "\"" around keys in JSON, ... */
    const char *assign;  /* ... ": " in a file, "=" in --set */
    const char *example; /* a good value; NULL: that of the table */
    enum vp_yaml_kind kind;
    const char *text; /* scalar only */
    bool quoted;
    const struct vp_yaml_node *items; /* list only; NULL: empty */
};

enum vp_key_type {
    VP_KEY_I64,
    VP_KEY_EVERY, /* int64_t; the word epoch is VP_EVERY_EPOCH */
    VP_KEY_INT,
    VP_KEY_U64,
    VP_KEY_F32,
    VP_KEY_BOOL,
    VP_KEY_BYTES,    /* size_t */
    VP_KEY_TEXT,     /* const char * */
    VP_KEY_PATH,     /* const char * */
    VP_KEY_FOLDER,   /* a path where relative paths start: directory */
    VP_KEY_ENUM,     /* words: value i is word(i) */
    VP_KEY_SCHEDULE, /* the same; a path is a schedule */
    VP_KEY_MODEL,    /* the word is a model's name */
    VP_KEY_SIZE,   /* the word is one of the model's sizes; chooses defaults */
    VP_KEY_MODULE, /* the original's name of a size; chooses defaults */
    VP_KEY_JSON,   /* a path; chooses defaults */
    VP_KEY_INIT,   /* the same of a folder; see init_folder.h */
    VP_KEY_WARMUP, /* float; true and false are fractions, too */
    VP_KEY_SCALE,  /* struct vp_scale_config */
    VP_KEY_INTS,   /* struct vp_int_list */
    VP_KEY_REALS,  /* struct vp_real_list; one number means all stages */
    VP_KEY_PLAN,   /* as INTS; a path is a plan file */
    VP_KEY_PLACEMENT, /* a path; sets keys of later rows */
    VP_KEY_MACHINES,  /* struct vp_machine_list */
    VP_KEY_WORDS,     /* unsigned: bit i is word(i); "a, b" or a list */
    VP_KEY_LATER,     /* known, but not supported by this version */
};

struct vp_key {
    const char *name;
    const char *alias; /* another name for it, or NULL */
    const char *group;
    enum vp_key_type type;
    size_t offset;        /* of the field in struct vp_config */
    double min, max;      /* of a number; both ends are allowed */
    const char *fallback; /* a value, or "(where it comes from)" */
    const char *example;  /* a good value, for messages */
    const char *meaning;

    /* ENUM, and BOOL with other words than true and false: what value i is
     * called; "" where it has no name, NULL past the last. */
    const char *(*word)(int i);
    /* The remedy for such a word with a number, "cuda:1"; NULL: the nearest
     * word. */
    const char *numbers;
    /* The key whose value decides the default; NULL: none does, or several. */
    const char *from;
    /* Whether the key means anything; NULL: always. It is decided by the
     * value of the key `depends_on`, which stands earlier in the table. */
    bool (*applies)(const struct vp_config *config);
    const char *depends_on;
    /* Runs after the field was set or left alone: defaults of later rows that
     * depend on it. NULL: none. */
    void (*after)(struct vp_config *config);
};

/* Rows in the order in which they are applied. */
extern const struct vp_key vp_keys[];
extern const int vp_n_keys;

/* By name or alias; NULL if unknown. */
const struct vp_key *vp_key_find(const char *name);

#endif
