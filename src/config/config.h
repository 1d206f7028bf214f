/* The configuration of a run, and where its values come from. */
#ifndef VP_CONFIG_CONFIG_H
#define VP_CONFIG_CONFIG_H

#include "backend/backend.h"
#include "data/data.h"
#include "model/model.h"
#include "optim/optim.h"
#include "plan/plan.h"

enum vp_device_kind {
    VP_DEVICE_KIND_AUTO,
    VP_DEVICE_KIND_CPU,
    VP_DEVICE_KIND_CUDA
};
enum vp_precision {
    VP_PRECISION_FP32,
    VP_PRECISION_TF32,
    VP_PRECISION_BF16,
    VP_PRECISION_FP16,
    VP_PRECISION_AUTO /* never in a configuration that has been loaded */
};
enum vp_sync_mode { VP_SYNC_BSP, VP_SYNC_ASP };
/* distributed_backend. gloo is vPipe's name for messages between CPUs: the same
 * as local if all machines are this one, else the same as mpi. */
enum vp_transport {
    VP_TRANSPORT_LOCAL,
    VP_TRANSPORT_GLOO,
    VP_TRANSPORT_MPI,
    VP_TRANSPORT_NCCL
};

/* auto_plan. ON: a new run begins with a search for a plan, and a resumed run
 * keeps its plan. AGAIN: a resumed run searches, too. */
enum vp_auto_plan { VP_AUTO_PLAN_OFF, VP_AUTO_PLAN_ON, VP_AUTO_PLAN_AGAIN };

/* Keys whose value may be auto: a search for a plan then chooses the number. */
enum vp_auto_key {
    VP_AUTO_BATCH_SIZE,
    VP_AUTO_ACCUMULATION_STEPS,
    VP_AUTO_REPLICAS,
    VP_AUTO_MP_SIZE,
    VP_AUTO_COUNT
};

/* Words of key `verbose`; a set of them has bits 1 << v. */
enum vp_verbose {
    VP_VERBOSE_STAGES,
    VP_VERBOSE_TENSORS,
    VP_VERBOSE_VERSIONS,
    VP_VERBOSE_COMMUNICATION,
    VP_VERBOSE_TIME,
    VP_VERBOSE_COUNT
};

#define VP_CONFIG_MAX_NOTICES 8

/* The word epoch in place of a number of steps. */
#define VP_EVERY_EPOCH INT64_C(-1)

/* Lists are in the configuration's arena; n is 0 if no list was given. */
struct vp_int_list {
    const int *at;
    int n;
};

struct vp_real_list {
    const double *at;
    int n;
    bool for_all; /* one number was given, for all stages */
};

/* The host and device of a rank; the rank is the index in the list. */
struct vp_machine {
    const char *host;
    int device;
};

struct vp_machine_list {
    const struct vp_machine *at;
    int n;
};

struct vp_config {
    const char *path;        /* the file it was read from */
    const char *const *sets; /* arguments of --set, in their order */
    int n_sets;
    bool piped; /* `path` is a pipe or descriptor: it cannot be read again, and
                   relative paths start at the working directory */
    /* model */
    const struct vp_model *model;  /* model_type */
    const struct vp_model *custom; /* model that is not in the table, or NULL */
    const char *directory;         /* relative paths of the file start here;
                                     NULL: at its own folder */
    const char *module;            /* vPipe's name of the sizes, or NULL */
    struct vp_model_config sizes;  /* vocab, hidden, layers, ... */
    const char *init; /* folder of the first weights; NULL: random ones */
    /* data */
    const char *data_dir; /* NULL: synthetic data */
    bool synthetic_data;
    int data_format;           /* enum vp_data_format */
    const char *tokenizer;     /* NULL: text is read byte by byte */
    const char *valid_split;   /* NULL: val, valid, validation or dev */
    const char *source_lang;   /* translation; NULL: by names of files */
    const char *target_lang;   /* translation; NULL: by names of files */
    int64_t batch_multiple;    /* required_batch_size_multiple */
    int document_end;          /* -1: none */
    const char *text_key;      /* in lines of JSON */
    bool replace_invalid_utf8; /* invalid_utf8: refuse | replace */
    int64_t batch_size;        /* samples; translation: tokens */
    int64_t seq_length;
    int64_t max_pred;  /* scored tokens per sequence, masked LM */
    float random_next; /* share of samples with parts of two documents */
    uint64_t seed;
    bool no_input_pipelining; /* prefetch 0 */
    int prefetch;             /* batches read ahead */
    int64_t num_minibatches;  /* most minibatches per epoch; 0: all */
    /* optimisation */
    struct vp_optim_config optim;
    struct vp_lr_config lr;
    int64_t epochs;
    int64_t total_steps; /* 0: epochs x steps per epoch */
    /* pipeline */
    enum vp_sync_mode sync_mode;
    bool macrobatch; /* asp: schedule is macrobatch */
    int schedule;    /* its generator: vp_generator_at() */
    const struct vp_schedule_file *schedule_file; /* or NULL */
    const char *saved_schedule; /* `schedule` of struct vp_config_source, while
                                  it is loaded; else NULL */
    const char *schedule_text;  /* lists of schedule_file, or those that were
                                  made for auto; NULL: the generator's */
    bool schedule_v;            /* auto: the two chunks of a rank are in a V */
    int schedule_memory; /* v-auto, auto: chunks that a rank may keep; else 0 */
    struct vp_real_list schedule_costs; /* auto: F, B and W; empty: FLOPs */
    int stages;                         /* without replicas: ranks */
    int chunks; /* stages of a rank; there are stages x chunks in all */
    const struct vp_plan_file *plan_file; /* named by partition, or NULL */
    struct vp_int_list partition;         /* blocks; empty: one stage */
    bool recompute;                       /* false: ratios count as 0 */
    struct vp_real_list recompute_ratio;  /* empty: nothing is recomputed */
    /* From plan_file, per block: see struct vp_plan. NULL: by
     * recompute_ratio. */
    const uint64_t *recompute_sets;
    const struct vp_placement *placement; /* from config_file, or NULL */
    struct vp_int_list replicas;          /* ranks; empty: one each */
    struct vp_int_list ranks; /* numbers of ranks, by stage; empty: 0, 1, ... */
    struct vp_int_list warmup_depths; /* empty: by the number of ranks */
    bool early_recompute;             /* before the gradient arrives */
    bool rebalance; /* moves blocks when measured stages are out of balance */
    bool recompute_in_backward;     /* block by block; no R */
    struct vp_real_list swap_ratio; /* per stage of the pipeline */
    int accumulation_steps;         /* bsp: minibatches per update; asp: 1 */
    bool clip_per_stage;            /* grad_clip_scope: all | stage */
    bool fast_reduce;               /* reduce: exact | fast */
    bool shard_optimizer;           /* replicas own shards of its state */
    int mp_size;                    /* ranks that share each operator */
    bool sequence_parallel;         /* with slices of rows between sums */
    bool compress_activations;      /* between stages, to bf16 */
    bool compress_in_gpu;           /* no effect */
    enum vp_auto_plan auto_plan;    /* OFF once the plan is applied */
    const char *profile; /* a file, for planning; NULL: measured here */
    unsigned auto_keys;  /* keys with value auto: bits 1 << enum vp_auto_key;
                            their fields have defaults until a plan is found */
    /* machine */
    enum vp_device_kind device;
    enum vp_precision precision;
    bool precision_is_auto; /* the user wrote auto */
    struct vp_scale_config loss_scale;
    int threads_per_stage;     /* 0: all cores, shared by the ranks */
    bool reference_kernels;    /* kernels: fast | reference */
    size_t memory_limit;       /* bytes per stage; 0: none */
    size_t rebalance_headroom; /* bytes beyond memory_limit during a move */
    enum vp_transport distributed_backend;
    struct vp_machine_list machines; /* by number of rank; may be empty */
    const enum vp_edge_kind *edges, *replica_edges; /* as in struct vp_plan */
    enum vp_edge_kind tie_edge;
    const char *network_interface; /* between hosts; NULL: any */
    const char *container;         /* an image, or NULL */
    /* run */
    const char *log_directory;
    bool forward_only;  /* evaluate, do not train */
    int64_t eval_every; /* steps; 0: never */
    int64_t eval_batches;
    int64_t checkpoint_every; /* steps, or VP_EVERY_EPOCH; 0: at the end, or
                                 when interrupted */
    int keep_checkpoints;     /* the newest ones */
    int64_t export_every;     /* steps; 0: never */
    int64_t generate_every, translate_every; /* steps; 0: never */
    const char *sample_prompts;  /* a file, for these two; NULL: none */
    int64_t sample_tokens;       /* new ids of each prompt */
    bool tensorboard;            /* write its event file */
    const char *prometheus_file; /* for node_exporter; NULL: none */
    int64_t print_frequency;
    unsigned verbose;          /* set of enum vp_verbose */
    int64_t verbose_frequency; /* steps; 0: never */
    int watchdog_seconds;      /* the longest wait for another rank */

    /* Lines for the user about keys that have no effect. */
    const char *notices[VP_CONFIG_MAX_NOTICES];
    int n_notices;

    struct vp_arena arena; /* owns all strings */
    /* Per row of the table of keys. */
    struct vp_origin *origins;
    int n_origins;
};

/* The origin of a key's value. */
struct vp_origin {
    const char *key;
    const char *place;   /* "configs/a.yml:12", "--set"; NULL: not given */
    const char *written; /* the key as it is written there */
    const char *text;    /* its value; NULL: a list */
    const char *via;     /* the place that named the file of `place`, or NULL */
    const char *why;     /* reason of a derived value; NULL: the default */
};

/* Returns the number of stages of the pipeline: stages x chunks. */
int vp_config_n_stages(const struct vp_config *config);
/* Returns the number of groups of mp_size ranks, replicas included. A group
 * walks one list of the schedule. */
int vp_config_n_groups(const struct vp_config *config);
/* Returns the number of ranks: replicas and all members of groups. */
int vp_config_n_ranks(const struct vp_config *config);
/* Returns the transport's name for people; `processes`: the run has several. */
const char *vp_config_transport(const struct vp_config *config, bool processes);
/* Returns true if each rank is a process. */
bool vp_config_is_distributed(const struct vp_config *config);
/* Returns the user's number of rank `i` of the schedule: the index in machines,
 * and the number in file names. stage_to_rank_map has the number of the first
 * rank of each group. */
int vp_config_rank_number(const struct vp_config *config, int i);

void vp_config_release(struct vp_config *config);
/* Refuses a data_dir that is needed and not there. Not part of loading: a plan
 * needs no data, and only the processes that read data need it. */
enum vp_status vp_config_find_data(const struct vp_config *config,
                                   struct vp_err *err);

/* Records that the user gave the value of given->key, a name in the table.
 * Borrows all strings. */
void vp_origin_give(struct vp_config *config, const struct vp_origin *given);
/* Records that the value was derived from other keys, for the reason `why`;
 * borrowed. */
void vp_origin_derive(struct vp_config *config, const char *key,
                      const char *why);

/* Returns the place where a key was set, for messages, or "default". */
const char *vp_config_place(const struct vp_config *config, const char *key);
/* Returns true if the user gave the key. */
bool vp_config_given(const struct vp_config *config, const char *key);
/* Returns the key as the user wrote it, which may be an alias; else `key`. */
const char *vp_config_written(const struct vp_config *config, const char *key);
/* Returns the place of the first of `fields` (see struct vp_err; names of keys)
 * that the user gave, else the place of the key that chose the sizes; NULL if
 * there is neither. */
const char *vp_config_blame(const struct vp_config *config, const char *fields);

/* Writes the resolved configuration to `path` as YAML that loads to the same
 * values; paths are absolute. */
enum vp_status vp_config_write(const struct vp_config *config, const char *path,
                               struct vp_err *err);

/* Writes the same text to *text_out, with the origin of every value in a
 * comment. The caller frees it. */
enum vp_status vp_config_explain(const struct vp_config *config,
                                 char **text_out, struct vp_err *err);

/* Describes row `i` of the table, for `vpipe train --help`, the manual page and
 * completion. vp_config_key_help() returns false past the last row. */
struct vp_key_help {
    const char *group; /* "model", "data", ... */
    const char *name;
    const char *fallback; /* a value, or "(description of the default)" */
    const char *meaning;
    char type[192];  /* "a whole number from 1 to 64" */
    char words[256]; /* "fp32, tf32, bf16"; "": takes no words */
    bool path;       /* a value may be a path */
};
bool vp_config_key_help(int i, struct vp_key_help *out);

#endif
