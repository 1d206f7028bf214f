/* Random and large workloads for tests of the search for a plan. */
#ifndef VP_TESTS_LIB_SEARCHLIB_H
#define VP_TESTS_LIB_SEARCHLIB_H

#include "base/rng.h"
#include "lib/slow.h"
#include "plan/search.h"
#include "plan/trial.h"

#include <stdint.h>

enum { MAX_RANKS = 8 };

extern uint32_t search_draws;

int search_draw(int n);

/* ---- Workloads ---------------------------------------------------------- */

struct setup {
    struct vp_graph graph;
    struct vp_workload work;
    struct vp_device_profile profile;
    struct vp_profile_block blocks[16];
    struct vp_search *search;
    struct vp_pricer *pricer; /* for the enumeration */
};

/* Makes a random workload with a model of two layers. */
void make_small(struct setup *setup);

void release_setup(struct setup *setup);

/* ---- Limits of memory --------------------------------------------------- */

/* Checks that every rank of the result is within its limit. */
void check_fits(const struct vp_search_result *result,
                const struct vp_search_input *input);

/* Draws limits between the least memory that works and the memory of a plan
 * without limits. */
void random_limits(struct setup *setup, struct vp_search_input *input,
                   int64_t limits[MAX_RANKS]);

/* ---- A large model ------------------------------------------------------ */

/* Makes BERT with 48 layers, with the rates of an RTX 2080 Ti. */
void make_large(struct setup *setup, struct vp_arena *arena);

/* A plan of eight stages. */
extern const struct vp_plan eight;

#endif
