/* The configuration of a run: a strict YAML reader and one table of keys. */
#ifndef VP_LAUNCH_CONFIG_H
#define VP_LAUNCH_CONFIG_H

#include "backend/backend.h"
#include "data/data.h"
#include "model/model.h"
#include "optim/optim.h"

enum vp_device { VP_DEVICE_AUTO, VP_DEVICE_CPU };
enum vp_precision { VP_PRECISION_FP32 };
enum vp_sync_mode { VP_SYNC_BSP, VP_SYNC_ASP };

/* Lists live in the configuration's arena; n is 0 where none was given. */
struct vp_int_list {
    const int *at;
    int n;
};

struct vp_real_list {
    const double *at;
    int n;
    bool for_all; /* one number was given, for all stages */
};

struct vp_config {
    const char *path; /* the file it was read from */
    /* model */
    const struct vp_model *model; /* model_type */
    struct vp_model_config sizes; /* vocab, hidden, layers, ... */
    /* data */
    const char *data_dir; /* NULL: synthetic data */
    bool synthetic_data;
    int64_t batch_size; /* samples; translation: tokens */
    int64_t seq_length;
    int64_t max_pred; /* scored tokens per sequence, masked LM */
    uint64_t seed;
    int prefetch; /* batches read ahead */
    /* optimisation */
    struct vp_optim_config optim;
    struct vp_lr_config lr;
    int64_t epochs;
    int64_t total_steps; /* 0: epochs x steps per epoch */
    /* pipeline */
    enum vp_sync_mode sync_mode;
    bool macrobatch; /* asp: schedule is macrobatch */
    int schedule;    /* its generator: vp_generator_at() */
    int stages;      /* without replicas: ranks */
    int chunks;      /* stages of a rank; there are stages x chunks in all */
    struct vp_int_list partition;        /* blocks; empty: one stage */
    struct vp_real_list recompute_ratio; /* empty: nothing is recomputed */
    struct vp_int_list replicas;         /* ranks; empty: one each */
    struct vp_int_list warmup_depths;    /* empty: by the number of ranks */
    bool early_recompute;                /* before the gradient arrives */
    int accumulation_steps; /* bsp: minibatches per update; asp: 1 */
    bool clip_per_stage;    /* grad_clip_scope: all | stage */
    /* machine */
    enum vp_device device;
    enum vp_precision precision;
    int threads_per_stage;  /* 0: all cores, shared by the ranks */
    bool reference_kernels; /* kernels: fast | reference */
    size_t memory_limit;    /* bytes per stage; 0: none */
    /* run */
    const char *log_directory;
    int64_t eval_every; /* steps; 0: never */
    int64_t eval_batches;
    int64_t print_frequency;
    int watchdog_seconds; /* the longest wait for another rank */

    struct vp_arena arena; /* owns all strings */
    /* file and line of every key that was given, for later messages */
    struct vp_origin *origins;
    int n_origins;
};

struct vp_origin {
    const char *key;
    const char *place; /* "configs/a.yml:12" or "--set" */
};

/* Stages in all: stages x chunks. */
int vp_config_n_stages(const struct vp_config *config);
/* Ranks: replicas counted, chunks not. */
int vp_config_n_ranks(const struct vp_config *config);

/* Reads `path`, then applies `sets` ("key=value"), then derives defaults and
 * checks what can be checked without data. Messages: "file:line: cause;
 * remedy". Relative paths start at the folder of `path`, those of `sets` at
 * the working directory. Release with vp_config_release(), also after an
 * error. */
enum vp_status vp_config_load(const char *path, const char *const *sets,
                              int n_sets, struct vp_config *out,
                              struct vp_err *err);
void vp_config_release(struct vp_config *config);

/* Where a key was set, for messages: its place, or "default". */
const char *vp_config_place(const struct vp_config *config, const char *key);
bool vp_config_given(const struct vp_config *config, const char *key);
/* Where to look first for a mistake that a message puts down to keys: the place
 * of the first one it names that the user wrote, else of what chose the
 * sizes. */
const char *vp_config_blame(const struct vp_config *config,
                            const char *message);

/* The resolved configuration as YAML that loads to the same values; paths are
 * written absolute. */
enum vp_status vp_config_write(const struct vp_config *config, const char *path,
                               struct vp_err *err);

/* Key number `i` of the table, for `vpipe train --help` and the
 * documentation; false past the last one. */
struct vp_key_help {
    const char *group; /* "model", "data", ... */
    const char *name;
    const char *fallback; /* a value, or "(where it comes from)" */
    const char *meaning;
    char type[128]; /* "a whole number from 1 to 64" */
};
bool vp_config_key_help(int i, struct vp_key_help *out);

#endif
