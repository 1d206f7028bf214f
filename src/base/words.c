/* Words are copied to an arena; the array of pointers doubles when it is
 * full. */
#include "base/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool make_room(struct vp_words *words)
{
    int capacity = words->capacity ? 2 * words->capacity : 32;
    char **at;

    if (words->n + 1 < words->capacity)
        return true;
    at = realloc(words->at, (size_t)capacity * sizeof(*at));
    if (!at)
        return false;
    words->at = at;
    words->capacity = capacity;
    return true;
}

void vp_words_add(struct vp_words *words, const char *word)
{
    char *copy = vp_arena_strdup(&words->arena, word);

    if (!copy || !make_room(words)) {
        words->failed = true;
        return;
    }
    words->at[words->n++] = copy;
    words->at[words->n] = NULL;
}

void vp_words_addf(struct vp_words *words, const char *fmt, ...)
{
    char word[2048];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(word, sizeof(word), fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(word))
        words->failed = true;
    else
        vp_words_add(words, word);
}

void vp_words_add_all(struct vp_words *words, const char *const *list)
{
    for (; *list; list++)
        vp_words_add(words, *list);
}

void vp_words_release(struct vp_words *words)
{
    free(words->at);
    vp_arena_release(&words->arena);
    *words = (struct vp_words){ 0 };
}
