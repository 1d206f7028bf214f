/* vpipe info: prints facts about this build and this machine, for bug reports
 * and for the choice of threads and memory. */
#include "tool.h"

#include "backend/facts.h"
#include "backend/plugin.h"
#include "base/host.h"
#include "base/memory.h"
#include "comm/comm.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct tool_flag flags[] = {
    { "--help", NULL, "this text" },
};
enum { N_FLAGS = sizeof(flags) / sizeof(flags[0]), LABEL = 12 };
const struct tool_options cmd_info_options = { flags, N_FLAGS };

/* Copies the text after the colon in the first line of a "/proc" file that
 * begins with `key`. Returns false if there is none. */
static bool proc_value(const char *path, const char *key, char *out,
                       size_t n_bytes)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t n_line = 0;
    bool found = false;

    if (!file)
        return false;
    while (!found && getline(&line, &n_line, file) > 0) {
        const char *value = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(out, n_bytes, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    free(line);
    fclose(file);
    return found;
}

/* Returns true if `word` is one of the words in `list`, which spaces
 * separate. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

static void print_cpu(void)
{
    /* Instruction sets that kernels or libraries choose between. */
    static const char *const sets[] = {
        "sse4_2",      "avx",         "avx2",     "fma",   "f16c", "avx512f",
        "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd", "sve",
    };
    char text[8192], line[256] = "";
    size_t used = 0;
    cpu_set_t usable;

    if (proc_value("/proc/cpuinfo", "model name", text, sizeof(text)))
        tool_print(stdout, 0, LABEL, "processor   %s\n", text);
    if (proc_value("/proc/cpuinfo", "flags", text, sizeof(text)) ||
        proc_value("/proc/cpuinfo", "Features", text, sizeof(text))) {
        for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
            if (has_word(text, sets[i]))
                used += (size_t)snprintf(line + used, sizeof(line) - used,
                                         " %s", sets[i]);
        tool_print(stdout, 0, LABEL, "instructions%s\n", line);
    }
    tool_print(stdout, 0, LABEL, "products    fp32; bf16 %s, by %s\n",
               vp_cores_prefer_bf16()     ? "multiplied"
               : vp_cores_multiply_bf16() ? "multiplied more slowly"
                                          : "widened to fp32",
               vp_cores_isa());
    line[0] = '\0';
    if (sched_getaffinity(0, sizeof(usable), &usable) == 0)
        snprintf(line, sizeof(line), ", of which this process may use %d",
                 CPU_COUNT(&usable));
    tool_print(stdout, 0, LABEL, "cores       %ld%s\n",
               sysconf(_SC_NPROCESSORS_ONLN), line);
}

static void print_memory(void)
{
    int64_t total = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    size_t available = vp_host_memory("");
    char size[VP_BYTES_TEXT];

    vp_bytes_text(total, size, sizeof(size));
    printf("memory      %s", size);
    if (available < SIZE_MAX) {
        vp_bytes_text((int64_t)available, size, sizeof(size));
        printf(", %s available", size);
    }
    putchar('\n');
}

static void print_gpu(const struct vp_backend_ops *cuda, int device)
{
    struct vp_device_info info;
    struct vp_err err = { .text = "" };
    char all[VP_BYTES_TEXT], available[VP_BYTES_TEXT];

    if (cuda->info(device, true, &info, &err) != VP_OK) {
        tool_print(stdout, 0, LABEL, "GPU %-7d %s\n", device, err.text);
        return;
    }
    vp_bytes_text((int64_t)info.bytes, all, sizeof(all));
    vp_bytes_text((int64_t)info.free_bytes, available, sizeof(available));
    tool_print(stdout, 0, LABEL,
               "GPU %-7d %s, %d multiprocessors, capability %d.%d\n"
               "            %s, %s free\n"
               "            measured: copy %.2f TB/s, products %.0f TFLOP/s in "
               "bf16, %.1f in fp32\n",
               device, info.name, info.n_processors, info.capability / 10,
               info.capability % 10, all, available, info.copy_rate / 1e12,
               info.bf16_rate / 1e12, info.fp32_rate / 1e12);
}

static void print_gpus(void)
{
    const struct vp_backend_ops *cuda;
    struct vp_err err = { .text = "" };
    int n;

    if (vp_backend_load("cuda", &cuda, &err) != VP_OK) {
        tool_print(stdout, 0, LABEL, "no GPU      %s\n", err.text);
        return;
    }
    n = cuda->n_devices(&err);
    if (n == 0)
        tool_print(stdout, 0, LABEL, "no GPU      %s\n", err.text);
    for (int i = 0; i < n; i++)
        print_gpu(cuda, i);
}

static void print_mpi(void)
{
    struct vp_err err = { .text = "" };
    char text[128];

    if (vp_transport_describe("mpi", text, sizeof(text), &err) == VP_OK)
        tool_print(stdout, 0, LABEL, "MPI         %s\n", text);
    else
        tool_print(stdout, 0, LABEL, "no MPI      %s\n", err.text);
}

static void print_nccl(void)
{
    struct vp_err err = { .text = "" };
    char text[256] = "";

    if (vp_transport_describe("nccl", text, sizeof(text), &err) == VP_OK)
        tool_print(stdout, 0, LABEL, "NCCL        %s\n", text);
    else
        tool_print(stdout, 0, LABEL, "no NCCL     %s\n", err.text);
}

static void print_info(void)
{
    puts("vpipe       " VP_VERSION);
#if defined(__clang__)
    puts("compiler    clang " __clang_version__);
#elif defined(__GNUC__)
    puts("compiler    gcc " __VERSION__);
#endif
    print_cpu();
    print_memory();
    print_gpus();
    print_mpi();
    print_nccl();
}

int cmd_info(int argc, char **argv)
{
    struct tool_args args = { .command = "vpipe info",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    const char *value;
    int flag = args_next(&args, &value);

    switch (flag) {
    case ARGS_END:
        print_info();
        return TOOL_OK;
    case ARGS_BAD:
        return TOOL_USAGE;
    case ARGS_PLAIN:
        return tool_usage_error("vpipe info: unexpected argument '%.48s'; "
                                "remove it",
                                value);
    default:
        tool_print(stdout, help_width(stdout), 0,
                   "usage: vpipe info\n\n"
                   "Prints versions, the processor, memory and the devices "
                   "that this build can use.\n\nOptions:\n");
        help_flags(flags, N_FLAGS);
        return TOOL_OK;
    }
}
