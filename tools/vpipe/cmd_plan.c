/* vpipe plan: the best plan for a configuration, and what it would cost. */
#include "plan.h"
#include "tool.h"

#include "base/memory.h"
#include "base/nearest.h"
#include "base/value.h"
#include "config/load.h"
#include "run/command.h"
#include "run/plan_numbers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLAG_SET,
    FLAG_MEMORY,
    FLAG_STAGES,
    FLAG_PROFILE,
    FLAG_PLANNER,
    FLAG_KEEP,
    FLAG_SWAP,
    FLAG_OUT,
    FLAG_SVG,
    FLAG_BRIEF,
    FLAG_HELP
};

static const struct tool_flag flags[] = {
    [FLAG_SET] = { "--set", "KEY=VALUE",
                   "set a key after the file was read; may be repeated" },
    [FLAG_MEMORY] = { "--memory", "SIZE",
                      "memory of every rank [memory_limit, else that of the "
                      "profile's device]" },
    [FLAG_STAGES] = { "--stages", "N",
                      "ranks of the pipeline; auto: the fewest with which a "
                      "plan fits [the configuration's]" },
    [FLAG_PROFILE] = { "--profile", "FILE",
                       "what a device takes, measured or only its rates; "
                       "synthetic: stated rates; measured: now, on this "
                       "machine [key profile, else one that was measured here, "
                       "else synthetic]" },
    [FLAG_PLANNER] = { "--planner", "vpipe|pipedream|gpipe|even|flops|given",
                       "whose plan; given: the configuration's own [vpipe]" },
    [FLAG_KEEP] = { "--keep", "LIST",
                    "what of the configuration's plan stays: schedule, "
                    "partition, recompute, for example schedule,partition" },
    [FLAG_SWAP] = { "--swap", NULL,
                    "activations may wait in memory of the host, where the "
                    "profile knows how fast copies are" },
    [FLAG_OUT] = { "--out", "FILE",
                   "write the plan as JSON, for the key partition" },
    [FLAG_SVG] = { "--svg", "FILE", "draw what memory buys" },
    [FLAG_BRIEF] = { "--brief", NULL,
                     "print the stages and the forecast only" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]), MAX_STAGES = 64 };
const struct tool_options cmd_plan_options = { flags, N_FLAGS };

struct options {
    const char *config;
    const char **sets;
    int n_sets;
    struct vp_planning_options plan;
    bool any_stages; /* --stages auto */
    const char *planner, *out, *svg;
    bool brief, help;
};

/* ---- The command line --------------------------------------------------- */

static int take_memory(const char *value, int64_t *out)
{
    if (vp_text_to_bytes(value, out) && *out > 0)
        return TOOL_OK;
    return tool_usage_error("vpipe plan: option '--memory' must be a size, not "
                            "'%.48s'; write for example '--memory 11G'",
                            value);
}

static int take_stages(struct options *out, const char *value)
{
    int64_t n;

    out->any_stages = strcmp(value, "auto") == 0;
    if (out->any_stages)
        return TOOL_OK;
    if (!vp_text_to_i64(value, &n) || n < 1 || n > MAX_STAGES)
        return tool_usage_error("vpipe plan: option '--stages' must be auto or "
                                "a whole number from 1 to %d, not '%.48s'; "
                                "write for example '--stages 4'",
                                MAX_STAGES, value);
    out->plan.n_stages = (int)n;
    return TOOL_OK;
}

static int take_planner(struct options *out, const char *value)
{
    const char *names[16];
    int n = 0, best;

    out->planner = value;
    if (vp_planner_find(value))
        return TOOL_OK;
    while (n < 16 && vp_planner_at(n)) {
        names[n] = vp_planner_at(n)->name;
        n++;
    }
    best = vp_nearest(value, names, n);
    return tool_usage_error(
        "vpipe plan: unknown planner '%.48s'; %s%s%s", value,
        best >= 0 ? "did you mean '" : "'vpipe plan --help' lists them",
        best >= 0 ? names[best] : "", best >= 0 ? "'?" : "");
}

static int take_keep(struct options *out, const char *value)
{
    const struct {
        const char *name;
        bool *to;
    } parts[] = { { "schedule", &out->plan.keep_schedule },
                  { "partition", &out->plan.keep_partition },
                  { "recompute", &out->plan.keep_recompute } };

    for (const char *at = value;; at++) {
        size_t n = strcspn(at, ","), i = 0;

        while (i < 3 && (strlen(parts[i].name) != n ||
                         strncmp(at, parts[i].name, n) != 0))
            i++;
        if (i == 3)
            return tool_usage_error("vpipe plan: option '--keep' has '%.*s'; "
                                    "write some of schedule, partition, "
                                    "recompute with commas",
                                    n < 48 ? (int)n : 48, at);
        *parts[i].to = true;
        at += n;
        if (!*at)
            return TOOL_OK;
    }
}

static int take_config(struct options *out, const char *value)
{
    if (out->config)
        return tool_usage_error("vpipe plan: two configurations, '%s' and "
                                "'%s'; give one",
                                out->config, value);
    out->config = value;
    return TOOL_OK;
}

static int take_flag(struct options *out, int flag, const char *value)
{
    switch (flag) {
    case ARGS_PLAIN:
        return take_config(out, value);
    case FLAG_SET:
        out->sets[out->n_sets++] = value;
        return TOOL_OK;
    case FLAG_MEMORY:
        return take_memory(value, &out->plan.memory);
    case FLAG_STAGES:
        return take_stages(out, value);
    case FLAG_PROFILE:
        out->plan.profile = value;
        return TOOL_OK;
    case FLAG_PLANNER:
        return take_planner(out, value);
    case FLAG_KEEP:
        return take_keep(out, value);
    case FLAG_SWAP:
        out->plan.swap = true;
        return TOOL_OK;
    case FLAG_OUT:
        out->out = value;
        return TOOL_OK;
    case FLAG_SVG:
        out->svg = value;
        return TOOL_OK;
    case FLAG_BRIEF:
        out->brief = true;
        return TOOL_OK;
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

/* `out->sets` has room for every argument. */
static int read_args(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = "vpipe plan",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    char config[PATH_MAX];
    const char *value;
    int flag, status;

    while ((flag = args_next(&args, &value)) != ARGS_END) {
        status = take_flag(out, flag, value);
        if (status != TOOL_OK || out->help)
            return status;
    }
    if (out->config)
        return TOOL_OK;
    tool_find_config("bert_8vpipe.yml", config, sizeof(config));
    return tool_usage_error("vpipe plan: no configuration; write for example "
                            "'vpipe plan %s --memory 11G'",
                            config);
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 7,
               "usage: vpipe plan CONFIG.yml [option...]\n\n");
    tool_print(
        stdout, help_width(stdout), 0,
        "Searches schedule, partition and recomputation for the shortest "
        "step that fits the memory of every rank; prints the plan, its "
        "forecast, the plans of other planners, and what more memory "
        "would bring. Trains nothing and needs no device. batch_size, "
        "accumulation_steps and replicas that are auto are chosen for the most "
        "samples per second.\n\n"
        "Planners:\n");
    for (int i = 0; vp_planner_at(i); i++)
        tool_print(stdout, help_width(stdout), 13, "  %-10s %s\n",
                   vp_planner_at(i)->name, vp_planner_at(i)->meaning);
    puts("\nOptions:");
    help_flags(flags, N_FLAGS);
}

/* ---- Planning ----------------------------------------------------------- */

static int fail(enum vp_status st, const struct vp_err *err)
{
    fprintf(stderr, "vpipe plan: %s\n", err->text);
    return st == VP_ERR_NOMEM ? TOOL_FAILED : TOOL_USAGE;
}

static enum vp_status make(const struct vp_config *config,
                           const struct options *options, int n_stages,
                           struct vp_planning **planning_out,
                           struct vp_search_result *out, struct vp_err *err)
{
    struct vp_planning_options plan = options->plan;
    struct vp_planning *planning;
    enum vp_status st;

    plan.n_stages = n_stages;
    VP_TRY(vp_planning_open(config, &plan, &planning, err));
    st = vp_planner_find(options->planner)
             ->make(vp_planning_search(planning), vp_planning_input(planning),
                    out, err);
    if (st != VP_OK) {
        vp_planning_close(planning);
        return st;
    }
    *planning_out = planning;
    return VP_OK;
}

/* --stages auto: the fewest with which a plan fits. */
static enum vp_status make_any(const struct vp_config *config,
                               const struct options *options,
                               struct vp_planning **planning_out,
                               struct vp_search_result *out, struct vp_err *err)
{
    for (int n = 1; n <= MAX_STAGES; n++) {
        enum vp_status st = make(config, options, n, planning_out, out, err);

        if (st == VP_OK &&
            vp_search_fits(out, vp_planning_input(*planning_out)->limits))
            return VP_OK;
        if (st == VP_OK) {
            vp_search_result_release(out);
            vp_planning_close(*planning_out);
            st = vp_err_set(err, VP_ERR_UNSUPPORTED,
                            "no number of stages fits; use more memory");
        }
        if (st != VP_ERR_UNSUPPORTED)
            return st;
    }
    return VP_ERR_UNSUPPORTED;
}

static void print_title(const struct vp_config *config,
                        const struct vp_planning *planning,
                        const struct vp_search_result *result)
{
    int n_members = vp_planning_graph(planning)->n_members;
    char memory[VP_BYTES_TEXT] = "no limit", groups[48] = "";

    if (n_members > 1)
        snprintf(groups, sizeof(groups), " in groups of %d", n_members);
    if (vp_planning_memory(planning) > 0)
        vp_bytes_text(vp_planning_memory(planning), memory, sizeof(memory));
    tool_print(stdout, 0, 2,
               "%s, %d blocks on %d rank%s%s, batch %lld, %d minibatches per "
               "update, memory of a rank: %s\n",
               config->model->name, vp_planning_graph(planning)->n_blocks,
               result->n_ranks * n_members,
               result->n_ranks * n_members == 1 ? "" : "s", groups,
               (long long)vp_planning_batch(planning),
               config->accumulation_steps, memory);
    tool_print(stdout, 0, 2, "%s\n\n", vp_planning_note(planning));
}

/* Keys of the file must say what the plan says: those that are set get its
 * value. */
static void print_sets(const struct vp_config *config,
                       const struct vp_plan *plan)
{
    const struct {
        const char *name;
        int value;
    } counts[] = { { "stages", plan->n_stages },
                   { "chunks", plan->n_chunks },
                   { "schedule_memory", plan->schedule_memory } };

    if (vp_config_given(config, "schedule"))
        printf(" --set schedule=%s", plan->schedule);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (vp_config_given(config, counts[i].name) && counts[i].value > 0)
            printf(" --set %s=%d", counts[i].name, counts[i].value);
    if (vp_config_given(config, "early_recompute"))
        printf(" --set early_recompute=%s",
               plan->early_recompute ? "true" : "false");
    if (vp_config_given(config, "recompute_in_backward"))
        printf(" --set recompute_in_backward=%s",
               plan->recompute_in_b ? "true" : "false");
    if (!config->recompute && !plan->keep_all)
        printf(" --set recompute=true");
    if (vp_config_given(config, "swap_ratio") && !plan->swap_ratio)
        printf(" --set swap_ratio=0");
    /* Without the key recompute, ratios of the file do not count as given. */
    if ((!vp_config_given(config, "recompute_ratio") && config->recompute) ||
        plan->recompute_ratio)
        return;
    for (int s = 0; s < vp_plan_n_stages(plan); s++)
        printf("%s0", s == 0 ? " --set 'recompute_ratio=[" : ", ");
    printf("]'");
}

static int write_plan(const struct vp_config *config,
                      const struct options *options,
                      const struct vp_planning *planning,
                      const struct vp_search_result *result)
{
    char *text;
    int status;

    if (!options->out)
        return TOOL_OK;
    if (vp_planning_print(planning, result, &text) != VP_OK) {
        fprintf(stderr, "vpipe plan: out of memory\n");
        return TOOL_FAILED;
    }
    status = tool_write_file("vpipe plan", options->out, text);
    free(text);
    if (status != TOOL_OK)
        return status;
    fputs("\ntrain with: ", stdout);
    vp_command_write_word(stdout, tool_program());
    fputs(" train ", stdout);
    vp_command_write_word(stdout, options->config);
    for (int i = 0; i < options->n_sets; i++) {
        fputs(" --set ", stdout);
        vp_command_write_word(stdout, options->sets[i]);
    }
    fputs(" --set partition=", stdout);
    vp_command_write_word(stdout, options->out);
    print_sets(config, &result->plan);
    fputc('\n', stdout);
    return TOOL_OK;
}

/* What memory buys, as a table and as a picture. */
static int show_dial(const struct vp_config *config,
                     const struct options *options,
                     struct vp_planning *planning)
{
    struct vp_dial_point points[VP_DIAL_MAX];
    struct vp_err err;
    enum vp_status st;
    char title[160], *text;
    int n, status;

    st = vp_planning_dial(planning, points, &n, &err);
    if (st != VP_OK)
        return fail(st, &err);
    if (!options->brief)
        plan_print_dial(planning, points, n);
    if (!options->svg)
        return TOOL_OK;
    snprintf(title, sizeof(title),
             "%s, %d blocks on %d ranks: what memory buys (simulated)",
             config->model->name, vp_planning_graph(planning)->n_blocks,
             vp_planning_input(planning)->base->n_stages);
    if (vp_planning_dial_svg(points, n, title, vp_planning_batch(planning),
                             vp_planning_memory(planning), &text) != VP_OK) {
        fprintf(stderr, "vpipe plan: out of memory\n");
        return TOOL_FAILED;
    }
    status = tool_write_file("vpipe plan", options->svg, text);
    free(text);
    return status;
}

static int show(const struct vp_config *config, const struct options *options,
                struct vp_planning *planning,
                const struct vp_search_result *result)
{
    bool fits = vp_search_fits(result, vp_planning_input(planning)->limits);
    int status = TOOL_OK;

    print_title(config, planning, result);
    plan_print_stages(planning, result);
    if (!options->brief) {
        plan_print_planners(planning, result, options->planner);
        plan_print_refused(result);
    }
    if (!options->brief || options->svg)
        status = show_dial(config, options, planning);
    if (!options->brief && status == TOOL_OK)
        plan_print_more(planning, result);
    if (status == TOOL_OK)
        status = write_plan(config, options, planning, result);
    if (status == TOOL_OK && !fits) {
        fprintf(stderr,
                "vpipe plan: the plan of %s does not fit; leave --planner "
                "out\n",
                options->planner);
        status = TOOL_USAGE;
    }
    return status;
}

static int plan(const struct vp_config *config, const struct options *options)
{
    static struct vp_search_result result;
    struct vp_planning *planning = NULL;
    struct vp_err err = { .text = "" };
    enum vp_status st = options->any_stages
                            ? make_any(config, options, &planning, &result,
                                       &err)
                            : make(config, options, options->plan.n_stages,
                                   &planning, &result, &err);
    int status;

    if (st != VP_OK)
        return fail(st, &err);
    status = show(config, options, planning, &result);
    vp_search_result_release(&result);
    vp_planning_close(planning);
    return status;
}

/* Replaces numbers that say auto: in `config`, and in the sets of `options`, which
 * borrow `numbers`. */
static int choose_numbers(struct options *options, struct vp_config *config,
                          struct vp_plan_numbers *numbers)
{
    const struct vp_plan_numbers_config with = {
        .source = { .path = options->config,
                    .sets = options->sets,
                    .n_sets = options->n_sets },
        .config = config,
        .planning = options->plan,
    };
    struct vp_config_source from;
    struct vp_err err = { .text = "" };
    enum vp_status st;

    if (config->auto_keys == 0)
        return TOOL_OK;
    if (options->any_stages || options->plan.n_stages > 0)
        return tool_usage_error(
            "vpipe plan: option '--stages' does not go with "
            "keys that are auto; write '--set stages=N'");
    if (config->piped)
        return tool_usage_error("%s: keys that are auto need the configuration "
                                "several times, and a pipe can be read once; "
                                "write it to a file",
                                options->config);
    st = vp_plan_numbers_choose(&with, numbers, &err);
    if (st != VP_OK)
        return fail(st, &err);
    fputs("auto:", stdout);
    for (int i = 0; i < numbers->n; i++) {
        options->sets[options->n_sets++] = numbers->sets[i];
        printf(" %s", numbers->sets[i]);
    }
    printf("; the most samples/s of %d that fit\n", numbers->n_tried);
    vp_config_release(config);
    from = with.source;
    from.n_sets = options->n_sets;
    from.unplanned = numbers->stages;
    st = vp_config_load_from(&from, config, &err);
    return st == VP_OK ? TOOL_OK : fail(st, &err);
}

static int plan_config(struct options *options)
{
    const struct vp_config_source from = { .path = options->config,
                                           .sets = options->sets,
                                           .n_sets = options->n_sets,
                                           .planning = true };
    struct vp_plan_numbers numbers = { .n = 0 };
    struct vp_config config;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_config_load_from(&from, &config, &err);
    int status = st == VP_OK ? choose_numbers(options, &config, &numbers)
                             : fail(st, &err);

    if (status == TOOL_OK)
        status = plan(&config, options);
    vp_config_release(&config);
    return status;
}

int cmd_plan(int argc, char **argv)
{
    struct options options = { .planner = "vpipe" };
    int status;

    options.sets = calloc((size_t)argc + VP_PLAN_NUMBERS_MAX,
                          sizeof(*options.sets));
    if (!options.sets)
        return TOOL_FAILED;
    status = read_args(argc, argv, &options);
    if (status == TOOL_OK && options.help)
        print_help();
    else if (status == TOOL_OK)
        status = plan_config(&options);
    free(options.sets);
    return status;
}
