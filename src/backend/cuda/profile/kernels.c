/* Records kernels, copies and memsets of the GPU with CUPTI's activity API,
 * whose functions are looked up in a library that the caller has loaded. */
#include "backend/cuda/profile/kernels.h"

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { BUFFER_BYTES = 4 << 20, BUFFER_ALIGN = 8 };

/* Label of a launch. */
struct tag {
    uint32_t id, label;
};

/* The recording. CUPTI calls back from threads of its own. */
static struct {
    pthread_mutex_t lock;
    struct vp_cuda_span *spans;
    size_t n_spans, cap_spans;
    struct tag *tags;
    size_t n_tags, cap_tags;
    bool lost; /* records were lost because memory ran out */
} recording = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
    CUptiResult (*callbacks)(CUpti_BuffersCallbackRequestFunc request,
                             CUpti_BuffersCallbackCompleteFunc complete);
    CUptiResult (*enable)(CUpti_ActivityKind kind);
    CUptiResult (*disable)(CUpti_ActivityKind kind);
    CUptiResult (*flush)(uint32_t flags);
    CUptiResult (*next)(uint8_t *buffer, size_t n_bytes,
                        CUpti_Activity **record);
    CUptiResult (*push)(CUpti_ExternalCorrelationKind kind, uint64_t id);
    CUptiResult (*pop)(CUpti_ExternalCorrelationKind kind, uint64_t *id);
} cupti;

/* The last three kinds are needed for labels only. */
static const CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
};
enum { N_KINDS = sizeof(kinds) / sizeof(*kinds), N_PLAIN_KINDS = 3 };

static bool load(void *library)
{
    const struct {
        void *fn;
        const char *name;
    } wanted[] = {
        { &cupti.callbacks, "cuptiActivityRegisterCallbacks" },
        { &cupti.enable, "cuptiActivityEnable" },
        { &cupti.disable, "cuptiActivityDisable" },
        { &cupti.flush, "cuptiActivityFlushAll" },
        { &cupti.next, "cuptiActivityGetNextRecord" },
        { &cupti.push, "cuptiActivityPushExternalCorrelationId" },
        { &cupti.pop, "cuptiActivityPopExternalCorrelationId" },
    };

    for (size_t i = 0; i < VP_COUNT_OF(wanted); i++) {
        void *fn = library ? dlsym(library, wanted[i].name) : NULL;

        if (!fn)
            return false;
        *(void **)wanted[i].fn = fn;
    }
    return true;
}

/* ---- Records ------------------------------------------------------------ */

/* Returns `array` with room for one more element after its `n`, or sets
 * recording.lost. */
static void *grow(void *array, size_t n, size_t *cap, size_t n_bytes)
{
    void *wider;

    if (n < *cap)
        return array;
    *cap = *cap ? 2 * *cap : 4096;
    wider = realloc(array, *cap * n_bytes);
    if (!wider) {
        *cap = n;
        recording.lost = true;
        return array;
    }
    return wider;
}

static void add_span(uint64_t start, uint64_t end, uint32_t id,
                     const char *name)
{
    recording.spans = grow(recording.spans, recording.n_spans,
                           &recording.cap_spans, sizeof(*recording.spans));
    if (recording.n_spans < recording.cap_spans)
        recording.spans[recording.n_spans++] = (struct vp_cuda_span){
            (int64_t)start, (int64_t)end, id, 0, name
        };
}

static void add_tag(uint32_t id, uint32_t label)
{
    recording.tags = grow(recording.tags, recording.n_tags, &recording.cap_tags,
                          sizeof(*recording.tags));
    if (recording.n_tags < recording.cap_tags)
        recording.tags[recording.n_tags++] = (struct tag){ id, label };
}

static void read_record(const CUpti_Activity *record)
{
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const CUpti_ActivityKernel10 *k = (const void *)record;

        add_span(k->start, k->end, k->correlationId, k->name);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const CUpti_ActivityMemcpy6 *c = (const void *)record;

        add_span(c->start, c->end, c->correlationId, "copy");
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const CUpti_ActivityMemset4 *m = (const void *)record;

        add_span(m->start, m->end, m->correlationId, "memset");
        break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const CUpti_ActivityExternalCorrelation *e = (const void *)record;

        add_tag(e->correlationId, (uint32_t)e->externalId);
        break;
    }
    default:
        break;
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *n_bytes,
                                 size_t *n_records)
{
    *buffer = aligned_alloc(BUFFER_ALIGN, BUFFER_BYTES);
    *n_bytes = *buffer ? BUFFER_BYTES : 0;
    *n_records = 0; /* 0: no limit but the size */
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream,
                                 uint8_t *buffer, size_t n_bytes,
                                 size_t n_valid)
{
    CUpti_Activity *record = NULL;

    (void)context;
    (void)stream;
    (void)n_bytes;
    pthread_mutex_lock(&recording.lock);
    while (n_valid > 0 && cupti.next(buffer, n_valid, &record) == CUPTI_SUCCESS)
        read_record(record);
    pthread_mutex_unlock(&recording.lock);
    free(buffer);
}

/* ---- Recording ---------------------------------------------------------- */

static enum vp_status refuse(struct vp_err *err, const char *why)
{
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "recording GPU kernels: %s; install CUPTI of CUDA 13, or "
                      "name its folder in VPIPE_LIBRARIES",
                      why);
}

enum vp_status vp_cuda_kernels_begin(void *library, bool labels,
                                     struct vp_err *err)
{
    int n = labels ? N_KINDS : N_PLAIN_KINDS;

    if (!load(library))
        return refuse(err, "libcupti.so.13 was not found");
    cudaDeviceSynchronize(); /* earlier work is not recorded */
    if (cupti.callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
        return refuse(err, "CUPTI cannot be initialized");
    for (int i = 0; i < n; i++)
        if (cupti.enable(kinds[i]) != CUPTI_SUCCESS)
            return refuse(err, "CUPTI refuses to record");
    return VP_OK;
}

void vp_cuda_kernels_push(uint32_t label)
{
    cupti.push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, label);
}

void vp_cuda_kernels_pop(void)
{
    uint64_t label;

    cupti.pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &label);
}

static int tag_order(const void *a, const void *b)
{
    const struct tag *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int span_order(const void *a, const void *b)
{
    const struct vp_cuda_span *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static void set_labels(void)
{
    if (recording.n_tags == 0)
        return;
    qsort(recording.tags, recording.n_tags, sizeof(*recording.tags), tag_order);
    for (size_t i = 0; i < recording.n_spans; i++) {
        const struct tag want = { recording.spans[i].id, 0 };
        const struct tag *found = bsearch(
            &want, recording.tags, recording.n_tags, sizeof(want), tag_order);

        recording.spans[i].label = found ? found->label : 0;
    }
}

enum vp_status vp_cuda_kernels_end(struct vp_cuda_span **spans_out,
                                   size_t *n_out, struct vp_err *err)
{
    bool lost;

    cudaDeviceSynchronize();
    cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    for (int i = 0; i < N_KINDS; i++)
        cupti.disable(kinds[i]);
    pthread_mutex_lock(&recording.lock);
    set_labels();
    if (recording.n_spans > 0)
        qsort(recording.spans, recording.n_spans, sizeof(*recording.spans),
              span_order);
    *spans_out = recording.spans;
    *n_out = recording.n_spans;
    lost = recording.lost;
    free(recording.tags);
    recording.spans = NULL;
    recording.tags = NULL;
    recording.n_spans = recording.cap_spans = 0;
    recording.n_tags = recording.cap_tags = 0;
    recording.lost = false;
    pthread_mutex_unlock(&recording.lock);
    return lost ? vp_err_set(err, VP_ERR_NOMEM,
                             "recording GPU kernels: out of memory")
                : VP_OK;
}
