/* Several ranks put their items at the same time, saving allocates nothing and
 * costs training one copy, waits have time limits, and a failed allocation is
 * reported. */
#include "base/clock.h"
#include "lib/ckpt_steps.h"
#include "lib/ckptlib.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Counting allocations per thread, and failing one ------------------- */

void *__real_malloc(size_t n);

void *__real_calloc(size_t n, size_t size);

void *__real_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n);

void *__wrap_calloc(size_t n, size_t size);

void *__wrap_realloc(void *p, size_t n);

static _Thread_local int n_allocated;

static atomic_int allocations_left = INT_MAX; /* the last of them fails */

static bool may_allocate(void)
{
    n_allocated++;
    return atomic_fetch_sub(&allocations_left, 1) != 1;
}

void *__wrap_malloc(size_t n)
{
    return may_allocate() ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    return may_allocate() ? __real_realloc(p, n) : NULL;
}

/* ---- Putting, committing and freeing ------------------------------------ */

static void writer_refuses_bad_items(void **state)
{
    static const struct vp_ckpt_item twice[] = {
        { 0, "a", VP_ST_F32, 1, { 4 }, false },
        { 1, "b", VP_ST_F32, 1, { 4 }, false },
        { 2, "a", VP_ST_F16, 1, { 4 }, false },
    };
    static const struct vp_ckpt_item odd = { 0, "\xff", VP_ST_F32,
                                             0, { 0 },  false };
    static const struct vp_ckpt_item huge = {
        0, "a", VP_ST_U8, 1, { INT64_MAX / 4 }, false
    };
    struct vp_ckpt_writer *writer = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, twice, 3, &writer, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "tensor a: the name is used twice"));
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, &odd, 1, &writer, &err),
        VP_ERR_INVALID);
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, &huge, 1, &writer, &err),
        VP_ERR_NOMEM);
    assert_int_equal(
        vp_ckpt_writer_create(at("no/such"), NULL, 1, twice, 2, &writer, &err),
        VP_ERR_IO);
    assert_null(writer);
    /* A writer without tensors is unusual but valid. */
    assert_int_equal(
        vp_ckpt_writer_create(store(), NULL, 1, NULL, 0, &writer, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_bytes(writer), 0);
    assert_int_equal(vp_ckpt_writer_begin(writer, 0, 1000, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), 0);
    vp_ckpt_writer_free(writer);
}

static void every_item_must_be_put(void **state)
{
    struct vp_ckpt_writer *writer = open_writer(0);
    unsigned char bytes[MAX_ITEM_BYTES] = { 0 };
    struct vp_err err = { .text = "" };

    (void)state;
    for (int missing = 0; missing < N_ITEMS; missing++) {
        assert_int_equal(vp_ckpt_writer_begin(writer, 5, 0, &err), VP_OK);
        for (int i = 0; i < N_ITEMS; i++)
            if (i != missing)
                vp_ckpt_writer_put(writer, i, bytes);
        assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err),
                         VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "step 5: tensor "));
        assert_non_null(strstr(err.text, state_items[missing].name));
        assert_non_null(strstr(err.text, " was not put"));
    }
    assert_int_equal(vp_ckpt_writer_finish(writer, 0, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), -1);
    vp_ckpt_writer_free(writer);
}

struct putter {
    struct vp_ckpt_writer *writer;
    uint32_t turn;
    int first; /* puts items first, first + 4, ... */
};

static void *put_some(void *arg)
{
    const struct putter *p = arg;
    unsigned char bytes[MAX_ITEM_BYTES];

    for (int i = p->first; i < N_ITEMS; i += 4) {
        if (i % 2 == 0) {
            state_fill(p->turn, i, vp_ckpt_writer_buffer(p->writer, i));
        } else {
            state_fill(p->turn, i, bytes);
            vp_ckpt_writer_put(p->writer, i, bytes);
        }
    }
    return NULL;
}

/* Reads all tensors. Returns NULL if they are those of turn 20. */
static void *read_all(void *arg)
{
    unsigned char want[MAX_ITEM_BYTES], got[MAX_ITEM_BYTES];
    struct vp_err err;

    for (int i = 0; i < N_ITEMS; i++) {
        const struct vp_ckpt_item *item = &state_items[i];
        const struct vp_st_tensor *t = vp_ckpt_find(arg, item->name);

        state_fill(20, i, want);
        if (vp_ckpt_read(arg, item->name, t, got, &err) != VP_OK ||
            memcmp(got, want, item_bytes(item)) != 0)
            return arg;
    }
    return NULL;
}

/* Four threads put items at the same time, and the next begin comes while the
 * previous checkpoint is being written. */
static void ranks_put_at_once(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_ckpt *ckpt = NULL;
    struct vp_err err = { .text = "" };
    pthread_t readers[4];

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    fault.sync_ms = 1;
    writer = open_writer(0);
    for (uint32_t turn = 1; turn <= 20; turn++) {
        struct vp_facts *facts = make_facts(turn);
        struct putter putters[4];
        pthread_t threads[4];

        assert_int_equal(vp_ckpt_writer_begin(writer, turn, PATIENCE_MS, &err),
                         VP_OK);
        for (int t = 0; t < 4; t++) {
            putters[t] = (struct putter){ writer, turn, t };
            assert_int_equal(
                pthread_create(&threads[t], NULL, put_some, &putters[t]), 0);
        }
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        assert_int_equal(vp_ckpt_writer_commit(writer, facts, NAN, &err),
                         VP_OK);
        vp_facts_free(facts);
    }
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), 20);
    vp_ckpt_writer_free(writer);
    for (uint32_t turn = 1; turn <= 20; turn++) {
        char name[32];

        snprintf(name, sizeof(name), "step-%u", turn);
        assert_int_equal(vp_ckpt_open(in_store(name), &ckpt, &err), VP_OK);
        assert_int_equal(check_state(ckpt), turn);
        for (int t = 0; t < 4 && turn == 20; t++)
            assert_int_equal(pthread_create(&readers[t], NULL, read_all, ckpt),
                             0);
        for (int t = 0; t < 4 && turn == 20; t++) {
            void *bad = ckpt;

            pthread_join(readers[t], &bad);
            assert_null(bad);
        }
        vp_ckpt_close(ckpt);
    }
}

/* begin, put and commit, which training threads call, allocate nothing. */
static void saving_allocates_nothing(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_facts *facts = make_facts(1);
    char *large = calloc(1, 200000);
    struct vp_err err = { .text = "" };

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(1);
    memset(large, 'x', 199999);
    assert_int_equal(vp_facts_set_text(facts, "large", large), VP_OK);
    for (int step = 0; step < 5; step++) {
        int before = n_allocated;

        assert_int_equal(vp_ckpt_writer_begin(writer, step, PATIENCE_MS, &err),
                         VP_OK);
        put_state(writer, 1);
        assert_int_equal(vp_ckpt_writer_commit(writer, facts, NAN, &err),
                         VP_OK);
        /* Only facts that are larger than all before allocate, once. */
        assert_int_equal(n_allocated - before, step == 0);
    }
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    vp_ckpt_writer_free(writer);
    vp_facts_free(facts);
    free(large);
}

/* Saves and opens a checkpoint. Returns the first error. */
static enum vp_status save_and_open(struct vp_err *err)
{
    struct vp_ckpt_writer *writer = NULL;
    struct vp_ckpt *ckpt = NULL;
    struct vp_facts *facts = NULL;
    enum vp_status st = vp_facts_create(&facts);

    if (st == VP_OK)
        st = vp_ckpt_writer_create(store(), NULL, 2, state_items, N_ITEMS,
                                   &writer, err);
    if (st == VP_OK)
        st = vp_ckpt_writer_begin(writer, 2, PATIENCE_MS, err);
    if (st == VP_OK) {
        put_state(writer, 1);
        st = vp_ckpt_writer_commit(writer, facts, 0.5, err);
    }
    if (st == VP_OK)
        st = vp_ckpt_writer_finish(writer, PATIENCE_MS, err);
    vp_ckpt_writer_free(writer);
    if (st == VP_OK)
        st = vp_ckpt_open_newest(store(), NULL, NULL, &ckpt, err);
    if (st == VP_OK)
        assert_int_equal(vp_ckpt_step(ckpt), 2); /* not the older checkpoint */
    vp_ckpt_close(ckpt);
    vp_facts_free(facts);
    return st;
}

static void any_allocation_may_fail(void **state)
{
    struct vp_ckpt_writer *writer;
    int n_failed = 0;

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    for (int k = 1;; k++) {
        struct vp_err err = { .text = "" };
        enum vp_status st;
        bool hit;

        writer = open_writer(1);
        save_well(writer, 1, 1, 0.9);
        vp_ckpt_writer_free(writer);
        atomic_store(&allocations_left, k);
        st = save_and_open(&err);
        hit = atomic_exchange(&allocations_left, INT_MAX) <= 0;
        assert_int_equal(fault.n_open, 0);
        assert_int_equal(remove_tree(store()), 0);
        if (!hit) {
            assert_int_equal(st, VP_OK);
            break;
        }
        /* A failed allocation while old checkpoints are pruned is no error. */
        assert_true(st == VP_ERR_NOMEM || st == VP_OK);
        n_failed += st == VP_ERR_NOMEM;
    }
    assert_true(n_failed > 30);
}

static void waits_have_a_limit(void **state)
{
    struct vp_ckpt_writer *writer;
    struct vp_err err = { .text = "" };
    int64_t start;

    (void)state;
    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(0);
    fault.sync_ms = 60;
    assert_int_equal(vp_ckpt_writer_begin(writer, 3, 10, &err), VP_OK);
    put_state(writer, 1);
    start = vp_clock_ns();
    assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_begin(writer, 4, 10, &err), VP_ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "checkpoints: step 3 is not written "
                                     "within 10 ms; check the disk"));
    assert_int_equal(vp_ckpt_writer_finish(writer, -7, &err), VP_ERR_TIMEOUT);
    assert_int_equal(vp_ckpt_writer_saved(writer), -1);
    assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err), VP_OK);
    assert_int_equal(vp_ckpt_writer_saved(writer), 3);
    /* Six syncs of 60 ms: three blocks, manifest, two folders. */
    assert_true(vp_clock_seconds(start, vp_clock_ns()) >= 0.36);
    vp_ckpt_writer_free(writer);
}

static void commit_and_free(int sync_ms, int delay_us)
{
    struct vp_facts *facts = make_facts(5);
    struct vp_ckpt_writer *writer;
    struct vp_err err = { .text = "" };

    fault_start(FAULT_NONE, 0, 0);
    writer = open_writer(0);
    fault.sync_ms = sync_ms;
    assert_int_equal(vp_ckpt_writer_begin(writer, 8, 10, &err), VP_OK);
    put_state(writer, 5);
    assert_int_equal(vp_ckpt_writer_commit(writer, facts, NAN, &err), VP_OK);
    usleep((useconds_t)delay_us);
    vp_ckpt_writer_free(writer);
    vp_facts_free(facts);
    fault_end();
    assert_int_equal(fault.n_open, 0);
}

/* The writer is freed at different moments after a commit: the checkpoint is
 * complete or absent. */
static void freeing_gives_up(void **state)
{
    struct notes notes;
    char names[256];

    (void)state;
    for (int delay_us = 0; delay_us < 20000; delay_us += 1000) {
        commit_and_free(2, delay_us);
        list_folder(store(), names, sizeof(names));
        if (names[0]) {
            assert_string_equal(names, "step-8 ");
            assert_int_equal(newest_turn(&notes), 8);
        }
        assert_int_equal(remove_tree(store()), 0);
    }
    /* Freeing does not wait for all six syncs of 200 ms. */
    commit_and_free(200, 20000);
    list_folder(store(), names, sizeof(names));
    assert_string_equal(names, "");
}

/* ---- Cost of a save ----------------------------------------------------- */

/* Measures the time that a checkpoint costs training, against one copy of the
 * state. Runs only with VP_FULL=1, as it needs 800 MB. */
static void saving_costs_a_copy(void **state)
{
    enum { BLOCKS = 50 };
    const int64_t n_bytes = (400 << 20) / BLOCKS;
    struct vp_ckpt_item items[BLOCKS];
    char names[BLOCKS][32];
    struct vp_ckpt_writer *writer = NULL;
    struct vp_err err = { .text = "" };
    unsigned char *from, *to;

    (void)state;
    if (!getenv("VP_FULL")) {
        print_message("skipped: a measurement; set VP_FULL=1\n");
        skip();
    }
    for (int i = 0; i < BLOCKS; i++) {
        snprintf(names[i], sizeof(names[i]), "block.%d", i);
        items[i] = (struct vp_ckpt_item){ i, names[i],        VP_ST_F32,
                                          1, { n_bytes / 4 }, false };
    }
    from = malloc((size_t)n_bytes * BLOCKS);
    to = malloc((size_t)n_bytes * BLOCKS);
    memset(from, 1, (size_t)n_bytes * BLOCKS);
    memset(to, 2, (size_t)n_bytes * BLOCKS);
    if (vp_ckpt_writer_create(store(), NULL, 1, items, BLOCKS, &writer, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
    for (int round = 0; round < 6; round++) {
        int64_t t[6];

        t[0] = vp_clock_ns();
        for (int i = 0; i < BLOCKS; i++)
            memcpy(to + i * n_bytes, from + i * n_bytes, (size_t)n_bytes);
        t[1] = vp_clock_ns();
        assert_int_equal(vp_ckpt_writer_begin(writer, round, 0, &err), VP_OK);
        for (int i = 0; i < BLOCKS; i++)
            vp_ckpt_writer_put(writer, i, from + i * n_bytes);
        assert_int_equal(vp_ckpt_writer_commit(writer, NULL, NAN, &err), VP_OK);
        t[2] = vp_clock_ns();
        for (int i = 0; i < BLOCKS; i++) /* while the writer thread writes */
            memcpy(to + i * n_bytes, from + i * n_bytes, (size_t)n_bytes);
        t[3] = vp_clock_ns();
        assert_int_equal(vp_ckpt_writer_finish(writer, PATIENCE_MS, &err),
                         VP_OK);
        t[4] = vp_clock_ns();
        print_message("copy %.1f ms, begin+put+commit %.1f ms (%.2fx), copy "
                      "while writing %.1f ms, on disk after %.0f ms\n",
                      vp_clock_seconds(t[0], t[1]) * 1e3,
                      vp_clock_seconds(t[1], t[2]) * 1e3,
                      (double)(t[2] - t[1]) / (double)(t[1] - t[0]),
                      vp_clock_seconds(t[2], t[3]) * 1e3,
                      vp_clock_seconds(t[2], t[4]) * 1e3);
    }
    vp_ckpt_writer_free(writer);
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(writer_refuses_bad_items),
        TEST_IN_FOLDER(every_item_must_be_put),
        TEST_IN_FOLDER(ranks_put_at_once),
        TEST_IN_FOLDER(saving_allocates_nothing),
        TEST_IN_FOLDER(any_allocation_may_fail),
        TEST_IN_FOLDER(waits_have_a_limit),
        TEST_IN_FOLDER(freeing_gives_up),
        TEST_IN_FOLDER(saving_costs_a_copy),
    };

    return cmocka_run_group_tests_name("ckpt_writer", tests, NULL, NULL);
}
