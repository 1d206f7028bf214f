/* The table of commands, and searches in such tables. The table of `vpipe data`
 * is in cmd_data.c. */
#include "commands.h"

#include "base/nearest.h"

#include <string.h>

const struct tool_command tool_commands[] = {
    { "train", cmd_train, &cmd_train_options, "config",
      "train a model from a configuration file" },
    { "plan", cmd_plan, &cmd_plan_options, "config",
      "search the fastest plan that fits" },
    { "compare", cmd_compare, &cmd_compare_options, "config",
      "train several configurations on the same data" },
    { "eval", cmd_eval, &cmd_eval_options, "folder",
      "loss, perplexity and accuracy of a trained model" },
    { "logits", cmd_logits, &cmd_logits_options, "file",
      "logits of a trained model for given texts" },
    { "generate", cmd_generate, &cmd_generate_options, "folder",
      "continue texts with a trained model" },
    { "translate", cmd_translate, &cmd_translate_options, "file",
      "translate sentences with a trained model" },
    { "schedule", cmd_schedule, &cmd_schedule_options, "key schedule",
      "print, prove, simulate and draw a schedule" },
    { "report", cmd_report, &cmd_report_options, "folder",
      "one HTML page about a run, or several" },
    { "trace", cmd_trace, &cmd_trace_options, "file",
      "show the timeline of a run" },
    { "top", cmd_top, &cmd_top_options, "folder",
      "watch a run in the terminal" },
    { "rebalance", cmd_rebalance, &cmd_rebalance_options, "file",
      "give a live run another plan" },
    { "import", cmd_import, &cmd_import_options, "folder",
      "make a checkpoint from a Hugging Face folder" },
    { "export", cmd_export, &cmd_export_options, "folder",
      "make a Hugging Face folder from a checkpoint" },
    { "data", cmd_data, NULL, "-",
      "make, convert and show data sets; vocabularies" },
    { "info", cmd_info, &cmd_info_options, "-", "this build and this machine" },
    { "completion", cmd_completion, &cmd_completion_options,
      "word bash zsh fish data", "a completion script for a shell" },
    { NULL, NULL, NULL, NULL, NULL },
};

enum { MAX_COMMANDS = 64 };

int tool_n_commands(const struct tool_command *table)
{
    int n = 0;

    while (table[n].name)
        n++;
    VP_BUG_ON(n > MAX_COMMANDS);
    return n;
}

const struct tool_command *tool_find_command(const struct tool_command *table,
                                             const char *name)
{
    for (; table->name; table++)
        if (strcmp(name, table->name) == 0)
            return table;
    return NULL;
}

const char *tool_nearest_command(const struct tool_command *table,
                                 const char *word)
{
    const char *names[MAX_COMMANDS];
    int n = tool_n_commands(table), best;

    for (int i = 0; i < n; i++)
        names[i] = table[i].name;
    best = vp_nearest(word, names, n);
    return best >= 0 ? names[best] : NULL;
}

void tool_print_commands(FILE *out, const struct tool_command *table)
{
    for (; table->name; table++)
        tool_print(out, help_width(out), 13, "  %-10s %s\n", table->name,
                   table->meaning);
}
