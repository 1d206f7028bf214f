/* Parses schedules from text. Checks only the syntax; vp_schedule_validate()
 * checks the rest.
 *
 *   schedule=mine stages=2 minibatches=1
 *   0: 0F0 0SEND_ACT0 0RECV_GRAD0 0B0 0UPDATE0
 *   1: 1RECV_ACT0 1F0 1B0 1SEND_GRAD0 1UPDATE0
 *
 * Only `stages` and `minibatches` are required in the first line. The defaults
 * of other keys are those of a synchronous schedule with one rank per stage,
 * and slots and rings are as large as the lists need. */
#include "sched/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 4096, MAX_NUMBER = 1 << 29 };

struct reader {
    const char *at, *line_start;
    const char *source;
    int line;
    struct vp_err *err;
};

/* ---- Characters --------------------------------------------------------- */

static enum vp_status bad(const struct reader *r, const char *fmt, ...)
    VP_PRINTF(2, 3);

static enum vp_status bad(const struct reader *r, const char *fmt, ...)
{
    char cause[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(cause, sizeof(cause), fmt, args);
    va_end(args);
    return vp_err_set(r->err, VP_ERR_INVALID, "%.200s:%d:%d: %s", r->source,
                      r->line, (int)(r->at - r->line_start) + 1, cause);
}

static bool skip_spaces(struct reader *r)
{
    const char *before = r->at;

    while (*r->at == ' ')
        r->at++;
    return r->at > before;
}

/* Skips the end of a line. Returns false if there is other text. */
static bool end_line(struct reader *r)
{
    if (*r->at == '\n') {
        r->line_start = ++r->at;
        r->line++;
        return true;
    }
    return *r->at == '\0';
}

static bool at_end(const struct reader *r)
{
    return *r->at == '\n' || *r->at == '\0';
}

static enum vp_status read_number(struct reader *r, int least, int most,
                                  int *out)
{
    const char *p = r->at;
    int value = 0;

    if (*p < '0' || *p > '9')
        return bad(r, "a number belongs here");
    for (; *p >= '0' && *p <= '9'; p++) {
        int digit = *p - '0';

        if (digit > most || value > (most - digit) / 10)
            return bad(r, "the number is too large; give at most %d", most);
        value = 10 * value + digit;
    }
    if (value < least)
        return bad(r, "the number is too small; give at least %d", least);
    r->at = p;
    *out = value;
    return VP_OK;
}

/* Returns the length of a run of letters, digits, '-' and '_'. */
static size_t word_length(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                      "0123456789-_");
}

/* ---- The first line ----------------------------------------------------- */

static void set(const struct vp_schedule_key *key, void *to, int value)
{
    char *at = (char *)to + key->offset;

    if (key->is_bool)
        *(bool *)at = value != 0;
    else
        *(int *)at = value;
}

/* Reads "3" for all stages, or "3,2,1". */
static enum vp_status read_stage_values(struct reader *r,
                                        const struct vp_schedule_key *key,
                                        struct vp_schedule *schedule)
{
    int n = 0, value = 0;

    if (!schedule->stages)
        return bad(r, "'stages=' must come before '%s='", key->name);
    do {
        r->at += n > 0;
        if (n == schedule->n_stages)
            return bad(r, "%s has more values than stages; give %d", key->name,
                       n);
        VP_TRY(read_number(r, key->least, key->most, &value));
        set(key, &schedule->stages[n++], value);
    } while (*r->at == ',');
    if (n == 1)
        while (n < schedule->n_stages)
            set(key, &schedule->stages[n++], value);
    if (n < schedule->n_stages)
        return bad(r,
                   "%s has %d values; give one, or one for each of the %d "
                   "stages",
                   key->name, n, schedule->n_stages);
    return VP_OK;
}

static enum vp_status read_value(struct reader *r, enum vp_text_key i,
                                 struct vp_schedule *schedule)
{
    const struct vp_schedule_key *key = &vp_schedule_keys[i];
    int value = 0;

    if (key->per_stage)
        return read_stage_values(r, key, schedule);
    VP_TRY(read_number(r, key->least, key->most, &value));
    set(key, schedule, value);
    if (i != VP_TEXT_KEY_STAGES)
        return VP_OK;
    schedule->stages = calloc((size_t)value, sizeof(*schedule->stages));
    return schedule->stages
               ? VP_OK
               : vp_err_set(r->err, VP_ERR_NOMEM, "schedule: out of memory");
}

static enum vp_status read_name(struct reader *r, struct vp_schedule *schedule)
{
    size_t n = word_length(r->at);

    if (n == 0 || n >= sizeof(schedule->name))
        return bad(r, "a name of 1 to %d letters belongs here",
                   (int)sizeof(schedule->name) - 1);
    memcpy(schedule->name, r->at, n);
    schedule->name[n] = '\0';
    r->at += n;
    return VP_OK;
}

static bool is_word(const char *at, size_t n, const char *word)
{
    return strlen(word) == n && strncmp(at, word, n) == 0;
}

static enum vp_status read_key(struct reader *r, bool *seen,
                               struct vp_schedule *schedule)
{
    const char *word = r->at;
    size_t n = word_length(word);

    if (n == 0 || word[n] != '=')
        return bad(r, "'key=value' belongs here");
    if (is_word(word, n, "schedule")) {
        r->at += n + 1;
        return read_name(r, schedule);
    }
    for (int i = 0; i < VP_TEXT_KEY_COUNT; i++) {
        if (!is_word(word, n, vp_schedule_keys[i].name))
            continue;
        if (seen[i])
            return bad(r, "'%s=' is given twice; remove one",
                       vp_schedule_keys[i].name);
        seen[i] = true;
        r->at += n + 1;
        return read_value(r, i, schedule);
    }
    return bad(r, "'%.*s' is not a key; remove it", n > 40 ? 40 : (int)n, word);
}

/* Sets the defaults of keys that the first line does not have. */
static void add_defaults(const bool *seen, struct vp_schedule *schedule)
{
    int n_ranks = 0;

    if (!seen[VP_TEXT_KEY_FIRST])
        schedule->first_mb = schedule->segment_begin;
    if (!seen[VP_TEXT_KEY_DRAIN])
        schedule->drain = true;
    for (int s = 0; s < schedule->n_stages; s++) {
        struct vp_schedule_stage *stage = &schedule->stages[s];

        if (!seen[VP_TEXT_KEY_REPLICAS])
            stage->n_replicas = 1;
        if (!seen[VP_TEXT_KEY_RANK])
            stage->first_rank = n_ranks;
        n_ranks += stage->n_replicas;
        if (!seen[VP_TEXT_KEY_RECOMPUTED])
            stage->n_recomputed = stage->recompute;
        if (!seen[VP_TEXT_KEY_VERSIONS])
            stage->n_versions = 1;
        if (!seen[VP_TEXT_KEY_EVERY] && !schedule->forward_only)
            stage->update_every = schedule->n_mb;
    }
}

static enum vp_status read_header(struct reader *r,
                                  struct vp_schedule *schedule)
{
    bool seen[VP_TEXT_KEY_COUNT] = { false };
    struct reader start = *r;
    int64_t n_nodes = 0;

    snprintf(schedule->name, sizeof(schedule->name), "custom");
    for (skip_spaces(r); !at_end(r); skip_spaces(r))
        VP_TRY(read_key(r, seen, schedule));
    if (!seen[VP_TEXT_KEY_STAGES] || !seen[VP_TEXT_KEY_MINIBATCHES])
        return bad(&start, "'stages=' or 'minibatches=' is missing in the "
                           "first line; add it");
    add_defaults(seen, schedule);
    if (schedule->first_mb < schedule->segment_begin ||
        schedule->first_mb > MAX_NUMBER - schedule->n_mb)
        return bad(&start,
                   "minibatches %d + %d of a segment from %d; begin "
                   "<= first, and at most %d",
                   schedule->first_mb, schedule->n_mb, schedule->segment_begin,
                   MAX_NUMBER);
    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];
        int end = stage->first_rank + stage->n_replicas;

        n_nodes += stage->n_replicas;
        if (end > schedule->n_ranks)
            schedule->n_ranks = end;
        if (stage->version_past > stage->version_begin ||
            stage->version_past > stage->version_lag ||
            stage->version_past >= stage->n_versions)
            return bad(&start,
                       "stage %d carries on %d rounds (past); give at most "
                       "base and lag, and fewer than versions",
                       s, stage->version_past);
    }
    if (n_nodes > MAX_RANKS || schedule->n_ranks > MAX_RANKS)
        return bad(&start,
                   "more than %d ranks or stages with replicas; give "
                   "fewer",
                   MAX_RANKS);
    end_line(r);
    return VP_OK;
}

/* ---- Actions ------------------------------------------------------------ */

static enum vp_status read_kind(struct reader *r, enum vp_action_kind *out)
{
    size_t n = strspn(r->at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    for (int kind = 0; kind < VP_ACTION_KIND_COUNT; kind++)
        if (is_word(r->at, n, vp_action_kind_name(kind))) {
            r->at += n;
            *out = kind;
            return VP_OK;
        }
    return bad(r,
               "an action is F, B, W, R, SEND_ACT, RECV_ACT, SEND_GRAD, "
               "RECV_GRAD, REDUCE, UPDATE, SWAP_OUT, SWAP_FREE, SWAP_IN or "
               "SWAP_READY, not '%.*s'",
               n > 24 ? 24 : (int)n, r->at);
}

static bool has_slot(enum vp_action_kind kind)
{
    return vp_action_computes(kind) || vp_action_swaps(kind);
}

/* Reads "1F0", "1F0@2", "1F0v3" or "1F0@2v3". */
static enum vp_status read_action(struct reader *r,
                                  const struct vp_schedule *schedule,
                                  struct vp_action *out)
{
    struct vp_action a = { VP_ACTION_F, 0, 0, -1, -1, -1, -1 };

    VP_TRY(read_number(r, 0, schedule->n_stages - 1, &a.stage));
    VP_TRY(read_kind(r, &a.kind));
    VP_TRY(read_number(r, 0, MAX_NUMBER, &a.mb));
    if (*r->at == '@') {
        if (!has_slot(a.kind))
            return bad(r, "this action has no slot; remove it");
        r->at++;
        VP_TRY(read_number(r, 0, MAX_NUMBER, &a.slot));
    }
    if (*r->at == 'v') {
        if (!vp_action_computes(a.kind) && a.kind != VP_ACTION_UPDATE)
            return bad(r, "this action has no weight version; remove it");
        r->at++;
        VP_TRY(read_number(r, 0, MAX_NUMBER, &a.version));
    }
    if (*r->at != ' ' && !at_end(r))
        return bad(r, "a space belongs after an action");
    *out = a;
    return VP_OK;
}

static enum vp_status read_list(struct reader *r,
                                const struct vp_schedule *schedule, int rank,
                                struct vp_sched_list *list)
{
    struct vp_action action = { .kind = VP_ACTION_F };
    struct reader start = *r;
    int number = -1;

    if (*r->at == '\0')
        return bad(r, "the list of rank %d is missing; write '%d: ...'", rank,
                   rank);
    VP_TRY(read_number(r, 0, MAX_NUMBER, &number));
    if (number != rank || *r->at != ':')
        return bad(&start, "the list of rank %d belongs here; write '%d: ...'",
                   rank, rank);
    r->at++;
    for (skip_spaces(r); !at_end(r); skip_spaces(r)) {
        VP_TRY(read_action(r, schedule, &action));
        vp_sched_list_push(list, action);
    }
    end_line(r);
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status read_lists(struct reader *r, struct vp_schedule *schedule,
                                 struct vp_sched_list *lists)
{
    enum vp_status st = vp_schedule_map_ranks(schedule);

    if (st != VP_OK)
        return vp_err_set(r->err, st, "schedule: out of memory");
    for (int rank = 0; rank < schedule->n_ranks; rank++)
        VP_TRY(read_list(r, schedule, rank, &lists[rank]));
    while (*r->at == '\n')
        end_line(r);
    if (*r->at != '\0')
        return bad(r,
                   "the lists of all %d ranks end before this; remove the "
                   "rest",
                   schedule->n_ranks);
    st = vp_pass_sizes(schedule, lists);
    if (st == VP_OK)
        st = vp_schedule_take(schedule, lists);
    if (st != VP_OK)
        return vp_err_set(r->err, st, "schedule: out of memory");
    for (int i = 0; i < schedule->n_actions; i++)
        vp_action_complete(schedule, &schedule->actions[i]);
    return VP_OK;
}

enum vp_status vp_schedule_parse(const char *text, const char *source,
                                 struct vp_schedule *out, struct vp_err *err)
{
    struct vp_schedule schedule = { .actions = NULL };
    struct reader reader = { text, text, source, 1, err };
    struct vp_sched_list *lists = NULL;
    enum vp_status st = read_header(&reader, &schedule);

    if (st == VP_OK) {
        lists = calloc((size_t)schedule.n_ranks, sizeof(*lists));
        st = lists ? read_lists(&reader, &schedule, lists)
                   : vp_err_set(err, VP_ERR_NOMEM, "schedule: out of memory");
    }
    for (int rank = 0; lists && rank < schedule.n_ranks; rank++)
        vp_sched_list_release(&lists[rank]);
    free(lists);
    if (st != VP_OK) {
        vp_schedule_release(&schedule);
        return st;
    }
    *out = schedule;
    return VP_OK;
}
