/* What commands on a trained model share: the folder, --set, its configuration. */
#ifndef VP_TOOLS_MODEL_H
#define VP_TOOLS_MODEL_H

#include "run/inference_job.h"
#include "run/model_source.h"
#include "sequences.h"
#include "tool.h"

struct model {
    const char *command; /* "vpipe eval" */
    const char *path;    /* as the user named it; NULL: not yet */
    const char **sets;   /* room for twice the arguments */
    int n_sets;
    char **argv; /* of the command, for ranks that are processes */
    int argc;
    bool reads_stdin;
    bool all_run; /* see model_run() */
    struct vp_model_source *source;
    struct vp_config config;
    /* The other processes, while model_run() runs; NULL: this one is alone. */
    struct vp_inference_job *job;
};

/* Makes room for the sets of a command line. Release with model_release(). */
int model_init(struct model *model, const char *command, int argc, char **argv);
/* Takes the first argument without dashes. */
int model_set_path(struct model *model, const char *path);
/* For commands that read no data: whether it is there does not matter. */
void model_needs_no_data(struct model *model);
/* Takes the value of an option. Else prints a line. */
int model_take_count(const struct model *model, const char *option,
                     const char *value, int64_t least, int64_t most,
                     int64_t *out);
/* Takes the value of --ids, for models that are given no decoder input. */
int model_take_ids(const struct model *model, const char *value,
                   struct sequences *list);
/* Opens the model and its configuration. Else prints a line. */
int model_open(struct model *model);
/* Opens the model and calls `run`. Prints its error. If ranks are processes, this
 * one starts them by mpirun, with the same command line; `run` is called in the
 * process that leads, or with `all_run` in each of them, and the other processes
 * follow it. */
typedef enum vp_status (*model_run_fn)(void *ctx, struct vp_err *err);
int model_run(struct model *model, model_run_fn run, void *ctx);
void model_release(struct model *model);

/* Prints the message on stderr. Returns the exit status. */
int model_fail(const struct model *model, enum vp_status st,
               const struct vp_err *err);
/* A vp_notice_fn: a line on stderr, of the process that leads; `ctx` is the model. */
void model_notice(void *ctx, const char *line);

#endif
