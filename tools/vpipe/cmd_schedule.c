/* vpipe schedule: makes or reads a schedule, proves it, simulates it and draws
 * it. */
#include "tool.h"

#include "base/nearest.h"
#include "base/path.h"
#include "base/value.h"
#include "sched/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Flags before FLAG_COSTS are parameters of a generator. */
enum {
    FLAG_STAGES,
    FLAG_MINIBATCHES,
    FLAG_CHUNKS,
    FLAG_MEMORY,
    FLAG_REPLICAS,
    FLAG_DEPTH,
    FLAG_EVERY,
    FLAG_RECOMPUTE,
    FLAG_EARLY,
    FLAG_GLOBAL_NORM,
    FLAG_COSTS,
    FLAG_SVG,
    FLAG_TEXT,
    FLAG_HELP
};

static const struct tool_flag flags[] = {
    [FLAG_STAGES] = { "--stages", "S", "stages of the pipeline" },
    [FLAG_MINIBATCHES] = { "--minibatches", "M", "minibatches to run" },
    [FLAG_CHUNKS] = { "--chunks", "V",
                      "cut every stage in V chunks (interleaved [2], auto "
                      "[1 or 2])" },
    [FLAG_MEMORY] = { "--memory", "M",
                      "v-auto: chunks that a rank may keep [2 S]; auto: half "
                      "stages [no limit]" },
    [FLAG_REPLICAS] = { "--replicas", "LIST",
                        "ranks of each stage: '1,2,1' [1 each]" },
    [FLAG_DEPTH] = { "--depth", "LIST",
                     "warm-up depth of each stage: '3,2,1,0'" },
    [FLAG_EVERY] = { "--every", "K",
                     "macrobatch: minibatches per update [the least]" },
    [FLAG_RECOMPUTE] = { "--recompute", NULL,
                         "recompute activations before each backward" },
    [FLAG_EARLY] = { "--early", NULL,
                     "recompute while waiting for the gradient" },
    [FLAG_GLOBAL_NORM] = { "--global-norm", NULL,
                           "updates wait for the gradient norm of all stages" },
    [FLAG_COSTS] = { "--costs", "F,B,W[,LINK]",
                     "times of a forward, backward, weight gradient, and of a "
                     "message [1,1,1,0]; auto: of a whole stage" },
    [FLAG_SVG] = { "--svg", "FILE", "draw the schedule" },
    [FLAG_TEXT] = { "--text", "FILE",
                    "write the action lists; '-' for the terminal" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum {
    N_FLAGS = sizeof(flags) / sizeof(flags[0]),
    MAX_STAGES = 4096,
    MAX_COUNT = 1 << 29, /* the library's limit for minibatches */
    LABEL = 8,
};
const struct tool_options cmd_schedule_options = { flags, N_FLAGS };

/* With this limit the makespan of any schedule that fits into memory is
 * finite. */
#define MAX_COST 1e100

struct options {
    const char *name; /* a generator or a file */
    int n_stages, n_mb, n_chunks, memory, every;
    int replicas[MAX_STAGES], depth[MAX_STAGES];
    int n_replicas, n_depth; /* 0: not given */
    bool recompute, early, global_norm, help;
    double costs[4];
    const char *svg, *text;
    const char *shape; /* the first flag that only a generator reads */
};

/* ---- The command line --------------------------------------------------- */

static int take_count(const char *flag, const char *value, int *out)
{
    int64_t n;

    if (!vp_text_to_i64(value, &n) || n < 1 || n > MAX_COUNT)
        return tool_usage_error("vpipe schedule: option '%s' must be a whole "
                                "number from 1 to %d, not '%.48s'; write for "
                                "example '%s 4'",
                                flag, MAX_COUNT, value, flag);
    *out = (int)n;
    return TOOL_OK;
}

/* Splits "1,2,1" and passes each value to `take`. Returns the number of values,
 * or -1 if one is refused or there are more than `most`. */
static int split(const char *list,
                 bool (*take)(const char *word, int i, void *out), int most,
                 void *out)
{
    char word[64];
    int n = 0;

    for (;;) {
        size_t length = strcspn(list, ",");

        if (length >= sizeof(word) || n == most)
            return -1;
        memcpy(word, list, length);
        word[length] = '\0';
        if (!take(word, n++, out))
            return -1;
        if (!list[length])
            return n;
        list += length + 1;
    }
}

static bool take_int(const char *word, int i, void *out)
{
    int64_t value;

    if (!vp_text_to_i64(word, &value) || value < 0 || value > 1000000)
        return false;
    ((int *)out)[i] = (int)value;
    return true;
}

static bool take_cost(const char *word, int i, void *out)
{
    double *costs = out;

    return vp_text_to_real(word, &costs[i]) && costs[i] >= 0.0 &&
           costs[i] <= MAX_COST;
}

static int take_list(const char *flag, const char *value, int *out, int *n_out)
{
    int n = split(value, take_int, MAX_STAGES, out);

    if (n < 0)
        return tool_usage_error("vpipe schedule: option '%s' must be numbers "
                                "with commas, not '%.48s'; write for example "
                                "'%s 1,2,1'",
                                flag, value, flag);
    *n_out = n;
    return TOOL_OK;
}

static int take_costs(const char *value, double *costs)
{
    int n = split(value, take_cost, 4, costs);

    if (n < 3 || costs[0] + costs[1] + costs[2] <= 0.0)
        return tool_usage_error("vpipe schedule: option '--costs' must be "
                                "three or four times from 0 to %g, the first "
                                "three not all 0, not '%.48s'; write for "
                                "example '--costs 1,1,1,0.1'",
                                MAX_COST, value);
    return TOOL_OK;
}

static int take_name(struct options *out, const char *value)
{
    if (out->name)
        return tool_usage_error("vpipe schedule: two schedules, '%.48s' and "
                                "'%.48s'; give one",
                                out->name, value);
    out->name = value;
    return TOOL_OK;
}

static int take_flag(struct options *out, int flag, const char *value)
{
    const char *name = flag >= 0 ? flags[flag].name : "";

    switch (flag) {
    case ARGS_PLAIN:
        return take_name(out, value);
    case FLAG_STAGES:
        return take_count(name, value, &out->n_stages);
    case FLAG_MINIBATCHES:
        return take_count(name, value, &out->n_mb);
    case FLAG_CHUNKS:
        return take_count(name, value, &out->n_chunks);
    case FLAG_MEMORY:
        return take_count(name, value, &out->memory);
    case FLAG_EVERY:
        return take_count(name, value, &out->every);
    case FLAG_REPLICAS:
        return take_list(name, value, out->replicas, &out->n_replicas);
    case FLAG_DEPTH:
        return take_list(name, value, out->depth, &out->n_depth);
    case FLAG_COSTS:
        return take_costs(value, out->costs);
    case FLAG_RECOMPUTE:
        out->recompute = true;
        return TOOL_OK;
    case FLAG_EARLY:
        out->recompute = out->early = true;
        return TOOL_OK;
    case FLAG_GLOBAL_NORM:
        out->global_norm = true;
        return TOOL_OK;
    case FLAG_SVG:
        out->svg = value;
        return TOOL_OK;
    case FLAG_TEXT:
        out->text = value;
        return TOOL_OK;
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

static int read_options(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = "vpipe schedule",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    const char *value;
    int flag, status;

    while ((flag = args_next(&args, &value)) != ARGS_END) {
        if (flag >= 0 && flag < FLAG_COSTS && !out->shape)
            out->shape = flags[flag].name;
        status = take_flag(out, flag, value);
        if (status != TOOL_OK || out->help)
            return status;
    }
    if (!out->name)
        return tool_usage_error("vpipe schedule: no name; write for example "
                                "'vpipe schedule 1f1b --stages 4 "
                                "--minibatches 8'");
    return TOOL_OK;
}

static void print_help(void)
{
    const struct vp_generator *generator;

    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe schedule NAME --stages S --minibatches M "
               "[option...]\n"
               "       vpipe schedule FILE [option...]\n\n");
    tool_print(stdout, help_width(stdout), 0,
               "Makes the schedule NAME, or reads one that '--text' wrote; "
               "proves that it cannot hang and overwrites nothing in use; "
               "simulates it and draws it.\n\nSchedules:\n");
    for (int i = 0; (generator = vp_generator_at(i)); i++)
        tool_print(stdout, help_width(stdout), 15, "  %-12s %s\n",
                   generator->name, generator->meaning);
    puts("\nOptions:");
    help_flags(flags, N_FLAGS);
}

/* ---- Files -------------------------------------------------------------- */

/* Returns the content of the file, which the caller frees. Returns NULL if it
 * cannot be read or contains a zero byte. */
static char *read_file(const char *path)
{
    FILE *file = vp_path_is_special(path) ? NULL : fopen(path, "r");
    size_t capacity = 1 << 16, n = 0;
    char *text = file ? malloc(capacity) : NULL;

    while (text && !feof(file) && !ferror(file)) {
        n += fread(text + n, 1, capacity - n - 1, file);
        if (n + 1 == capacity) {
            char *more = realloc(text, capacity *= 2);

            if (!more)
                free(text);
            text = more;
        }
    }
    if (text && (ferror(file) || memchr(text, 0, n))) {
        free(text);
        text = NULL;
    }
    if (text)
        text[n] = '\0';
    if (file)
        fclose(file);
    return text;
}

/* ---- Making ------------------------------------------------------------- */

static int fail(enum vp_status st, const struct vp_err *err)
{
    fprintf(stderr, "vpipe schedule: %s\n", err->text);
    return st == VP_ERR_INVALID ? TOOL_USAGE : TOOL_FAILED;
}

/* Fails because of a file; adds a remedy if its content is wrong. */
static int fail_file(enum vp_status st, struct vp_err *err)
{
    if (st == VP_ERR_INVALID)
        vp_err_suffix(err,
                      "; correct the file, or see how 'vpipe schedule 1f1b "
                      "--stages 2 --minibatches 4 --text -' writes one");
    return fail(st, err);
}

static int check_lengths(const struct options *options)
{
    if (options->n_stages == 0 || options->n_mb == 0)
        return tool_usage_error("vpipe schedule: the number of stages or "
                                "minibatches is missing; write for example "
                                "'--stages 4 --minibatches 8'");
    if (options->n_replicas > 0 && options->n_replicas != options->n_stages)
        return tool_usage_error("vpipe schedule: --replicas has %d values for "
                                "%d stages; give one per stage",
                                options->n_replicas, options->n_stages);
    if (options->n_depth > 0 && options->n_depth != options->n_stages)
        return tool_usage_error("vpipe schedule: --depth has %d values for %d "
                                "stages; give one per stage",
                                options->n_depth, options->n_stages);
    if (options->every > 0 && !vp_generator_find(options->name)->two_versions)
        return tool_usage_error("vpipe schedule: --every is for macrobatch; "
                                "leave it out for %.48s",
                                options->name);
    return TOOL_OK;
}

/* ---- auto --------------------------------------------------------------- */

/* Placements: one stage per rank, interleaved chunks, two chunks in a V. */
enum { N_PLACES = 3 };

/* Costs and memory limits of one placement; a stage is cut into equal
 * chunks. */
struct place {
    struct vp_stage_costs stages[MAX_STAGES];
    struct vp_sched_costs costs;
    double limits[MAX_STAGES], sizes[MAX_STAGES];
    struct vp_sched_limits memory;
};

static struct vp_stage_costs chunk_costs(const struct options *options, int n)
{
    const double *c = options->costs;

    return (struct vp_stage_costs){ .f = c[0] / n,
                                    .b = c[1] / n,
                                    .w = c[2] / n,
                                    .r = c[0] / n,
                                    .act = c[3],
                                    .grad = c[3] };
}

static void set_place(const struct options *options,
                      struct vp_sched_config *config, struct place *place)
{
    for (int i = 0; i < MAX_STAGES; i++) {
        place->stages[i] = chunk_costs(options, config->n_chunks);
        place->limits[i] = options->memory;
        place->sizes[i] = 2.0 / config->n_chunks;
    }
    place->costs = (struct vp_sched_costs){ .stages = place->stages };
    place->memory = (struct vp_sched_limits){ place->limits, place->sizes,
                                              true };
    config->costs = &place->costs;
    config->limits = options->memory > 0 ? &place->memory : NULL;
}

/* Tries the placements that --chunks allows. Sets `config` to the best one. */
static enum vp_status make_auto(const struct options *options,
                                struct vp_sched_config *config,
                                struct vp_schedule *out, struct vp_err *err)
{
    static struct place places[N_PLACES];
    struct vp_sched_config configs[N_PLACES];
    int n_chunks = options->n_chunks, n = 0, best = 0;

    for (int i = 0; i < N_PLACES; i++) {
        struct vp_sched_config *c = &configs[n];

        *c = *config;
        c->memory = 0; /* config->limits has it */
        c->v_shape = i == 2;
        c->n_chunks = i == 0 ? 1 : i == 1 && n_chunks > 2 ? n_chunks : 2;
        if (n_chunks == 0 || n_chunks == c->n_chunks)
            set_place(options, c, &places[n++]);
    }
    VP_TRY(vp_schedule_make_best(configs, n, out, &best, err));
    *config = configs[best];
    config->costs = NULL; /* they are valid only in this function */
    config->limits = NULL;
    return VP_OK;
}

/* ---- Any schedule ------------------------------------------------------- */

static int make(const struct options *options, struct vp_sched_config *config,
                struct vp_schedule *out)
{
    struct vp_err err = { .text = "" };
    enum vp_status st;
    int status = check_lengths(options);

    if (status != TOOL_OK)
        return status;
    st = vp_generator_find(options->name)->planned
             ? make_auto(options, config, out, &err)
             : vp_schedule_make(config, out, &err);
    return st == VP_OK ? TOOL_OK : fail(st, &err);
}

static int unknown_name(const char *word)
{
    const char *names[16];
    char remedy[VP_PATH_REMEDY_BYTES];
    int n = 0, best;

    for (; n < 16 && vp_generator_at(n); n++)
        names[n] = vp_generator_at(n)->name;
    best = vp_nearest(word, names, n);
    if (best >= 0)
        return tool_usage_error("vpipe schedule: '%.200s' is neither a "
                                "schedule nor a readable file; did you mean "
                                "'%s'?",
                                word, names[best]);
    return tool_usage_error("vpipe schedule: '%.200s' is neither a schedule "
                            "nor a readable file; %s",
                            word,
                            vp_path_remedy(word,
                                           "'vpipe schedule --help' lists the "
                                           "schedules",
                                           remedy));
}

static int load(const struct options *options, struct vp_schedule *out)
{
    struct vp_err err = { .text = "" };
    char *text = read_file(options->name);
    enum vp_status st;

    if (!text)
        return unknown_name(options->name);
    if (options->shape) {
        free(text);
        return tool_usage_error("vpipe schedule: option '%s' has no effect: "
                                "the file %.200s sets it; leave it out",
                                options->shape, options->name);
    }
    st = vp_schedule_parse(text, options->name, out, &err);
    free(text);
    return st == VP_OK ? TOOL_OK : fail_file(st, &err);
}

/* ---- Reporting ---------------------------------------------------------- */

static void print_stages(const struct vp_schedule *schedule,
                         const struct vp_timing *timing)
{
    FILE *table;

    putchar('\n');
    table = tool_table_begin(stdout);
    fputs("stage  rank   slots  used  buffers  versions  update\n", table);
    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_schedule_stage *stage = &schedule->stages[s];
        char rank[32], buffers[32];

        if (stage->n_replicas > 1)
            snprintf(rank, sizeof(rank), "%d-%d", stage->first_rank,
                     stage->first_rank + stage->n_replicas - 1);
        else
            snprintf(rank, sizeof(rank), "%d", stage->first_rank);
        snprintf(buffers, sizeof(buffers), "%d+%d", stage->n_act_bufs,
                 stage->n_grad_bufs);
        fprintf(table, "%5d  %-5s  %5d  %4d  %7s  %8d", s, rank, stage->n_slots,
                timing->peak_slots[s], buffers, stage->n_versions);
        if (stage->update_every > 0)
            fprintf(table, "  every %d", stage->update_every);
        if (vp_schedule_n_dropped(schedule, s) > 0)
            fprintf(table, ", the last %d dropped",
                    vp_schedule_n_dropped(schedule, s));
        fputc('\n', table);
    }
    tool_table_end(table, stdout);
}

static void print_proof(const struct vp_schedule *schedule)
{
    int n_messages = 0;

    for (int i = 0; i < schedule->n_actions; i++)
        n_messages += schedule->actions[i].kind == VP_ACTION_SEND_ACT ||
                      schedule->actions[i].kind == VP_ACTION_SEND_GRAD;
    putchar('\n');
    tool_print(stdout, help_width(stdout), LABEL,
               "proof   %d actions, %d messages: every minibatch once and in "
               "order, every message received, nothing overwritten in use, no "
               "deadlock\n",
               schedule->n_actions, n_messages);
}

/* Prints the reason if the greedy rule wrote the lists instead of the named
 * generator. */
static void print_fallback(const struct vp_schedule *schedule)
{
    char why[128];

    vp_schedule_explain(schedule, why, sizeof(why));
    if (why[0])
        printf("lists   %s\n", why);
}

static void print_times(const struct vp_schedule *schedule,
                        const struct vp_timing *timing)
{
    char idle[16 * 8] = "";
    size_t used = 0;
    int most = 0;

    for (int rank = 1; rank < schedule->n_ranks; rank++)
        if (timing->ranks[rank].peak_slots > timing->ranks[most].peak_slots)
            most = rank;
    tool_print(stdout, 0, LABEL,
               "memory  at most %d slot%s in use on a rank (rank %d)\n",
               timing->ranks[most].peak_slots,
               timing->ranks[most].peak_slots == 1 ? "" : "s", most);
    for (int rank = 0; rank < schedule->n_ranks && rank < 16; rank++)
        used += (size_t)snprintf(idle + used, sizeof(idle) - used, " %.1f",
                                 100.0 * timing->ranks[rank].bubble);
    tool_print(stdout, 0, LABEL, "time    %g; idle%s%s %% of it\n",
               timing->makespan, idle, schedule->n_ranks > 16 ? " ..." : "");
}

static int print_chart(const struct vp_schedule *schedule,
                       const struct vp_timing *timing)
{
    bool colour = tool_colour(stdout);
    char *text;

    if (vp_schedule_chart(schedule, timing, tool_width(stdout, 120), colour,
                          &text) != VP_OK)
        return TOOL_FAILED;
    fputs(text, stdout);
    free(text);
    return TOOL_OK;
}

static int write_text(const struct options *options,
                      const struct vp_schedule *schedule)
{
    int status = TOOL_OK;
    char *text;

    if (!options->text)
        return TOOL_OK;
    if (vp_schedule_print(schedule, 0, &text) != VP_OK)
        return TOOL_FAILED;
    if (strcmp(options->text, "-") == 0)
        printf("%s\n", text);
    else
        status = tool_write_file("vpipe schedule", options->text, text);
    free(text);
    return status;
}

static int write_svg(const struct options *options,
                     const struct vp_schedule *schedule,
                     const struct vp_timing *timing)
{
    char title[160], *text;
    int status;

    if (!options->svg)
        return TOOL_OK;
    snprintf(title, sizeof(title), "%s: %d stage%s, %d minibatch%s",
             schedule->name, schedule->n_stages,
             schedule->n_stages == 1 ? "" : "s", schedule->n_mb,
             schedule->n_mb == 1 ? "" : "es");
    if (vp_schedule_svg(schedule, timing, title, &text) != VP_OK)
        return TOOL_FAILED;
    status = tool_write_file("vpipe schedule", options->svg, text);
    free(text);
    return status;
}

static int report(const struct options *options,
                  const struct vp_schedule *schedule,
                  const struct vp_timing *timing, double theory)
{
    int status = write_text(options, schedule);

    if (status == TOOL_OK)
        status = write_svg(options, schedule, timing);
    if (status != TOOL_OK)
        return status;
    printf("%s: %d stage%s on %d rank%s, %d minibatch%s\n\n", schedule->name,
           schedule->n_stages, schedule->n_stages == 1 ? "" : "s",
           schedule->n_ranks, schedule->n_ranks == 1 ? "" : "s", schedule->n_mb,
           schedule->n_mb == 1 ? "" : "es");
    status = print_chart(schedule, timing);
    print_stages(schedule, timing);
    print_proof(schedule);
    print_fallback(schedule);
    print_times(schedule, timing);
    tool_print(stdout, 0, LABEL,
               "bubble simulated=%.6f theory=%.6f span=%.6f\n", timing->bubble,
               theory, vp_timing_span(schedule, timing));
    return status;
}

/* ---- The command -------------------------------------------------------- */

static int prove_and_report(const struct options *options,
                            const struct vp_sched_config *config,
                            const struct vp_schedule *schedule)
{
    const struct vp_generator *generator = vp_generator_find(options->name);
    bool planned = generator && generator->planned;
    struct vp_stage_costs cost = chunk_costs(options,
                                             planned ? config->n_chunks : 1);
    struct vp_stage_costs *costs = calloc((size_t)schedule->n_stages,
                                          sizeof(*costs));
    struct vp_timing timing;
    struct vp_err err = { .text = "schedule: out of memory" };
    enum vp_status st = costs ? VP_OK : VP_ERR_NOMEM;
    int status;

    for (int s = 0; costs && s < schedule->n_stages; s++)
        costs[s] = cost;
    if (st == VP_OK)
        st = vp_schedule_validate(schedule, &err);
    if (st == VP_OK)
        st = vp_simulate(schedule, &(struct vp_sched_costs){ .stages = costs },
                         &timing, &err);
    free(costs);
    if (st != VP_OK && !generator) {
        vp_err_prefix(&err, "%s", options->name);
        return fail_file(st, &err);
    }
    if (st != VP_OK)
        return fail(st, &err);
    status = report(options, schedule, &timing,
                    generator ? vp_schedule_theory(config, &cost)
                              : vp_schedule_list_theory(schedule, &cost));
    vp_timing_release(&timing);
    return status;
}

static int run(const struct options *options)
{
    static bool recompute[MAX_STAGES];
    struct vp_sched_config config = {
        .name = options->name,
        .n_stages = options->n_stages,
        .n_chunks = options->n_chunks,
        .memory = options->memory,
        .n_mb = options->n_mb,
        .replicas = options->n_replicas > 0 ? options->replicas : NULL,
        .depth = options->n_depth > 0 ? options->depth : NULL,
        .recompute = recompute,
        .early_recompute = options->early,
        .global_norm = options->global_norm,
        .update_every = options->every,
    };
    struct vp_schedule schedule;
    int status;

    for (int s = 0; s < MAX_STAGES; s++)
        recompute[s] = options->recompute;
    if (vp_generator_find(options->name))
        status = make(options, &config, &schedule);
    else
        status = load(options, &schedule);
    if (status != TOOL_OK)
        return status;
    status = prove_and_report(options, &config, &schedule);
    vp_schedule_release(&schedule);
    return status;
}

int cmd_schedule(int argc, char **argv)
{
    static struct options options;
    int status;

    options = (struct options){ .costs = { 1.0, 1.0, 1.0, 0.0 } };
    status = read_options(argc, argv, &options);
    if (options.help) {
        print_help();
        return TOOL_OK;
    }
    return status == TOOL_OK ? run(&options) : status;
}
