/* Shared by the tests of checkpoints: a temporary folder, a small state whose
 * bytes follow from a number (its turn), and file operations that fail, stop
 * the process or lose unsynced data. */
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

/* ---- The test's folder -------------------------------------------------- */

#define TEST_IN_FOLDER(test) \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder_and_faults)

/* Removes the folder, and ends the faults below. */
int remove_folder_and_faults(void **state);

/* Returns the folder of checkpoints. */
const char *store(void);

unsigned char *read_file(const char *path, size_t *n_out);

void write_path(const char *path, const void *bytes, size_t n);

/* Writes the sorted names in a folder to `text`, each followed by a blank. */
void list_folder(const char *path, char *text, size_t n_text);

/* ---- A state to save ---------------------------------------------------- */

/* Tensors of blocks 0, 2 and 7; some sizes are odd. */
extern const struct vp_ckpt_item state_items[10];

enum { N_ITEMS = VP_COUNT_OF(state_items), MAX_ITEM_BYTES = 512 };

size_t item_bytes(const struct vp_ckpt_item *item);

void state_fill(uint32_t turn, int i, unsigned char *bytes);

struct vp_ckpt_writer *open_writer(int keep);

void put_state(struct vp_ckpt_writer *writer, uint32_t turn);

struct vp_facts *make_facts(uint32_t turn);

/* Saves the state of `turn` as `step` and waits until it is saved. */
enum vp_status save_state(struct vp_ckpt_writer *writer, int64_t step,
                          uint32_t turn, double score, struct vp_err *err);

void save_well(struct vp_ckpt_writer *writer, int64_t step, uint32_t turn,
               double score);

/* Checks every byte against the turn that the checkpoint names. Returns the
 * turn. */
uint32_t check_state(const struct vp_ckpt *ckpt);

/* Messages about damaged checkpoints. */
struct notes {
    int n;
    char last[1024];
};

void take_note(void *ctx, const char *line);

/* ---- Random changes of bytes -------------------------------------------- */

uint32_t draw(uint32_t seed, uint32_t i, uint32_t below);

/* Makes one to three random changes, many with words of the file formats.
 * Returns the new size, at most `room`. */
size_t mutate(unsigned char *bytes, size_t n, size_t room, uint32_t seed);

/* ---- Faults of file operations ------------------------------------------ */

enum fault_kind {
    FAULT_NONE,
    FAULT_STOP,    /* the process ends in place of the call */
    FAULT_LOSS,    /* the same, and unsynced data is lost */
    FAULT_FAIL,    /* the call fails with `error` */
    FAULT_PERSIST, /* this call and all later ones fail */
    FAULT_EOF,     /* a read finds the end of the file */
};

/* The fault, and counts of calls since fault_start(). */
extern struct fault_plan {
    enum fault_kind kind;
    int at;       /* number of the call, from 1 */
    int error;    /* errno of failing calls */
    atomic_int n; /* calls so far, of all threads */
    atomic_int n_open;
    bool choppy;  /* calls are interrupted, reads and writes short */
    int n_direct; /* direct writes, past the page cache */
    enum direct { DIRECT_ANY, DIRECT_NONE, DIRECT_CHOPPY } direct;
    int sync_ms;  /* duration of an fsync */
    bool syncing; /* call the real fsync */
} fault;

enum { STOP_STATUS = 42, MAX_TRACKED = 64 };

/* Ends the process at once: _exit() of a sanitizer takes a second. */
void leave(int status);

/* Makes all operations of ckpt/io.h go through functions that can fail. */
void fault_start(enum fault_kind kind, int at_call, int error);

void fault_end(void);

#endif
