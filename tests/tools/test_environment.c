/* The program ends with one line and damages no file if descriptors are closed,
 * the shell sets limits, or files are not what they should be. */
#include "base/status.h"
#include "lib/removelib.h"

#include <dirent.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { MAX_ARGS = 32, MAX_TEXT = 1 << 16, LIMIT_SECONDS = 60 };

static char temp_folder[] = "/tmp/vpipe_environment_XXXXXX";

/* A model with steps of a few milliseconds. */
static const char model[] =
    "model_type: bert\nvocab: 64\nhidden: 16\nlayers: 2\nheads: 2\n"
    "positions: 16\nsynthetic_data: true\nseq_length: 8\nbatch_size: 2\n"
    "device: cpu\nthreads_per_stage: 1\nstages: 2\naccumulation_steps: 2\n"
    "total_steps: 4\nprint_frequency: 1\n";

/* ---- Files -------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void read_text(const char *path, char text[MAX_TEXT])
{
    FILE *file = fopen(path, "r");

    text[0] = '\0';
    if (!file)
        return;
    text[fread(text, 1, MAX_TEXT - 1, file)] = '\0';
    fclose(file);
}

static void remove_all(const char *path)
{
    remove_tree(path);
}

static int enter_temp_folder(void **state)
{
    (void)state;
    if (!mkdtemp(temp_folder) || chdir(temp_folder) != 0)
        return 1;
    write_text("model.yml", model);
    return 0;
}

static int leave_temp_folder(void **state)
{
    (void)state;
    remove_all(temp_folder);
    return 0;
}

static int count_lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* ---- Running the program ------------------------------------------------ */

struct result {
    int status; /* exit status, or minus the number of a signal */
    char out[MAX_TEXT], err[MAX_TEXT];
};

static struct result result;

/* Runs in the child before exec(). */
typedef void (*prepare_fn)(void);

static void redirect(int fd, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (file < 0 || dup2(file, fd) < 0)
        _exit(126);
    close(file);
}

/* Starts the program in the child. The alarm survives exec() and ends a program
 * that hangs. */
static void start(const char *program, char *const *argv, prepare_fn prepare)
{
    int input = open("/dev/null", O_RDONLY);

    dup2(input, STDIN_FILENO);
    close(input);
    redirect(STDOUT_FILENO, "out");
    redirect(STDERR_FILENO, "err");
    signal(SIGPIPE, SIG_DFL); /* the parent may have changed these */
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGXCPU, SIG_DFL);
    alarm(LIMIT_SECONDS);
    if (prepare)
        prepare();
    execv(program, argv);
    _exit(127);
}

/* Runs the program with `words`, which end with NULL, as arguments. */
static void run_program(const char *program, prepare_fn prepare, va_list words)
{
    char *argv[MAX_ARGS] = { "vpipe" };
    int status = 0;
    pid_t pid;

    for (int i = 1; (argv[i] = va_arg(words, char *)); i++)
        assert_true(i < MAX_ARGS - 1);
    pid = fork();
    if (pid == 0)
        start(program, argv, prepare);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    read_text("out", result.out);
    read_text("err", result.err);
}

static void run(prepare_fn prepare, ...)
{
    va_list words;

    va_start(words, prepare);
    run_program(VP_PROGRAM, prepare, words);
    va_end(words);
}

static void expect(int status)
{
    if (result.status != status)
        fail_msg("status %d, not %d; stdout:\n%s\nstderr:\n%s", result.status,
                 status, result.out, result.err);
}

static void expect_line(int status, const char *part)
{
    expect(status);
    if (count_lines(result.err) != 1 || !strstr(result.err, part))
        fail_msg("not one line with '%s': %s", part, result.err);
}

/* ---- Standard descriptors ----------------------------------------------- */

static int closed; /* bit set of closed descriptors */

static void close_some(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (closed & 1 << fd)
            close(fd);
}

/* Checks that no printed text was written to a file of the run folder. */
static void check_folder(const char *folder)
{
    static char text[MAX_TEXT];
    DIR *list = opendir(folder);
    const struct dirent *entry;
    char path[512];

    assert_non_null(list);
    while ((entry = readdir(list))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        read_text(path, text);
        if (strstr(text, "model     bert") || strstr(text, "non-finite"))
            fail_msg("descriptors %d: %s holds what was printed:\n%s", closed,
                     path, text);
    }
    closedir(list);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    read_text(path, text);
    if (count_lines(text) != 5) /* the last one is the forecast */
        fail_msg("descriptors %d: %s", closed, text);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_memory_equal(line, "{\"step\": ", 9);
}

static void closed_descriptors_damage_no_file(void **state)
{
    (void)state;
    for (closed = 0; closed < 8; closed++) {
        run(close_some, "train", "model.yml", "--output", "closed", NULL);
        expect(0);
        check_folder("closed");
        remove_all("closed");
    }
}

/* An error gives its exit status even if stderr is closed. */
static void errors_have_their_status_unheard(void **state)
{
    (void)state;
    for (closed = 0; closed < 8; closed++) {
        run(close_some, "train", "model.yml", "--set", "hidden=-1", NULL);
        expect(2);
        if (!(closed & 4))
            expect_line(2, "key 'hidden'");
    }
}

static void fill_stdout(void)
{
    redirect(STDOUT_FILENO, "/dev/full");
}

static void a_full_disk_behind_stdout_is_an_error(void **state)
{
    static const char line[] = "vpipe: cannot write the output: No space left "
                               "on device; free some space\n";
    static char *const commands[][8] = {
        { "--help" },
        { "--version" },
        { "info" },
        { "schedule", "1f1b", "--stages", "2", "--minibatches", "4" },
        { "trace", "full" },
        { "train", "model.yml", "--dry-run" },
        { "train", "model.yml", "--explain" },
        { "train", "model.yml", "--output", "full2" },
        { "compare", "model.yml", "--max-steps", "1", "--output", "full3" },
    };

    (void)state;
    run(NULL, "train", "model.yml", "--output", "full", "--quiet", NULL);
    expect(0);
    for (size_t i = 0; i < VP_COUNT_OF(commands); i++) {
        char *const *w = commands[i];

        run(fill_stdout, w[0], w[1], w[2], w[3], w[4], w[5], w[6], NULL);
        expect(1);
        if (strcmp(result.err, line) != 0)
            fail_msg("%s: %s", w[0], result.err);
    }
}

static void break_stdout(void)
{
    int ends[2];

    if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0)
        _exit(126);
    close(ends[0]);
    close(ends[1]);
}

/* If the reader of stdout has gone, the run is saved and ends with one line,
 * not by SIGPIPE. */
static void a_reader_that_has_gone_stops_cleanly(void **state)
{
    (void)state;
    run(break_stdout, "train", "model.yml", "--output", "unread", NULL);
    expect(3);
    assert_int_equal(access("unread/checkpoints", F_OK), 0);
    assert_string_equal(result.err,
                        "vpipe: the output is not read any more (closed pipe): "
                        "the run was saved and stopped; go on with --resume "
                        "unread, or send the output to a file\n");
    run(break_stdout, "compare", "model.yml", "--max-steps", "1", "--output",
        "unread2", NULL);
    expect(3);
}

static void break_stdout_without_signal(void)
{
    break_stdout();
    signal(SIGPIPE, SIG_IGN); /* some parents ignore it */
}

/* Commands that only print succeed if the reader has closed the pipe. */
static void a_closed_pipe_is_no_error(void **state)
{
    static char *const commands[][8] = {
        { "--help" },
        { "schedule", "1f1b", "--stages", "2", "--minibatches", "4" },
        { "train", "model.yml", "--dry-run" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(commands); i++) {
        char *const *w = commands[i];

        run(break_stdout_without_signal, w[0], w[1], w[2], w[3], w[4], w[5],
            w[6], NULL);
        expect(0);
        assert_string_equal(result.err, "");
    }
}

/* ---- Terminals ---------------------------------------------------------- */

static int columns; /* width of the terminal */
static const char *ci, *term = "xterm";

static void use_terminal(void)
{
    const struct winsize size = { .ws_row = 24,
                                  .ws_col = (unsigned short)columns };
    int master, terminal;

    if (openpty(&master, &terminal, NULL, NULL, &size) != 0)
        _exit(126);
    setenv("TERM", term, 1);
    if (columns < 80)
        setenv("NO_COLOR", "1", 1); /* colors would count as columns */
    if (ci)
        setenv("CI", ci, 1);
    else
        unsetenv("CI");
    if (fork() == 0) { /* copies the terminal's output to the file */
        char text[4096];
        ssize_t n;

        close(terminal);
        while ((n = read(master, text, sizeof(text))) > 0)
            (void)!write(STDOUT_FILENO, text, (size_t)n);
        _exit(0);
    }
    close(master);
    dup2(terminal, STDOUT_FILENO);
    close(terminal);
}

/* Waits until the terminal has shown `last`, and reads its output. */
static void look_at_terminal(const char *last)
{
    for (int i = 0; i < 500 && !strstr(result.out, last); i++) {
        usleep(10000);
        read_text("out", result.out);
    }
    if (!strstr(result.out, last))
        fail_msg("no '%s' in: %s", last, result.out);
}

/* The terminal of a CI job is a log: the program draws no line over another. */
static void a_terminal_of_ci_is_a_log(void **state)
{
    static const struct {
        const char *ci, *term;
        bool draws;
    } cases[] = {
        { "true", "xterm", false }, { "1", "xterm", false },
        { "false", "xterm", true }, { "", "xterm", true },
        { NULL, "xterm", true },    { NULL, "dumb", false },
        { NULL, "", false },
    };

    (void)state;
    columns = 80;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        ci = cases[i].ci;
        term = cases[i].term;
        run(use_terminal, "train", "model.yml", "--output", "shown", NULL);
        expect(0);
        look_at_terminal("--dry-run");
        assert_int_equal(strchr(result.out, '\x1b') != NULL, cases[i].draws);
        assert_int_equal(strstr(result.out, "\nstep 4/4  loss ") != NULL,
                         !cases[i].draws);
        remove_all("shown");
    }
    ci = NULL;
    term = "xterm";
}

/* Checks that no line is wider than the terminal, except for commands to
 * repeat. */
static void check_width(void)
{
    for (char *line = result.out; *line;) {
        int n = (int)strcspn(line, "\r\n");

        if (n > columns && !strstr(line, VP_PROGRAM))
            fail_msg("%d columns: %.*s", columns, n, line);
        line += n + (int)strspn(line + n, "\r\n");
    }
}

static void a_narrow_terminal_breaks_between_words(void **state)
{
    static const struct {
        char *words[8];
        const char *last;
    } commands[] = {
        { { "help", "train" }, "resume" },
        { { "help", "schedule" }, "this text" },
        { { "help", "compare" }, "this text" },
        { { "info" }, "NCCL" },
        { { "schedule", "1f1b", "--stages", "2", "--minibatches", "4" },
          "theory=" },
        { { "train", "model.yml", "--dry-run" }, "dry run: " },
        { { "trace", "narrow" }, "\nall" },
    };

    (void)state;
    run(NULL, "train", "model.yml", "--output", "narrow", NULL);
    expect(0);
    for (columns = 40; columns <= 60; columns += 10)
        for (size_t i = 0; i < VP_COUNT_OF(commands); i++) {
            char *const *w = commands[i].words;

            run(use_terminal, w[0], w[1], w[2], w[3], w[4], w[5], w[6], NULL);
            expect(0);
            look_at_terminal(commands[i].last);
            check_width();
        }
    remove_all("narrow");
}

/* ---- Limits of the shell ------------------------------------------------ */

static rlim_t file_limit;

static void limit_files(void)
{
    const struct rlimit limit = { file_limit, file_limit };

    setrlimit(RLIMIT_FSIZE, &limit);
}

/* With ulimit -f, a file that becomes too large is an error with a remedy, and
 * SIGXFSZ does not end the program. */
static void a_limit_of_files_is_an_error(void **state)
{
    static const struct {
        rlim_t limit;
        char *steps, *every;
        const char *line;
    } cases[] = {
        { 1000, "4", "1000",
          "limited/config.yml: cannot be written: File too large; raise the "
          "limit of file sizes (ulimit -f)\n" },
        { 65000, "500", "1000",
          "limited/metrics.jsonl: cannot be written (File too large); raise "
          "the limit of file sizes (ulimit -f)\n" },
        { 65000, "500", "50",
          "limited/metrics.jsonl: cannot be written (File too large); raise "
          "the limit of file sizes (ulimit -f), then go on with --resume "
          "limited\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char steps[32], every[32];

        file_limit = cases[i].limit;
        snprintf(steps, sizeof(steps), "total_steps=%s", cases[i].steps);
        snprintf(every, sizeof(every), "checkpoint_every=%s", cases[i].every);
        run(limit_files, "train", "model.yml", "--output", "limited", "--quiet",
            "--set", steps, "--set", every, NULL);
        expect(1);
        assert_string_equal(result.err, cases[i].line);
        remove_all("limited");
    }
}

static void limit_time(void)
{
    const struct rlimit limit = { 1, 60 };

    setrlimit(RLIMIT_CPU, &limit);
}

/* With ulimit -t, the run stops with a checkpoint, although the kernel repeats
 * SIGXCPU every second. */
static void a_limit_of_time_stops_cleanly(void **state)
{
    (void)state;
    run(limit_time, "train", "model.yml", "--output", "timed", "--quiet",
        "--set", "total_steps=1000000", "--set", "accumulation_steps=2000",
        NULL);
    expect(3);
    assert_int_equal(access("timed/checkpoints", F_OK), 0);
}

static rlim_t space_limit;

static void limit_address_space(void)
{
    const struct rlimit limit = { space_limit, space_limit };

    setrlimit(RLIMIT_AS, &limit);
}

static void limit_data(void)
{
    const struct rlimit limit = { space_limit, space_limit };

    setrlimit(RLIMIT_DATA, &limit);
}

/* With ulimit -v or -d, a run is refused if the address space would be too
 * small for oneDNN, which would crash. With enough address space it trains. */
static void a_limit_of_address_space_is_refused(void **state)
{
    enum { STEP = 40, FIRST = 120, LAST = 440 };
    const char *part = " of address space, ulimit -v or -d leaves ";
    bool trained = false;

    (void)state;
    if (SANITIZED) {
        print_message("skipped: sanitizers need all address space\n");
        skip();
    }
    for (rlim_t n = FIRST; n <= LAST; n += STEP) {
        space_limit = n << 20;
        run(limit_address_space, "train", "model.yml", "--output", "space",
            "--quiet", NULL);
        trained = result.status == 0;
        if (!trained)
            expect_line(2, part);
        remove_all("space");
    }
    assert_true(trained);
    space_limit = (rlim_t)150 << 20;
    run(limit_data, "train", "model.yml", "--output", "space", NULL);
    expect_line(2, part);
}

/* ---- The run folder ----------------------------------------------------- */

/* The message is about the place, not about missing disk space. */
static void a_place_without_folders_is_named(void **state)
{
    (void)state;
    run(NULL, "train", "model.yml", "--output", "/proc/x", NULL);
    expect_line(2, "/proc/x: cannot create the folder (");
    run(NULL, "train", "model.yml", "--set", "log_directory=/proc/x/y", NULL);
    expect_line(2, ": cannot create the folder (");
    run(NULL, "train", "model.yml", "--output", "model.yml/x", NULL);
    expect_line(2, "model.yml is a file, not a folder; choose another "
                   "--output or log_directory");
}

/* The folder of a live run is refused, whatever its lock file contains. */
static void a_live_run_is_named(void **state)
{
    static const struct {
        const char *lock, *who;
    } cases[] = {
        { "", "" },
        { "123 n1\n", " (process 123 on host n1)" },
        { "nonsense", "" },
    };

    (void)state;
    assert_int_equal(mkdir("live", 0777), 0);
    assert_int_equal(mkdir("live/checkpoints", 0777), 0);
    write_text("live/metrics.jsonl", "{\"step\": 1}\n");
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char want[256];
        int fd;

        write_text("live/lock", cases[i].lock);
        fd = open("live/lock", O_RDWR);
        assert_int_equal(flock(fd, LOCK_EX), 0);
        snprintf(want, sizeof(want),
                 "live: a run is live there%s; choose another --output, or "
                 "wait for its end\n",
                 cases[i].who);
        run(NULL, "train", "model.yml", "--output", "live", NULL);
        expect_line(2, want);
        run(NULL, "train", "model.yml", "--resume", "live", NULL);
        expect_line(2, want);
        run(NULL, "train", "model.yml", "--resume", "live", "--dry-run", NULL);
        expect_line(2, want);
        close(fd);
    }
    run(NULL, "train", "model.yml", "--output", "live", NULL);
    expect_line(2, "live holds a run already, without a checkpoint");
    remove_all("live");
}

static void a_run_signs_its_lock(void **state)
{
    char text[MAX_TEXT], host[256];
    int pid = 0;

    (void)state;
    assert_int_equal(mkdir("signed", 0777), 0);
    write_text("signed/lock", "a longer line of an earlier run 1234567890\n");
    run(NULL, "train", "model.yml", "--output", "signed", NULL);
    expect(0);
    read_text("signed/lock", text);
    assert_int_equal(sscanf(text, "%d %255s", &pid, host), 2);
    assert_int_equal(count_lines(text), 1);
    assert_int_equal(strcspn(text, "\n") + 1, strlen(text));
    assert_true(pid > 1);
    remove_all("signed");
}

/* ---- Files that are pipes ----------------------------------------------- */

/* Starts a process that writes `text` to the FIFO after 200 ms, in two pieces.
 * Returns its id. */
static pid_t write_late(const char *path, const char *text)
{
    pid_t pid = fork();

    if (pid == 0) {
        size_t n = strlen(text), half = n / 2;
        int fd;

        alarm(60);
        usleep(200000);
        fd = open(path, O_WRONLY);
        (void)!write(fd, text, half);
        usleep(100000);
        _exit(write(fd, text + half, n - half) != (ssize_t)(n - half));
    }
    return pid;
}

static void a_configuration_may_come_by_a_pipe(void **state)
{
    static char text[MAX_TEXT];
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(mkfifo("fifo", 0666), 0);
    pid = write_late("fifo", model);
    run(NULL, "train", "fifo", "--output", "piped", NULL);
    expect(0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    read_text("piped/metrics.jsonl", text);
    assert_int_equal(count_lines(text), 5);
    /* Processes of other ranks would have to read the pipe again. */
    pid = write_late("fifo", model);
    run(NULL, "train", "fifo", "--set", "distributed_backend=mpi", NULL);
    expect_line(2, "fifo: every rank reads the configuration, and a pipe can "
                   "be read once; write it to a file");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(remove("fifo"), 0);
}

/* The program opens no other FIFO for reading or writing, which would block
 * it. */
static void a_fifo_does_not_hang(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("fifo", 0666), 0);
    assert_int_equal(mkdir("shards", 0777), 0);
    assert_int_equal(mkfifo("shards/x_training_1.hdf5", 0666), 0);
    run(NULL, "train", "model.yml", "--set", "config=fifo", NULL);
    expect_line(2, "key 'config': fifo: is not a file; give a JSON file");
    run(NULL, "train", "model.yml", "--set", "config_file=fifo", NULL);
    expect_line(2, "fifo: is not a file; give a JSON file");
    run(NULL, "train", "model.yml", "--set", "partition=fifo", NULL);
    expect_line(2, "fifo: is not a file; give a JSON file");
    run(NULL, "train", "model.yml", "--set", "synthetic_data=false", "--set",
        "data_dir=fifo", NULL);
    expect_line(2, "fifo: neither a file nor a folder");
    run(NULL, "train", "model.yml", "--set", "synthetic_data=false", "--set",
        "data_dir=shards", NULL);
    expect_line(2, "x_training_1.hdf5: is not a file; move it out of data_dir");
    run(NULL, "trace", "fifo", NULL);
    expect_line(2, "fifo: is not a file; give a run folder or its trace.json");
    run(NULL, "schedule", "fifo", NULL);
    expect_line(2, "'fifo' is neither a schedule nor a readable file");
    run(NULL, "schedule", "1f1b", "--stages", "2", "--minibatches", "2",
        "--svg", "fifo", NULL);
    expect_line(2, "fifo: cannot be written (No such device or address)");
    run(NULL, "train", "model.yml", "--output", "fifo", NULL);
    expect_line(2, "fifo is a file, not a folder");
    assert_int_equal(remove("fifo"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_descriptors_damage_no_file),
        cmocka_unit_test(errors_have_their_status_unheard),
        cmocka_unit_test(a_full_disk_behind_stdout_is_an_error),
        cmocka_unit_test(a_reader_that_has_gone_stops_cleanly),
        cmocka_unit_test(a_closed_pipe_is_no_error),
        cmocka_unit_test(a_terminal_of_ci_is_a_log),
        cmocka_unit_test(a_narrow_terminal_breaks_between_words),
        cmocka_unit_test(a_limit_of_files_is_an_error),
        cmocka_unit_test(a_limit_of_time_stops_cleanly),
        cmocka_unit_test(a_limit_of_address_space_is_refused),
        cmocka_unit_test(a_place_without_folders_is_named),
        cmocka_unit_test(a_live_run_is_named),
        cmocka_unit_test(a_run_signs_its_lock),
        cmocka_unit_test(a_configuration_may_come_by_a_pipe),
        cmocka_unit_test(a_fifo_does_not_hang),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
