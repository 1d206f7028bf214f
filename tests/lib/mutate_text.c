#include "lib/mutate_text.h"

#include "base/rng.h"

#include <string.h>

static uint32_t draw(const struct text_mutation *how, uint32_t round,
                     uint32_t i, uint32_t n)
{
    return vp_rng_below(vp_rng(how->seed, VP_RNG_TEST, 1, round, i, 0).v[0], n);
}

size_t mutate_text(const struct text_mutation *how, uint32_t round, char *bytes,
                   size_t n, size_t room)
{
    uint32_t n_edits = 1 + draw(how, round, 0, how->most_edits);

    for (uint32_t i = 1; i <= n_edits && n > 4; i++) {
        size_t at = draw(how, round, 10 * i, (uint32_t)n);
        size_t len = 1 + draw(how, round, 10 * i + 1, how->most_bytes);

        len = len < n - at ? len : n - at;
        switch (draw(how, round, 10 * i + 2, 6)) {
        case 0:
            bytes[at] = (char)draw(how, round, 10 * i + 3, 256);
            break;
        case 1:
        case 2:
            bytes[at] =
                how->special[draw(how, round, 10 * i + 3, how->n_special)];
            break;
        case 3:
            memmove(bytes + at, bytes + at + len, n - at - len);
            n -= len;
            break;
        case 4:
            if (n + len > room)
                break;
            memmove(bytes + at + len, bytes + at, n - at);
            n += len;
            break;
        default:
            if (draw(how, round, 10 * i + 3, 8) == 0)
                n = at;
        }
    }
    return n;
}
