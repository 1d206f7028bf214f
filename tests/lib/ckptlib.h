/* What the checkpoint tests have in common: a folder that is removed again, a
 * small state whose bytes follow from a number, and file operations that fail,
 * stop the process or lose what was not synced. */
#ifndef VP_TESTS_LIB_CKPTLIB_H
#define VP_TESTS_LIB_CKPTLIB_H

#include "base/rng.h"
#include "ckpt/io.h"
#include "ckpt/search.h"
#include "ckpt/writer.h"
#include "lib/removelib.h"
#include "lib/testfolder.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { PATIENCE_MS = 60000 };

/* ---- A folder ----------------------------------------------------------- */

#define TEST_IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder_and_faults)

/* Also ends the faults below. */
int remove_folder_and_faults(void **state);

/* The checkpoints of most tests. */
const char *store(void);

unsigned char *read_file(const char *path, size_t *n_out);

void write_path(const char *path, const void *bytes, size_t n);

/* The names in a folder, sorted, each followed by a blank. */
void list_folder(const char *path, char *text, size_t n_text);

/* ---- A state ------------------------------------------------------------ */

/* Blocks 0, 2 and 7; some sizes are odd. */
extern const struct vp_ckpt_item state_items[10];

enum { N_ITEMS = VP_COUNT_OF(state_items), MAX_ITEM_BYTES = 512 };

size_t item_bytes(const struct vp_ckpt_item *item);

void state_fill(uint32_t turn, int i, unsigned char *bytes);

struct vp_ckpt_writer *open_writer(int keep);

void put_state(struct vp_ckpt_writer *writer, uint32_t turn);

struct vp_facts *make_facts(uint32_t turn);

/* Saves the state of `turn` as `step` and waits for it. */
enum vp_status save_state(struct vp_ckpt_writer *writer, int64_t step,
                          uint32_t turn, double score, struct vp_err *err);

void save_well(struct vp_ckpt_writer *writer, int64_t step, uint32_t turn,
               double score);

/* Every byte is that of the turn it claims; returns the turn. */
uint32_t check_state(const struct vp_ckpt *ckpt);

/* Lines about broken checkpoints. */
struct notes {
    int n;
    char last[1024];
};

void take_note(void *ctx, const char *line);

/* ---- Random changes ----------------------------------------------------- */

uint32_t draw(uint32_t seed, uint32_t i, uint32_t below);

/* Changes a few bytes; words of the format turn up more often than by chance. */
size_t mutate(unsigned char *bytes, size_t n, size_t room, uint32_t seed);

/* ---- Faults ------------------------------------------------------------- */

enum fault_kind {
    FAULT_NONE,
    FAULT_STOP,    /* the process ends instead of the call */
    FAULT_LOSS,    /* the same, and what was not synced is lost */
    FAULT_FAIL,    /* the call fails with `error` */
    FAULT_PERSIST, /* it and all after it do */
    FAULT_EOF,     /* a read finds the end of the file */
};

/* What happens to calls of the table below fault_start(). */
extern struct fault_plan {
    enum fault_kind kind;
    int at;       /* which call, from 1 */
    int error;    /* errno of failing calls */
    atomic_int n; /* calls so far, of all threads */
    atomic_int n_open;
    bool choppy;  /* calls are interrupted, reads and writes short */
    int n_direct; /* writes that went past the cache */
    enum direct { DIRECT_ANY, DIRECT_NONE, DIRECT_CHOPPY } direct;
    int sync_ms;  /* how long an fsync takes */
    bool syncing; /* really sync */
} fault;

enum { STOP_STATUS = 42, MAX_TRACKED = 64 };

/* Ends the process at once: a sanitizer's _exit() takes a second. */
void leave(int status);

/* From now on all operations of ckpt/io.h go through functions that can fail. */
void fault_start(enum fault_kind kind, int at_call, int error);

void fault_end(void);

#endif
