/* Checked sizes, a bump arena for bookkeeping, and guarded page buffers. */
#ifndef VP_BASE_MEMORY_H
#define VP_BASE_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Offsets of tensors are multiples of this many bytes on every backend. */
#define VP_TENSOR_ALIGN 256

static inline size_t vp_align_up(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

/* False when the product does not fit; `*out` is then untouched. */
static inline bool vp_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b))
        return false;
    *out = a * b;
    return true;
}

/* "1.5 MiB": how memory is told to people, everywhere. */
enum { VP_BYTES_TEXT = 32 };
void vp_bytes_text(int64_t bytes, char *out, size_t n_bytes);
/* Two amounts that differ, in texts that do. */
void vp_bytes_texts(int64_t a, int64_t b, char *a_out, char *b_out,
                    size_t n_bytes);

/* Bookkeeping memory that is freed all at once. Never used inside a step. */
struct vp_arena {
    struct vp_arena_chunk *head;
};

/* Returns zeroed memory, or NULL when memory is exhausted. */
void *vp_arena_alloc(struct vp_arena *arena, size_t n_bytes);
char *vp_arena_strdup(struct vp_arena *arena, const char *text);
char *vp_arena_printf(struct vp_arena *arena, const char *fmt, ...)
    VP_PRINTF(2, 3);
void vp_arena_release(struct vp_arena *arena);

/* Zeroed pages with an inaccessible page on both sides; the end of the buffer
 * touches the upper guard page (to VP_TENSOR_ALIGN), so an overrun faults. */
enum vp_status vp_pages_alloc(size_t n_bytes, void **out);
void vp_pages_free(void *pages, size_t n_bytes);
/* Makes [begin, begin + n_bytes) of such a buffer present in memory, so that
 * writing to it later is not slowed down by the kernel. Changes no byte: other
 * threads may write meanwhile. False: this kernel cannot (Linux before 5.14), or
 * there is no memory left. */
bool vp_pages_touch(void *begin, size_t n_bytes);

#endif
