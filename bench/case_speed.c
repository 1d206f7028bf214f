/* Compares the speed-up of a pipeline with the simulated one. Cores share
 * memory and clocks, so n stages on n cores cannot be n times as fast as one. n
 * independent copies of the one-stage run measure this loss, and the target is
 * the simulated speed-up times the scaling of these copies. */
#include "bench.h"

#include "forecast.h"

enum { N_KINDS = 3 };

struct contest {
    int n_stages;
    struct lab *copies_of_one[VP_MAX_STAGES]; /* n_stages of them */
    struct lab *pipe;
    struct series single, copies, piped; /* seconds */
    struct series forecast;              /* seconds */
    struct series owed;                  /* simulated speed-up */
    /* Milliseconds of F, B and update per minibatch, summed over the stages. */
    struct series work[2][N_KINDS]; /* [0]: one stage, [1]: the pipeline */
};

static int n_stages_of(const struct bench *bench)
{
    int n = bench->n_stages ? bench->n_stages : 2;

    if (n > lab_n_blocks(&bench->size) || n > VP_MAX_STAGES)
        lab_die("stages", &(struct vp_err){ .text = "more than blocks" });
    return n;
}

static struct lab *open_warm(const struct lab_spec *spec, int n_mb)
{
    struct lab *lab = lab_open(spec);

    lab_run(lab, n_mb);
    return lab;
}

static void add_work(struct series *work, const struct vp_stage_costs *costs,
                     int n_stages, int update_every)
{
    double sums[N_KINDS] = { 0.0, 0.0, 0.0 };

    for (int s = 0; s < n_stages; s++) {
        sums[0] += 1e3 * costs[s].f;
        sums[1] += 1e3 * costs[s].b;
        sums[2] += 1e3 * (costs[s].reduce + costs[s].update) / update_every;
    }
    for (int k = 0; k < N_KINDS; k++)
        series_add(&work[k], sums[k]);
}

static void run_round(struct contest *c, const char *schedule, int n_mb,
                      int update_every)
{
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct lab *one = c->copies_of_one[0];
    struct forecast forecast;

    series_add(&c->single, lab_run(one, n_mb));
    forecast_costs(lab_trainer(one), n_mb, costs);
    add_work(c->work[0], costs, 1, update_every);
    series_add(&c->piped, lab_run(c->pipe, n_mb));
    forecast_costs(lab_trainer(c->pipe), n_mb, costs);
    add_work(c->work[1], costs, c->n_stages, update_every);
    forecast = forecast_run(schedule, c->n_stages, n_mb, costs);
    series_add(&c->forecast, forecast.seconds);
    series_add(&c->owed, forecast.speedup);
    series_add(&c->copies,
               lab_run_together(c->copies_of_one, c->n_stages, n_mb));
}

static void print_json(const struct bench *bench, const char *name,
                       const struct contest *c, const int *partition, int n_mb,
                       const struct series *share)
{
    struct series error = series_ratio(&c->forecast, &c->piped);
    struct series scaling = series_ratio(&c->single, &c->copies);
    char text[7][64];

    printf("{\"case\": \"%s\", \"rounds\": %d, \"minibatches\": %d, "
           "\"batch\": %d, \"stages\": %d, \"threads\": %d, "
           "\"partition\": [",
           name, bench->n_rounds, n_mb, bench->size.batch, c->n_stages,
           bench->n_threads);
    for (int i = 0; i < c->n_stages; i++)
        printf("%s%d", i ? ", " : "", partition[i]);
    printf("], \"single_s\": %s, "
           "\"pipeline_s\": %s, \"copies_s\": %s, \"copies_scaling\": %s, "
           "\"simulated_speedup\": %s, \"share\": %s, "
           "\"simulated_over_measured\": %s}\n",
           series_json(&c->single, text[0]), series_json(&c->piped, text[1]),
           series_json(&c->copies, text[2]), series_json(&scaling, text[3]),
           series_json(&c->owed, text[4]), series_json(share, text[5]),
           series_json(&error, text[6]));
}

static void print_table(struct bench *bench, const char *name,
                        const struct contest *c, int n_mb,
                        const struct series *share)
{
    struct series speedup = series_ratio(&c->single, &c->piped);
    struct series scaling = series_ratio(&c->single, &c->copies);
    struct series error = series_ratio(&c->forecast, &c->piped);
    double off = series_median(&error);
    char text[48];

    fprintf(bench->table, "%s, %d stages, %d minibatches of %d\n", name,
            c->n_stages, n_mb, bench->size.batch);
    fprintf(bench->table, "  one stage, s                %s\n",
            series_text(&c->single, text));
    fprintf(bench->table, "  all stages, s               %s\n",
            series_text(&c->piped, text));
    fprintf(bench->table, "  speed-up                    %s\n",
            series_text(&speedup, text));
    fprintf(bench->table, "  simulated speed-up          %s\n",
            series_text(&c->owed, text));
    fprintf(bench->table, "  copies, speed of each       %s\n",
            series_text(&scaling, text));
    fprintf(bench->table, "  speed-up / owed  (>= 0.97)  %s %s\n",
            series_text(share, text),
            bench_judge(bench, series_median(share) >= 0.97));
    fprintf(bench->table, "  simulated / measured (5 %%)  %s %s\n",
            series_text(&error, text),
            bench_judge(bench, off >= 0.95 && off <= 1.05));
}

static void print_work(struct bench *bench, const struct contest *c)
{
    static const char *const who[] = { "one stage", "all stages" };

    for (int i = 0; i < 2; i++)
        fprintf(bench->table,
                "  %-10s ms per minibatch: F %.2f, B %.2f, update %.2f\n",
                who[i], series_median(&c->work[i][0]),
                series_median(&c->work[i][1]), series_median(&c->work[i][2]));
}

/* Returns (single / piped) / (simulated x single / copies), round by round. */
static struct series share_of(const struct contest *c)
{
    struct series share = series_ratio(&c->copies, &c->piped);

    return series_ratio(&share, &c->owed);
}

static void run_contest(struct bench *bench, const char *name,
                        const char *schedule, int n_mb, int update_every)
{
    struct contest c = { .n_stages = n_stages_of(bench) };
    int partition[VP_MAX_STAGES];
    struct lab_spec spec = bench_spec(bench, schedule, c.n_stages, partition,
                                      update_every);
    struct series share;

    bench_open_copies(bench, schedule, c.n_stages, update_every,
                      c.copies_of_one);
    lab_run_together(c.copies_of_one, c.n_stages, update_every);
    lab_cut_measured(&spec, partition);
    c.pipe = open_warm(&spec, update_every > 1 ? update_every : c.n_stages);
    for (int i = 0; i < bench->n_rounds; i++)
        run_round(&c, schedule, n_mb, update_every);
    share = share_of(&c);
    print_json(bench, name, &c, partition, n_mb, &share);
    print_table(bench, name, &c, n_mb, &share);
    print_work(bench, &c);
    for (int i = 0; i < c.n_stages; i++)
        lab_close(c.copies_of_one[i]);
    lab_close(c.pipe);
}

void case_asp(struct bench *bench)
{
    run_contest(bench, "asp", "pipedream", bench->n_mb ? bench->n_mb : 16, 1);
}

void case_bsp(struct bench *bench)
{
    int n_mb = bench->n_mb ? bench->n_mb : 32;

    run_contest(bench, "bsp", "1f1b", n_mb, n_mb);
}

/* ---- Zero bubble -------------------------------------------------------- */

struct entrant {
    const char *schedule;
    struct lab *lab;
    struct series seconds, forecast, bubble;
};

static void take_turn(struct entrant *e, int n_stages, int n_mb)
{
    struct vp_stage_costs costs[VP_MAX_STAGES];
    struct forecast forecast;

    series_add(&e->seconds, lab_run(e->lab, n_mb));
    forecast_costs(lab_trainer(e->lab), n_mb, costs);
    forecast = forecast_run(e->schedule, n_stages, n_mb, costs);
    series_add(&e->forecast, forecast.seconds);
    series_add(&e->bubble, forecast.bubble);
}

static void print_entrant(struct bench *bench, const struct entrant *e)
{
    struct series error = series_ratio(&e->forecast, &e->seconds);
    char text[3][48];

    fprintf(bench->table, "  %-6s s %s, simulated / measured %s, bubble %s\n",
            e->schedule, series_text(&e->seconds, text[0]),
            series_text(&error, text[1]), series_text(&e->bubble, text[2]));
}

static void report_zb(struct bench *bench, const struct entrant *old,
                      const struct entrant *new, int n_mb)
{
    struct series gain = series_ratio(&old->seconds, &new->seconds);
    struct series owed = series_ratio(&old->forecast, &new->forecast);
    char text[4][64];

    printf("{\"case\": \"zb\", \"rounds\": %d, \"minibatches\": %d, "
           "\"batch\": %d, \"1f1b_s\": %s, \"zb-h1_s\": %s, \"gain\": %s, "
           "\"simulated_gain\": %s}\n",
           bench->n_rounds, n_mb, bench->size.batch,
           series_json(&old->seconds, text[0]),
           series_json(&new->seconds, text[1]), series_json(&gain, text[2]),
           series_json(&owed, text[3]));
    fprintf(bench->table, "zb-h1 against 1f1b, %d minibatches of %d\n", n_mb,
            bench->size.batch);
    print_entrant(bench, old);
    print_entrant(bench, new);
    fprintf(bench->table, "  simulated gain              %s\n",
            series_text(&owed, text[0]));
    fprintf(bench->table, "  gain             (>= 1.10)  %s %s\n",
            series_text(&gain, text[0]),
            bench_judge(bench, series_median(&gain) >= 1.10));
}

void case_zb(struct bench *bench)
{
    int n_mb = bench->n_mb ? bench->n_mb : 4;
    struct entrant entrants[] = { { .schedule = "1f1b" },
                                  { .schedule = "zb-h1" } };
    int n_stages = n_stages_of(bench), partition[VP_MAX_STAGES];
    struct lab_spec spec = bench_spec(bench, "1f1b", n_stages, partition, n_mb);

    lab_cut_measured(&spec, partition);
    for (int i = 0; i < 2; i++) {
        spec.schedule = entrants[i].schedule;
        entrants[i].lab = open_warm(&spec, n_mb);
    }
    for (int round = 0; round < bench->n_rounds; round++)
        for (int i = 0; i < 2; i++)
            take_turn(&entrants[i], n_stages, n_mb);
    report_zb(bench, &entrants[0], &entrants[1], n_mb);
    for (int i = 0; i < 2; i++)
        lab_close(entrants[i].lab);
}
