/* Kernels of embed: out = scale * table[id] + positions[p] + types[t].
 *
 * The gradient of a table row is a sum of rows that are scattered over the
 * batch. A stable sort of (table row, row) brings these together. Pieces of the
 * sorted list are summed by one block each; then the sums of runs that cross
 * pieces are joined in order. A frequent token therefore takes no longer than
 * others, and rows are always added in the order of the batch. */
#include "backend/cuda/rows/rows.cuh"

extern "C" {
#include "graph/slice.h"
}

#include <cub/device/device_radix_sort.cuh>

enum {
    THREADS = 128,
    PIECE = VP_EMBED_PIECE,
    IN_FLIGHT = 4, /* rows that a thread reads at a time */
    JOINED = 8,    /* partial sums that a thread reads at a time */
    SLICES = 8,    /* slices of the samples in sums of positions */
    TYPE_PARTS = VP_EMBED_TYPE_PARTS,
};

/* Arguments of all kernels. */
struct embed {
    const int32_t *ids, *type_ids; /* [rows]; type_ids may be NULL */
    const int32_t *at;             /* [rows]: given positions, or NULL */
    int32_t pad;                   /* id of padding; -1: none */
    float scale;
    int64_t rows, cols, q_len;
    /* This member's slice of the token table: its first id, and its number of
     * rows. The output for ids of other members is zero here. Only the first
     * member adds positions and types (`leads`). */
    int64_t first_id, n_ids;
    bool leads;
};

static struct embed embed_of(const struct vp_cuda_call *call)
{
    const struct vp_op *op = call->args.op;
    const struct vp_value *out = vp_call_value(call, op->out);
    const struct vp_param *table = &call->args.graph->params[op->par[0]];
    int me = call->args.members ? call->args.members->me : 0;
    struct embed embed;

    embed.ids = (const int32_t *)call->args.in[0];
    embed.type_ids = (const int32_t *)call->args.in[1];
    embed.at = (const int32_t *)call->args.in[2];
    embed.pad = op->attr.pad;
    embed.scale = op->attr.scale;
    embed.rows = out->rows;
    embed.cols = out->cols;
    embed.q_len = op->attr.q_len;
    embed.n_ids = table->rows;
    embed.first_id = me > 0 ? vp_slice_first(table, me) : 0;
    embed.leads = me == 0 || table->slice.axis == VP_SLICE_NONE;
    return embed;
}

/* Row of the token table, or -1 if it is in another member's slice. */
static __device__ inline int64_t own_id(const struct embed &embed, int64_t row)
{
    int64_t id = embed.ids[row] - embed.first_id;

    return id >= 0 && id < embed.n_ids ? id : -1;
}

static __device__ inline bool is_pad(const struct embed &embed, int64_t row)
{
    return embed.pad >= 0 && embed.ids[row] == embed.pad;
}

/* With padding, the row of the position table is the number of other ids before
 * `row` in its sample. Returns the share of that number which `thread` of
 * `n_threads` counts. */
static __device__ inline int count_before(const struct embed &embed,
                                          int64_t row, int thread,
                                          int n_threads)
{
    int64_t first = row - row % embed.q_len;
    int n = 0;

    for (int64_t i = first + thread; i < row; i += n_threads)
        n += embed.ids[i] != embed.pad;
    return n;
}

/* ---- Forward ------------------------------------------------------------ */

template <typename T, int N>
static __device__ inline void add_row(float *x, const T *row)
{
    float y[N];

    vp_load<N>(y, row);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] += y[i];
}

/* Table rows for one row of the batch; NULL: nothing is added. */
template <typename T> struct table_rows {
    const T *token, *position, *type;
};

template <typename T, int N>
static __device__ inline void write_row(T *out, const struct embed &embed,
                                        const table_rows<T> &from)
{
    for (int64_t col = threadIdx.x * N; col < embed.cols; col += THREADS * N) {
        float x[N] = { 0.0f };

        if (from.token) {
            vp_load<N>(x, from.token + col);
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] *= embed.scale;
        }
        if (from.position)
            add_row<T, N>(x, from.position + col);
        if (from.type)
            add_row<T, N>(x, from.type + col);
        vp_store<N>(out + col, x);
    }
}

template <typename T, int N>
static __device__ inline void clear_row(T *out, int64_t cols)
{
    const float zeros[N] = { 0.0f };

    for (int64_t col = threadIdx.x * N; col < cols; col += THREADS * N)
        vp_store<N>(out + col, zeros);
}

/* One block per row. `tables`: the first rows of the tables. */
template <typename T, int N>
static __global__ void embed_kernel(T *out, table_rows<T> tables,
                                    struct embed embed)
{
    __shared__ float shared[32];
    int64_t row = blockIdx.x, cols = embed.cols;
    int64_t position = row % embed.q_len;
    table_rows<T> from = { NULL, NULL, NULL };

    out += row * cols;
    if (embed.at)
        position = embed.at[row];
    if (is_pad(embed, row) || position < 0) {
        clear_row<T, N>(out, cols);
        return;
    }
    if (embed.pad >= 0 && tables.position &&
        !embed.at) /* counts are exact as floats */
        position = (int64_t)vp_block_sum(
            (float)count_before(embed, row, threadIdx.x, THREADS), shared);
    if (own_id(embed, row) >= 0)
        from.token = tables.token + own_id(embed, row) * cols;
    if (tables.position && embed.leads)
        from.position = tables.position + position * cols;
    if (tables.type && embed.leads)
        from.type = tables.type + embed.type_ids[row] * cols;
    write_row<T, N>(out, embed, from);
}

template <typename T> static void launch_embed(const struct vp_cuda_call *call)
{
    struct embed embed = embed_of(call);
    table_rows<T> tables = { (const T *)call->args.par[0],
                             (const T *)call->args.par[1],
                             (const T *)call->args.par[2] };
    unsigned blocks = (unsigned)embed.rows;
    T *out = (T *)call->args.out;

    if (vp_fits_packs<T>(embed.cols))
        embed_kernel<T, vp_vec<T>::N>
            <<<blocks, THREADS, 0, call->stream>>>(out, tables, embed);
    else
        embed_kernel<T, 1>
            <<<blocks, THREADS, 0, call->stream>>>(out, tables, embed);
}

enum vp_status vp_cuda_embed_f(const struct vp_cuda_call *call)
{
    VP_WITH_TYPE(vp_call_value(call, call->args.op->out)->dtype,
                 launch_embed<T>(call));
    return VP_OK;
}

/* ---- Scratch ------------------------------------------------------------ */

struct scratch {
    uint32_t *keys, *sorted_keys, *rows, *sorted_rows; /* [rows] */
    float *parts; /* [pieces, 2, cols] or [TYPE_PARTS, types, cols] */
    void *sort;
    size_t sort_bytes;
};

/* Number of bits of the keys 0 .. n. Key n marks rows that are not summed. */
static int key_bits(int64_t n)
{
    int bits = 1;

    while (n >> bits)
        bits++;
    return bits;
}

static int64_t rows_of(const struct vp_graph *graph, vp_par par)
{
    return par == VP_NONE ? 0 : graph->params[par].rows;
}

/* Divides the scratch of a call into its areas. */
static struct scratch scratch_of(const struct vp_kargs *args)
{
    struct vp_embed_scratch areas = vp_cuda_embed_areas(args->graph, args->op);
    char *base = (char *)args->scratch;
    struct scratch scratch;
    uint32_t **lists[] = { &scratch.keys, &scratch.sorted_keys, &scratch.rows,
                           &scratch.sorted_rows };

    for (int i = 0; i < 4; i++, base += areas.list)
        *lists[i] = (uint32_t *)base;
    scratch.parts = (float *)base;
    scratch.sort = base + areas.parts;
    scratch.sort_bytes = areas.sort;
    return scratch;
}

/* ---- Scattered sums ----------------------------------------------------- */

/* table [n_keys, cols] (+)= scale * the sum of the rows of dout with each
 * key. */
struct scatter {
    const uint32_t *keys, *rows; /* sorted by key, then row */
    const void *dout;            /* [n_rows, cols] */
    float *table;
    /* [pieces, 2, cols]: the sum of the run that began in an earlier piece, and
     * the sum of the run that continues in the next piece. */
    float *parts;
    float scale;
    bool add; /* the table holds earlier gradients */
    int64_t n_rows, cols;
    uint32_t n_keys;
};

/* Keys and rows number [begin, begin + n) of the sorted list, and the keys
 * before and after them. */
struct piece {
    uint32_t before, key[PIECE], after;
    uint32_t row[PIECE];
};

static __device__ inline void read_piece(struct piece *piece,
                                         const struct scatter &s, int64_t begin,
                                         int n)
{
    int i = threadIdx.x;

    if (i < n) {
        piece->key[i] = s.keys[begin + i];
        piece->row[i] = s.rows[begin + i];
    }
    if (i == 0) { /* no key equals n_keys + 1 */
        piece->before = begin > 0 ? s.keys[begin - 1] : s.n_keys + 1;
        piece->after = begin + n < s.n_rows ? s.keys[begin + n] : s.n_keys + 1;
    }
    __syncthreads();
}

/* Stores the sum of a run that ends with element i of the piece: in the table
 * if the run is complete, else in `parts`. */
template <int N>
static __device__ inline void end_run(const struct scatter &s,
                                      const struct piece *piece, int i, int n,
                                      int64_t col, float *sum)
{
    uint32_t key = piece->key[i];
    bool began = key == piece->key[0] && key == piece->before;
    bool goes_on = i == n - 1 && key == piece->after;
    float *parts = s.parts + 2 * blockIdx.x * s.cols + col;

    if (key == s.n_keys)
        return;
    if (began)
        vp_store<N>(parts, sum);
    else if (goes_on)
        vp_store<N>(parts + s.cols, sum);
    else
        vp_put<N>(s.table + key * s.cols + col, s.add, sum);
}

template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    sum_piece_kernel(struct scatter s)
{
    __shared__ struct piece piece;
    int64_t begin = (int64_t)blockIdx.x * PIECE;
    int64_t col = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * N;
    int n = (int)(s.n_rows - begin < PIECE ? s.n_rows - begin : PIECE);
    const T *dout = (const T *)s.dout + col;
    vp_pack<T, N> rows[IN_FLIGHT];
    float sum[N] = { 0.0f };

    read_piece(&piece, s, begin, n);
    if (col >= s.cols)
        return;
    for (int i = 0; i < n; i += IN_FLIGHT) {
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (i + k < n)
                rows[k] = vp_read<N>(dout + piece.row[i + k] * s.cols);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            if (i + k >= n)
                break;
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += s.scale * vp_get(rows[k], j);
            if (i + k < n - 1 && piece.key[i + k] == piece.key[i + k + 1])
                continue;
            end_run<N>(s, &piece, i + k, n, col, sum);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] = 0.0f;
        }
    }
}

/* Returns the first piece after `piece` that does not begin with `key`. All
 * threads of the block must call it; each looks at one piece at a time. */
static __device__ inline int64_t end_of_key(const struct scatter &s,
                                            int64_t piece, uint32_t key)
{
    int64_t end = piece + 1;
    int n_found;

    do {
        int64_t first = (end + threadIdx.x) * PIECE;

        n_found = __syncthreads_count(first < s.n_rows && s.keys[first] == key);
        end += n_found;
    } while (n_found == THREADS);
    return end;
}

/* Adds up the parts of a run that crosses pieces and began in piece blockIdx.x,
 * if there is one. */
template <int N>
static __global__ void __launch_bounds__(THREADS)
    join_pieces_kernel(struct scatter s)
{
    int64_t piece = blockIdx.x, begin = piece * PIECE, end = begin + PIECE;
    int64_t col = ((int64_t)blockIdx.y * THREADS + threadIdx.x) * N;
    const float *parts = s.parts + (2 * piece + 1) * s.cols + col;
    float sum[N];
    uint32_t key;

    if (end >= s.n_rows)
        return;
    key = s.keys[end - 1];
    if (s.keys[end] != key || key == s.n_keys)
        return; /* the last run ends here */
    if (begin > 0 && s.keys[begin - 1] == key)
        return; /* it began in an earlier piece */
    end = end_of_key(s, piece, key);
    if (col >= s.cols)
        return;
    vp_load<N>(sum, parts);
    parts += s.cols;
    for (int64_t i = piece + 1; i < end; i += JOINED) {
        float more[JOINED][N];

#pragma unroll
        for (int k = 0; k < JOINED; k++, parts += 2 * s.cols)
            if (i + k < end)
                vp_load<N>(more[k], parts);
#pragma unroll
        for (int k = 0; k < JOINED; k++)
#pragma unroll
            for (int j = 0; j < N && i + k < end; j++)
                sum[j] += more[k][j];
    }
    vp_put<N>(s.table + key * s.cols + col, s.add, sum);
}

template <typename T, int N>
static void launch_scatter(const struct scatter *s, cudaStream_t stream)
{
    dim3 grid((unsigned)vp_parts_of(s->n_rows, PIECE),
              (unsigned)vp_parts_of(s->cols, THREADS * N));

    sum_piece_kernel<T, N><<<grid, THREADS, 0, stream>>>(*s);
    join_pieces_kernel<N><<<grid, THREADS, 0, stream>>>(*s);
}

template <typename T>
static void scatter_rows(const struct scatter *s, cudaStream_t stream)
{
    if (vp_fits_packs<T>(s->cols))
        launch_scatter<T, vp_vec<T>::N>(s, stream);
    else
        launch_scatter<T, 1>(s, stream);
}

/* Sets the key of every row of the batch, which is its table row; n_keys for
 * padding, and for ids of other members. */
static __global__ void key_kernel(uint32_t *keys, uint32_t *rows,
                                  struct embed embed, bool by_position,
                                  uint32_t n_keys)
{
    int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (row >= embed.rows)
        return;
    rows[row] = (uint32_t)row;
    if (is_pad(embed, row))
        keys[row] = n_keys;
    else if (by_position)
        keys[row] = (uint32_t)count_before(embed, row, 0, 1);
    else if (own_id(embed, row) >= 0)
        keys[row] = (uint32_t)own_id(embed, row);
    else
        keys[row] = n_keys;
}

/* Gradient of table `which`, by sorting: tokens (0), or positions counted
 * without padding (1). */
static void scatter_table(const struct vp_cuda_call *call,
                          const struct embed *embed, struct scratch *scratch,
                          int which)
{
    int64_t n_keys = rows_of(call->args.graph, call->args.op->par[which]);
    unsigned blocks = (unsigned)vp_parts_of(embed->rows, THREADS);
    struct scatter s = {};

    s.keys = scratch->sorted_keys;
    s.rows = scratch->sorted_rows;
    s.dout = call->args.dout;
    s.table = (float *)call->args.dpar[which];
    s.parts = scratch->parts;
    s.scale = which == 0 ? embed->scale : 1.0f;
    s.add = call->args.mb->accumulate;
    s.n_rows = embed->rows;
    s.cols = embed->cols;
    s.n_keys = (uint32_t)n_keys;
    key_kernel<<<blocks, THREADS, 0, call->stream>>>(
        scratch->keys, scratch->rows, *embed, which == 1, s.n_keys);
    cub::DeviceRadixSort::SortPairs(
        scratch->sort, scratch->sort_bytes, scratch->keys, scratch->sorted_keys,
        scratch->rows, scratch->sorted_rows, (int)embed->rows, 0,
        key_bits(n_keys), call->stream);
    if (!s.add) /* rows that do not occur in the batch */
        cudaMemsetAsync(s.table, 0,
                        (size_t)(n_keys * s.cols) * sizeof(*s.table),
                        call->stream);
    VP_WITH_TYPE(vp_call_value(call, call->args.op->out)->dtype,
                 scatter_rows<T>(&s, call->stream));
}

/* ---- Positions: each occurs once in every sample ------------------------ */

/* One block for each position and 32 packs of columns. Each warp sums a slice
 * of the samples; the first warp adds the slices. */
template <typename T, int N>
static __global__ void __launch_bounds__(32 * SLICES)
    position_kernel(float *table, bool add, const T *dout, struct embed embed)
{
    __shared__ float shared[SLICES][32][N];
    int slice = threadIdx.x / 32, lane = threadIdx.x % 32;
    int64_t position = blockIdx.x, q_len = embed.q_len;
    int64_t col = ((int64_t)blockIdx.y * 32 + lane) * N;
    int64_t batch = position < q_len ? embed.rows / q_len : 0;
    int64_t end = batch * (slice + 1) / SLICES;
    float sum[N] = { 0.0f };

    if (col < embed.cols) {
#pragma unroll 4
        for (int64_t i = batch * slice / SLICES; i < end; i++)
            add_row<T, N>(sum,
                          dout + (i * q_len + position) * embed.cols + col);
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        shared[slice][lane][j] = sum[j];
    __syncthreads();
    if (slice > 0 || col >= embed.cols)
        return;
    for (int i = 1; i < SLICES; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += shared[i][lane][j];
    vp_put<N>(table + position * embed.cols + col, add, sum);
}

template <typename T, int N>
static void launch_positions(const struct vp_cuda_call *call,
                             const struct embed *embed)
{
    dim3 grid((unsigned)rows_of(call->args.graph, call->args.op->par[1]),
              (unsigned)vp_parts_of(embed->cols, 32 * N));

    position_kernel<T, N><<<grid, 32 * SLICES, 0, call->stream>>>(
        (float *)call->args.dpar[1], call->args.mb->accumulate,
        (const T *)call->args.dout, *embed);
}

template <typename T>
static void sum_positions(const struct vp_cuda_call *call,
                          const struct embed *embed)
{
    if (vp_fits_packs<T>(embed->cols))
        launch_positions<T, vp_vec<T>::N>(call, embed);
    else
        launch_positions<T, 1>(call, embed);
}

/* ---- Types: few table rows, each with many rows ------------------------- */

static int64_t type_part_rows(int64_t rows)
{
    return vp_parts_of(rows, TYPE_PARTS);
}

/* parts [n_parts, types, cols]. One block for each part and type. */
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    type_kernel(float *parts, const T *dout, struct embed embed, int64_t part)
{
    int64_t begin = blockIdx.y * part, end = begin + part;
    int64_t col = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    int type = (int)blockIdx.z;
    float sum[N] = { 0.0f };

    if (col >= embed.cols)
        return;
    if (end > embed.rows)
        end = embed.rows;
#pragma unroll 4
    for (int64_t row = begin; row < end; row++)
        if (embed.type_ids[row] == type && !is_pad(embed, row))
            add_row<T, N>(sum, dout + row * embed.cols + col);
    parts += ((int64_t)blockIdx.y * gridDim.z + type) * embed.cols + col;
    vp_store<N>(parts, sum);
}

template <typename T, int N>
static void launch_types(const struct vp_cuda_call *call,
                         const struct embed *embed, float *parts)
{
    int64_t part = type_part_rows(embed->rows);
    dim3 grid((unsigned)vp_parts_of(embed->cols, THREADS * N),
              (unsigned)vp_parts_of(embed->rows, part),
              (unsigned)rows_of(call->args.graph, call->args.op->par[2]));

    type_kernel<T, N><<<grid, THREADS, 0, call->stream>>>(
        parts, (const T *)call->args.dout, *embed, part);
}

template <typename T>
static void sum_types(const struct vp_cuda_call *call,
                      const struct embed *embed, float *parts)
{
    struct vp_part_sums sums = {};

    if (vp_fits_packs<T>(embed->cols))
        launch_types<T, vp_vec<T>::N>(call, embed, parts);
    else
        launch_types<T, 1>(call, embed, parts);
    sums.parts = parts;
    sums.dst[0] = (float *)call->args.dpar[2];
    sums.n_dst = 1;
    sums.n_parts = vp_parts_of(embed->rows, type_part_rows(embed->rows));
    sums.cols = rows_of(call->args.graph, call->args.op->par[2]) * embed->cols;
    sums.add = call->args.mb->accumulate;
    vp_cuda_add_parts(&sums, call->stream);
}

enum vp_status vp_cuda_embed_w(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    enum vp_dtype dtype = vp_call_value(call, args->op->out)->dtype;
    struct embed embed = embed_of(call);
    struct scratch scratch = scratch_of(args);

    if (args->dpar[0])
        scatter_table(call, &embed, &scratch, 0);
    if (args->dpar[1] && embed.pad >= 0)
        scatter_table(call, &embed, &scratch, 1);
    else if (args->dpar[1])
        VP_WITH_TYPE(dtype, sum_positions<T>(call, &embed));
    if (args->dpar[2])
        VP_WITH_TYPE(dtype, sum_types<T>(call, &embed, scratch.parts));
    return VP_OK;
}
