/* Arenas are linked chunks of calloc(); guarded buffers are anonymous
 * mappings. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 64 * 1024,
    HUGE_BYTES = 4 << 20, /* buffers of this size request pages of 2 MiB */
};

void vp_bytes_text(int64_t bytes, char *out, size_t n_bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1023.5 && unit + 1 < VP_COUNT_OF(units)) {
        value /= 1024.0;
        unit++;
    }
    snprintf(out, n_bytes, value < 999.5 ? "%.3g %s" : "%.0f %s", value,
             units[unit]);
}

void vp_bytes_texts(int64_t a, int64_t b, char *a_out, char *b_out,
                    size_t n_bytes)
{
    vp_bytes_text(a, a_out, n_bytes);
    vp_bytes_text(b, b_out, n_bytes);
    if (strcmp(a_out, b_out) != 0)
        return;
    snprintf(a_out, n_bytes, "%lld bytes", (long long)a);
    snprintf(b_out, n_bytes, "%lld bytes", (long long)b);
}

struct vp_arena_chunk {
    struct vp_arena_chunk *next;
    size_t used, n_bytes;
    _Alignas(16) unsigned char data[];
};

void *vp_arena_alloc(struct vp_arena *arena, size_t n_bytes)
{
    struct vp_arena_chunk *chunk = arena->head;
    void *p;

    if (n_bytes > SIZE_MAX / 2)
        return NULL;
    n_bytes = vp_align_up(n_bytes ? n_bytes : 1, 16);
    if (!chunk || chunk->n_bytes - chunk->used < n_bytes) {
        size_t size = n_bytes > CHUNK_BYTES ? n_bytes : CHUNK_BYTES;

        chunk = calloc(1, sizeof(*chunk) + size);
        if (!chunk)
            return NULL;
        chunk->n_bytes = size;
        chunk->next = arena->head;
        arena->head = chunk;
    }
    p = chunk->data + chunk->used;
    chunk->used += n_bytes;
    return p;
}

char *vp_arena_strdup(struct vp_arena *arena, const char *text)
{
    return vp_arena_printf(arena, "%s", text);
}

char *vp_arena_printf(struct vp_arena *arena, const char *fmt, ...)
{
    va_list args;
    char *text;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        return NULL;
    text = vp_arena_alloc(arena, (size_t)n + 1);
    if (!text)
        return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

void vp_arena_release(struct vp_arena *arena)
{
    struct vp_arena_chunk *chunk = arena->head;

    while (chunk) {
        struct vp_arena_chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    arena->head = NULL;
}

/* Returns the bytes between the guard pages. Layout: guard page | slack |
 * buffer | guard page. */
static size_t inner_bytes(size_t n_bytes, size_t page)
{
    return vp_align_up(vp_align_up(n_bytes ? n_bytes : 1, VP_TENSOR_ALIGN),
                       page);
}

enum vp_status vp_pages_alloc(size_t n_bytes, void **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = inner_bytes(n_bytes, page);
    unsigned char *map;

    if (n_bytes > SIZE_MAX / 2)
        return VP_ERR_NOMEM;
    map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
    if (map == MAP_FAILED)
        return VP_ERR_NOMEM;
    if (mprotect(map + page, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, inner + 2 * page);
        return VP_ERR_NOMEM;
    }
    if (inner >= HUGE_BYTES) /* only advice: it may fail */
        madvise(map + page, inner, MADV_HUGEPAGE);
    *out = map + page + inner - vp_align_up(n_bytes, VP_TENSOR_ALIGN);
    return VP_OK;
}

bool vp_pages_touch(void *begin, size_t n_bytes)
{
    enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)begin / page * page;
    uintptr_t to = vp_align_up((uintptr_t)begin + n_bytes, page);

    return n_bytes == 0 ||
           madvise((void *)from, to - from, POPULATE_WRITE) == 0;
}

void vp_pages_free(void *pages, size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = inner_bytes(n_bytes, page);
    unsigned char *p = pages;

    if (!p)
        return;
    p -= inner - vp_align_up(n_bytes, VP_TENSOR_ALIGN);
    munmap(p - page, inner + 2 * page);
}
