/* Finds the smallest memory with which a workload can be trained: bisects the
 * limit by estimates for every variant, and by exact bytes for the best of
 * them. */
#include "plan/search.h"

#include "plan/trial.h"

#include <math.h>
#include <stdlib.h>

enum {
    N_EXACT = 3, /* variants that are bisected by exact bytes */
    FINE = 256,  /* limits are found to within 1 / FINE */
    PASSES = 2,
};

struct least {
    struct vp_trial trial;
    struct vp_point point;
    int64_t bytes; /* INT64_MAX: no limit was found */
    bool ready;
};

static void set_limits(struct vp_trial *trial, int64_t bytes)
{
    for (int r = 0; r < trial->plan.n_stages; r++)
        trial->limit[r] = bytes;
}

/* Looks for a plan of this variant within `bytes`; point->fits tells if there
 * is one. Without exact sizes only first partitions are tried. */
static enum vp_status try_limit(struct vp_trial *trial, int64_t bytes,
                                struct vp_point *point, struct vp_err *err)
{
    set_limits(trial, bytes);
    VP_TRY(vp_trial_seed(trial, point, err));
    if (!point->fits && trial->exact)
        VP_TRY(vp_trial_improve(trial, point, PASSES, err));
    return VP_OK;
}

/* Bisects limits in (low, high] until they are within 1 / fine. Sets bytes and
 * point of `least` at every limit that fits. */
static enum vp_status halve(struct least *least, int64_t low, int64_t high,
                            int fine, struct vp_err *err)
{
    struct vp_point point = { .choice = calloc((size_t)least->trial.n_blocks,
                                               1) };
    enum vp_status st = point.choice ? VP_OK : VP_ERR_NOMEM;

    while (st == VP_OK && high - low > high / fine && high > 1) {
        int64_t middle = low + (high - low) / 2;

        st = try_limit(&least->trial, middle, &point, err);
        if (st == VP_OK && point.fits) {
            vp_point_copy(&least->trial, &least->point, &point);
            least->bytes = high = middle;
        } else {
            low = middle;
        }
    }
    free(point.choice);
    return st;
}

static enum vp_status estimate_least(struct vp_search *search,
                                     const struct vp_search_input *input,
                                     const struct vp_variant *variant,
                                     struct least *least, struct vp_err *err)
{
    enum { COARSE = 16 };
    int64_t high = 1 << 20;

    VP_TRY(vp_trial_init(&least->trial, search, input, variant, err));
    do {
        high *= 4;
        VP_TRY(try_limit(&least->trial, high, &least->point, err));
    } while (!least->point.fits && high < INT64_MAX / 8);
    least->bytes = high;
    return halve(least, high / 4, high, COARSE, err);
}

/* Leaves out a variant that is refused. */
static enum vp_status open_least(struct vp_search *search,
                                 const struct vp_search_input *input,
                                 const struct vp_variant *variant,
                                 struct least *least, struct vp_err *err)
{
    enum vp_status st;

    least->bytes = INT64_MAX;
    least->point.choice = calloc((size_t)search->n_blocks, 1);
    if (!least->point.choice)
        return VP_ERR_NOMEM;
    st = estimate_least(search, input, variant, least, err);
    least->ready = st == VP_OK;
    return st == VP_ERR_NOMEM ? st : VP_OK;
}

/* Returns the index of the smallest estimate that is not done; -1: none is
 * left. */
static int next_least(const struct least *at, int n, const bool *done)
{
    int best = -1;

    for (int i = 0; i < n; i++)
        if (at[i].ready && !done[i] && at[i].bytes < INT64_MAX &&
            (best < 0 || at[i].bytes < at[best].bytes))
            best = i;
    return best;
}

/* Bisects one variant by exact bytes and keeps its plan if it needs less. */
static enum vp_status look(struct vp_search *search, struct least *least,
                           int64_t *bytes_out, struct vp_search_result *out,
                           struct vp_err *err)
{
    int64_t estimate = least->bytes, most = 0;
    struct vp_search_result result;
    struct vp_plan plan;

    least->trial.exact = true;
    least->bytes = INT64_MAX;
    VP_TRY(halve(least, estimate - estimate / 8, estimate + estimate / 4, FINE,
                 err));
    if (least->bytes == INT64_MAX)
        return VP_OK;
    plan = vp_trial_plan(&least->trial, &least->point);
    VP_TRY(vp_search_price(search, &plan, &result, err));
    for (int r = 0; r < result.plan.n_stages; r++)
        most = result.rank_bytes[r] > most ? result.rank_bytes[r] : most;
    if (most >= *bytes_out) {
        vp_search_result_release(&result);
        return VP_OK;
    }
    if (*bytes_out < INT64_MAX)
        vp_search_result_release(out);
    *bytes_out = most;
    *out = result;
    return VP_OK;
}

static enum vp_status find_least(struct vp_search *search, struct least *at,
                                 int n, int64_t *bytes_out,
                                 struct vp_search_result *out,
                                 struct vp_err *err)
{
    bool done[VP_SEARCH_MAX_VARIANTS] = { false };

    *bytes_out = INT64_MAX;
    for (int i = 0; i < N_EXACT; i++) {
        int best = next_least(at, n, done);

        if (best < 0)
            break;
        done[best] = true;
        if (look(search, &at[best], bytes_out, out, err) == VP_ERR_NOMEM)
            return VP_ERR_NOMEM;
    }
    if (*bytes_out == INT64_MAX)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "no schedule can be made for these stages and "
                          "minibatches; change stages");
    return VP_OK;
}

enum vp_status vp_search_least(struct vp_search *search,
                               const struct vp_search_input *input,
                               int64_t *bytes_out, struct vp_search_result *out,
                               struct vp_err *err)
{
    struct vp_variant variants[VP_SEARCH_MAX_VARIANTS];
    int n = vp_search_variants(search, input, variants);
    struct least *at = calloc((size_t)n + 1, sizeof(*at));
    enum vp_status st = at ? VP_OK : VP_ERR_NOMEM;

    for (int i = 0; i < n && st == VP_OK; i++)
        st = open_least(search, input, &variants[i], &at[i], err);
    if (st == VP_OK)
        st = find_least(search, at, n, bytes_out, out, err);
    for (int i = 0; at && i < n; i++) {
        if (at[i].point.choice)
            vp_trial_release(&at[i].trial);
        free(at[i].point.choice);
    }
    free(at);
    if (st == VP_ERR_NOMEM)
        vp_err_set(err, st, "planning: out of memory");
    return st;
}
