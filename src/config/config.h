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
/* distributed_backend; gloo is the original's word for messages between CPUs:
 * on one machine the same as local, on several as mpi. */
enum vp_transport {
    VP_TRANSPORT_LOCAL,
    VP_TRANSPORT_GLOO,
    VP_TRANSPORT_MPI,
    VP_TRANSPORT_NCCL
};

/* auto_plan: whether the pipeline is planned at the start of a run; AGAIN: also
 * where a run goes on, which keeps its plan otherwise. */
enum vp_auto_plan { VP_AUTO_PLAN_OFF, VP_AUTO_PLAN_ON, VP_AUTO_PLAN_AGAIN };

/* Keys that may say auto: a search for a plan chooses the number. */
enum vp_auto_key {
    VP_AUTO_BATCH_SIZE,
    VP_AUTO_ACCUMULATION_STEPS,
    VP_AUTO_REPLICAS,
    VP_AUTO_COUNT
};

/* What `verbose` may ask for; a set of them is bits 1 << v. */
enum vp_verbose {
    VP_VERBOSE_STAGES,
    VP_VERBOSE_TENSORS,
    VP_VERBOSE_VERSIONS,
    VP_VERBOSE_COMMUNICATION,
    VP_VERBOSE_TIME,
    VP_VERBOSE_COUNT
};

#define VP_CONFIG_MAX_NOTICES 8

/* "epoch", where a number of steps may stand. */
#define VP_EVERY_EPOCH INT64_C(-1)

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

/* Where a rank is to run; its number is the place in the list. */
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
    const char *const *sets; /* of --set, in their order */
    int n_sets;
    bool piped; /* a pipe or descriptor instead: it cannot be read again, and
                   relative paths start at the working directory */
    /* model */
    const struct vp_model *model;  /* model_type */
    const struct vp_model *custom; /* that was given as one; else NULL */
    const char *directory;         /* relative paths of the file start here;
                                     NULL: at its own folder */
    const char *module; /* the original's name of the sizes, or NULL */
    struct vp_model_config sizes; /* vocab, hidden, layers, ... */
    const char *init; /* folder of the first weights; NULL: random ones */
    /* data */
    const char *data_dir; /* NULL: synthetic data */
    bool synthetic_data;
    int data_format;           /* enum vp_data_format */
    const char *tokenizer;     /* NULL: text is read byte by byte */
    const char *valid_split;   /* NULL: the usual words */
    const char *source_lang;   /* translation; NULL: by names of files */
    const char *target_lang;   /* the same */
    int64_t batch_multiple;    /* required_batch_size_multiple */
    int document_end;          /* -1: none */
    const char *text_key;      /* in lines of JSON */
    bool replace_invalid_utf8; /* invalid_utf8: refuse | replace */
    int64_t batch_size;        /* samples; translation: tokens */
    int64_t seq_length;
    int64_t max_pred;  /* scored tokens per sequence, masked LM */
    float random_next; /* samples with two documents, of encoded text */
    uint64_t seed;
    bool no_input_pipelining; /* prefetch 0 */
    int prefetch;             /* batches read ahead */
    int64_t num_minibatches;  /* of an epoch, at most; 0: all */
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
    const char *saved_schedule; /* see struct vp_config_source; else NULL */
    const char *schedule_text;  /* lists of schedule_file, or those that were
                                  made for auto; NULL: the generator's */
    bool schedule_v;            /* auto: the two chunks of a rank are in a V */
    int schedule_memory; /* v-auto, auto: chunks that a rank may keep; else 0 */
    struct vp_real_list schedule_costs; /* auto: of F, B, W; empty: FLOPs */
    int stages;                         /* without replicas: ranks */
    int chunks; /* stages of a rank; there are stages x chunks in all */
    const struct vp_plan_file *plan_file; /* that partition names, or NULL */
    struct vp_int_list partition;         /* blocks; empty: one stage */
    bool recompute;                       /* false: ratios count as 0 */
    struct vp_real_list recompute_ratio;  /* empty: nothing is recomputed */
    /* Of plan_file, per block: see struct vp_plan. NULL: by recompute_ratio. */
    const uint64_t *recompute_sets;
    const struct vp_placement *placement; /* of config_file, or NULL */
    struct vp_int_list replicas;          /* ranks; empty: one each */
    struct vp_int_list ranks; /* their numbers, by stage; empty: 0, 1, ... */
    struct vp_int_list warmup_depths; /* empty: by the number of ranks */
    bool early_recompute;             /* before the gradient arrives */
    bool rebalance; /* moves blocks when measured stages are out of balance */
    bool recompute_in_backward;     /* block by block; no R */
    struct vp_real_list swap_ratio; /* per stage of the pipeline */
    int accumulation_steps;         /* bsp: minibatches per update; asp: 1 */
    bool clip_per_stage;            /* grad_clip_scope: all | stage */
    bool fast_reduce;               /* reduce: exact | fast */
    bool shard_optimizer;           /* replicas own slices of its state */
    int mp_size;                    /* ranks that share each operator */
    bool compress_activations;      /* between stages, to bf16 */
    bool compress_in_gpu;           /* no effect */
    enum vp_auto_plan auto_plan;    /* OFF once the plan is applied */
    const char *profile; /* a file, for planning; NULL: of this machine */
    unsigned auto_keys;  /* set of enum vp_auto_key that say auto: bits 1 << k;
                            their fields have defaults until a plan is found */
    /* machine */
    enum vp_device_kind device;
    enum vp_precision precision;
    bool precision_is_auto; /* the configuration leaves it to the processes */
    struct vp_scale_config loss_scale;
    int threads_per_stage;     /* 0: all cores, shared by the ranks */
    bool reference_kernels;    /* kernels: fast | reference */
    size_t memory_limit;       /* bytes per stage; 0: none */
    size_t rebalance_headroom; /* beyond it, during a move */
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
    int64_t generate_every, translate_every; /* the same */
    const char *sample_prompts;  /* a file, for these two; NULL: none */
    int64_t sample_tokens;       /* new ids of each prompt */
    bool tensorboard;            /* write its event file */
    const char *prometheus_file; /* for node_exporter; NULL: none */
    int64_t print_frequency;
    unsigned verbose;          /* set of enum vp_verbose */
    int64_t verbose_frequency; /* steps; 0: never */
    int watchdog_seconds;      /* the longest wait for another rank */

    /* What is good but will not be used: lines for the user. */
    const char *notices[VP_CONFIG_MAX_NOTICES];
    int n_notices;

    struct vp_arena arena; /* owns all strings */
    /* One for every row of the table of keys. */
    struct vp_origin *origins;
    int n_origins;
};

/* Where the value of a key comes from. */
struct vp_origin {
    const char *key;
    const char *place;   /* "configs/a.yml:12", "--set"; NULL: not given */
    const char *written; /* the key as it stands there */
    const char *text;    /* its value; NULL: a list */
    const char *via;     /* the place that named the file of `place`, or NULL */
    const char *why;     /* not given: what it follows from; NULL: the table */
};

/* Stages in all: stages x chunks. */
int vp_config_n_stages(const struct vp_config *config);
/* Groups of mp_size ranks, each of which counts as one rank of the schedule: replicas
 * counted, chunks not. */
int vp_config_n_groups(const struct vp_config *config);
/* Ranks: replicas and members of groups counted, chunks not. */
int vp_config_n_ranks(const struct vp_config *config);
/* Returns the transport's name for people; `processes`: the run has several. */
const char *vp_config_transport(const struct vp_config *config, bool processes);
/* Its ranks are processes of their own. */
bool vp_config_is_distributed(const struct vp_config *config);
/* The user's number of rank `i`, in the order of the schedule: in machines and in file
 * names; that of the first of each group in stage_to_rank_map. */
int vp_config_rank_number(const struct vp_config *config, int i);

void vp_config_release(struct vp_config *config);
/* Is data_dir there, if it is needed? Not part of the above: a plan needs no data,
 * and of several processes those ask that read it. */
enum vp_status vp_config_find_data(const struct vp_config *config,
                                   struct vp_err *err);

/* The user's words; its `key` is that of the table. All strings are kept. */
void vp_origin_give(struct vp_config *config, const struct vp_origin *given);
/* Not the user's words, but something they imply. */
void vp_origin_derive(struct vp_config *config, const char *key,
                      const char *why);

/* Where a key was set, for messages: its place, or "default". */
const char *vp_config_place(const struct vp_config *config, const char *key);
bool vp_config_given(const struct vp_config *config, const char *key);
/* The key as the user wrote it there; else `key`. */
const char *vp_config_written(const struct vp_config *config, const char *key);
/* Where to look first for a mistake: the place of the first of `fields` (see
 * struct vp_err; names of keys) that the user wrote, else of the key that chose
 * the sizes. */
const char *vp_config_blame(const struct vp_config *config, const char *fields);

/* The resolved configuration as YAML that loads to the same values; paths are
 * written absolute. */
enum vp_status vp_config_write(const struct vp_config *config, const char *path,
                               struct vp_err *err);

/* The same text, with the origin of every value in a comment; to be freed. */
enum vp_status vp_config_explain(const struct vp_config *config,
                                 char **text_out, struct vp_err *err);

/* Key number `i` of the table, for `vpipe train --help`, the manual page and
 * completion; false past the last one. */
struct vp_key_help {
    const char *group; /* "model", "data", ... */
    const char *name;
    const char *fallback; /* a value, or "(where it comes from)" */
    const char *meaning;
    char type[192];  /* "a whole number from 1 to 64" */
    char words[256]; /* "fp32, tf32, bf16"; "": takes no words */
    bool path;       /* a value may be a path */
};
bool vp_config_key_help(int i, struct vp_key_help *out);

#endif
