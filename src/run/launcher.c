/* Launches the ranks of a job with mpirun, listens to the supervisor, and makes
 * new attempts from the last checkpoint. */
#include "run/launcher.h"

#include "base/host.h"
#include "base/limit.h"
#include "ckpt/search.h"
#include "config/hosts.h"
#include "config/load.h"
#include "config/shrink.h"
#include "job/mpirun.h"
#include "job/process.h"
#include "job/relay.h"
#include "job/supervisor.h"
#include "run/command.h"
#include "run/folder.h"
#include "run/resume.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LISTEN_MS = 100,
    TERM_MS = 2000,   /* for mpirun to exit after SIGTERM */
    LEAVE_MS = 10000, /* for mpirun to exit after its ranks have */
    END_MS = 4000,    /* for all processes to end */
    EXIT_MS = 30000,  /* for ranks that have finished to exit */
    REFUSED = 2,      /* exit status of vpipe for a refused configuration */
};

/* State of a job over all its attempts. */
struct launch {
    const struct vp_launch_options *options;
    const struct vp_config *config; /* for the next attempt */
    struct vp_config small;         /* configuration without lost hosts */
    bool is_small;                  /* `small` is in use */
    char folder[1024];
    struct vp_scratch scratch; /* temporary folder, if there is no run folder */
    int attempt;               /* 0: the first */
    /* Checkpoint that a later attempt starts from; step -1: none. */
    struct vp_ckpt_id saved;
    struct vp_supervisor *supervisor;
    struct vp_mpirun tool;
    struct vp_process mpirun;
    struct vp_relay *output;  /* standard output of the ranks */
    struct vp_relay *errors;  /* standard error; held until a rank reports */
    char said[VP_RELAY_HELD]; /* output of mpirun before any rank reported */
    struct vp_err lost;       /* why output was not written; "": all was */
    bool unread;              /* the reader of the output has closed it */
    bool stop_passed_on;
};

static void notice(const struct launch *launch, const char *fmt, ...)
    VP_PRINTF(2, 3);

static void notice(const struct launch *launch, const char *fmt, ...)
{
    struct vp_err line;
    va_list args;

    va_start(args, fmt);
    vsnprintf(line.text, sizeof(line.text), fmt, args);
    va_end(args);
    launch->options->notice(launch->options->ctx, line.text);
}

/* ---- Where the next attempt starts -------------------------------------- */

static void show_warning(void *ctx, const char *line)
{
    const struct launch *launch = ctx;

    launch->options->warning(launch->options->ctx, line);
}

/* Finds the newest checkpoint of the run folder. Step -1: the folder can be
 * read and has no checkpoint. */
static enum vp_status find_saved(struct launch *launch, struct vp_err *err)
{
    char path[sizeof(launch->folder) + 16];
    struct vp_ckpt *ckpt = NULL;
    enum vp_status st;

    launch->saved.step = -1;
    if (access(launch->folder, R_OK | X_OK) != 0)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be read (%s)",
                          launch->folder, strerror(errno));
    snprintf(path, sizeof(path), "%s/checkpoints", launch->folder);
    st = vp_ckpt_open_newest(path, show_warning, launch, &ckpt, err);
    if (st == VP_ERR_END)
        return VP_OK;
    if (st == VP_OK)
        st = vp_ckpt_identify(ckpt, &launch->saved, err);
    vp_ckpt_close(ckpt);
    return st;
}

/* Removes the metrics of a run that has no checkpoint and starts again in its
 * folder. */
static void forget(const struct launch *launch)
{
    char path[sizeof(launch->folder) + 16];

    snprintf(path, sizeof(path), "%s/metrics.jsonl", launch->folder);
    unlink(path);
}

static void add_program(const struct launch *launch, struct vp_words *out)
{
    char path[PATH_MAX];

    if (launch->config->container || !vp_program_path(path, sizeof(path)))
        snprintf(path, sizeof(path), "vpipe");
    vp_words_add(out, path);
}

/* Builds the argv of a rank: the user's arguments, and --resume or --output. */
static void make_rank(const struct launch *launch, struct vp_words *out)
{
    const struct vp_launch_options *options = launch->options;
    bool saved = launch->attempt > 0 && launch->saved.step >= 0;

    add_program(launch, out);
    for (int i = 0; i < options->n_args; i++) {
        if (launch->is_small && i == 1)
            vp_words_add(out, launch->small.path);
        else if (!launch->is_small || i == 0 ||
                 i >= options->n_args - options->n_kept)
            vp_words_add(out, options->args[i]);
    }
    if (launch->attempt > 0 && !saved)
        forget(launch);
    if (saved || options->resume) {
        vp_words_add(out, "--resume");
        vp_words_add(out, saved ? launch->saved.path : options->resume);
    }
    if (!saved && !options->no_folder &&
        (options->output || !options->resume)) {
        vp_words_add(out, "--output");
        vp_words_add(out, launch->folder);
    }
}

/* ---- One attempt -------------------------------------------------------- */

static enum vp_status start(struct launch *launch, struct vp_err *err)
{
    const struct vp_config *config = launch->config;
    struct vp_supervisor_config supervisor = {
        .n_ranks = vp_config_n_ranks(config),
        .watchdog_seconds = config->watchdog_seconds,
        .local = vp_hosts_are_here(config),
        .contained = config->container,
        .interface = config->network_interface,
    };
    struct vp_words rank = { 0 }, command = { 0 };
    enum vp_status st;

    st = vp_supervisor_open(&supervisor, &launch->supervisor, err);
    if (st != VP_OK && err && err->fields)
        vp_err_prefix(err, "%s", vp_config_blame(config, err->fields));
    if (st != VP_OK)
        return st;
    setenv(VP_SUPERVISOR_VARIABLE, vp_supervisor_address(launch->supervisor),
           1);
    make_rank(launch, &rank);
    st = rank.failed ? vp_err_set(err, VP_ERR_NOMEM, "out of memory") : VP_OK;
    if (st == VP_OK)
        st = vp_hosts_write(config, launch->folder, err);
    if (st == VP_OK)
        st = vp_mpirun_open(config, &launch->tool, err);
    if (st == VP_OK)
        st = vp_mpirun_make(&launch->tool, config, launch->folder, &rank,
                            &command, err);
    if (st == VP_OK)
        st = vp_command_record(launch->folder, command.at[0], command.at + 1,
                               command.n - 1, err);
    if (st == VP_OK)
        st = vp_relay_start(launch->options->output_fd, false, &launch->output,
                            err);
    if (st == VP_OK)
        st = vp_relay_start(STDERR_FILENO, true, &launch->errors, err);
    if (st == VP_OK)
        st = vp_process_start(command.at, vp_relay_input(launch->output),
                              vp_relay_input(launch->errors), &launch->mpirun,
                              err);
    vp_words_release(&rank);
    vp_words_release(&command);
    return st;
}

/* Forwards the first signal to all ranks, which save a checkpoint and stop.
 * Returns VP_ERR_INTERRUPTED after a second one, which ends them at once. */
static enum vp_status pass_signals_on(struct launch *launch)
{
    int n = launch->options->stop ? *launch->options->stop : 0;

    if (n > 1)
        return VP_ERR_INTERRUPTED;
    if (n > 0 && !launch->stop_passed_on) {
        vp_supervisor_stop(launch->supervisor);
        launch->stop_passed_on = true;
    }
    return VP_OK;
}

/* Ctrl-Z reaches only this process: mpirun and the ranks have their own process
 * groups. Ranks on this machine are signalled directly, which works with every
 * mpirun; ranks on other machines are signalled through mpirun. */
static void pass_suspension_on(struct launch *launch)
{
    const struct vp_launch_options *options = launch->options;
    bool elsewhere = !vp_hosts_are_here(launch->config);

    if (!options->suspended || !*options->suspended)
        return;
    *options->suspended = 0;
    vp_supervisor_signal(launch->supervisor, SIGSTOP);
    if (elsewhere)
        kill(-launch->mpirun.pid, SIGTSTP);
    options->suspend(options->ctx);
    if (elsewhere)
        kill(-launch->mpirun.pid, SIGCONT);
    vp_supervisor_signal(launch->supervisor, SIGCONT);
}

/* Polls until the outcome of the job is known. After mpirun has exited, waits
 * END_MS for the last reports of ranks. */
static enum vp_outcome supervise(struct launch *launch)
{
    struct vp_limit give_up = VP_LIMIT_NEVER;

    for (;;) {
        enum vp_outcome outcome = vp_supervisor_listen(launch->supervisor,
                                                       LISTEN_MS);

        if (outcome != VP_OUTCOME_NONE)
            return outcome;
        if (vp_supervisor_n_came(launch->supervisor) > 0)
            vp_relay_release(launch->errors);
        pass_suspension_on(launch);
        if (pass_signals_on(launch) != VP_OK || vp_limit_is_over(&give_up))
            return VP_OUTCOME_NONE;
        if (vp_process_has_ended(&launch->mpirun) &&
            give_up.length_ns == INT64_MAX) {
            give_up = vp_limit_ms(END_MS);
            vp_supervisor_launcher_ended(launch->supervisor);
        }
    }
}

/* mpirun exits by itself once its ranks have ended, and gets time for that,
 * unless some ranks cannot be reached: Open MPI's mpirun crashes and leaves its
 * files if it gets SIGTERM while it exits. */
static void end_ranks(struct launch *launch)
{
    int n_left = vp_supervisor_end(launch->supervisor, END_MS);

    vp_process_wait(&launch->mpirun, n_left > 0 ? TERM_MS : LEAVE_MS);
}

/* Returns the signal that killed a rank, or 0: mpirun exits with the status of
 * the first rank that failed. */
static int signal_of(const struct launch *launch)
{
    int status = launch->mpirun.status;

    if (vp_supervisor_diagnosis(launch->supervisor)->cause != VP_CAUSE_DEAD ||
        !launch->mpirun.ended || !WIFEXITED(status) ||
        WEXITSTATUS(status) <= 128 || WEXITSTATUS(status) > 128 + SIGRTMAX)
        return 0;
    return WEXITSTATUS(status) - 128;
}

/* Writes the first line that mpirun printed; "": none. */
static void first_line(const struct launch *launch, char *out, size_t n_bytes)
{
    const char *at = launch->said + strspn(launch->said, "- \n");

    snprintf(out, n_bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

/* Appends how the user can see mpirun's own output. */
static void add_remedy(const struct launch *launch, struct vp_err *err)
{
    if (launch->options->no_folder)
        vp_err_suffix(err, "try 'mpirun -n %d' before the command",
                      vp_config_n_ranks(launch->config));
    else
        vp_err_suffix(err, "try the last command in %s/command_history.log",
                      launch->folder);
}

/* mpirun starts either all ranks of a job or none. */
static enum vp_status not_started(const struct launch *launch,
                                  struct vp_err *err)
{
    int status = launch->mpirun.status;
    char why[512];

    first_line(launch, why, sizeof(why));
    /* A rank that refuses its configuration has printed the reason. */
    if (why[0] && WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
        return vp_err_set(err, VP_ERR_INVALID, "%s", why);
    vp_err_set(err, VP_ERR_ABORTED, "no rank started: %s; ",
               why[0] ? why : "mpirun gives no reason");
    if (vp_hosts_are_here(launch->config))
        add_remedy(launch, err);
    else
        vp_err_suffix(err,
                      "see that ssh reaches every host in machines without a "
                      "password, or leave out the one that it does not "
                      "reach");
    return VP_ERR_ABORTED;
}

static enum vp_status report(const struct launch *launch, struct vp_err *err)
{
    const struct vp_diagnosis *diagnosis = vp_supervisor_diagnosis(
        launch->supervisor);

    if (vp_supervisor_n_came(launch->supervisor) == 0)
        return not_started(launch, err);
    vp_supervisor_report(launch->supervisor, signal_of(launch), err);
    return diagnosis->cause == VP_CAUSE_FAILED ? diagnosis->status
                                               : VP_ERR_ABORTED;
}

/* Waits up to EXIT_MS for ranks that have finished to exit. */
static void let_exit(struct launch *launch)
{
    struct vp_limit limit = vp_limit_ms(EXIT_MS);

    while (!vp_process_has_ended(&launch->mpirun) &&
           !vp_limit_is_over(&limit)) {
        vp_supervisor_rest(launch->supervisor, LISTEN_MS / 10);
        pass_suspension_on(launch);
    }
    if (!launch->mpirun.ended)
        notice(launch, "ranks have finished but do not exit; ending them");
}

/* Returns the status of the job after all processes have ended. */
static enum vp_status settle(const struct launch *launch,
                             enum vp_outcome outcome, struct vp_err *err)
{
    switch (outcome) {
    case VP_OUTCOME_DONE:
        return VP_OK;
    case VP_OUTCOME_INTERRUPTED:
        return VP_ERR_INTERRUPTED;
    case VP_OUTCOME_FAILED:
        return report(launch, err);
    default:
        break;
    }
    if (launch->options->stop && *launch->options->stop > 1)
        return vp_err_set(err, VP_ERR_ABORTED,
                          "ended by a second signal, before all was saved");
    vp_err_set(err, VP_ERR_IO,
               "mpirun ended with status %d, and its ranks did not say why; ",
               WIFEXITED(launch->mpirun.status)
                   ? WEXITSTATUS(launch->mpirun.status)
                   : -1);
    add_remedy(launch, err);
    return VP_ERR_IO;
}

/* To be called after the ranks have exited, before anything is printed about
 * them. */
static void finish_output(struct launch *launch)
{
    enum vp_status st;
    struct vp_err err;

    st = vp_relay_finish(launch->output, launch->options->stop, NULL, &err);
    launch->unread |= st == VP_ERR_END;
    if (st == VP_ERR_IO && !launch->lost.text[0])
        launch->lost = err;
    if (launch->errors && vp_supervisor_n_came(launch->supervisor) > 0)
        vp_relay_release(launch->errors);
    vp_relay_finish(launch->errors, launch->options->stop, launch->said, &err);
    launch->output = launch->errors = NULL;
}

static enum vp_status attempt(struct launch *launch, struct vp_err *err)
{
    enum vp_status st = start(launch, err);
    enum vp_outcome outcome = VP_OUTCOME_NONE;

    if (st == VP_OK) {
        outcome = supervise(launch);
        if (outcome == VP_OUTCOME_DONE || outcome == VP_OUTCOME_INTERRUPTED)
            let_exit(launch);
        end_ranks(launch);
    }
    vp_process_end(&launch->mpirun, TERM_MS);
    vp_process_end_orphans(END_MS);
    finish_output(launch);
    vp_mpirun_close(&launch->tool);
    return st == VP_OK ? settle(launch, outcome, err) : st;
}

/* ---- Again -------------------------------------------------------------- */

static bool is_lost(void *ctx, const char *host)
{
    const struct launch *launch = ctx;

    return vp_supervisor_has_lost(launch->supervisor, host);
}

/* Makes the configuration of the next attempt, without the lost hosts. */
static enum vp_status leave_hosts_out(struct launch *launch, const char *host,
                                      struct vp_err *err)
{
    char path[sizeof(launch->folder) + 32];
    struct vp_config small;
    int n;

    snprintf(path, sizeof(path), "%s/restart-%d.yml", launch->folder,
             launch->attempt + 1);
    VP_TRY(vp_shrink(launch->config, is_lost, launch, path, &n, err));
    if (vp_config_load(path, NULL, 0, &small, err) != VP_OK) {
        vp_config_release(&small);
        return VP_ERR_INVALID;
    }
    notice(launch,
           "host %s is left out: the model is cut anew for %d rank%s that %s "
           "left%s",
           host, n, n == 1 ? "" : "s", n == 1 ? "is" : "are",
           launch->config->replicas.n > 0 ||
                   launch->config->sync_mode == VP_SYNC_ASP
               ? "; without the same replicas and depths losses will differ"
               : "");
    if (launch->is_small)
        vp_config_release(&launch->small);
    launch->small = small;
    launch->is_small = true;
    launch->config = &launch->small;
    return VP_OK;
}

/* Prepares the next attempt. Returns false if there is none. */
static bool try_again(struct launch *launch, enum vp_status st,
                      struct vp_err *err)
{
    const struct vp_diagnosis *diagnosis;

    if (st != VP_ERR_ABORTED || launch->attempt == launch->options->restarts ||
        (launch->options->stop && *launch->options->stop > 0))
        return false;
    diagnosis = vp_supervisor_diagnosis(launch->supervisor);
    if (!vp_diagnosis_allows_restart(diagnosis))
        return false;
    launch->options->failed(launch->options->ctx, err->text);
    if (diagnosis->host &&
        leave_hosts_out(launch, diagnosis->host, err) != VP_OK)
        return false;
    if (find_saved(launch, err) != VP_OK)
        return false;
    if (launch->saved.step >= 0)
        notice(launch, "restart %d of %d, from checkpoint step %lld",
               launch->attempt + 1, launch->options->restarts,
               (long long)launch->saved.step);
    else
        notice(launch, "restart %d of %d, from the start: nothing was saved",
               launch->attempt + 1, launch->options->restarts);
    launch->attempt++;
    return true;
}

static enum vp_status choose_folder(struct launch *launch, struct vp_err *err)
{
    const struct vp_launch_options *options = launch->options;

    if (options->no_folder) {
        VP_TRY(vp_scratch_make(VP_SCRATCH_FILES, &launch->scratch, err));
        snprintf(launch->folder, sizeof(launch->folder), "%s",
                 launch->scratch.path);
        return VP_OK;
    }
    if (options->output)
        snprintf(launch->folder, sizeof(launch->folder), "%s", options->output);
    else if (options->resume && !launch->config->forward_only)
        return vp_resume_folder(options->resume, launch->folder,
                                sizeof(launch->folder), err);
    else
        vp_folder_choose(launch->config, "", launch->folder,
                         sizeof(launch->folder));
    return VP_OK;
}

enum vp_status vp_launch(const struct vp_config *config,
                         const struct vp_launch_options *options,
                         struct vp_err *err)
{
    struct launch launch = { .options = options, .config = config };
    enum vp_status st;
    bool again;

    VP_TRY(vp_mpirun_find(config, err));
    VP_TRY(choose_folder(&launch, err));
    if (!options->no_folder)
        VP_TRY(vp_folder_make(launch.folder, err));
    vp_process_adopt();
    do {
        launch.mpirun = (struct vp_process){ 0 };
        st = attempt(&launch, err);
        again = try_again(&launch, st, err);
        vp_supervisor_close(launch.supervisor);
        launch.supervisor = NULL;
    } while (again);
    if (launch.is_small)
        vp_config_release(&launch.small);
    unsetenv(VP_SUPERVISOR_VARIABLE);
    vp_scratch_remove(&launch.scratch);
    if (st == VP_OK && launch.lost.text[0])
        st = vp_err_set(err, VP_ERR_IO, "%s", launch.lost.text);
    if (st == VP_ERR_INTERRUPTED)
        err->text[0] = '\0'; /* drop the message of an earlier attempt */
    if (st == VP_ERR_INTERRUPTED && launch.unread && !options->no_folder)
        vp_folder_unread(launch.folder, err);
    return st;
}
