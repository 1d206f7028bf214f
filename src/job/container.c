/* Builds the command line that runs a rank in a container: Apptainer,
 * Singularity or Docker. */
#include "job/container.h"

#include "job/process.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Environment variables that ranks of MPI and of vpipe read. Docker passes none
 * on unless it is named, and accepts no patterns. It ignores names that are not
 * set. */
static const char *const docker_variables[] = {
    "VPIPE_SUPERVISOR",
    "VPIPE_ISA",
    "CUDA_VISIBLE_DEVICES",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_COMMAND",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_MCA_btl",
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_oob_tcp_if_include",
    "OMPI_MCA_ess",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_ess_base_vpid",
    "OMPI_MCA_initial_wdir",
    "OMPI_MCA_mpi_oversubscribe",
    "OMPI_MCA_orte_app_num",
    "OMPI_MCA_orte_bound_at_launch",
    "OMPI_MCA_orte_ess_node_rank",
    "OMPI_MCA_orte_ess_num_procs",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_jobfam_session_dir",
    "OMPI_MCA_orte_launch",
    "OMPI_MCA_orte_local_daemon_uri",
    "OMPI_MCA_orte_num_nodes",
    "OMPI_MCA_orte_precondition_transports",
    "OMPI_MCA_orte_tmpdir_base",
    "OMPI_MCA_orte_top_session_dir",
    "OMPI_MCA_pml",
    "OMPI_MCA_pmix",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
    "PMIX_BFROP_BUFFER_TYPE",
    "PMIX_DSTORE_21_BASE_PATH",
    "PMIX_DSTORE_ESH_BASE_PATH",
    "PMIX_GDS_MODULE",
    "PMIX_HOSTNAME",
    "PMIX_ID",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMIX_SECURITY_MODE",
    "PMIX_SERVER_TMPDIR",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI41",
    "PMIX_SYSTEM_TMPDIR",
    "PMIX_VERSION",
    NULL,
};

static bool is_apptainer(const char *image)
{
    size_t n = strlen(image);

    return strstr(image, "://") || image[0] == '/' || image[0] == '.' ||
           (n > 4 && strcmp(image + n - 4, ".sif") == 0);
}

static enum vp_status missing(const char *image, const char *tools,
                              struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "key 'container': image '%s' needs %s, which is not in "
                      "PATH; install it, or write 'container: none'",
                      image, tools);
}

/* Mounts `path` at the same path in the container. Only a comma separates the
 * fields of --mount, so a colon in the path is allowed. */
static void add_mount(struct vp_words *words, const char *path)
{
    vp_words_addf(words, "--mount=type=bind,source=%s,target=%s", path, path);
}

static enum vp_status add_apptainer(struct vp_words *words, const char *image,
                                    const char *folder, const char *here,
                                    struct vp_err *err)
{
    char path[PATH_MAX];
    bool found = vp_program_find("apptainer", path, sizeof(path));

    if (!found && !vp_program_find("singularity", path, sizeof(path)))
        return missing(image, "apptainer or singularity", err);
    vp_words_add(words, found ? "apptainer" : "singularity");
    vp_words_add(words, "exec");
    if (access("/dev/nvidiactl", F_OK) == 0)
        vp_words_add(words, "--nv");
    if (strchr(folder, ':')) {
        add_mount(words, folder); /* old versions have no --mount */
    } else {
        vp_words_add(words, "--bind");
        vp_words_add(words, folder);
    }
    vp_words_add(words, "--pwd");
    vp_words_add(words, here);
    vp_words_add(words, image);
    return VP_OK;
}

/* Runs as this user with the network, pid and IPC namespaces of the host, so
 * that ranks reach each other as they would outside of a container. */
static enum vp_status add_docker(struct vp_words *words, const char *image,
                                 const char *folder, const char *here,
                                 struct vp_err *err)
{
    static const char *const first[] = {
        "docker", "run", "--rm", "--net=host", "--ipc=host", "--pid=host", NULL,
    };
    char path[PATH_MAX];

    if (!vp_program_find("docker", path, sizeof(path)))
        return missing(image, "docker", err);
    vp_words_add_all(words, first);
    vp_words_addf(words, "--user=%u:%u", (unsigned)getuid(),
                  (unsigned)getgid());
    if (access("/dev/nvidiactl", F_OK) == 0)
        vp_words_add(words, "--gpus=all");
    add_mount(words, folder);
    add_mount(words, here);
    add_mount(words, "/tmp"); /* session files of Open MPI */
    vp_words_addf(words, "--workdir=%s", here);
    for (int i = 0; docker_variables[i]; i++)
        vp_words_addf(words, "--env=%s", docker_variables[i]);
    vp_words_add(words, image);
    return VP_OK;
}

static enum vp_status check_path(const char *path, struct vp_err *err)
{
    if (!strpbrk(path, ",\"\n"))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "key 'container': %s: a container cannot mount a path "
                      "with a comma or quotes; use another folder",
                      path);
}

enum vp_status vp_container_add(struct vp_words *words, const char *image,
                                const char *folder, struct vp_err *err)
{
    char here[PATH_MAX], absolute[2 * PATH_MAX];

    if (!getcwd(here, sizeof(here)))
        return vp_err_set(err, VP_ERR_IO,
                          "the working directory cannot be found");
    if (image[0] == '-')
        return vp_err_set(err, VP_ERR_INVALID,
                          "key 'container': '%s' is not the name of an image; "
                          "write a name or a file, or 'none'",
                          image);
    snprintf(absolute, sizeof(absolute), "%s%s%s", folder[0] == '/' ? "" : here,
             folder[0] == '/' ? "" : "/", folder);
    VP_TRY(check_path(absolute, err));
    VP_TRY(check_path(here, err));
    return is_apptainer(image)
               ? add_apptainer(words, image, absolute, here, err)
               : add_docker(words, image, absolute, here, err);
}
