/* The BF16 product kernel for AMX: a block of c is 2 x 2 tiles of sums. */
#include "backend/cpu/gemm_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("amx-tile,amx-bf16,avx512f")))

/* The operand of the LDTILECFG instruction: eight tiles of 16 rows of 64
 * bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static TARGET void begin(void)
{
    static const struct tile_config config = {
        .palette = 1,
        .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
        .rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
    };

    _tile_loadconfig(&config);
}

/* Releases the tile registers: while they are in use, each context switch saves
 * them. */
static TARGET void end(void)
{
    _tile_release();
}

static TARGET void block(float *c, int64_t ldc, const uint16_t *a,
                         const uint16_t *b, int64_t n, bool add,
                         const struct vp_gemm_ahead *ahead)
{
    const int64_t row = 64, stride = ldc * (int64_t)sizeof(float);
    float *lower = c + 16 * ldc;

    (void)ahead;
    if (add) {
        _tile_loadd(0, c, stride);
        _tile_loadd(1, c + 16, stride);
        _tile_loadd(2, lower, stride);
        _tile_loadd(3, lower + 16, stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t i = 0; i < n; i++) {
        _tile_loadd(6, b, row);
        _tile_loadd(4, a, row);
        _tile_loadd(7, b + 512, row);
        _tile_loadd(5, a + 512, row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += VP_STRIP_BLOCK;
        b += VP_STRIP_BLOCK;
    }
    _tile_stored(0, c, stride);
    _tile_stored(1, c + 16, stride);
    _tile_stored(2, lower, stride);
    _tile_stored(3, lower + 16, stride);
}

/* 64 KiB of a strip of b: the level-2 cache delivers tiles as fast as they are
 * multiplied, and sums are loaded and stored half as often as with 32 KiB. */
enum { K_BLOCKS = 32 };

const struct vp_gemm_bf16_kernels vp_gemm_amx_bf16 = { K_BLOCKS, begin, end,
                                                       block };

#else
typedef int vp_gemm_amx_absent;
#endif
