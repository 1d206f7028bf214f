/* How ranks are started: the command, word by word, containers, what is left
 * out when a host is lost, and processes that end with their group. */
#include "config/hosts.h"
#include "config/load.h"
#include "config/shrink.h"
#include "job/container.h"
#include "job/mpirun.h"
#include "job/process.h"
#include "job/processes.h"
#include "job/relay.h"
#include "run/folder.h"
#include "lib/tempfolder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

#define NINE "model_type: bert\nlayers: 4\n"

static void load(const char *yaml, struct vp_config *out)
{
    struct vp_err err = { .text = "" };

    if (vp_config_parse("a.yml", yaml, strlen(yaml), NULL, 0, out, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
}

/* Words with spaces between them. */
static char *join(const struct vp_words *words)
{
    static char text[8192];
    size_t n = 0;

    text[0] = '\0';
    for (int i = 0; i < words->n; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "",
                              words->at[i]);
    assert_false(words->failed);
    return text;
}

/* An executable file that does what `text` says. */
static void make_tool(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "bin/%s", name);
    write_text(path, text);
    assert_int_equal(chmod(path, 0755), 0);
}

/* Only what a test makes is found in PATH. */
static void use_own_path(void)
{
    char here[512], path[600];

    assert_non_null(getcwd(here, sizeof(here)));
    assert_true(mkdir("bin", 0777) == 0 || errno == EEXIST);
    snprintf(path, sizeof(path), "%s/bin", here);
    assert_int_equal(setenv("PATH", path, 1), 0);
}

/* ---- The command -------------------------------------------------------- */

static const char *make_command(int version, const char *yaml,
                                struct vp_words *out)
{
    const struct vp_mpirun mpirun = { .version = version };
    struct vp_words rank = { 0 };
    struct vp_config config;
    struct vp_err err = { .text = "" };

    load(yaml, &config);
    vp_words_add(&rank, "/bin/vpipe");
    vp_words_add(&rank, "train");
    vp_words_add(&rank, "a b; $(c).yml");
    if (vp_mpirun_make(&mpirun, &config, "/run", &rank, out, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_words_release(&rank);
    vp_config_release(&config);
    return join(out);
}

/* `want` has @ where the options for root and for many ranks stand. */
static void check_command(int version, const char *yaml, int n_ranks,
                          const char *want)
{
    static const char *const root[] = { "", "--allow-run-as-root " };
    static const char *const crowd[] = {
        "--oversubscribe --mca mpi_yield_when_idle 1 ",
        "--map-by :OVERSUBSCRIBE --mca mpi_yield_when_idle 1 ",
    };
    bool is_crowded = n_ranks >= sysconf(_SC_NPROCESSORS_ONLN);
    struct vp_words words = { 0 };
    char text[2048];
    const char *at = strchr(want, '@');

    snprintf(text, sizeof(text), "%.*s%s%s%s", (int)(at - want), want,
             root[geteuid() == 0], is_crowded ? crowd[version >= 5] : "",
             at + 1);
    assert_string_equal(make_command(version, yaml, &words), text);
    /* One word is one argument, whatever it holds. */
    assert_string_equal(words.at[words.n - 1], "a b; $(c).yml");
    vp_words_release(&words);
}

#define RANKS "/bin/vpipe train a b; $(c).yml"

/* Ranks of one machine have no need of a network, and are given none. */
static void test_command(void **state)
{
    static const char here[] = NINE "stages: 2\ndistributed_backend: mpi\n"
                                    "network_interface: eth7\n";

    (void)state;
    clearenv();
    setenv("VPIPE_SUPERVISOR", "secret", 1);
    setenv("HOME", "/root", 1);
    check_command(4, here, 2,
                  "mpirun --quiet --bind-to none @--mca pml ob1 --mca btl "
                  "self,vader --hostfile /run/machinefile -x VPIPE_SUPERVISOR "
                  "-n 2 " RANKS);
    check_command(
        5, here, 2,
        "mpirun --bind-to none @--mca pml ob1 --mca btl self,sm "
        "--hostfile /run/machinefile -x VPIPE_SUPERVISOR -n 2 " RANKS);
    check_command(0, here, 2,
                  "mpirun --quiet --bind-to none @--hostfile /run/machinefile "
                  "-x VPIPE_SUPERVISOR -n 2 " RANKS);
    setenv("OMPI_MCA_btl", "self,tcp", 1); /* is the user's to choose */
    check_command(4, here, 2,
                  "mpirun --quiet --bind-to none @--mca pml ob1 --hostfile "
                  "/run/machinefile -x VPIPE_SUPERVISOR -n 2 " RANKS);
    unsetenv("OMPI_MCA_btl");
}

static void test_command_for_hosts(void **state)
{
    static const char hosts[] = NINE "stages: 4\nnetwork_interface: eth7\n"
                                     "machines: ['b:0', 'b:1', 'a:0', 'b:2']\n";

    (void)state;
    clearenv();
    setenv("VPIPE_SUPERVISOR", "secret", 1);
    check_command(
        4, hosts, 3,
        "mpirun --quiet --bind-to none @--mca btl_tcp_if_include eth7 "
        "--mca oob_tcp_if_include eth7 --hostfile /run/machinefile -x "
        "VPIPE_SUPERVISOR -n 2 --host b:2 " RANKS
        " : -x VPIPE_SUPERVISOR -n 1 --host a:1 " RANKS
        " : -x VPIPE_SUPERVISOR -n 1 --host b:1 " RANKS);
    check_command(
        5, hosts, 3,
        "mpirun --bind-to none @--mca btl_tcp_if_include eth7 "
        "--prtemca prte_if_include eth7 --hostfile /run/machinefile -x "
        "VPIPE_SUPERVISOR -n 2 --host b:2 " RANKS
        " : -x VPIPE_SUPERVISOR -n 1 --host a:1 " RANKS
        " : -x VPIPE_SUPERVISOR -n 1 --host b:1 " RANKS);
}

/* ---- What mpirun is asked and given ------------------------------------- */

static const char *value_of(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

/* The version that this tool says, with a configuration. */
static void open_mpirun(const char *says, const char *yaml,
                        struct vp_mpirun *out)
{
    struct vp_err err = { .text = "" };
    struct vp_config config;
    char tool[256];

    clearenv();
    use_own_path();
    snprintf(tool, sizeof(tool), "#!/bin/sh\necho '%s'\necho more\n", says);
    make_tool("mpirun", tool);
    load(yaml, &config);
    if (vp_mpirun_open(&config, out, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_config_release(&config);
}

static void test_mpirun(void **state)
{
    static const char here[] = NINE "stages: 2\ndistributed_backend: mpi\n";
    static const char hosts[] = NINE "stages: 2\nmachines: ['b:0', 'c:0']\n";
    struct vp_mpirun mpirun;
    char path[128];

    (void)state;
    open_mpirun("mpirun (Open MPI) 4.1.4", here, &mpirun);
    assert_int_equal(mpirun.version, 4);
    assert_string_equal(value_of("OMPI_MCA_orte_tmpdir_base"),
                        mpirun.session.path);
    assert_string_equal(value_of("OMPI_MCA_btl_vader_backing_directory"),
                        mpirun.memory.path);
    snprintf(path, sizeof(path), "%s", mpirun.memory.path);
    assert_int_equal(access(path, W_OK), 0);
    vp_mpirun_close(&mpirun);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_string_equal(value_of("OMPI_MCA_orte_tmpdir_base"), "");
    assert_string_equal(value_of("OMPI_MCA_btl_vader_backing_directory"), "");

    open_mpirun("mpirun (Open MPI) 5.0.3", here, &mpirun);
    assert_int_equal(mpirun.version, 5);
    assert_string_equal(value_of("PRTE_MCA_prte_tmpdir_base"),
                        mpirun.session.path);
    assert_string_equal(value_of("OMPI_MCA_btl_sm_backing_directory"),
                        mpirun.memory.path);
    vp_mpirun_close(&mpirun);

    /* On other hosts there are no such folders. */
    open_mpirun("mpirun (Open MPI) 4.1.4", hosts, &mpirun);
    assert_int_equal(mpirun.version, 4);
    assert_string_equal(value_of("OMPI_MCA_orte_tmpdir_base"), "");
    vp_mpirun_close(&mpirun);
    open_mpirun("HYDRA build details:", here, &mpirun);
    assert_int_equal(mpirun.version, 0);
    vp_mpirun_close(&mpirun);
}

static void test_no_mpirun(void **state)
{
    struct vp_config config;
    struct vp_err err = { .text = "" };

    (void)state;
    use_own_path();
    make_tool("mpirun", "#!/bin/sh\n");
    load(NINE "stages: 2\ndistributed_backend: mpi\n", &config);
    assert_int_equal(vp_mpirun_find(&config, &err), VP_OK);
    assert_int_equal(remove("bin/mpirun"), 0);
    assert_int_equal(vp_mpirun_find(&config, &err), VP_ERR_UNSUPPORTED);
    assert_string_equal(err.text,
                        "mpirun: is not in PATH, and ranks that are processes "
                        "need it; install Open MPI (Debian: openmpi-bin), or "
                        "set distributed_backend: local");
    vp_config_release(&config);
    load(NINE "stages: 2\nmachines: ['b:0', 'c:0']\n", &config);
    assert_int_equal(vp_mpirun_find(&config, &err), VP_ERR_UNSUPPORTED);
    assert_null(strstr(err.text, "local"));
    vp_config_release(&config);
}

static void test_hosts(void **state)
{
    struct vp_config config;

    (void)state;
    load(NINE "stages: 3\nmachines: ['localhost:0', '127.0.0.1:0', "
              "'localhost:1']\n",
         &config);
    assert_true(vp_hosts_are_here(&config));
    assert_false(vp_config_is_distributed(&config));
    assert_int_equal(vp_hosts_crowd(&config), 2);
    assert_int_equal(vp_hosts_run(&config, 0), 1);
    vp_config_release(&config);
    load(NINE "stages: 2\ndistributed_backend: nccl\n", &config);
    assert_true(vp_config_is_distributed(&config));
    assert_string_equal(vp_processes_transport(&config), "nccl");
    vp_config_release(&config);
    load(NINE "stages: 3\ndistributed_backend: gloo\n"
              "machines: ['n1:0', 'n1:1', 'localhost:1']\n",
         &config);
    assert_false(vp_hosts_are_here(&config));
    assert_true(vp_config_is_distributed(&config));
    assert_string_equal(vp_processes_transport(&config), "mpi");
    assert_int_equal(vp_hosts_run(&config, 0), 2);
    assert_int_equal(vp_hosts_run(&config, 2), 1);
    vp_config_release(&config);
}

/* ---- Containers --------------------------------------------------------- */

static void add_container(const char *image, const char *want)
{
    struct vp_words words = { 0 };
    struct vp_err err = { .text = "" };
    char start[512];

    assert_int_equal(vp_container_add(&words, image, "/run", &err), VP_OK);
    snprintf(start, sizeof(start), "%s", join(&words));
    if (strncmp(start, want, strlen(want)) != 0 ||
        strcmp(words.at[words.n - 1], image) != 0)
        fail_msg("not '%s...%s': %s", want, image, start);
    vp_words_release(&words);
}

static void refuse_container(const char *image, const char *want)
{
    struct vp_words words = { 0 };
    struct vp_err err = { .text = "" };

    assert_int_not_equal(vp_container_add(&words, image, "/run", &err), VP_OK);
    assert_string_equal(err.text, want);
    vp_words_release(&words);
}

static void test_containers(void **state)
{
    (void)state;
    use_own_path();
    refuse_container("x.sif",
                     "key 'container': image 'x.sif' needs apptainer or "
                     "singularity, which is not in PATH; install it, or write "
                     "'container: none'");
    refuse_container("bert",
                     "key 'container': image 'bert' needs docker, which is not "
                     "in PATH; install it, or write 'container: none'");
    refuse_container("--privileged", "key 'container': '--privileged' is not "
                                     "the name of an image; write a name or a "
                                     "file, or 'none'");
    make_tool("singularity", "#!/bin/sh\n");
    add_container("x.sif", "singularity exec ");
    make_tool("apptainer", "#!/bin/sh\n");
    add_container("x.sif", "apptainer exec ");
    add_container("/images/a", "apptainer exec ");
    add_container("docker://a/b", "apptainer exec ");
    make_tool("docker", "#!/bin/sh\n");
    add_container("bert", "docker run --rm --net=host --ipc=host --pid=host ");
    add_container("me/vpipe:1.0", "docker run --rm ");
}

/* All that stands before a command in this image, with this run folder. */
static const char *before_command(const char *image, const char *folder)
{
    struct vp_words words = { 0 };
    struct vp_err err = { .text = "" };
    const char *text;

    if (vp_container_add(&words, image, folder, &err) != VP_OK)
        fail_msg("%s", err.text);
    text = join(&words);
    vp_words_release(&words);
    return text;
}

/* Paths are absolute, and whole whatever is in them. */
static void test_mounts(void **state)
{
    struct vp_words words = { 0 };
    struct vp_err err = { .text = "" };
    char here[512], want[4096];

    (void)state;
    use_own_path();
    make_tool("docker", "#!/bin/sh\n");
    make_tool("apptainer", "#!/bin/sh\n");
    assert_non_null(getcwd(here, sizeof(here)));
    snprintf(want, sizeof(want),
             " --mount=type=bind,source=%s/runs/a:b,target=%s/runs/a:b "
             "--mount=type=bind,source=%s,target=%s "
             "--mount=type=bind,source=/tmp,target=/tmp --workdir=%s ",
             here, here, here, here, here);
    assert_non_null(strstr(before_command("bert", "runs/a:b"), want));
    assert_non_null(strstr(before_command("bert", "/run"),
                           " --mount=type=bind,source=/run,target=/run "));
    snprintf(want, sizeof(want), " --bind %s/runs/a --pwd %s x.sif", here,
             here);
    assert_non_null(strstr(before_command("x.sif", "runs/a"), want));
    assert_non_null(strstr(before_command("x.sif", "/a:b"),
                           " --mount=type=bind,source=/a:b,target=/a:b "));
    assert_int_equal(vp_container_add(&words, "bert", "/a,b", &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "key 'container': /a,b: a container cannot be given a "
                        "path with a comma or quotes; work in another folder");
    vp_words_release(&words);
}

/* A name that containers, scp and rsync take as it is. */
static void test_folder_name(void **state)
{
    const struct vp_config config = { .log_directory = "some" };
    char path[64], again[64];

    (void)state;
    vp_folder_choose(&config, "", path, sizeof(path));
    assert_int_equal(strspn(path, "some/0123456789-T"), strlen(path));
    assert_int_equal(strlen(path), strlen("some/2026-01-31T12-30-59"));
    assert_int_equal(mkdir("some", 0777) | mkdir(path, 0777), 0);
    vp_folder_choose(&config, "", again, sizeof(again));
    assert_int_not_equal(access(again, F_OK), 0);
}

/* ---- Fewer hosts -------------------------------------------------------- */

static bool is_g(void *ctx, const char *host)
{
    (void)ctx;
    return host[0] == 'g';
}

static bool is_any(void *ctx, const char *host)
{
    (void)ctx;
    return *host != '\0';
}

static void test_shrink(void **state)
{
    struct vp_config config, small;
    struct vp_err err = { .text = "" };
    int n;

    (void)state;
    load(NINE "partition: [4, 2, 2, 1]\nrecompute_ratio: [0.5, 0.25, 0, 0]\n"
              "swap_ratio: [0.75, 0, 0, 0]\n"
              "ranks: [3, 2, 1, 0]\naccumulation_steps: 6\n"
              "machines: ['a:0', 'g1:0', 'b:7', 'g2:3']\n",
         &config);
    assert_int_equal(vp_shrink(&config, is_g, NULL, "small.yml", &n, &err),
                     VP_OK);
    assert_int_equal(n, 2);
    if (vp_config_load("small.yml", NULL, 0, &small, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(small.stages, 2);
    assert_int_equal(small.partition.n, 2);
    assert_int_equal(small.partition.at[0] + small.partition.at[1], 9);
    assert_int_equal(small.recompute_ratio.n, 2);
    assert_true(small.recompute_ratio.at[1] == 0.5);
    assert_int_equal(small.swap_ratio.n, 2);
    assert_true(small.swap_ratio.at[1] == 0.75);
    assert_int_equal(small.ranks.n, 0);
    assert_int_equal(small.accumulation_steps, 6);
    assert_int_equal(small.machines.n, 2);
    assert_string_equal(small.machines.at[1].host, "b");
    assert_int_equal(small.machines.at[1].device, 7);
    assert_int_equal(small.distributed_backend, VP_TRANSPORT_MPI);
    vp_config_release(&small);
    assert_int_not_equal(vp_shrink(&config, is_any, NULL, "x.yml", &n, &err),
                         VP_OK);
    assert_string_equal(err.text, "no host of machines is left");
    vp_config_release(&config);
}

static bool is_b(void *ctx, const char *host)
{
    (void)ctx;
    return *host == 'b';
}

/* Tensor-parallel groups are kept whole. */
static void test_shrink_groups(void **state)
{
    struct vp_config config, small;
    struct vp_err err = { .text = "" };
    int n;

    (void)state;
    load(NINE "optimizer: adam\nmp_size: 2\nstages: 3\n"
              "machines: ['a:0', 'g1:0', 'b:7', 'g2:3', 'c:0', 'd:0']\n",
         &config);
    assert_int_equal(vp_shrink(&config, is_b, NULL, "small.yml", &n, &err),
                     VP_OK);
    assert_int_equal(n, 4);
    if (vp_config_load("small.yml", NULL, 0, &small, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(small.stages, 2);
    assert_int_equal(small.mp_size, 2);
    assert_int_equal(small.machines.n, 4);
    vp_config_release(&small);
    vp_config_release(&config);
    load(NINE "optimizer: adam\nmp_size: 2\nmachines: ['a:0', 'b:0']\n",
         &config);
    assert_int_not_equal(vp_shrink(&config, is_b, NULL, "x.yml", &n, &err),
                         VP_OK);
    assert_string_equal(err.text, "fewer hosts of machines are left than a "
                                  "tensor-parallel group has ranks");
    vp_config_release(&config);
}

/* ---- Processes ---------------------------------------------------------- */

static void pause_ms(long ms)
{
    struct timespec pause = { .tv_nsec = ms * 1000000 };

    nanosleep(&pause, NULL);
}

static bool is_alive(pid_t pid)
{
    return kill(pid, 0) == 0;
}

static pid_t read_pid(const char *path)
{
    for (int i = 0; i < 200; i++) {
        FILE *f = fopen(path, "r");
        int pid = 0;

        if (f && fscanf(f, "%d\n", &pid) == 1) {
            fclose(f);
            return pid;
        }
        if (f)
            fclose(f);
        pause_ms(20);
    }
    fail_msg("no %s", path);
    return 0;
}

static void test_a_missing_program(void **state)
{
    char *argv[] = { "no-such-program", NULL };
    struct vp_process process;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err),
                     VP_ERR_UNSUPPORTED);
    assert_string_equal(err.text, "no-such-program: cannot be started (No such "
                                  "file or directory)");
    vp_process_end(&process, 100);
}

static void test_an_output(void **state)
{
    char *argv[] = { "/bin/sh", "-c", "echo abc; echo def; exit 7", NULL };
    char *silent[] = { "/bin/sh", "-c", "/bin/sleep 60", NULL };
    char *missing[] = { "no-such-program", NULL };
    struct vp_err err = { .text = "" };
    char text[8];

    (void)state;
    assert_int_equal(vp_process_output(argv, 5000, text, sizeof(text), &err),
                     VP_OK);
    assert_string_equal(text, "abc\ndef");
    assert_int_equal(vp_process_output(silent, 100, text, sizeof(text), &err),
                     VP_OK);
    assert_string_equal(text, "");
    assert_int_equal(vp_process_output(missing, 100, text, sizeof(text), &err),
                     VP_ERR_UNSUPPORTED);
}

static void test_a_status(void **state)
{
    char *argv[] = { "/bin/sh", "-c", "exit 7", NULL };
    struct vp_process process;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err), VP_OK);
    for (int i = 0; i < 200 && !vp_process_has_ended(&process); i++)
        pause_ms(10);
    assert_true(process.ended && WIFEXITED(process.status));
    assert_int_equal(WEXITSTATUS(process.status), 7);
}

/* Waits for it to be so. */
static bool becomes_ready(const struct vp_process *process, bool want)
{
    for (int i = 0; i < 500; i++) {
        if (vp_process_is_ready(process->pid) == want)
            return true;
        pause_ms(10);
    }
    return false;
}

static void test_stopped_and_ready_are_told_apart(void **state)
{
    char *argv[] = { "sh", "-c", "while :; do :; done", NULL };
    struct vp_process process;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err), VP_OK);
    assert_true(becomes_ready(&process, true));
    kill(process.pid, SIGSTOP);
    assert_true(becomes_ready(&process, false));
    kill(process.pid, SIGCONT);
    assert_true(becomes_ready(&process, true));
    vp_process_end(&process, 2000);
    assert_false(vp_process_is_ready(process.pid));
}

/* What a process started goes with it, even if it left its group or does not
 * listen. */
static void test_nothing_is_left(void **state)
{
    char *argv[] = { "/bin/sh", "-c",
                     "trap '' TERM; echo $$ >p0; /bin/sleep 60 & echo $! >p1; "
                     "/usr/bin/setsid /bin/sleep 60 & echo $! >p2; wait",
                     NULL };
    struct vp_process process;
    struct vp_err err = { .text = "" };
    pid_t pids[3];

    (void)state;
    vp_process_adopt();
    assert_int_equal(vp_process_start(argv, -1, -1, &process, &err), VP_OK);
    pids[0] = read_pid("p0");
    pids[1] = read_pid("p1");
    pids[2] = read_pid("p2");
    for (int i = 0; i < 3; i++)
        assert_true(is_alive(pids[i]));
    vp_process_end(&process, 200);
    vp_process_end_orphans(2000);
    for (int i = 0; i < 3; i++)
        assert_false(is_alive(pids[i]));
}

/* ---- What processes print ----------------------------------------------- */

/* Prints `n` lines through a relay to `path`. */
static enum vp_status print_through(const char *path, const char *n,
                                    struct vp_err *err)
{
    char script[128];
    char *argv[] = { "/bin/sh", "-c", script, NULL };
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct vp_process process;
    struct vp_relay *relay;
    enum vp_status st;

    assert_true(to >= 0);
    assert_int_equal(vp_relay_start(to, false, &relay, err), VP_OK);
    snprintf(script, sizeof(script),
             "i=0; while [ $i -lt %s ]; do i=$((i + 1)); echo line $i; done",
             n);
    assert_int_equal(
        vp_process_start(argv, vp_relay_input(relay), -1, &process, err),
        VP_OK);
    assert_true(vp_process_wait(&process, 60000));
    st = vp_relay_finish(relay, NULL, NULL, err);
    assert_int_equal(close(to), 0);
    return st;
}

/* All that was printed has arrived when the relay is finished. */
static void test_output_is_copied(void **state)
{
    struct vp_err err = { .text = "" };
    char line[64], want[64];
    int n = 0;
    FILE *f;

    (void)state;
    assert_int_equal(vp_relay_finish(NULL, NULL, NULL, &err), VP_OK);
    assert_int_equal(print_through("printed", "9999", &err), VP_OK);
    f = fopen("printed", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        snprintf(want, sizeof(want), "line %d\n", ++n);
        assert_string_equal(line, want);
    }
    fclose(f);
    assert_int_equal(n, 9999);
}

/* More than fits a pipe: the process is not held up by an error. */
static void test_output_that_cannot_be_written(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(print_through("/dev/full", "9999", &err), VP_ERR_IO);
    assert_string_equal(err.text, "vpipe: cannot write the output: No space "
                                  "left on device; free some space");
}

static void write_to(struct vp_relay *relay, const char *text)
{
    ssize_t n = (ssize_t)strlen(text);

    assert_int_equal(write(vp_relay_input(relay), text, (size_t)n), n);
    pause_ms(100);
}

static void check_text(const char *path, const char *want)
{
    char text[256] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    assert_string_equal(text, want);
}

/* What is held comes first when it is released, and to the caller if it never
 * is. */
static void test_output_that_is_held(void **state)
{
    static char much[3 * VP_RELAY_HELD];
    char held[VP_RELAY_HELD];
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    int to = open("held", O_WRONLY | O_CREAT | O_TRUNC, 0666);

    (void)state;
    assert_int_equal(vp_relay_start(to, true, &relay, &err), VP_OK);
    write_to(relay, "one\n");
    check_text("held", "");
    vp_relay_release(relay);
    pause_ms(100);
    check_text("held", "one\n");
    write_to(relay, "two\n");
    assert_int_equal(vp_relay_finish(relay, NULL, held, &err), VP_OK);
    check_text("held", "one\ntwo\n");
    assert_string_equal(held, "");

    assert_int_equal(vp_relay_start(to, true, &relay, &err), VP_OK);
    write_to(relay, "three\n");
    assert_int_equal(vp_relay_finish(relay, NULL, held, &err), VP_OK);
    assert_string_equal(held, "three\n");

    memset(much, 'x', sizeof(much) - 1);
    assert_int_equal(vp_relay_start(to, true, &relay, &err), VP_OK);
    write_to(relay, much);
    assert_int_equal(vp_relay_finish(relay, NULL, held, &err), VP_OK);
    assert_int_equal(strlen(held), VP_RELAY_HELD - 1);
    check_text("held", "one\ntwo\n");
    close(to);
}

/* That is no error of writing. */
static void test_output_whose_reader_has_gone(void **state)
{
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    int ends[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(vp_relay_start(ends[1], false, &relay, &err), VP_OK);
    write_to(relay, "unread\n");
    assert_int_equal(vp_relay_finish(relay, NULL, NULL, &err), VP_ERR_END);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
}

/* Both outputs of a process have places of their own. */
static void test_both_outputs(void **state)
{
    char *argv[] = { "/bin/sh", "-c", "echo out; echo err >&2", NULL };
    int out = open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int errors = open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct vp_process process;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_process_start(argv, out, errors, &process, &err),
                     VP_OK);
    assert_true(vp_process_wait(&process, 60000));
    check_text("stdout", "out\n");
    check_text("stderr", "err\n");
    close(out);
    close(errors);
}

/* A reader that pauses gets all, also what is in the pipe at the end. */
static void test_output_that_is_read_late(void **state)
{
    enum { MUCH = 100 * 1024 }; /* a pipe takes 64 KiB */
    static char much[MUCH];
    char *argv[] = { "/bin/sh", "-c", "sleep 0.3; exec cat <&9 >late", NULL };
    struct vp_process reader;
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    struct stat info;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(vp_relay_start(ends[1], false, &relay, &err), VP_OK);
    assert_int_equal(write(vp_relay_input(relay), much, MUCH), MUCH);
    assert_int_equal(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(dup2(ends[0], 9), 9);
    assert_int_equal(vp_process_start(argv, -1, -1, &reader, &err), VP_OK);
    assert_int_equal(vp_relay_finish(relay, NULL, NULL, &err), VP_OK);
    close(ends[1]);
    assert_true(vp_process_wait(&reader, 60000));
    close(9);
    close(ends[0]);
    assert_int_equal(stat("late", &info), 0);
    assert_int_equal(info.st_size, MUCH);
}

/* A reader that takes nothing is waited for until the second signal. */
static void test_output_that_is_not_read(void **state)
{
    static char much[256 * 1024];
    volatile sig_atomic_t stop = 2;
    struct vp_relay *relay;
    struct vp_err err = { .text = "" };
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(vp_relay_start(ends[1], false, &relay, &err), VP_OK);
    assert_int_equal(
        fcntl(vp_relay_input(relay), F_SETFL, O_WRONLY | O_NONBLOCK), 0);
    for (int i = 0; i < 100; i++) { /* until both pipes are full */
        (void)!write(vp_relay_input(relay), much, sizeof(much));
        pause_ms(2);
    }
    assert_int_equal(vp_relay_finish(relay, &stop, NULL, &err), VP_ERR_IO);
    assert_string_equal(err.text, "vpipe: the output was not read to its end; "
                                  "send it to a file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_shrink_groups),
        cmocka_unit_test(test_a_missing_program),
        cmocka_unit_test(test_an_output),
        cmocka_unit_test(test_a_status),
        cmocka_unit_test(test_stopped_and_ready_are_told_apart),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_output_is_copied),
        cmocka_unit_test(test_output_that_cannot_be_written),
        cmocka_unit_test(test_output_that_is_held),
        cmocka_unit_test(test_output_whose_reader_has_gone),
        cmocka_unit_test(test_both_outputs),
        cmocka_unit_test(test_output_that_is_read_late),
        cmocka_unit_test(test_output_that_is_not_read),
        cmocka_unit_test(test_containers),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_folder_name),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_command_for_hosts),
        cmocka_unit_test(test_mpirun),
        cmocka_unit_test(test_no_mpirun),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
