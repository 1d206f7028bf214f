/* Texts that a run generates from the same prompts at intervals while it
 * trains: keys generate_every, translate_every and sample_prompts. */
#ifndef VP_RUN_RUN_TEXTS_H
#define VP_RUN_RUN_TEXTS_H

#include "config/config.h"
#include "graph/graph.h"
#include "runtime/trainer/trainer.h"

struct vp_run_texts;

struct vp_run_text {
    int64_t number;     /* number of the prompt, from 1 */
    const char *prompt; /* line of the prompt file */
    const char *text;   /* one line; ids if the model has no tokenizer */
};

struct vp_run_text_sink {
    void *ctx;
    enum vp_status (*take)(void *ctx, const struct vp_run_text *text,
                           struct vp_err *err);
};

/* Reads and encodes the prompts. `*out` is NULL if the configuration requests
 * no texts. Borrows `config`. */
enum vp_status vp_run_texts_open(const struct vp_config *config,
                                 struct vp_run_texts **out, struct vp_err *err);
void vp_run_texts_close(struct vp_run_texts *texts);

/* Returns the number of steps between texts. */
int64_t vp_run_texts_every(const struct vp_run_texts *texts);

/* Generates with the newest weights of `trainer`, which is idle and stays
 * unchanged; `graph` is one of its graphs. Copies the weights to a separate
 * pipeline with the same number of stages and the configuration in the run
 * folder `run`. */
enum vp_status vp_run_texts_make(struct vp_run_texts *texts,
                                 const struct vp_trainer *trainer,
                                 const struct vp_graph *graph, const char *run,
                                 const struct vp_run_text_sink *sink,
                                 struct vp_err *err);

#endif
