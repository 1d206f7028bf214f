/* Measures oneDNN's rate on the matrix products of a model: forward, input
 * gradient and weight gradient of every linear layer, each as one call, on
 * tensors with the same alignment as vpipe's. In bf16 it is the rate of vpipe's
 * own products, without bias and activation. */
#ifndef VP_BENCH_YARDSTICK_H
#define VP_BENCH_YARDSTICK_H

#include "graph/graph.h"

struct yardstick;

struct yardstick *yardstick_open(const struct vp_graph *graph);
void yardstick_close(struct yardstick *yardstick);
/* Returns the FLOP/s over all products of a step. Each shape is measured once,
 * and weighted by its number of uses in the model. */
double yardstick_rate(struct yardstick *yardstick, int n_threads);

#endif
