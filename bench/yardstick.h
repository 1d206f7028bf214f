/* oneDNN's own rate on the products of a model: every linear layer's forward,
 * input gradient and weight gradient, each as one uncut call, on tensors
 * aligned as ours are. In bf16 the rate of our own products, without what is done
 * to their results. */
#ifndef VP_BENCH_YARDSTICK_H
#define VP_BENCH_YARDSTICK_H

#include "graph/graph.h"

struct yardstick;

struct yardstick *yardstick_open(const struct vp_graph *graph);
void yardstick_close(struct yardstick *yardstick);
/* Floating-point operations per second over all products of a step, each shape
 * measured once and counted as often as the model has it. */
double yardstick_rate(struct yardstick *yardstick, int n_threads);

#endif
