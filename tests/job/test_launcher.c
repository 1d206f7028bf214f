/* The mpirun command that starts the ranks is right, argument by argument, for
 * several hosts, containers and MPI versions. */
#include "config/load.h"
#include "job/container.h"
#include "job/mpirun.h"
#include "lib/tempfolder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* Joins words with spaces. */
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

/* Creates an executable file bin/`name` with the content `text`. */
static void make_tool(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "bin/%s", name);
    write_text(path, text);
    assert_int_equal(chmod(path, 0755), 0);
}

/* Sets PATH to a folder that holds only the tools of the test. */
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

/* `want` has @ in place of the options for root and for oversubscription. */
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
    /* A word with spaces and shell characters stays one argument. */
    assert_string_equal(words.at[words.n - 1], "a b; $(c).yml");
    vp_words_release(&words);
}

#define RANKS "/bin/vpipe train a b; $(c).yml"

/* Ranks of one machine use shared memory, not a network interface. */
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
    setenv("OMPI_MCA_btl", "self,tcp", 1); /* the user's choice is kept */
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

/* ---- Version and environment of mpirun ---------------------------------- */

static const char *value_of(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

/* Opens a fake mpirun that prints `says` as its version. */
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

    /* With ranks on other hosts no local folders are set. */
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

/* The command line that vp_container_add() puts before a command. */
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

/* Mounted paths are absolute; a colon in them is allowed, a comma is refused. */
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
                        "key 'container': /a,b: a container cannot mount a "
                        "path with a comma or quotes; use another folder");
    vp_words_release(&words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_containers),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_command_for_hosts),
        cmocka_unit_test(test_mpirun),
        cmocka_unit_test(test_no_mpirun),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
