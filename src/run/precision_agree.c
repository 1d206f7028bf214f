/* Agrees on one precision: ranks exchange their preferences, and the lead
 * decides. */
#include "run/precision_agree.h"

#include "backend/facts.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/precision.h"
#include "run/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 16 };

static enum vp_status process_has_ended(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_ABORTED,
                      "precision: another process has ended; see its messages");
}

static struct vp_precision_wish wish_of(const struct vp_config *config)
{
    struct vp_precision_wish wish = { .precision = config->precision };

    if (config->precision_is_auto && vp_config_uses_cpu(config))
        snprintf(wish.isa, sizeof(wish.isa), "%s", vp_cores_isa());
    return wish;
}

/* Reads the precision of the run to resume. Returns false unless it is fp32 or
 * bf16, the values that auto can have. */
static bool find_saved(const char *resume, enum vp_precision *out)
{
    char word[WORD_BYTES];

    if (!resume ||
        !vp_resume_read_value(resume, "precision", word, sizeof(word)))
        return false;
    if (strcmp(word, "bf16") != 0 && strcmp(word, "fp32") != 0)
        return false;
    *out = strcmp(word, "bf16") == 0 ? VP_PRECISION_BF16 : VP_PRECISION_FP32;
    return true;
}

enum vp_precision vp_precision_choose(const struct vp_precision_wish *wishes,
                                      int n)
{
    const char *isa = "";

    for (int i = 0; i < n; i++) {
        if (wishes[i].precision != VP_PRECISION_BF16 ||
            (isa[0] && wishes[i].isa[0] && strcmp(isa, wishes[i].isa) != 0))
            return VP_PRECISION_FP32;
        if (wishes[i].isa[0])
            isa = wishes[i].isa;
    }
    return VP_PRECISION_BF16;
}

/* ---- Several processes -------------------------------------------------- */

/* Sends the preferences of all ranks to all processes. */
static enum vp_status gather(struct vp_world *world,
                             const struct vp_precision_wish *mine,
                             struct vp_precision_wish *all, struct vp_err *err)
{
    int n = vp_world_n_ranks(world), me = 0;
    int *ranks = calloc((size_t)n, sizeof(*ranks));
    struct vp_group *group = NULL;
    enum vp_status st = VP_ERR_NOMEM;

    for (int r = 0; ranks && r < n; r++)
        ranks[r] = r;
    if (ranks)
        st = vp_group_create(world, ranks, n, sizeof(*mine), &group);
    free(ranks);
    if (st != VP_OK)
        vp_err_set(err, st, "precision: linking the processes failed");
    VP_TRY(vp_world_agree(world, st, VP_LIMIT_NEVER, err));
    while (!vp_world_is_mine(world, me))
        me++;
    if (vp_group_exchange(group, me, mine, sizeof(*mine), all,
                          VP_LIMIT_NEVER) != VP_OK)
        return process_has_ended(err);
    return VP_OK;
}

static enum vp_status decide_together(const struct vp_config *config,
                                      const char *resume,
                                      struct vp_world *world,
                                      enum vp_precision *out,
                                      struct vp_err *err)
{
    bool is_lead = vp_world_is_mine(world, vp_world_lead(world));
    struct vp_precision_wish mine = wish_of(config);
    struct vp_precision_wish *all = calloc((size_t)vp_world_n_ranks(world),
                                           sizeof(*all));
    enum vp_status st = all ? VP_OK : VP_ERR_NOMEM;

    if (!all)
        vp_err_set(err, st, "precision: out of memory");
    st = vp_world_agree(world, st, VP_LIMIT_NEVER, err);
    if (st == VP_OK)
        st = gather(world, &mine, all, err);
    if (st == VP_OK && is_lead && config->precision_is_auto &&
        !find_saved(resume, out))
        *out = vp_precision_choose(all, vp_world_n_ranks(world));
    if (st == VP_OK &&
        vp_world_share(world, out, sizeof(*out), VP_LIMIT_NEVER) != VP_OK)
        st = process_has_ended(err);
    free(all);
    return st;
}

/* ---- All of it ---------------------------------------------------------- */

/* Loads `config` again with the precision that was agreed on. */
static enum vp_status apply(const struct vp_config_source *source,
                            struct vp_config *config, struct vp_err *err)
{
    struct vp_config again;
    const char *word = vp_key_find("precision")->word((int)*source->precision);

    if (!config->precision_is_auto || config->precision == *source->precision)
        return VP_OK;
    if (config->piped)
        return vp_err_set(
            err, VP_ERR_INVALID,
            "%s: precision auto became %s, and a pipe can be read "
            "once; use --set precision=%s",
            config->path, word, word);
    if (vp_config_load_from(source, &again, err) != VP_OK) {
        vp_config_release(&again);
        return VP_ERR_INVALID;
    }
    vp_config_release(config);
    *config = again;
    return VP_OK;
}

enum vp_status vp_precision_agree(struct vp_config *config,
                                  struct vp_config_source *source,
                                  const char *resume, struct vp_world *world,
                                  enum vp_precision *precision_out,
                                  struct vp_err *err)
{
    enum vp_status st = VP_OK;

    *precision_out = config->precision;
    if (world)
        st = decide_together(config, resume, world, precision_out, err);
    else if (config->precision_is_auto)
        find_saved(resume, precision_out);
    VP_TRY(st);
    source->precision = precision_out;
    st = apply(source, config, err);
    return world ? vp_world_agree(world, st, VP_LIMIT_NEVER, err) : st;
}
