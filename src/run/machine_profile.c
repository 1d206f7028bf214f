/* Describes this machine, and looks up, measures and stores its profile. */
#include "run/machine_profile.h"

#include "base/host.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "run/devices.h"
#include "run/profile_cache.h"
#include "runtime/profile/profile_measure.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Texts in a profile have at most 256 bytes. */
enum { TEXT_BYTES = 240 };

/* ---- Facts -------------------------------------------------------------- */

/* Reads the first line of a file that begins with `key`, without the key and
 * its separator; "" if there is none. `key` may be "". */
static void read_line(const char *path, const char *key, char text[TEXT_BYTES])
{
    FILE *f = fopen(path, "re");
    char line[1024];

    text[0] = '\0';
    while (f && !text[0] && fgets(line, sizeof(line), f)) {
        const char *at = line + strlen(key);

        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        at += strspn(at, " \t:");
        snprintf(text, TEXT_BYTES, "%.*s", (int)strcspn(at, "\n"), at);
    }
    if (f)
        fclose(f);
}

/* Copies a text into the arena, with '?' for characters that are not printable
 * ASCII. */
static const char *keep(struct vp_arena *arena, char *text)
{
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    return vp_arena_strdup(arena, text);
}

static const char *device_text(const struct vp_machine_profile_config *config,
                               struct vp_arena *arena)
{
    const struct vp_backend_ops *ops = config->train->backend;
    const struct vp_backend_config *with = &config->train->backend_config;
    struct vp_device_info info = { .name = "" };
    const char *isa = getenv("VPIPE_ISA");
    char name[TEXT_BYTES], text[TEXT_BYTES];
    int n_ranks = config->n_ranks > 1 ? config->n_ranks : 1;

    if (ops->info && ops->info(with->device, false, &info, NULL) == VP_OK &&
        info.name[0])
        snprintf(text, sizeof(text), "%s, ranks %d%s", info.name, n_ranks,
                 with->tf32 ? ", tf32" : "");
    else {
        read_line("/proc/cpuinfo", "model name", name);
        snprintf(text, sizeof(text),
                 "%.100s, cores %d, ranks %d, threads %d%s%s%.20s%s",
                 name[0] ? name : ops->name, vp_devices_n_cores(), n_ranks,
                 with->n_threads, with->pinned ? ", pinned" : "",
                 isa ? ", " : "", isa ? isa : "",
                 with->reference ? ", reference" : "");
    }
    return keep(arena, text);
}

static const char *driver_text(bool host_memory, struct vp_arena *arena)
{
    char text[TEXT_BYTES] = "";

    if (!host_memory)
        read_line("/proc/driver/nvidia/version", "NVRM version", text);
    return keep(arena, text);
}

static const char *clocks_text(bool host_memory, struct vp_arena *arena)
{
    static const char folder[] = "/sys/devices/system/cpu/cpu0/cpufreq";
    char path[128], most[TEXT_BYTES], governor[TEXT_BYTES], text[TEXT_BYTES];

    if (!host_memory)
        return "";
    snprintf(path, sizeof(path), "%s/scaling_max_freq", folder);
    read_line(path, "", most);
    snprintf(path, sizeof(path), "%s/scaling_governor", folder);
    read_line(path, "", governor);
    if (!most[0] && !governor[0])
        return "";
    snprintf(text, sizeof(text), "%.60s kHz %.60s", most, governor);
    return keep(arena, text);
}

/* Libraries that compute, and a hash over the files of vpipe. */
struct libraries {
    struct vp_strbuf names; /* file names, which may contain versions */
    struct vp_sha256 build;
};

static void add_file(struct vp_sha256 *hash, const char *path)
{
    struct stat stat_of;
    int64_t numbers[3];

    if (stat(path, &stat_of) != 0)
        return;
    numbers[0] = stat_of.st_size;
    numbers[1] = stat_of.st_mtim.tv_sec;
    numbers[2] = stat_of.st_mtim.tv_nsec;
    vp_sha256_update(hash, numbers, sizeof(numbers));
}

static int add_library(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    static const char *const known[] = { "libdnnl", "libcublas", "libcudnn",
                                         "libcudart" };
    struct libraries *libraries = ctx;
    char path[PATH_MAX];
    const char *name;

    (void)n_bytes;
    if (!info->dlpi_name[0] || !realpath(info->dlpi_name, path))
        return 0;
    name = strrchr(path, '/') + 1;
    if (strncmp(name, "libvpipe", 8) == 0)
        add_file(&libraries->build, path);
    for (size_t i = 0; i < VP_COUNT_OF(known); i++)
        if (strncmp(name, known[i], strlen(known[i])) == 0) {
            vp_strbuf_adds(&libraries->names,
                           libraries->names.n_bytes ? " " : "");
            vp_strbuf_adds(&libraries->names, name);
        }
    return 0;
}

static void list_libraries(struct vp_arena *arena, struct vp_profile_facts *out)
{
    struct libraries libraries = { .names = { NULL } };
    uint8_t digest[VP_SHA256_BYTES];
    char text[TEXT_BYTES], path[PATH_MAX];

    vp_sha256_init(&libraries.build);
    if (vp_program_path(path, sizeof(path)))
        add_file(&libraries.build, path);
    dl_iterate_phdr(add_library, &libraries);
    vp_sha256_final(&libraries.build, digest);
    snprintf(text, sizeof(text), VP_VERSION " %02x%02x%02x%02x", digest[0],
             digest[1], digest[2], digest[3]);
    out->build = keep(arena, text);
    snprintf(text, sizeof(text), "%s", vp_strbuf_text(&libraries.names));
    vp_strbuf_release(&libraries.names);
    out->libraries = keep(arena, text);
}

enum vp_status vp_machine_profile_facts(
    const struct vp_machine_profile_config *config, struct vp_arena *arena,
    struct vp_profile_facts *out)
{
    bool host_memory = config->train->backend->device->host_memory;

    out->device = device_text(config, arena);
    out->driver = driver_text(host_memory, arena);
    out->clocks = clocks_text(host_memory, arena);
    list_libraries(arena, out);
    if (!out->device || !out->driver || !out->clocks || !out->build ||
        !out->libraries)
        return VP_ERR_NOMEM;
    return VP_OK;
}

/* ---- Cache or measurement ------------------------------------------------ */

static void show_notice(const struct vp_machine_profile_config *config,
                        const char *line)
{
    if (config->notice && line[0])
        config->notice(config->ctx, line);
}

static enum vp_status measure(const struct vp_machine_profile_config *config,
                              const struct vp_profile_facts *facts,
                              struct vp_arena *arena,
                              struct vp_device_profile *out, struct vp_err *err)
{
    const struct vp_profile_request request = {
        .config = config->train,
        .facts = *facts,
        .n_ranks = config->n_ranks,
        .n_repeats = config->n_repeats,
        .seconds = config->seconds,
    };

    return vp_profile_measure(&request, arena, out, err);
}

/* Location of a workload's profile in the cache. */
struct place {
    struct vp_block_key *keys;
    struct vp_profile_facts today; /* facts of this machine */
    char name[VP_PROFILE_NAME];
    char home[PATH_MAX];
    const char *folder; /* may point to `home`; NULL: there is no cache */
};

/* The caller frees `out->keys` after success. */
static enum vp_status find_place(const struct vp_machine_profile_config *config,
                                 struct vp_arena *arena, struct place *out)
{
    const struct vp_graph *graph = &config->train->graphs[0];
    struct vp_device_profile named = { .precision = graph->dtype,
                                       .batch = graph->batch };

    *out = (struct place){ .folder = config->folder };
    out->keys = calloc((size_t)graph->n_blocks, sizeof(*out->keys));
    if (!out->keys || vp_profile_keys(graph, out->keys) != VP_OK ||
        vp_machine_profile_facts(config, arena, &named.facts) != VP_OK) {
        free(out->keys);
        return VP_ERR_NOMEM;
    }
    out->today = named.facts;
    vp_profile_name(&named, out->keys, graph->n_blocks, out->name);
    return VP_OK;
}

/* Returns the cache folder or NULL. `place` must not be moved afterwards:
 * `folder` may point into it. */
static const char *folder_of(struct place *place)
{
    if (!place->folder &&
        vp_profile_cache_folder(place->home, sizeof(place->home)))
        place->folder = place->home;
    return place->folder;
}

static bool read_place(const struct vp_machine_profile_config *config,
                       struct place *place, struct vp_arena *arena,
                       struct vp_device_profile *out, struct vp_err *why)
{
    return folder_of(place) &&
           vp_profile_cache_read(place->folder, place->name, &place->today,
                                 place->keys, config->train->graphs[0].n_blocks,
                                 arena, out, why);
}

bool vp_machine_profile_find(const struct vp_machine_profile_config *config,
                             struct vp_arena *arena,
                             struct vp_device_profile *out, struct vp_err *why)
{
    struct place place;
    bool found;

    vp_err_set(why, VP_OK, "%s", "");
    if (find_place(config, arena, &place) != VP_OK)
        return false;
    found = read_place(config, &place, arena, out, why);
    free(place.keys);
    return found;
}

static enum vp_status measure_and_store(
    const struct vp_machine_profile_config *config, struct place *place,
    struct vp_arena *arena, struct vp_device_profile *out, struct vp_err *err)
{
    struct vp_err unwritten;

    VP_TRY(measure(config, &place->today, arena, out, err));
    if (folder_of(place) && vp_profile_cache_write(place->folder, place->name,
                                                   out, &unwritten) != VP_OK)
        show_notice(config, unwritten.text);
    return VP_OK;
}

enum vp_status vp_machine_profile_get(
    const struct vp_machine_profile_config *config, struct vp_arena *arena,
    struct vp_device_profile *out, struct vp_err *err)
{
    struct vp_err why = { .text = "" };
    struct place place;
    enum vp_status st = VP_OK;

    if (find_place(config, arena, &place) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "profile: out of memory");
    if (config->measure || !read_place(config, &place, arena, out, &why)) {
        if (why.text[0])
            vp_err_suffix(&why, "; measuring again");
        show_notice(config, why.text);
        st = measure_and_store(config, &place, arena, out, err);
    }
    free(place.keys);
    return st;
}
