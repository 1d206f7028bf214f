/* Refuses a key that is not in the table, with a hint or the nearest key. */
#include "config/key.h"

#include "base/nearest.h"
#include "config/hints.h"

enum { MAX_NAMES = 256, HINT_BYTES = 256 };

enum vp_status vp_entry_unknown(const struct vp_entry *entry,
                                struct vp_err *err)
{
    const char *names[MAX_NAMES];
    char remedy[HINT_BYTES];
    int n = 0, best;

    if (vp_hint(entry->from_file ? VP_HINT_FILE : VP_HINT_SET, entry->key,
                remedy, sizeof(remedy)))
        return vp_err_set(err, VP_ERR_INVALID, "%s: unknown key '%.48s'; %s",
                          entry->place, entry->key, remedy);
    VP_BUG_ON(2 * vp_n_keys > MAX_NAMES);
    /* The order of the table: keys that are not supported yet come last, so
     * that others win. */
    for (int i = 0; i < vp_n_keys; i++) {
        names[n++] = vp_keys[i].name;
        if (vp_keys[i].alias)
            names[n++] = vp_keys[i].alias;
    }
    best = vp_nearest(entry->key, names, n);
    if (best >= 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: unknown key '%.48s'; did you mean '%s'?",
                          entry->place, entry->key, names[best]);
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: unknown key '%.48s'; 'vpipe train --help' lists the "
                      "keys",
                      entry->place, entry->key);
}
