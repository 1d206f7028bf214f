/* The table of configuration keys. key.h has the operations on its rows. */
#ifndef VP_CONFIG_KEYS_H
#define VP_CONFIG_KEYS_H

#include "base/yaml.h"
#include "config/config.h"

/* A key and its value, as the user wrote them. */
struct vp_entry {
    const char *key;     /* as written, for messages */
    const char *place;   /* "configs/a.yml:12", "--set" or "default" */
    const char *via;     /* the place that named its file, or NULL */
    const char *folder;  /* relative paths start here, unless... */
    bool from_file;      /* ...this is true and key `directory` is given */
    const char *quote;   /* around keys: "\"" in JSON, else NULL */
    const char *assign;  /* after keys: ": " in a file, "=" in --set */
    const char *example; /* a valid value; NULL: that of the table */
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
    VP_KEY_FOLDER,   /* key `directory`: the start of relative paths */
    VP_KEY_ENUM,     /* words: value i is word(i) */
    VP_KEY_SCHEDULE, /* words, or the path of a schedule */
    VP_KEY_MODEL,    /* the word is a model's name */
    VP_KEY_SIZE,   /* the word is one of the model's sizes; chooses defaults */
    VP_KEY_MODULE, /* vPipe's name of a size; chooses defaults */
    VP_KEY_JSON,   /* path of a config.json; chooses defaults */
    VP_KEY_INIT,   /* path of a folder; chooses defaults; see init_folder.h */
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
    size_t offset;        /* offset of the field in struct vp_config */
    double min, max;      /* range of a number; both ends are allowed */
    const char *fallback; /* a value, or "(description of the default)" */
    const char *example;  /* a valid value, for messages */
    const char *meaning;

    /* ENUM, and BOOL with other words than true and false: returns the word for
     * value i, "" if it has none, NULL past the last. */
    const char *(*word)(int i);
    /* The remedy in messages about a word with a number ("cuda:1"); NULL: the
     * nearest word is named. */
    const char *numbers;
    /* The key whose value decides the default; NULL: no key, or several. */
    const char *from;
    /* Returns true if the key has an effect; NULL: always. Depends on the value
     * of key `depends_on`, an earlier row of the table. */
    bool (*applies)(const struct vp_config *config);
    const char *depends_on;
    /* Sets defaults of later rows that depend on this one. Called after the
     * field has its value. NULL: there are none. */
    void (*after)(struct vp_config *config);
};

/* Rows in the order in which they are applied. */
extern const struct vp_key vp_keys[];
extern const int vp_n_keys;

/* Returns the row with this name or alias; NULL if there is none. */
const struct vp_key *vp_key_find(const char *name);

#endif
