/* Compares the cost of a checkpoint for training with one copy of the state.
 * One stage trains with the saver of vpipe at checkpoint_every 50, 1 and 0 in
 * turn. Its thread waits until the last checkpoint is on disk, then copies the
 * state: both times are measured inside the saver. The total loss of training
 * is the time of the steps during which a copy was made or a file written,
 * minus the time of the same number of undisturbed steps. */
#include "bench.h"

#include "base/clock.h"
#include "ckpt/io.h"
#include "config/load.h"
#include "run/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A round has 100 steps, so that checkpoint_every 50 saves once in its turn,
 * long before the end of the turn. */
enum { WARM_STEPS = 20, STEPS_50 = 40, STEPS_1 = 20, STEPS_0 = 40 };
enum { PATIENCE_MS = 120000 };

struct turn {
    double steps[SERIES_MAX]; /* seconds */
    int n_steps, n_busy, n_saved;
    double busy; /* seconds of steps that saved or ran beside a writer */
    double wait; /* seconds of waiting for the disk, within `busy` */
    double copy; /* seconds of copying, within `busy` */
};

struct rig {
    struct lab *lab;
    struct vp_config config;
    struct vp_checkpoints *checkpoints;
    struct vp_saver saver; /* calls that of `checkpoints`, and times it */
    int64_t n_bytes;       /* size of the state */
    int64_t committed;     /* step of the last checkpoint; -1: none */
    int64_t last_ns;       /* end of the last step */
    int64_t begun_ns;      /* start of the copy */
    bool writing;
    struct turn *turn;
};

struct results {
    struct series step, memcpy, copy, written;
    struct series wait[2], inside[2], ratio[2], lost[2]; /* every 50, 1 */
};

/* ---- The saver ---------------------------------------------------------- */

static enum vp_status timed_begin(void *ctx, int64_t step, int timeout_ms,
                                  struct vp_err *err)
{
    struct rig *rig = ctx;
    const struct vp_saver *inner = vp_checkpoints_saver(rig->checkpoints);
    int64_t start = vp_clock_ns();
    enum vp_status st = inner->begin(inner->ctx, step, timeout_ms, err);

    rig->begun_ns = vp_clock_ns();
    rig->turn->wait += vp_clock_seconds(start, rig->begun_ns);
    return st;
}

static float *buffer(void *ctx, int item)
{
    struct rig *rig = ctx;
    const struct vp_saver *inner = vp_checkpoints_saver(rig->checkpoints);

    return inner->buffer(inner->ctx, item);
}

static void commit(struct rig *rig, int64_t step)
{
    struct vp_err err = { .text = "" };

    if (vp_checkpoints_commit(rig->checkpoints, NAN, &err) != VP_OK)
        lab_die("saving", &err);
    rig->committed = step;
}

static bool is_writing(const struct rig *rig)
{
    return vp_checkpoints_saved(rig->checkpoints) < rig->committed;
}

static void wait_for_disk(const struct rig *rig)
{
    for (int ms = 0; is_writing(rig); ms++) {
        if (ms > PATIENCE_MS)
            lab_die("disk",
                    &(struct vp_err){ .text = "a checkpoint is not written" });
        usleep(1000);
    }
}

/* ---- Setting up --------------------------------------------------------- */

static void make_folder(char *folder, size_t n)
{
    const char *parent = getenv("TMPDIR");

    snprintf(folder, n, "%s/vpipe-saving-XXXXXX", parent ? parent : "/var/tmp");
    if (!mkdtemp(folder))
        lab_die(folder, &(struct vp_err){ .text = "cannot be made" });
}

static int64_t count_bytes(struct lab *lab)
{
    struct vp_state_item *items = NULL;
    int n = vp_trainer_state(lab_trainer(lab), &items);
    int64_t n_bytes = 0;

    for (int i = 0; i < n; i++)
        n_bytes += items[i].rows * items[i].cols * (int64_t)sizeof(float);
    free(items);
    return n_bytes;
}

static void open_rig(struct rig *rig, const struct bench *bench, int n_threads,
                     const char *folder)
{
    /* The model here is only for the manifest; the lab builds the real one. */
    static const char text[] = "model_type: bert\nsynthetic_data: true\n"
                               "checkpoint_every: 1\nkeep_checkpoints: 1\n";
    struct lab_spec spec = { .size = bench->size,
                             .schedule = "1f1b",
                             .n_stages = 1,
                             .n_mb = 1,
                             .n_threads = n_threads,
                             .saver = &rig->saver };
    struct vp_err err = { .text = "" };

    *rig = (struct rig){ .saver = { rig, 0, timed_begin, buffer },
                         .committed = -1 };
    rig->lab = lab_open(&spec);
    rig->n_bytes = count_bytes(rig->lab);
    if (vp_config_parse("saving", text, sizeof(text) - 1, NULL, 0, &rig->config,
                        &err) != VP_OK ||
        vp_checkpoints_create(&rig->config, rig->config.checkpoint_every, NULL,
                              &rig->checkpoints, &err) != VP_OK ||
        vp_checkpoints_arm(rig->checkpoints, lab_trainer(rig->lab),
                           lab_data(rig->lab), folder, NULL, &err) != VP_OK)
        lab_die("saver", &err);
}

static void close_rig(struct rig *rig)
{
    wait_for_disk(rig);
    vp_checkpoints_free(rig->checkpoints);
    vp_config_release(&rig->config);
    lab_close(rig->lab);
}

/* ---- Measuring ---------------------------------------------------------- */

static bool on_step(void *ctx, const struct vp_step_report *report)
{
    struct rig *rig = ctx;
    struct turn *turn = rig->turn;
    int64_t now = vp_clock_ns();
    double seconds = vp_clock_seconds(rig->last_ns, now);

    rig->last_ns = now;
    turn->steps[turn->n_steps++] = seconds;
    if (report->saved || rig->writing) {
        turn->n_busy++;
        turn->busy += seconds;
    }
    if (report->saved) {
        turn->n_saved++;
        turn->copy += vp_clock_seconds(rig->begun_ns, now);
        commit(rig, report->step);
    }
    rig->writing = is_writing(rig);
    return true;
}

static struct turn take_turn(struct rig *rig, int64_t every, int n_steps)
{
    struct turn turn = { .n_steps = 0 };
    struct vp_err err = { .text = "" };

    rig->turn = &turn;
    rig->saver.every = every;
    rig->writing = false;
    rig->last_ns = vp_clock_ns();
    if (vp_trainer_run(lab_trainer(rig->lab), n_steps, on_step, rig, &err) !=
        VP_OK)
        lab_die("training", &err);
    wait_for_disk(rig);
    return turn;
}

static double median_step(const struct turn *turn)
{
    struct series series = { .n = 0 };

    for (int i = 0; i < turn->n_steps; i++)
        series_add(&series, turn->steps[i]);
    return series_median(&series);
}

/* Returns the seconds of a memcpy between buffers whose pages are mapped. */
static double copy_once(int64_t n_bytes)
{
    size_t n = (size_t)n_bytes;
    char *from = malloc(n), *to = malloc(n);
    int64_t start;
    double seconds;

    if (!from || !to)
        lab_die("copying", &(struct vp_err){ .text = "out of memory" });
    memset(from, 1, n);
    memset(to, 2, n);
    start = vp_clock_ns();
    memcpy(to, from, n);
    seconds = vp_clock_seconds(start, vp_clock_ns());
    if (to[n - 1] != 1)
        lab_die("copying", &(struct vp_err){ .text = "failed" });
    free(from);
    free(to);
    return seconds;
}

/* Times a save while the trainer is idle: the copy, then the write to disk. */
static void save_idle(struct rig *rig, struct results *results)
{
    struct vp_trainer *trainer = lab_trainer(rig->lab);
    struct turn turn = { .n_steps = 0 };
    struct vp_err err = { .text = "" };
    int64_t start = vp_clock_ns(), copied;

    rig->turn = &turn;
    if (vp_trainer_save(trainer, &rig->saver, &err) != VP_OK)
        lab_die("saving", &err);
    copied = vp_clock_ns();
    commit(rig, vp_trainer_progress(trainer).step);
    wait_for_disk(rig);
    series_add(&results->copy, vp_clock_seconds(start, copied));
    series_add(&results->written, vp_clock_seconds(copied, vp_clock_ns()));
}

static void run_round(struct rig *rig, struct results *results)
{
    struct turn saving[] = { take_turn(rig, 50, STEPS_50),
                             take_turn(rig, 1, STEPS_1) };
    struct turn off = take_turn(rig, 0, STEPS_0);
    double step = median_step(&off), copy = copy_once(rig->n_bytes);

    save_idle(rig, results);
    series_add(&results->step, step);
    series_add(&results->memcpy, copy);
    for (int i = 0; i < 2; i++) {
        const struct turn *turn = &saving[i];
        int n = turn->n_saved;

        series_add(&results->wait[i], turn->wait / n);
        series_add(&results->inside[i], turn->copy / n);
        series_add(&results->ratio[i], turn->copy / n / copy);
        series_add(&results->lost[i], (turn->busy - turn->n_busy * step) / n);
    }
}

/* ---- Reporting ---------------------------------------------------------- */

static void print_table(struct bench *bench, const struct rig *rig,
                        int n_threads, const struct results *r)
{
    static const char *const names[] = { "every 50", "every 1" };
    char text[4][48];

    fprintf(bench->table, "saving %.0f MB, %d thread%s; seconds\n",
            (double)rig->n_bytes * 1e-6, n_threads, n_threads > 1 ? "s" : "");
    fprintf(bench->table, "  a step without saving         %s\n",
            series_text(&r->step, text[0]));
    fprintf(bench->table, "  the state copied by memcpy    %s\n",
            series_text(&r->memcpy, text[0]));
    fprintf(bench->table, "  the same by the saver, idle   %s\n",
            series_text(&r->copy, text[0]));
    fprintf(bench->table, "  on disk after                 %s\n",
            series_text(&r->written, text[0]));
    for (int i = 0; i < 2; i++)
        fprintf(bench->table,
                "  %-8s training copies      %s\n"
                "           / memcpy  (<= 1.3)   %s %s\n"
                "           waits for the disk   %s\n"
                "           loses in all         %s\n",
                names[i], series_text(&r->inside[i], text[0]),
                series_text(&r->ratio[i], text[1]),
                bench_judge(bench, series_median(&r->ratio[i]) <= 1.3),
                series_text(&r->wait[i], text[2]),
                series_text(&r->lost[i], text[3]));
}

static void print_json(const struct bench *bench, const struct rig *rig,
                       int n_threads, const struct results *r)
{
    static const int every[] = { 50, 1 };
    char text[4][64];

    printf("{\"case\": \"saving\", \"rounds\": %d, \"threads\": %d, "
           "\"bytes\": %lld, \"step_s\": %s, \"memcpy_s\": %s, "
           "\"idle_copy_s\": %s, \"written_s\": %s",
           bench->n_rounds, n_threads, (long long)rig->n_bytes,
           series_json(&r->step, text[0]), series_json(&r->memcpy, text[1]),
           series_json(&r->copy, text[2]), series_json(&r->written, text[3]));
    for (int i = 0; i < 2; i++)
        printf(", \"copy_%d_s\": %s, \"ratio_%d\": %s, \"wait_%d_s\": %s, "
               "\"lost_%d_s\": %s",
               every[i], series_json(&r->inside[i], text[0]), every[i],
               series_json(&r->ratio[i], text[1]), every[i],
               series_json(&r->wait[i], text[2]), every[i],
               series_json(&r->lost[i], text[3]));
    puts("}");
}

void case_saving(struct bench *bench)
{
    char folder[256];

    make_folder(folder, sizeof(folder));
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        struct results results = { .step = { .n = 0 } };
        struct rig rig;

        open_rig(&rig, bench, n_threads, folder);
        take_turn(&rig, 0, WARM_STEPS);
        for (int i = 0; i < bench->n_rounds; i++)
            run_round(&rig, &results);
        print_json(bench, &rig, n_threads, &results);
        print_table(bench, &rig, n_threads, &results);
        close_rig(&rig);
    }
    if (vp_io_remove(folder) != 0)
        lab_die(folder, &(struct vp_err){ .text = "cannot be removed" });
}
