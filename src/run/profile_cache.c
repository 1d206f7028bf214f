/* Reads, checks and writes files of the profile cache. */
#include "run/profile_cache.h"

#include "base/file.h"
#include "base/path.h"
#include "run/folder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool vp_profile_cache_folder(char *out, size_t n_bytes)
{
    return vp_path_cache("profiles", out, n_bytes);
}

/* ---- Reading ------------------------------------------------------------ */

static bool has_all(const struct vp_device_profile *profile,
                    const struct vp_block_key *keys, int n_keys)
{
    for (int i = 0; i < n_keys; i++)
        if (!vp_profile_find(profile, keys[i]))
            return false;
    return true;
}

bool vp_profile_cache_read(const char *folder, const char *name,
                           const struct vp_profile_facts *today,
                           const struct vp_block_key *keys, int n_keys,
                           struct vp_arena *arena,
                           struct vp_device_profile *out, struct vp_err *why)
{
    struct vp_device_profile profile;
    struct vp_err err = { .text = "" };
    char path[PATH_MAX], *text;
    const char *stale;
    size_t n_bytes;
    enum vp_status st;

    vp_err_set(why, VP_OK, "%s", "");
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (access(path, F_OK) != 0)
        return false;
    st = vp_file_read(path, "JSON", &text, &n_bytes, &err);
    if (st == VP_OK) {
        st = vp_profile_parse(text, n_bytes, path, arena, &profile, &err);
        free(text);
    }
    if (st != VP_OK) {
        vp_err_set(why, VP_ERR_INVALID, "%s: the profile is damaged (%s)", path,
                   err.text);
        return false;
    }
    stale = vp_profile_stale(&profile, today);
    if (stale)
        vp_err_set(why, VP_ERR_INVALID, "%s: the profile is stale: %s changed",
                   path, stale);
    else if (!has_all(&profile, keys, n_keys))
        vp_err_set(why, VP_ERR_INVALID,
                   "%s: the profile is damaged (a block is missing)", path);
    else
        *out = profile;
    return why->text[0] == '\0';
}

/* ---- Writing ------------------------------------------------------------ */

static enum vp_status write_file(const char *path, const char *text,
                                 struct vp_err *err)
{
    FILE *f = fopen(path, "we");
    bool failed;

    if (!f)
        return vp_err_write(err, path, errno);
    failed = fputs(text, f) == EOF || fflush(f) != 0 || fsync(fileno(f)) != 0;
    failed |= fclose(f) != 0;
    return failed ? vp_err_write(err, path, errno) : VP_OK;
}

enum vp_status vp_profile_cache_write(const char *folder, const char *name,
                                      const struct vp_device_profile *profile,
                                      struct vp_err *err)
{
    char path[PATH_MAX], temporary[PATH_MAX + 32], *text;
    enum vp_status st;

    VP_TRY(vp_folder_make(folder, err));
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid());
    if (vp_profile_print(profile, &text) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "%s: out of memory; close other programs", path);
    st = write_file(temporary, text, err);
    free(text);
    if (st == VP_OK && rename(temporary, path) != 0)
        st = vp_err_write(err, path, errno);
    if (st != VP_OK)
        unlink(temporary);
    return st;
}
