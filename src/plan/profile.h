/* A profile: seconds of blocks, messages and copies on one device, for one
 * precision and batch size. It is measured (runtime), read from a file, or
 * estimated from the rates of the device. No device, no I/O.
 *
 * Seconds are per minibatch. Blocks that a model repeats have the same
 * key and appear in a profile once. A block that is not in a profile is
 * estimated from the rates: vp_profile_estimate().
 *
 * The JSON format; its coarse form has the rates and no blocks:
 *
 *   version                 1; the coarse form has none
 *   device                  name, as the driver or the CPU gives it
 *   precision               "fp32", "bf16" or "fp16"; default "fp32"
 *   batch_size              samples per minibatch; 0 or none: any (only rates)
 *   made_with               {"driver", "clocks", "build", "libraries"}: texts; if
 *                           one differs from today's, the profile is stale
 *   memory_bytes            memory of the device; 0: unknown
 *   peak_tflops_fp32        also _bf16, _fp16; default: that of fp32
 *   copy_gb_per_s           bytes read and written by a copy on the device
 *   efficiency_of_products_by_rows  [[rows, share of the peak], ...], ascending;
 *                           linear between entries
 *   microseconds_per_kernel launch and ramp-up of a call
 *   host_link_gb_per_s      {"one_way", "both_ways_each"}; or, measured,
 *                           {"out", "in", "both_out", "both_in"}: pinned copies
 *   links_gb_per_s          {"same_host", "between_hosts"}
 *   link_microseconds       likewise: latency of a message; default 0
 *   hosts                   ranks of each host, in order; default: all on one
 *   capacity                ranks that one device runs at full speed; default
 *                           1
 *   under_load              [{"ranks", "f", "b", "update"}, ...], ascending:
 *                           factors by which actions take longer than their
 *                           blocks while this number of ranks computes on the
 *                           cores of a host
 *                           (1: a stage alone, compared with its blocks);
 *                           "b" stands for W, "f" for R; default: 1 each
 *   blocks                  [{"key": 32 hexadecimal digits, "name": text,
 *                             "f", "b", "w", "update": seconds,
 *                             "beside_copies": {"f", "b", "w"},
 *                             "recompute": [{"operators": [0, 2],
 *                               "seconds", "beside_copies"}, ...]}, ...]
 *
 * `b` and `w` are the seconds of backward's two parts; without a split they run
 * as one list that takes b + w. If "beside_copies" is missing, copies do not
 * slow the lists down. */
#ifndef VP_PLAN_PROFILE_H
#define VP_PLAN_PROFILE_H

#include "base/json.h"
#include "graph/graph.h"

#define VP_PROFILE_VERSION 1

enum {
    VP_PROFILE_MAX_POINTS = 16,
    VP_PROFILE_MAX_HOSTS = 64,
    VP_PROFILE_MAX_LOADS = 8
};

/* Two blocks with the same key have the same operators and shapes, including
 * precision and batch size, and read values at the same distances. Keys are
 * stored in files: their computation must not change. */
struct vp_block_key {
    uint64_t low, high;
};

/* Seconds of the lists of a block. */
struct vp_block_seconds {
    double f, b, w;
};

/* The most sets of recomputed operators that are considered for one block. */
enum { VP_PROFILE_MAX_SETS = 8 };

/* One set of operators of a block to recompute. */
struct vp_profile_set {
    uint64_t ops;         /* bit i: operator i of the block; not 0 */
    double seconds;       /* time of R */
    double beside_copies; /* time of R while the copy engines work */
};

struct vp_profile_block {
    struct vp_block_key key;
    const char *name; /* for messages and reports */
    /* While the device only computes, and while its copy engines work, too. */
    struct vp_block_seconds alone, beside_copies;
    double update; /* the optimizer's seconds, once per update */
    struct vp_profile_set sets[VP_PROFILE_MAX_SETS];
    int n_sets;
};

/* Rates of a device. */
struct vp_profile_rates {
    double flops[3]; /* per second: peak of fp32, bf16, fp16 */
    /* A copy within device memory: bytes read plus bytes written. */
    double bytes_per_second;
    double kernel_seconds; /* launch and ramp-up of each call */
    /* Fraction of the peak that a matrix product reaches, by its number of
     * rows. */
    struct {
        double rows, share;
    } efficiency[VP_PROFILE_MAX_POINTS];
    int n_efficiency; /* 0: always the peak */
};

/* A message of n bytes arrives after seconds + n / bytes_per_second. */
struct vp_profile_link {
    double seconds, bytes_per_second;
};

/* Cores of a host share clocks, caches and memory bandwidth: while `n_ranks`
 * ranks compute, an action takes this factor times the seconds of its
 * blocks. */
struct vp_profile_load {
    int n_ranks;
    double f, b, update; /* f also for R, b also for W */
};

/* Environment of the measurement. Empty texts are not compared. */
struct vp_profile_facts {
    const char *device, *driver, *clocks, *build, *libraries;
};

/* Plain data; texts and `blocks` are borrowed. */
struct vp_device_profile {
    struct vp_profile_facts facts;
    enum vp_dtype precision;
    int64_t batch; /* samples; 0: any */
    int64_t memory_bytes;
    struct vp_profile_rates rates;
    /* Pinned copies between device and host, bytes per second: one way at a
     * time, and both at once. 0: the device uses the host's memory. */
    double copy_out, copy_in, copy_out_both, copy_in_both;
    struct vp_profile_link same_host, between_hosts;
    int hosts[VP_PROFILE_MAX_HOSTS]; /* ranks per host */
    int n_hosts;                     /* 0: all ranks are on one */
    double capacity; /* ranks that a device runs at full speed */
    struct vp_profile_load loads[VP_PROFILE_MAX_LOADS]; /* ascending */
    int n_loads; /* 0: ranks on their own cores do not slow each other down */
    struct vp_profile_block *blocks;
    int n_blocks;
};

/* ---- Keys and candidates (profile.c) ------------------------------------- */

/* Computes the keys of all blocks of a graph. `keys_out` has an entry per
 * block. */
enum vp_status vp_profile_keys(const struct vp_graph *graph,
                               struct vp_block_key *keys_out);

/* Lists the sets of operators of a block that are worth recomputing, without
 * the empty one, from the cheapest to all operators. Returns their number. The
 * measurement and the search use the same list. */
int vp_profile_candidates(const struct vp_graph *graph, int block,
                          uint64_t sets_out[VP_PROFILE_MAX_SETS]);

/* Returns the block with this key, or NULL. */
const struct vp_profile_block *vp_profile_find(
    const struct vp_device_profile *profile, struct vp_block_key key);

/* Returns the slowdown factors while `n_ranks` ranks compute: interpolated
 * linearly between loads, those of the last load beyond it. */
struct vp_profile_load vp_profile_load_of(
    const struct vp_device_profile *profile, int n_ranks);

/* Estimates the seconds of one block of a graph, and of each of its candidate
 * sets, from the rates of `profile`. The optimizer has `n_moments` moments. */
void vp_profile_estimate(const struct vp_device_profile *profile,
                         const struct vp_graph *graph, int block, int n_moments,
                         struct vp_profile_block *out);
/* Returns the seconds to recompute the operators of `ops`, by the rates. */
double vp_profile_estimate_set(const struct vp_device_profile *profile,
                               const struct vp_graph *graph, int block,
                               uint64_t ops);

/* Fills in fixed rates of a device with its own memory, or of one CPU core.
 * They are good enough to compare plans, not to forecast times. */
void vp_profile_synthetic(bool host_memory, enum vp_dtype precision,
                          struct vp_device_profile *out);

/* ---- Cache --------------------------------------------------------------- */

/* Makes the file name of a profile: a hash of device, precision, batch size and
 * the `n_keys` keys of all blocks. */
enum { VP_PROFILE_NAME = 40 };
void vp_profile_name(const struct vp_device_profile *profile,
                     const struct vp_block_key *keys, int n_keys,
                     char out[VP_PROFILE_NAME]);
/* Returns the name of the first fact in which `today` differs from the profile,
 * "driver" for example; NULL: the profile is not stale. */
const char *vp_profile_stale(const struct vp_device_profile *profile,
                             const struct vp_profile_facts *today);

/* ---- JSON (profile_json.c) ----------------------------------------------- */

/* Writes the profile as text, which the caller frees. */
enum vp_status vp_profile_print(const struct vp_device_profile *profile,
                                char **text_out);

/* Reads the output of vp_profile_print(), and the coarse form. Messages have
 * the form "source:line:column: cause; remedy". Texts and blocks live in
 * `arena`. */
enum vp_status vp_profile_parse(const char *text, size_t n_bytes,
                                const char *source, struct vp_arena *arena,
                                struct vp_device_profile *out,
                                struct vp_err *err);

#endif
