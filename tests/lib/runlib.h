/* Small runs in a temporary folder, a record of their events, and the files
 * that they leave. */
#ifndef VP_TESTS_LIB_RUNLIB_H
#define VP_TESTS_LIB_RUNLIB_H

#include "run/folder.h"
#include "run/log.h"

#include <math.h>
#include <stdint.h>

extern char run_root[64];

/* ---- Files -------------------------------------------------------------- */

const char *path_in_run_root(const char *folder, const char *name);

char *read_run_text(const char *path);

void assert_file(const char *path, const char *want);

int count_lines(const char *text, const char *pattern);

/* ---- Runs --------------------------------------------------------------- */

enum { MAX_LINES = 4096 };

/* Events of the last run. */
struct heard {
    int rank[MAX_LINES];
    char line[MAX_LINES][160];
    int n_lines;
    int64_t eval_step, n_batches;
    double eval_loss;
    int n_evals, n_steps;
    int64_t epochs[64];
    double losses[64];
    char notices[4096]; /* one line each */
    int ranks[3];       /* numbers of the ranks for users */
    int64_t n_bytes;    /* planned memory of all stages */
    char error[512];
};

extern struct heard heard;

/* Trains a small model. `sets` ends with NULL. */
enum vp_status run_small(const char *output, const char *resume,
                         const char *const *sets);

void must_run_small(const char *output, const char *resume,
                    const char *const *sets);

const char *folder_of(const char *name);

/* ---- Logs in the original's format -------------------------------------- */

struct fake {
    struct vp_config config;
    struct vp_memory memory[3];
    struct vp_run_stage stages[3];
    struct vp_run_summary summary;
    struct vp_plan plan;
};

/* Three stages, the middle one on two ranks; 12 steps per epoch. */
void make_fake(struct fake *fake, int accumulation, int64_t every);

void open_log(struct vp_log *log, const struct fake *fake, const char *name);

/* ---- The test's folder --------------------------------------------------- */

int make_run_root(void **state);

int remove_run_root(void **state);

#endif
