/* Shared by commands on a trained model: its folder, --set, its configuration,
 * and ranks that are processes. Functions that return int return an exit
 * status; if it is not TOOL_OK, a line was printed on stderr. */
#ifndef VP_TOOLS_MODEL_H
#define VP_TOOLS_MODEL_H

#include "run/inference_job.h"
#include "run/model_source.h"
#include "sequences.h"
#include "tool.h"

struct model {
    const char *command; /* "vpipe eval" */
    const char *path;    /* folder as the user gave it; NULL: not given yet */
    const char **sets;   /* KEY=VALUE; has room for twice the arguments */
    int n_sets;
    char **argv; /* arguments of the command, for ranks that are processes */
    int argc;
    bool reads_stdin;
    bool all_run; /* see model_run() */
    struct vp_model_source *source;
    struct vp_config config;
    /* Set while model_run() runs in one of several processes; NULL: alone. */
    struct vp_inference_job *job;
};

/* Allocates `sets` for a command line. Release with model_release(). */
int model_init(struct model *model, const char *command, int argc, char **argv);
/* Takes the path of the model, the first argument without dashes. */
int model_set_path(struct model *model, const char *path);
/* For commands that read no data: sets synthetic_data, so that the data of the
 * run need not exist. */
void model_needs_no_data(struct model *model);
/* Takes the value of an option: a whole number from `least` to `most`. */
int model_take_count(const struct model *model, const char *option,
                     const char *value, int64_t least, int64_t most,
                     int64_t *out);
/* Takes the value of --ids, for commands that take no decoder input. */
int model_take_ids(const struct model *model, const char *value,
                   struct sequences *list);
/* Opens the model and its configuration. */
int model_open(struct model *model);
/* Opens the model, calls `run` and prints its error. If ranks are processes,
 * this one starts them by mpirun with the same command line. Then `run` is
 * called in the lead, and the other processes execute its requests; with
 * `all_run` it is called in every process. */
typedef enum vp_status (*model_run_fn)(void *ctx, struct vp_err *err);
int model_run(struct model *model, model_run_fn run, void *ctx);
void model_release(struct model *model);

/* Prints the message on stderr. Returns the exit status. */
int model_fail(const struct model *model, enum vp_status st,
               const struct vp_err *err);
/* A vp_notice_fn: prints a line on stderr in the first process. `ctx`: the
 * model. */
void model_notice(void *ctx, const char *line);

#endif
