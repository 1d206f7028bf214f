/* The Tensor Memory Accelerator (TMA) of compute capability 9.0: asynchronous
 * copies of boxes of a matrix to and from shared memory, the barriers
 * (mbarrier) that count arrivals of threads and bytes, and clusters of blocks,
 * in which one block can copy to the shared memory of all. */
#ifndef VP_BACKEND_CUDA_PTX_TMA_CUH
#define VP_BACKEND_CUDA_PTX_TMA_CUH

#include "backend/cuda/ptx/copy.cuh"

#include <cuda.h>

/* A barrier in shared memory. Its phases are numbered 0, 1, 0, ...; a phase
 * ends when the `n` arrivals given to vp_barrier_init() have happened and all
 * announced bytes have arrived. */
typedef uint64_t vp_barrier;

static __device__ inline void vp_barrier_init(vp_barrier *barrier, int n)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(vp_shared_address(barrier)), "r"(n)
                 : "memory");
}

/* Makes the initialized barriers of this block visible to its cluster. Call it
 * after vp_barrier_init() and before vp_cluster_sync(). */
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

/* Arrives, and announces `n_bytes` that copies will bring in this phase. */
static __device__ inline void vp_barrier_expect(vp_barrier *barrier,
                                                int n_bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(vp_shared_address(barrier)), "r"(n_bytes)
                 : "memory");
}

/* Arrives at the barrier of block `block` of the cluster. It does not make this
 * thread's earlier writes visible there. */
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

/* Waits until phase `phase` has ended. Returns at once if the next phase has
 * already begun. */
static __device__ inline void vp_barrier_wait(vp_barrier *barrier, int phase)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}"
                 :
                 : "r"(vp_shared_address(barrier)), "r"(phase)
                 : "memory");
}

/* Starts to copy the box of `map` whose first element is (`row`, `col`) to
 * `shared`. Its bytes arrive at `barrier`. Elements outside of the matrix are
 * filled with zeros. */
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

/* Like vp_tma_copy(), from matrix number `matrix` of a `map` with several. */
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

/* Like vp_tma_copy(), to the same place in each of the N blocks of the cluster,
 * at the same barrier of each. */
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

/* Starts to copy a box from shared memory to matrix number `matrix` of `map`.
 * The box must have been published by vp_wg_publish() (wgmma.cuh). Elements
 * outside of the matrix are not written. */
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

/* Makes one group of the stores that this thread has started. */
static __device__ inline void vp_tma_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}

/* Waits until this thread's groups of stores have read their boxes in shared
 * memory, which may then be overwritten. */
static __device__ inline void vp_tma_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory");
}

/* Barrier of all threads of all blocks of the cluster. */
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
