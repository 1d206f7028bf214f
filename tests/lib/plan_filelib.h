/* Configurations and plans as files in the working directory, and runs of the
 * program vpipe. */
#ifndef VP_TESTS_LIB_PLAN_FILELIB_H
#define VP_TESTS_LIB_PLAN_FILELIB_H

#include "config/config.h"

#define BERT "model_type: bert\n"

/* A model of 9 blocks. */
#define NINE BERT "layers: 4\n"

/* ---- Files in one temporary folder -------------------------------------- */

char *read_plan_text(const char *path);

void load_file(const char *path, const char *set, struct vp_config *out);

/* Loads `yaml`, which must be refused. Returns the message, valid until the
 * next call. */
const char *refused_message(const char *yaml);

/* ---- The program -------------------------------------------------------- */

struct program_outcome {
    int status;
    char out[16384], err[4096];
};

/* Runs vpipe with these arguments, which end with NULL. */
void run_program(struct program_outcome *outcome, const char *const *arguments);

#endif
