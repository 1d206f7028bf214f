/* Compares the needs of a plan with the memory, transport and disk of this
 * machine. */
#include "run/missing.h"

#include "base/memory.h"
#include "config/hosts.h"
#include "job/processes.h"
#include "run/disk_space.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void vp_missing_add(struct vp_missing *missing, const char *fmt, ...)
{
    size_t used = strlen(missing->text), n_bytes = sizeof(missing->text);
    va_list args;

    if (used > 0)
        used += (size_t)snprintf(missing->text + used, n_bytes - used, ", ");
    if (used >= n_bytes)
        return;
    va_start(args, fmt);
    vsnprintf(missing->text + used, n_bytes - used, fmt, args);
    va_end(args);
}

/* ---- Memory ------------------------------------------------------------- */

static void add_bytes(struct vp_missing *missing, const char *what,
                      int64_t need, int64_t left)
{
    char needs[VP_BYTES_TEXT], has[VP_BYTES_TEXT];

    vp_bytes_texts(need, left, needs, has, sizeof(needs));
    vp_missing_add(missing, "%s (%s needed, %s left)", what, needs, has);
}

static void find_host_memory(const struct vp_host_need *host,
                             struct vp_missing *missing)
{
    if (host->memory > host->memory_left)
        add_bytes(missing, "memory", (int64_t)host->memory,
                  (int64_t)host->memory_left);
    else if (host->space > host->space_left)
        add_bytes(missing, "address space by ulimit -v or -d",
                  (int64_t)host->space, (int64_t)host->space_left);
}

/* Returns the bytes of all ranks on this device. */
static int64_t bytes_on(const struct vp_missing_config *with, int device)
{
    const struct vp_run_summary *summary = with->summary;
    int64_t sum = 0;

    for (int s = 0; s < summary->n_stages; s++) {
        const struct vp_run_stage *stage = &summary->stages[s];

        for (int i = 0; i < stage->n_ranks; i++)
            if (with->train->plan.devices[stage->first_rank + i] == device)
                sum += stage->memory->total;
    }
    return sum;
}

static void find_device_memory(const struct vp_missing_config *with,
                               struct vp_missing *missing)
{
    const struct vp_backend_ops *backend = with->train->backend;
    int n = backend->n_devices(NULL);

    for (int d = 0; d < n; d++) {
        int64_t need = bytes_on(with, d);
        struct vp_device_info info;
        struct vp_err why = { .text = "" };
        char what[32];

        if (need == 0)
            continue;
        snprintf(what, sizeof(what), "memory of GPU %d", d);
        if (backend->info(d, false, &info, &why) != VP_OK)
            vp_missing_add(missing, "GPU %d (%s)", d, why.text);
        else if ((size_t)need > info.free_bytes)
            add_bytes(missing, what, need, (int64_t)info.free_bytes);
    }
}

/* ---- Disk --------------------------------------------------------------- */

static void find_disk_space(const struct vp_missing_config *with,
                            struct vp_missing *missing)
{
    struct vp_err why = { .text = "" };
    struct vp_disk_space disk;
    char what[512];

    if (vp_disk_space_measure(with->config, with->summary, with->folder, &disk,
                              &why) != VP_OK) {
        vp_missing_add(missing, "a run folder (%s)", why.text);
        return;
    }
    if (vp_disk_space_judge(&disk, with->folder, &why) == VP_OK)
        return;
    snprintf(what, sizeof(what), "disk space for checkpoints in %.400s",
             with->folder);
    add_bytes(missing, what, vp_disk_space_need(&disk) * disk.n_bytes,
              disk.n_free);
}

/* ---- All of it ---------------------------------------------------------- */

void vp_missing_find(const struct vp_missing_config *with,
                     struct vp_missing *missing)
{
    struct vp_err why = { .text = "" };

    if (vp_config_is_distributed(with->config) &&
        vp_processes_find_transport(with->config, &why) != VP_OK)
        vp_missing_add(missing, "a transport (%s)", why.text);
    if (vp_hosts_may_be_elsewhere(with->config))
        return;
    if (!with->train->backend->device->host_memory)
        find_device_memory(with, missing);
    else
        find_host_memory(&with->host, missing);
    if (with->folder)
        find_disk_space(with, missing);
}
