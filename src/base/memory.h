/* Checked sizes, an arena for bookkeeping, and buffers between guard pages. */
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

/* Writes a * b. Returns false, and writes nothing, if a factor is negative or
 * the product overflows. */
static inline bool vp_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b))
        return false;
    *out = a * b;
    return true;
}

/* Writes an amount of memory as all messages show it: "1.5 MiB". */
enum { VP_BYTES_TEXT = 32 };
void vp_bytes_text(int64_t bytes, char *out, size_t n_bytes);
/* Writes two amounts. If both would read the same, they are written as bytes
 * instead, so that different amounts look different. */
void vp_bytes_texts(int64_t a, int64_t b, char *a_out, char *b_out,
                    size_t n_bytes);

/* Bookkeeping memory that is freed all at once. Initialise to zero. Not
 * thread-safe, and never used inside a training step. */
struct vp_arena {
    struct vp_arena_chunk *head;
};

/* All return memory of the arena, aligned to 16 bytes, or NULL if memory is
 * exhausted. vp_arena_alloc() zeroes it. */
void *vp_arena_alloc(struct vp_arena *arena, size_t n_bytes);
char *vp_arena_strdup(struct vp_arena *arena, const char *text);
char *vp_arena_printf(struct vp_arena *arena, const char *fmt, ...)
    VP_PRINTF(2, 3);
void vp_arena_release(struct vp_arena *arena);

/* Allocates zeroed pages with an inaccessible guard page on both sides. The end
 * of the buffer, rounded up to VP_TENSOR_ALIGN, is the start of the upper guard
 * page, so that an overrun faults. Free with the same `n_bytes`. */
enum vp_status vp_pages_alloc(size_t n_bytes, void **out);
void vp_pages_free(void *pages, size_t n_bytes);
/* Faults in the pages of [begin, begin + n_bytes) of such a buffer, so that
 * later writes cause no page faults. Changes no byte: other threads may write
 * at the same time. Returns false if the kernel cannot do it (Linux before
 * 5.14) or if memory is exhausted. */
bool vp_pages_touch(void *begin, size_t n_bytes);

#endif
