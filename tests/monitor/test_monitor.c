/* Event records, status.json and Prometheus text equal stored bytes, and a
 * monitor that cannot write does not disturb the run. */
#include "base/clock.h"
#include "lib/prom_text.h"
#include "monitor/crc32c.h"
#include "monitor/event_record.h"
#include "monitor/loss_curve.h"
#include "monitor/monitor.h"
#include "monitor/prometheus.h"
#include "monitor/publish.h"
#include "monitor/status_file.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Event records ------------------------------------------------------ */

/* Test vectors of RFC 3720, B.4, and the common check value. */
static void test_crc32c(void **state)
{
    unsigned char bytes[32];

    (void)state;
    assert_int_equal(vp_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(vp_crc32c("", 0), 0);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(vp_crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(vp_crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(vp_crc32c(bytes, 32), 0x46dd794e);
}

static void check_bytes(const unsigned char *bytes, size_t n, const char *want)
{
    char text[1024] = "";

    assert_true(2 * n < sizeof(text));
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    assert_string_equal(text, want);
}

/* The expected bytes were written with the protocol buffers of TensorBoard
 * 2.21. */
static void test_event_records(void **state)
{
    unsigned char bytes[512];
    struct vp_event_record record;

    (void)state;
    check_bytes(bytes, vp_event_version(1.0, bytes, sizeof(bytes)),
                "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e45"
                "76656e743a3286bf577a");
    check_bytes(bytes, vp_event_restart(2.5, 301, bytes, sizeof(bytes)),
                "100000000000000095fbfe1809000000000000044010ad023a0208019daf"
                "86af");
    vp_event_begin(&record, bytes, sizeof(bytes), 1.0, 300);
    vp_event_scalar(&record, "loss", -1, 2.5);
    check_bytes(bytes, vp_event_end(&record),
                "1b000000000000001a0d9e1309000000000000f03f10ac022a0d0a0b0a04"
                "6c6f737315000020404fbc4ddb");
    vp_event_begin(&record, bytes, sizeof(bytes), 1794954802.25, 1234567890123);
    vp_event_scalar(&record, "loss/train", -1, 2.5);
    vp_event_scalar(&record, "loss/held_out", -1, NAN);
    vp_event_scalar(&record, "memory", 0, 17289728);
    vp_event_scalar(&record, "memory", 11, -0.125);
    vp_event_scalar(&record, "optimizer/gradient_norm", -1, INFINITY);
    vp_event_scalar(&record, "throughput/samples_per_second", -1, 1e-20);
    vp_event_scalar(&record, "throughput/tokens_per_second", -1, 3e30);
    check_bytes(
        bytes, vp_event_end(&record),
        "a0000000000000002a557225090000908c35bfda4110cb89ec8ff7232a8d010a110a0a"
        "6c6f73732f747261696e15000020400a150a0e6d656d6f72792f73746167655f301500"
        "e9834b0a160a0f6d656d6f72792f73746167655f313115000000be0a240a1d7468726f"
        "7567687075742f73616d706c65735f7065725f7365636f6e641508e53c1e0a230a1c74"
        "68726f7567687075742f746f6b656e735f7065725f7365636f6e641517761772"
        "2832f760");
}

/* Nothing is written beyond the capacity, and a record that does not fit has
 * length 0. */
static void test_event_room(void **state)
{
    unsigned char bytes[256];
    struct vp_event_record record;
    size_t n_whole = 0;

    (void)state;
    for (size_t capacity = 0; capacity < sizeof(bytes); capacity++) {
        size_t n;

        memset(bytes, 0xee, sizeof(bytes));
        vp_event_begin(&record, bytes, capacity, 1.0, 300);
        vp_event_scalar(&record, "loss", -1, 2.5);
        vp_event_scalar(&record, "memory", 3, 1.0);
        n = vp_event_end(&record);
        n_whole += n > 0;
        assert_true(n <= capacity);
        for (size_t i = capacity; i < sizeof(bytes); i++)
            assert_int_equal(bytes[i], 0xee);
        assert_true(vp_event_version(1.0, bytes, capacity) <= capacity);
    }
    assert_true(n_whole > 100);
    vp_event_begin(&record, bytes, sizeof(bytes), 1.0, 300);
    vp_event_scalar(&record, "loss", -1, NAN);
    assert_int_equal(vp_event_end(&record), 0);
}

/* ---- Curves ------------------------------------------------------------- */

static void test_curve(void **state)
{
    struct vp_loss_curve curve = { .n_points = 0 };

    (void)state;
    vp_loss_curve_add(&curve, NAN);
    assert_int_equal(curve.n_points, 0);
    for (int i = 0; i < VP_LOSS_CURVE_POINTS; i++)
        vp_loss_curve_add(&curve, i);
    assert_int_equal(curve.n_points, VP_LOSS_CURVE_POINTS);
    assert_true(curve.points[7] == 7.0);
    for (int i = VP_LOSS_CURVE_POINTS; i < 1000; i++)
        vp_loss_curve_add(&curve, i);
    assert_int_equal(curve.every, 16);
    assert_int_equal(curve.n_points, 1000 / 16);
    for (int i = 0; i < curve.n_points; i++)
        assert_true(curve.points[i] == 16.0 * i + 7.5);
}

/* ---- The state of a run ------------------------------------------------- */

static struct vp_live_rank some_ranks[] = {
    { .number = 3, .doing = "forward", .stage = 0, .mb = 17, .seconds = 0.5 },
    { .number = 1, .doing = "receive", .stage = 1, .mb = 16, .waits = true },
    { .number = 2, .stage = -1, .mb = -1 },
};

static void make_live(struct vp_live *out)
{
    double *run = out->metrics.run;

    *out = (struct vp_live){
        .state = VP_LIVE_TRAINING,
        .number = 5,
        .version = "0.1.0",
        .host = "node-1",
        .pid = 4711,
        .model = "bert",
        .schedule = "zb-h1",
        .transport = "local",
        .stages = { { 0, 1, 0, 3 }, { 1, 2, 3, 4 } },
        .ranks = some_ranks,
        .n_ranks = 3,
    };
    vp_metrics_init(&out->metrics, 2);
    run[VP_RUN_METRIC_STEPS] = 17;
    run[VP_RUN_METRIC_TARGET_STEPS] = 100;
    run[VP_RUN_METRIC_LOSS] = 0.1;
    run[VP_RUN_METRIC_TOKENS_PER_SECOND] = 12345.678;
    out->metrics.stages[0][VP_STAGE_METRIC_MEMORY] = 1 << 20;
    out->metrics.stages[1][VP_STAGE_METRIC_MEMORY] = 3 << 20;
    out->metrics.stages[1][VP_STAGE_METRIC_FORWARDS] = 17;
    for (int i = 0; i < 5; i++)
        vp_loss_curve_add(&out->losses, 5.0 - i);
}

static void check_same(const struct vp_live *a, const struct vp_live *b)
{
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->pid, b->pid);
    assert_string_equal(a->host, b->host);
    assert_string_equal(a->version, b->version);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->schedule, b->schedule);
    assert_string_equal(a->transport, b->transport);
    assert_int_equal(a->metrics.n_stages, b->metrics.n_stages);
    for (int i = 0; i < VP_RUN_METRIC_COUNT; i++)
        assert_true(a->metrics.run[i] == b->metrics.run[i] ||
                    (isnan(a->metrics.run[i]) && isnan(b->metrics.run[i])));
    for (int s = 0; s < a->metrics.n_stages; s++) {
        assert_memory_equal(&a->stages[s], &b->stages[s], sizeof(a->stages[s]));
        for (int i = 0; i < VP_STAGE_METRIC_COUNT; i++) {
            double x = a->metrics.stages[s][i], y = b->metrics.stages[s][i];

            assert_true(x == y || (isnan(x) && isnan(y)));
        }
    }
    assert_int_equal(a->n_ranks, b->n_ranks);
    for (int r = 0; r < a->n_ranks; r++) {
        assert_int_equal(a->ranks[r].number, b->ranks[r].number);
        assert_string_equal(a->ranks[r].doing, b->ranks[r].doing);
        assert_int_equal(a->ranks[r].stage, b->ranks[r].stage);
        assert_int_equal(a->ranks[r].mb, b->ranks[r].mb);
        assert_int_equal(a->ranks[r].waits, b->ranks[r].waits);
        assert_true(a->ranks[r].seconds == b->ranks[r].seconds);
    }
    assert_int_equal(a->losses.n_points, b->losses.n_points);
    for (int i = 0; i < a->losses.n_points; i++)
        assert_true(a->losses.points[i] == b->losses.points[i]);
}

static void test_status_round_trip(void **state)
{
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct vp_live live, read;
    struct vp_err err = { .text = "" };

    (void)state;
    make_live(&live);
    vp_status_print(&live, &text);
    assert_int_equal(vp_status_parse("s", text.at, text.n_bytes, &read, &err),
                     VP_OK);
    check_same(&live, &read);
    vp_status_release(&read);
    /* A truncated file is refused in one line. */
    for (size_t n = 0; n + 1 < text.n_bytes; n++) {
        assert_int_equal(vp_status_parse("s", text.at, n, &read, &err),
                         VP_ERR_INVALID);
        assert_null(strchr(err.text, '\n'));
    }
    vp_strbuf_release(&text);
}

/* status.json is valid JSON with any text in it, and control characters in it
 * are not printed. */
static void test_status_hides_controls(void **state)
{
    static const char hostile[] = "{\"state\": \"failed\", \"line\": "
                                  "\"\\u001b[2J\\u009b31m\\u2028\\nx\\u00fc\","
                                  " \"host\": 7, \"pid\": \"x\", \"ranks\": "
                                  "[{\"doing\": \"\\u0007\\u007f\"}, 5], "
                                  "\"stages\": [null], \"losses\": [1, {}]}";
    struct vp_strbuf text = VP_STRBUF_INIT;
    struct vp_live live, read;
    struct vp_err err = { .text = "" };

    (void)state;
    make_live(&live);
    live.state = VP_LIVE_FAILED;
    snprintf(live.line, sizeof(live.line),
             "\x1b[31m\"red\"\\ \xff\xc3 \xc3\xbc\n");
    vp_status_print(&live, &text);
    for (size_t i = 0; i + 1 < text.n_bytes; i++)
        assert_true((unsigned char)text.at[i] >= ' ' || text.at[i] == '\n');
    assert_int_equal(vp_status_parse("s", text.at, text.n_bytes, &read, &err),
                     VP_OK);
    assert_string_equal(read.line, "?[31m?red?? ?? \xc3\xbc?");
    vp_status_release(&read);
    vp_strbuf_release(&text);
    assert_int_equal(
        vp_status_parse("s", hostile, sizeof(hostile) - 1, &read, &err), VP_OK);
    assert_string_equal(read.line, "?[2J??31m????x\xc3\xbc");
    assert_string_equal(read.ranks[0].doing, "??");
    assert_string_equal(read.host, "");
    assert_int_equal(read.n_ranks, 2);
    assert_int_equal(read.losses.n_points, 1);
    vp_status_release(&read);
}

static void test_prometheus(void **state)
{
    static const char want[] =
        "# HELP vpipe_build_info The version of vpipe.\n"
        "# TYPE vpipe_build_info gauge\n"
        "vpipe_build_info{version=\"0.1.0\"} 1\n"
        "# HELP vpipe_run_info What is trained, and how.\n"
        "# TYPE vpipe_run_info gauge\n"
        "vpipe_run_info{model=\"bert\",schedule=\"a\\\\b\\\"c\\nd\","
        "transport=\"local\"} 1\n"
        "# HELP vpipe_run_state 1 for the state of the run.\n"
        "# TYPE vpipe_run_state gauge\n"
        "vpipe_run_state{state=\"training\"} 1\n"
        "vpipe_run_state{state=\"evaluating\"} 0\n"
        "vpipe_run_state{state=\"done\"} 0\n"
        "vpipe_run_state{state=\"interrupted\"} 0\n"
        "vpipe_run_state{state=\"failed\"} 0\n"
        "# HELP vpipe_steps_total Steps done: updates, in asynchronous training "
        "minibatches.\n"
        "# TYPE vpipe_steps_total counter\n"
        "vpipe_steps_total 17\n"
        "# HELP vpipe_target_steps Steps after which the run ends.\n"
        "# TYPE vpipe_target_steps gauge\n"
        "vpipe_target_steps 100\n"
        "# HELP vpipe_loss Training loss of the last step.\n"
        "# TYPE vpipe_loss gauge\n"
        "vpipe_loss 0.10000000000000001\n"
        "# HELP vpipe_tokens_per_second Tokens per second of the last step, "
        "without padding.\n"
        "# TYPE vpipe_tokens_per_second gauge\n"
        "vpipe_tokens_per_second 12345.678\n"
        "# HELP vpipe_stage_forwards_total Minibatches whose forward is done.\n"
        "# TYPE vpipe_stage_forwards_total counter\n"
        "vpipe_stage_forwards_total{stage=\"1\"} 17\n"
        "# HELP vpipe_stage_memory_bytes Memory of each rank of the stage, as "
        "allocated.\n"
        "# TYPE vpipe_stage_memory_bytes gauge\n"
        "vpipe_stage_memory_bytes{stage=\"0\"} 1048576\n"
        "vpipe_stage_memory_bytes{stage=\"1\"} 3145728\n";
    struct vp_strbuf text = VP_STRBUF_INIT;
    static struct prom_text checked;
    struct vp_live live;

    (void)state;
    make_live(&live);
    snprintf(live.schedule, sizeof(live.schedule), "a\\b\"c\nd");
    vp_prometheus_print(&live, &text);
    assert_string_equal(vp_strbuf_text(&text), want);
    if (!prom_check(vp_strbuf_text(&text), &checked))
        fail_msg("%s", checked.why);
    assert_int_equal(checked.n_families, 9);
    vp_strbuf_clear(&text);
    for (int i = 0; i < VP_RUN_METRIC_COUNT; i++)
        live.metrics.run[i] = i;
    for (int i = 0; i < VP_STAGE_METRIC_COUNT; i++)
        live.metrics.stages[0][i] = live.metrics.stages[1][i] = 1e30 * i;
    vp_prometheus_print(&live, &text);
    if (!prom_check(vp_strbuf_text(&text), &checked))
        fail_msg("%s", checked.why);
    assert_int_equal(checked.n_families,
                     3 + VP_RUN_METRIC_COUNT + VP_STAGE_METRIC_COUNT);
    vp_strbuf_release(&text);
}

/* The checker of Prometheus text refuses wrong texts. */
static void test_prometheus_reader(void **state)
{
#define HEAD "# HELP vpipe_a Text.\n# TYPE vpipe_a gauge\n"
    static const char *const bad[] = {
        "",
        "\n",
        HEAD "vpipe_a 1",
        HEAD,
        HEAD "vpipe_a one\n",
        HEAD "vpipe_a  1\n",
        HEAD "vpipe_a 1 \n",
        HEAD "vpipe_b 1\n",
        HEAD "vpipe_a 1\nvpipe_a 2\n",
        HEAD "vpipe_a{x=1} 1\n",
        HEAD "vpipe_a{x=\"\\t\"} 1\n",
        HEAD "vpipe_a{x=\"1\" 1\n",
        HEAD "vpipe_a 1\n" HEAD "vpipe_a 1\n",
        "# TYPE vpipe_a gauge\nvpipe_a 1\n",
        "# HELP vpipe_a Text.\nvpipe_a 1\n",
        "# HELP a Text.\n# TYPE a gauge\na 1\n",
        "# HELP vpipe_a Text.\n# TYPE vpipe_a counter\nvpipe_a 1\n",
        "# HELP vpipe_a_total T.\n# TYPE vpipe_a_total gauge\nvpipe_a_total 1\n",
    };
    static struct prom_text text;

    (void)state;
    assert_true(prom_check(HEAD "vpipe_a{x=\"1\\n\",y=\"\"} -1e5\n", &text));
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (prom_check(bad[i], &text))
            fail_msg("accepted: %s", bad[i]);
}

/* ---- Files -------------------------------------------------------------- */

static char folder[] = "/tmp/vpipe-monitor-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[512];
    const struct dirent *entry;
    DIR *dir = opendir(folder);

    (void)state;
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path);
        rmdir(path);
    }
    if (dir)
        closedir(dir);
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void read_text(const char *path, char *out, size_t n_bytes)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(out, 1, n_bytes - 1, f) : 0;

    out[n] = '\0';
    if (f)
        fclose(f);
}

static void test_publish(void **state)
{
    char text[64];
    struct stat info;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_publish(in_folder("a"), "one\n", 4, &err), VP_OK);
    assert_int_equal(vp_publish(in_folder("a"), "two\n", 4, &err), VP_OK);
    read_text(in_folder("a"), text, sizeof(text));
    assert_string_equal(text, "two\n");
    assert_int_not_equal(access(in_folder("a.tmp"), F_OK), 0);
    assert_int_equal(mkdir(in_folder("b.tmp"), 0777), 0);
    assert_int_equal(vp_publish(in_folder("b"), "x", 1, &err), VP_ERR_IO);
    assert_int_equal(mkdir(in_folder("d"), 0777), 0);
    assert_int_equal(vp_publish(in_folder("d"), "x", 1, &err), VP_ERR_IO);
    assert_int_not_equal(access(in_folder("d.tmp"), F_OK), 0);
    rmdir(in_folder("d"));
    assert_int_equal(mkfifo(in_folder("c"), 0600), 0);
    assert_int_equal(vp_publish(in_folder("c"), "x", 1, &err), VP_ERR_IO);
    assert_int_equal(stat(in_folder("c"), &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    unlink(in_folder("c"));
    unlink(in_folder("a"));
    rmdir(in_folder("b.tmp"));
}

static const struct vp_memory stage_memory = { .total = 4096 };
static const struct vp_run_stage two_stages[] = {
    { .n_blocks = 2, .n_ranks = 1, .memory = &stage_memory },
    { .first_block = 2,
      .n_blocks = 3,
      .first_rank = 1,
      .n_ranks = 1,
      .memory = &stage_memory },
};

static struct vp_run_summary make_summary(void)
{
    return (struct vp_run_summary){
        .model = "gpt2",
        .schedule = "1f1b",
        .transport = "local",
        .output = folder,
        .n_steps = 100000,
        .stages = two_stages,
        .n_stages = 2,
        .n_ranks = 2,
    };
}

static struct vp_step_report make_report(int64_t step)
{
    static struct vp_stage_price prices[2];

    return (struct vp_step_report){
        .step = step,
        .n_steps = 100000,
        .minibatch = step,
        .loss = 3.0,
        .lr = 0.5,
        .grad_norm = 1.0,
        .n_samples = 4,
        .n_tokens = 64,
        .seconds = 0.25,
        .flops = 1e9,
        .bubble = 0.125,
        .prices = prices,
        .n_stages = 2,
    };
}

static void test_monitor(void **state)
{
    char prometheus[600];
    const struct vp_config keys = { .tensorboard = true,
                                    .prometheus_file = prometheus };
    const struct vp_monitor_config config = { .config = &keys,
                                              .version = "1.2.3" };
    const struct vp_run_summary summary = make_summary();
    struct vp_stage_stats stats[2] = { { .forward_ns = 100000000 },
                                       { .wait_ns = 1 } };
    struct vp_monitor *monitor = NULL;
    struct vp_err err = { .text = "" };
    static struct prom_text checked;
    static char text[100000];
    struct vp_live live;

    (void)state;
    snprintf(prometheus, sizeof(prometheus), "%s/v.prom", folder);
    assert_int_equal(vp_monitor_start(&config, &summary, &monitor, &err),
                     VP_OK);
    for (int64_t step = 1; step <= 10; step++) {
        struct vp_step_report report = make_report(step);

        vp_monitor_stages(monitor, stats);
        vp_monitor_step(monitor, &report);
    }
    vp_monitor_eval(monitor, 10, 2.5);
    vp_monitor_saved(monitor, 10);
    assert_int_equal(vp_monitor_stop(monitor, VP_ERR_IO, "a\tfault", &err),
                     VP_OK);
    assert_int_equal(vp_status_read(folder, &live, &err), VP_OK);
    assert_int_equal(live.state, VP_LIVE_FAILED);
    assert_string_equal(live.line, "a?fault");
    assert_string_equal(live.version, "1.2.3");
    assert_int_equal(live.n_ranks, 2);
    assert_true(live.metrics.run[VP_RUN_METRIC_STEPS] == 10.0);
    assert_true(live.metrics.run[VP_RUN_METRIC_TOKENS] == 640.0);
    assert_true(live.metrics.run[VP_RUN_METRIC_TOKENS_PER_SECOND] == 256.0);
    assert_true(live.metrics.run[VP_RUN_METRIC_EVAL_LOSS] == 2.5);
    assert_true(live.metrics.run[VP_RUN_METRIC_CHECKPOINT_STEP] == 10.0);
    assert_true(fabs(live.metrics.run[VP_RUN_METRIC_ETA_SECONDS] -
                     0.25 * (100000 - 10)) < 1e-6);
    assert_true(live.metrics.stages[0][VP_STAGE_METRIC_FORWARD_SECONDS] == 0.1);
    assert_int_equal(live.losses.n_points, 10);
    vp_status_release(&live);
    read_text(prometheus, text, sizeof(text));
    if (!prom_check(text, &checked))
        fail_msg("%s", checked.why);
    assert_non_null(strstr(text, "vpipe_run_state{state=\"failed\"} 1\n"));
}

/* If the folder disappears, files are lost, and one message says so at the
 * end. */
static void test_monitor_without_a_folder(void **state)
{
    const struct vp_config keys = { .tensorboard = false };
    const struct vp_monitor_config config = { .config = &keys,
                                              .version = "1.2.3" };
    struct vp_run_summary summary = make_summary();
    char path[512];
    struct vp_step_report report = make_report(1);
    struct vp_monitor *monitor = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    snprintf(path, sizeof(path), "%s/gone", folder);
    summary.output = path;
    assert_int_equal(vp_monitor_start(&config, &summary, &monitor, &err),
                     VP_OK);
    vp_monitor_step(monitor, &report);
    assert_int_equal(vp_monitor_stop(monitor, VP_OK, "", &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "gone/status.json"));
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(vp_monitor_stop(NULL, VP_OK, "", &err), VP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_event_records),
        cmocka_unit_test(test_event_room),
        cmocka_unit_test(test_curve),
        cmocka_unit_test(test_status_round_trip),
        cmocka_unit_test(test_status_hides_controls),
        cmocka_unit_test(test_prometheus),
        cmocka_unit_test(test_prometheus_reader),
        cmocka_unit_test(test_publish),
        cmocka_unit_test(test_monitor),
        cmocka_unit_test(test_monitor_without_a_folder),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
