/* Reads events from output.log.<rank>. */
#include "report/run_data.h"

#include "base/path.h"
#include "base/value.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 4096 };

/* Starts of lines that every log has, see run/log.h. */
static const char *const usual[] = {
    "Epoch ",
    "Stage: [",
    "Test: [",
    " * Prec@",
    "[Rank ",
    "Training...",
    "Finished initializing process group",
    "=> load",
    "Replicating stage: ",
};

static bool starts(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* Returns the lowest rank that has a log; -1 if there is none. */
static int64_t lowest_rank(const char *folder)
{
    static const char name[] = "output.log.";
    const struct dirent *entry;
    int64_t lowest = -1, rank;
    DIR *dir = opendir(folder);

    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        if (starts(entry->d_name, name) &&
            vp_text_to_i64(entry->d_name + strlen(name), &rank) && rank >= 0 &&
            (lowest < 0 || rank < lowest))
            lowest = rank;
    closedir(dir);
    return lowest;
}

/* Returns the number after the last "step-" or "step "; -1 if there is none. */
static int64_t step_in(const char *line)
{
    const char *at = strstr(line, "step");
    int64_t step = -1;

    for (const char *next = at; next; next = strstr(next + 4, "step"))
        at = next;
    if (at && (at[4] == '-' || at[4] == ' '))
        vp_text_to_i64(at + 5, &step);
    return step;
}

static void take_line(struct vp_run_data *run, const char *line)
{
    if (starts(line, "Saved checkpoint to ")) {
        vp_run_data_add_event(run, VP_EVENT_CHECKPOINT, step_in(line),
                              "checkpoint saved");
        return;
    }
    if (starts(line, "Resumed from checkpoint step ")) {
        vp_run_data_add_event(run, VP_EVENT_RESUME, step_in(line), line);
        return;
    }
    /* metrics.jsonl has these events with more details. */
    if (!line[0] || starts(line, "rebalance: new plan"))
        return;
    for (size_t i = 0; i < VP_COUNT_OF(usual); i++)
        if (starts(line, usual[i]))
            return;
    vp_run_data_add_event(run, VP_EVENT_NOTE, -1, line);
}

void vp_run_data_read_log(struct vp_run_data *run, const char *folder)
{
    int64_t rank = lowest_rank(folder);
    char path[PATH_MAX], line[MAX_LINE];
    bool begins = true;
    FILE *file;

    if (rank < 0)
        return;
    snprintf(path, sizeof(path), "%s/output.log.%lld", folder, (long long)rank);
    file = vp_path_is_special(path) ? NULL : fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        size_t n = strcspn(line, "\n");
        bool ends = line[n] == '\n';

        line[n] = '\0';
        if (begins)
            take_line(run, line);
        begins = ends;
    }
    fclose(file);
}
