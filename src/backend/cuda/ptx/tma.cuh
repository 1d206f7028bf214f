/* Copies of boxes of a matrix to shared memory by the copy engine of compute
 * capability 9.0, barriers that count what has arrived, and clusters: blocks
 * next to each other, of which one may copy to all. */
#ifndef VP_BACKEND_CUDA_PTX_TMA_CUH
#define VP_BACKEND_CUDA_PTX_TMA_CUH

#include "backend/cuda/ptx/copy.cuh"

#include <cuda.h>

/* In shared memory. It has phases, 0, 1, 0, ...: one ends when all have arrived
 * that it was made for, and all bytes that were announced. */
typedef uint64_t vp_barrier;

static __device__ inline void vp_barrier_init(vp_barrier *barrier, int n)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(vp_shared_address(barrier)), "r"(n)
                 : "memory");
}

/* After the barriers of a block were made, and before all of a cluster meet. */
static __device__ inline void vp_barrier_publish(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

static __device__ inline void vp_barrier_arrive(vp_barrier *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"(vp_shared_address(barrier))
                 : "memory");
}

/* Arrives, and announces bytes. */
static __device__ inline void vp_barrier_expect(vp_barrier *barrier,
                                                int n_bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(vp_shared_address(barrier)), "r"(n_bytes)
                 : "memory");
}

/* At the barrier of a block of the cluster. It makes nothing visible that this
 * thread has written. */
static __device__ inline void vp_barrier_arrive_at(vp_barrier *barrier,
                                                   int block)
{
    asm volatile("{\n.reg .b32 at;\n"
                 "mapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [at];\n}"
                 :
                 : "r"(vp_shared_address(barrier)), "r"(block)
                 : "memory");
}

/* Until the phase ends, or not at all if the next one is under way. */
static __device__ inline void vp_barrier_wait(vp_barrier *barrier, int phase)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}"
                 :
                 : "r"(vp_shared_address(barrier)), "r"(phase)
                 : "memory");
}

/* Starts to copy the box of `map` from `col`, `row` on; its bytes arrive at
 * `barrier`. What lies outside of the matrix is zero. */
static __device__ inline void vp_tma_copy(void *shared, const CUtensorMap *map,
                                          int col, int row, vp_barrier *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :
                 : "r"(vp_shared_address(shared)), "l"(map), "r"(col), "r"(row),
                   "r"(vp_shared_address(barrier))
                 : "memory");
}

/* The same of one of the matrices of `map`. */
static __device__ inline void vp_tma_copy_matrix(void *shared,
                                                 const CUtensorMap *map,
                                                 int col, int row, int matrix,
                                                 vp_barrier *barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];"
                 :
                 : "r"(vp_shared_address(shared)), "l"(map), "r"(col), "r"(row),
                   "r"(matrix), "r"(vp_shared_address(barrier))
                 : "memory");
}

/* The same of a matrix, to that place of every block of a cluster of N. */
template <int N>
static __device__ inline void vp_tma_copy_to_all(void *shared,
                                                 const CUtensorMap *map,
                                                 int col, int row,
                                                 vp_barrier *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3}], [%4], %5;"
                 :
                 : "r"(vp_shared_address(shared)), "l"(map), "r"(col), "r"(row),
                   "r"(vp_shared_address(barrier)),
                   "h"((unsigned short)((1 << N) - 1))
                 : "memory");
}

/* The reverse: starts to copy a box in shared memory, which products may see
 * (wgmma.cuh), to one of the matrices of `map`. What lies outside of the matrix
 * is left out. */
static __device__ inline void vp_tma_store_matrix(const CUtensorMap *map,
                                                  int col, int row, int matrix,
                                                  const void *shared)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
                 " [%0, {%1, %2, %3}], [%4];"
                 :
                 : "l"(map), "r"(col), "r"(row), "r"(matrix),
                   "r"(vp_shared_address(shared))
                 : "memory");
}

/* After those that this thread has started. */
static __device__ inline void vp_tma_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}

/* Until their boxes have been read: they may be written again. */
static __device__ inline void vp_tma_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory");
}

/* All threads of all blocks of the cluster meet. */
static __device__ inline void vp_cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;"
                 :
                 :
                 : "memory");
}

/* Number of this block in its cluster. */
static __device__ inline int vp_cluster_rank(void)
{
    int rank;

    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

#endif
