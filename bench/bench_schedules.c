/* bench_schedules [OPTION]...: measures and simulates schedules on the cores of
 * this machine. BERT is trained on RANKS ranks of THREADS pinned threads;
 * schedules take turns, two steps each. auto is made for measured costs, within
 * the bytes that 1f1b needs on its largest rank, and once more within those of
 * zb-h1.
 *
 * Stages are cut by FLOPs. The costs of the simulation are measured before, in
 * other steps than those it is compared with: see load.h. Prints a line of JSON
 * per schedule and per table of costs, and a table at the end. With --targets,
 * exit 1 if one is missed. With --sleep kernels sleep instead of computing,
 * which compares the simulator with the runtime alone. */
#include "forecast.h"
#include "load.h"
#include "series.h"
#include "sleeper.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_NAME = 16 };

struct settings {
    struct lab_size size;
    int n_ranks, n_threads, n_mb, n_rounds;
    int us_per_gflop; /* kernels sleep this long; 0: they compute */
    bool targets;
};

/* ---- Options ------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t offset;
    const char *meaning;
} numbers[] = {
    { "ranks", offsetof(struct settings, n_ranks), "ranks of the pipeline" },
    { "threads", offsetof(struct settings, n_threads), "threads of a rank" },
    { "minibatches", offsetof(struct settings, n_mb), "per update" },
    { "rounds", offsetof(struct settings, n_rounds), "turns of a schedule" },
    { "batch", offsetof(struct settings, size.batch), "samples" },
    { "seq", offsetof(struct settings, size.seq), "tokens per sample" },
    { "labels", offsetof(struct settings, size.labels), "scored per sample" },
    { "hidden", offsetof(struct settings, size.hidden), "width" },
    { "layers", offsetof(struct settings, size.layers), "layers" },
    { "heads", offsetof(struct settings, size.heads), "attention heads" },
    { "vocab", offsetof(struct settings, size.vocab), "entries" },
    { "sleep", offsetof(struct settings, us_per_gflop),
      "kernels sleep N us per GFLOP instead of computing; needs no cores" },
};
enum { N_NUMBERS = VP_COUNT_OF(numbers) };

static int *number_at(struct settings *settings, size_t i)
{
    return (int *)((char *)settings + numbers[i].offset);
}

static _Noreturn void usage(struct settings *settings)
{
    fputs("usage: bench_schedules [--OPTION N]... [--tiny] [--targets]\n\n",
          stderr);
    for (size_t i = 0; i < N_NUMBERS; i++)
        fprintf(stderr, "  --%-12s %s [%d]\n", numbers[i].name,
                numbers[i].meaning, *number_at(settings, i));
    fputs("  --tiny         seconds on two cores, to see that it runs\n"
          "  --targets      exit 1 if one is missed\n",
          stderr);
    exit(2);
}

static void be_tiny(struct settings *settings)
{
    settings->size = (struct lab_size){ .vocab = 512,
                                        .hidden = 64,
                                        .layers = 6,
                                        .heads = 4,
                                        .seq = 32,
                                        .batch = 2,
                                        .labels = 5 };
    settings->n_ranks = 2;
    settings->n_threads = 1;
    settings->n_mb = 4;
    settings->n_rounds = 2;
}

static void read_options(int argc, char **argv, struct settings *settings)
{
    struct option options[N_NUMBERS + 4] = { { NULL, 0, NULL, 0 } };
    int which, at;

    for (int i = 0; i < N_NUMBERS; i++)
        options[i] = (struct option){ numbers[i].name, required_argument, NULL,
                                      'n' };
    options[N_NUMBERS] = (struct option){ "tiny", no_argument, NULL, 't' };
    options[N_NUMBERS + 1] = (struct option){ "targets", no_argument, NULL,
                                              'g' };
    options[N_NUMBERS + 2] = (struct option){ "help", no_argument, NULL, 'h' };
    while ((which = getopt_long(argc, argv, "", options, &at)) != -1) {
        if (which == 't') {
            be_tiny(settings);
        } else if (which == 'g') {
            settings->targets = true;
        } else if (which == 'n') {
            char *end;
            long n = strtol(optarg, &end, 10);

            if (end == optarg || *end != '\0' || n < 1 || n > 1000000)
                usage(settings);
            *number_at(settings, (size_t)at) = (int)n;
        } else {
            usage(settings);
        }
    }
    if (optind < argc || settings->n_ranks < 2)
        usage(settings);
}

/* ---- Places ------------------------------------------------------------- */

/* A placement of stages on ranks, and the costs of its stages. */
struct place {
    const char *schedule; /* costs are measured in runs of it */
    int n_chunks;
    bool v_shape, split;
    int partition[VP_MAX_STAGES];
    struct load_costs costs;
};

/* One stage per rank (W with B, and split), two stages in turn, two in a V. */
enum { WHOLE, WHOLE_SPLIT, IN_TURN, IN_V, N_PLACES };

static struct place places[N_PLACES] = {
    [WHOLE] = { .schedule = "1f1b", .n_chunks = 1 },
    [WHOLE_SPLIT] = { .schedule = "zb-h1", .n_chunks = 1, .split = true },
    [IN_TURN] = { .schedule = "interleaved", .n_chunks = 2 },
    [IN_V] = { .schedule = "zb-v",
               .n_chunks = 2,
               .v_shape = true,
               .split = true },
};

static struct lab_spec spec_of(const struct settings *settings,
                               const struct place *place)
{
    return (struct lab_spec){ .size = settings->size,
                              .schedule = place->schedule,
                              .n_stages = settings->n_ranks,
                              .n_chunks = place->n_chunks,
                              .partition = place->partition,
                              .n_mb = settings->n_mb,
                              .n_threads = settings->n_threads,
                              .pinned = settings->us_per_gflop == 0,
                              .backend = settings->us_per_gflop > 0
                                             ? sleeper_open(
                                                   settings->us_per_gflop, 0.0)
                                             : NULL };
}

static void print_costs(const struct settings *settings,
                        const struct place *place)
{
    printf("{\"costs\": \"%s\", \"latency_us\": %.1f, \"load\": [%.2f, %.2f], "
           "\"stages\": [",
           place->schedule, 1e6 * place->costs.latency, place->costs.load[0],
           place->costs.load[1]);
    for (int s = 0; s < settings->n_ranks * place->n_chunks; s++) {
        const struct vp_stage_costs *a = &place->costs.alone[s];
        const struct vp_stage_costs *b = &place->costs.busy[s];

        printf("%s{\"blocks\": %d, \"alone_ms\": [%.3f, %.3f, %.3f], "
               "\"busy_ms\": [%.3f, %.3f, %.3f], \"reduce_ms\": %.3f, "
               "\"update_ms\": %.3f}",
               s ? ", " : "", place->partition[s], 1e3 * a->f, 1e3 * a->b,
               1e3 * a->w, 1e3 * b->f, 1e3 * b->b, 1e3 * b->w, 1e3 * b->reduce,
               1e3 * b->update);
    }
    puts("]}");
    fflush(stdout);
}

static void measure_places(const struct settings *settings)
{
    for (int i = 0; i < N_PLACES; i++) {
        struct lab_spec spec = spec_of(settings, &places[i]);

        lab_cut_by_flops(&spec, places[i].partition);
        fprintf(stderr, "bench_schedules: costs for %s\n", places[i].schedule);
        load_measure(&spec, &places[i].costs);
        print_costs(settings, &places[i]);
    }
}

/* ---- Schedules ---------------------------------------------------------- */

/* EQUAL: auto within the memory of 1f1b. ROOMY: auto within the memory of
 * zb-h1, which keeps the same number of minibatches as 1f1b, but more bytes of
 * each. */
enum { N_NAMED = 6, ROOMY = N_NAMED, EQUAL, N_ENTRANTS };

static const struct {
    const char *name;
    int place;
} named[N_NAMED] = {
    { "1f1b", WHOLE }, { "zb-h1", WHOLE_SPLIT }, { "zb-h2", WHOLE_SPLIT },
    { "zb-v", IN_V },  { "v-half", IN_V },       { "interleaved", IN_TURN },
};

/* ---- Memory ------------------------------------------------------------- */

static int64_t largest_rank(struct lab *lab)
{
    int n_ranks = lab_schedule(lab)->n_ranks;
    int64_t most = 0;

    for (int r = 0; r < n_ranks; r++)
        if (lab_rank_bytes(lab, r) > most)
            most = lab_rank_bytes(lab, r);
    return most;
}

static int64_t planned_bytes(const struct lab_spec *spec)
{
    struct lab_spec dry = *spec;
    struct lab *lab;
    int64_t bytes;

    dry.dry = true;
    lab = lab_open(&dry);
    bytes = largest_rank(lab);
    lab_close(lab);
    return bytes;
}

/* ---- auto --------------------------------------------------------------- */

/* Memory for auto: bytes per rank, and bytes per slot of each stage. */
struct room {
    double ranks[VP_MAX_STAGES], slots[VP_MAX_STAGES];
};

/* Returns the text of a schedule for the costs under load, which the caller
 * frees; NULL if not even one minibatch fits. */
static char *make_auto(const struct settings *settings,
                       const struct place *place, const struct room *room)
{
    struct vp_sched_costs costs = { .stages = place->costs.busy,
                                    .latency = place->costs.latency };
    struct vp_sched_limits limits = { .rank = room ? room->ranks : NULL,
                                      .stage = room ? room->slots : NULL };
    struct vp_sched_config config = { .name = "auto",
                                      .n_stages = settings->n_ranks,
                                      .n_chunks = place->n_chunks,
                                      .v_shape = place->v_shape,
                                      .n_mb = settings->n_mb,
                                      .global_norm = true,
                                      .fused = !place->split,
                                      .costs = &costs,
                                      .limits = room ? &limits : NULL };
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    char *text = NULL;

    if (vp_schedule_make(&config, &schedule, &err) != VP_OK)
        return NULL;
    if (vp_schedule_print(&schedule, 0, &text) != VP_OK)
        lab_die("auto", &(struct vp_err){ .text = "out of memory" });
    vp_schedule_release(&schedule);
    return text;
}

static struct lab_spec auto_spec(const struct settings *settings,
                                 const struct place *place, const char *text)
{
    struct lab_spec spec = spec_of(settings, place);

    spec.schedule = "auto";
    spec.schedule_text = text;
    spec.schedule_v = place->v_shape;
    return spec;
}

/* Plans auto without a limit and computes from it the bytes per slot, message
 * buffers included, of which there are about the same number; and the bytes per
 * rank that `limit` leaves for slots. */
static void find_room(const struct settings *settings,
                      const struct place *place, int64_t limit,
                      struct room *out)
{
    char *text = make_auto(settings, place, NULL);
    struct lab_spec spec = auto_spec(settings, place, text);
    const struct vp_schedule *schedule;
    struct lab *lab;

    spec.dry = true;
    lab = lab_open(&spec);
    schedule = lab_schedule(lab);
    for (int r = 0; r < schedule->n_ranks; r++)
        out->ranks[r] = (double)limit;
    for (int s = 0; s < schedule->n_stages; s++) {
        const struct vp_memory *m = &lab_prices(lab)[s].memory;

        int64_t bytes = m->activations + m->boundary;

        out->slots[s] = (double)bytes / schedule->stages[s].n_slots;
        out->ranks[schedule->stages[s].first_rank] -= (double)(m->total -
                                                               bytes);
    }
    lab_close(lab);
    free(text);
}

/* Returns the text of a schedule for a placement that needs at most `limit`
 * bytes on each rank; NULL if there is none. The exact bytes are known only
 * after the schedule is made, so the memory it may use is reduced until it
 * fits. */
static char *fit_auto(const struct settings *settings,
                      const struct place *place, int64_t limit)
{
    struct room room = { .ranks = { 0.0 } };

    find_room(settings, place, limit, &room);
    for (int r = 0; r < settings->n_ranks; r++)
        room.ranks[r] *= 1.1;
    for (int i = 0; i < 30; i++) {
        char *text = make_auto(settings, place, &room);
        struct lab_spec spec = auto_spec(settings, place, text);

        if (!text)
            return NULL;
        if (planned_bytes(&spec) <= limit)
            return text;
        free(text);
        for (int r = 0; r < settings->n_ranks; r++)
            room.ranks[r] *= 0.98;
    }
    return NULL;
}

static double simulate_text(const char *text, const struct place *place)
{
    struct vp_schedule schedule;
    struct vp_err err = { .text = "" };
    double seconds;

    if (vp_schedule_parse(text, "auto", &schedule, &err) != VP_OK)
        lab_die("auto", &err);
    seconds = load_simulate(&schedule, &place->costs);
    vp_schedule_release(&schedule);
    return seconds;
}

/* The schedule that is fastest by simulation so far. */
struct choice {
    char *text;
    double seconds;
    int place;
};

/* Compares a schedule with the best one so far. Takes ownership of `text`;
 * NULL: there is none. */
static void offer(struct choice *choice, char *text, int place)
{
    double seconds = text ? simulate_text(text, &places[place]) : 0.0;

    if (text && (!choice->text || seconds < choice->seconds)) {
        free(choice->text);
        *choice = (struct choice){ text, seconds, place };
    } else {
        free(text);
    }
}

/* Returns the text of a named schedule; NULL if it needs more than `limit`
 * bytes. */
static char *fit_named(const struct lab_spec *spec, int64_t limit)
{
    struct lab_spec dry = *spec;
    struct lab *lab;
    char *text = NULL;

    dry.dry = true;
    lab = lab_open(&dry);
    if (largest_rank(lab) <= limit &&
        vp_schedule_print(lab_schedule(lab), 0, &text) != VP_OK)
        lab_die("auto", &(struct vp_err){ .text = "out of memory" });
    lab_close(lab);
    return text;
}

/* Returns the schedule that is fastest by simulation and needs at most `limit`
 * bytes on a rank, among made and named ones. */
static struct lab_spec choose_auto(const struct settings *settings,
                                   int64_t limit, int *place_out)
{
    struct choice choice = { .text = NULL };

    for (int i = 0; i < N_PLACES; i++)
        offer(&choice, fit_auto(settings, &places[i], limit), i);
    for (int i = 0; i < N_NAMED; i++) {
        struct lab_spec spec = spec_of(settings, &places[named[i].place]);

        spec.schedule = named[i].name;
        offer(&choice, fit_named(&spec, limit), named[i].place);
    }
    if (!choice.text)
        lab_die("auto", &(struct vp_err){ .text = "nothing fits" });
    *place_out = choice.place;
    return auto_spec(settings, &places[choice.place], choice.text);
}

/* ---- Contest ------------------------------------------------------------ */

struct entrant {
    char name[MAX_NAME];
    int place;
    struct lab_spec spec;
    struct lab *lab;
    int64_t bytes; /* on the largest rank */
    double simulated;
    struct series measured;
    struct series replayed; /* simulated with the costs of the same step */
};

static void enter(const struct settings *settings, struct entrant *e,
                  const char *name, int place)
{
    *e = (struct entrant){ .place = place };
    snprintf(e->name, sizeof(e->name), "%s", name);
    e->spec = spec_of(settings, &places[place]);
    e->spec.schedule = name;
}

/* Enters auto within the memory that `like` needs on its largest rank. */
static void enter_auto(const struct settings *settings, struct entrant *e,
                       const char *name, const struct entrant *like)
{
    int64_t limit = planned_bytes(&like->spec);
    struct lab_spec spec;
    int place = 0;

    spec = choose_auto(settings, limit, &place);
    enter(settings, e, name, place);
    e->spec = spec;
}

static void open_entrant(const struct settings *settings, struct entrant *e)
{
    e->lab = lab_open(&e->spec);
    e->bytes = largest_rank(e->lab);
    e->simulated = load_simulate(lab_schedule(e->lab), &places[e->place].costs);
    lab_run(e->lab, settings->n_mb);
}

static void close_entrant(struct entrant *e)
{
    lab_close(e->lab);
    free((char *)e->spec.schedule_text);
}

/* Measures the second of two steps: in the first one caches still hold the
 * weights of the other contestants, which does not happen in training. */
static void take_turn(const struct settings *settings, struct entrant *e)
{
    static struct load_costs costs;

    lab_run(e->lab, settings->n_mb);
    series_add(&e->measured, lab_run(e->lab, settings->n_mb));
    costs.latency = places[e->place].costs.latency;
    forecast_costs(lab_trainer(e->lab), settings->n_mb, costs.alone);
    memcpy(costs.busy, costs.alone, sizeof(costs.busy));
    series_add(&e->replayed, load_simulate(lab_schedule(e->lab), &costs));
}

/* ---- Report ------------------------------------------------------------- */

static double over(const struct entrant *e)
{
    return e->simulated / series_median(&e->measured);
}

static const char *place_text(const struct entrant *e)
{
    static const char *const texts[N_PLACES] = {
        [WHOLE] = "one stage per rank, B with W",
        [WHOLE_SPLIT] = "one stage per rank",
        [IN_TURN] = "two in turn, B with W",
        [IN_V] = "two in a V",
    };

    return texts[e->place];
}

static void print_entrant(const struct entrant *e, const struct entrant *base)
{
    struct series gain = series_ratio(&base->measured, &e->measured);
    struct series replay = series_ratio(&e->replayed, &e->measured);
    char text[3][64];

    printf(
        "{\"schedule\": \"%s\", \"placement\": \"%s\", \"measured_s\": %s, "
        "\"simulated_s\": %.6g, \"simulated_over_measured\": %.4f, "
        "\"replayed_over_measured\": %s, \"rank_bytes\": %lld, \"gain\": %s, "
        "\"simulated_gain\": %.4f}\n",
        e->name, place_text(e), series_json(&e->measured, text[0]),
        e->simulated, over(e), series_json(&replay, text[1]),
        (long long)e->bytes, series_json(&gain, text[2]),
        base->simulated / e->simulated);
}

static void print_row(const struct entrant *e, const struct entrant *base)
{
    struct series gain = series_ratio(&base->measured, &e->measured);
    struct series replay = series_ratio(&e->replayed, &e->measured);
    char text[48];

    printf("%-11s  %-22s  %6.3f  %6.3f  %6.3f  %6.1f  %6.3f  %6.3f\n", e->name,
           series_text(&e->measured, text), e->simulated, over(e),
           series_median(&replay), (double)e->bytes / (1 << 20),
           series_median(&gain), base->simulated / e->simulated);
}

static bool is_close(const struct entrant *e)
{
    return over(e) >= 0.95 && over(e) <= 1.05;
}

static void print_settings(const struct settings *settings)
{
    if (settings->us_per_gflop > 0)
        printf("%d ranks whose kernels sleep %d us per GFLOP",
               settings->n_ranks, settings->us_per_gflop);
    else
        printf("%d ranks of %d pinned threads on %ld cores", settings->n_ranks,
               settings->n_threads, sysconf(_SC_NPROCESSORS_ONLN));
    printf(", %d minibatches of %d x %d tokens, hidden %d, %d layers, %d "
           "rounds\n",
           settings->n_mb, settings->size.batch, settings->size.seq,
           settings->size.hidden, settings->size.layers, settings->n_rounds);
}

/* Returns true if both targets are met. */
static bool report(const struct settings *settings,
                   const struct entrant *entrants)
{
    const struct entrant *base = &entrants[0], *own = &entrants[EQUAL];
    struct series gain = series_ratio(&base->measured, &own->measured);
    bool faster = series_median(&gain) >= 1.10;
    int n_close = 0;

    for (int i = 0; i < N_ENTRANTS; i++) {
        print_entrant(&entrants[i], base);
        n_close += is_close(&entrants[i]);
    }
    print_settings(settings);
    printf("auto: %s, within the memory of 1f1b; auto-zb: %s, within that of "
           "zb-h1\n",
           place_text(own), place_text(&entrants[ROOMY]));
    puts("schedule     measured, s             simul.  /meas.  replay     MiB  "
         "1f1b /  simul.");
    for (int i = 0; i < N_ENTRANTS; i++)
        print_row(&entrants[i], base);
    printf("auto against 1f1b (>= 1.10)       measured %.3f, simulated %.3f  "
           "%s\n"
           "simulated / measured within 5 %%   %d of %d schedules (>= 6)  %s\n",
           series_median(&gain), base->simulated / own->simulated,
           faster ? "met" : "MISSED", n_close, N_ENTRANTS,
           n_close >= 6 ? "met" : "MISSED");
    return faster && n_close >= 6;
}

/* Pinned threads need a core each. */
static void check_cores(const struct settings *settings)
{
    int n = settings->n_ranks * settings->n_threads;

    if (settings->us_per_gflop > 0 || n <= sysconf(_SC_NPROCESSORS_ONLN))
        return;
    fprintf(stderr,
            "bench_schedules: %d ranks of %d threads need %d cores, this "
            "machine has %ld; use --ranks and --threads, or --tiny\n",
            settings->n_ranks, settings->n_threads, n,
            sysconf(_SC_NPROCESSORS_ONLN));
    exit(2);
}

static void print_machine(void)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            fputs(strchr(line, ':') + 2, stdout);
            break;
        }
    if (file)
        fclose(file);
    file = fopen("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
                 "r");
    if (file && fgets(line, sizeof(line), file))
        printf("core 0 shares its units with: %s", line);
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    static struct entrant entrants[N_ENTRANTS];
    struct settings settings = { .size = { .vocab = 8192,
                                           .hidden = 512,
                                           .layers = 24,
                                           .heads = 8,
                                           .seq = 128,
                                           .batch = 2,
                                           .labels = 20 },
                                 .n_ranks = 8,
                                 .n_threads = 2,
                                 .n_mb = 8,
                                 .n_rounds = 7 };
    bool met;

    read_options(argc, argv, &settings);
    check_cores(&settings);
    print_machine();
    measure_places(&settings);
    for (int i = 0; i < N_NAMED; i++)
        enter(&settings, &entrants[i], named[i].name, named[i].place);
    enter_auto(&settings, &entrants[ROOMY], "auto-zb", &entrants[1]);
    enter_auto(&settings, &entrants[EQUAL], "auto", &entrants[0]);
    for (int i = 0; i < N_ENTRANTS; i++)
        open_entrant(&settings, &entrants[i]);
    for (int round = 0; round < settings.n_rounds; round++) {
        fprintf(stderr, "bench_schedules: round %d of %d\n", round + 1,
                settings.n_rounds);
        for (int i = 0; i < N_ENTRANTS; i++)
            take_turn(&settings, &entrants[i]);
    }
    met = report(&settings, entrants);
    for (int i = 0; i < N_ENTRANTS; i++)
        close_entrant(&entrants[i]);
    return settings.targets && !met ? 1 : 0;
}
