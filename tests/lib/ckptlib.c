#include "lib/ckptlib.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The test's folder -------------------------------------------------- */

int remove_folder_and_faults(void **state)
{
    vp_io_swap(&vp_io_system);
    return remove_folder(state);
}

const char *store(void)
{
    return at("checkpoints");
}

unsigned char *read_file(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes;
    struct stat info;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    bytes = malloc((size_t)info.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)info.st_size, file), info.st_size);
    fclose(file);
    bytes[info.st_size] = '\0';
    *n_out = (size_t)info.st_size;
    return bytes;
}

void write_path(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void list_folder(const char *path, char *text, size_t n_text)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char *names[256];
    size_t n = 0, at_text = 0;

    text[0] = '\0';
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        assert_true(n < VP_COUNT_OF(names));
        names[n++] = strdup(entry->d_name);
    }
    closedir(dir);
    if (n > 0)
        qsort(names, n, sizeof(names[0]), compare_names);
    for (size_t i = 0; i < n; i++) {
        at_text += (size_t)snprintf(text + at_text, n_text - at_text, "%s ",
                                    names[i]);
        assert_true(at_text < n_text);
        free(names[i]);
    }
}

/* ---- A state to save ---------------------------------------------------- */

const struct vp_ckpt_item state_items[] = {
    { 2, "layer.1.weight", VP_ST_F32, 2, { 5, 7 }, false },
    { 0, "embedding.weight", VP_ST_F32, 2, { 11, 6 }, false },
    { 0, "embedding.weight.exp_avg", VP_ST_F32, 2, { 11, 6 }, false },
    { 0, "cursor", VP_ST_U8, 1, { 13 }, false },
    { 2, "layer.1.bias", VP_ST_BF16, 1, { 7 }, false },
    { 2, "layer.1.version.0", VP_ST_F16, 1, { 3 }, false },
    { 7, "head.weight", VP_ST_F32, 1, { 64 }, false },
    { 7, "head.counter", VP_ST_U64, 0, { 0 }, false },
    { 7, "head.none", VP_ST_F32, 2, { 0, 4 }, false },
    { 2, "layer.1.steps", VP_ST_I64, 1, { 2 }, false },
};

size_t item_bytes(const struct vp_ckpt_item *item)
{
    size_t n = (size_t)vp_st_type_bytes(item->type);

    for (int i = 0; i < item->n_dims; i++)
        n *= (size_t)item->dims[i];
    return n;
}

/* Returns byte `j` of item `i` in the state of `turn`. */
static unsigned char state_byte(uint32_t turn, int i, size_t j)
{
    return (unsigned char)vp_rng(turn, VP_RNG_TEST, (uint32_t)i, (uint32_t)j, 0,
                                 0)
        .v[0];
}

void state_fill(uint32_t turn, int i, unsigned char *bytes)
{
    for (size_t j = 0; j < item_bytes(&state_items[i]); j++)
        bytes[j] = state_byte(turn, i, j);
}

struct vp_ckpt_writer *open_writer(int keep)
{
    struct vp_ckpt_writer *writer = NULL;
    struct vp_err err = { .text = "" };

    if (vp_ckpt_writer_create(store(), NULL, keep, state_items, N_ITEMS,
                              &writer, &err) != VP_OK)
        fail_msg("%s", err.text);
    return writer;
}

void put_state(struct vp_ckpt_writer *writer, uint32_t turn)
{
    unsigned char bytes[MAX_ITEM_BYTES];

    for (int i = 0; i < N_ITEMS; i++) {
        state_fill(turn, i, bytes);
        vp_ckpt_writer_put(writer, i, bytes);
    }
}

struct vp_facts *make_facts(uint32_t turn)
{
    struct vp_facts *facts = NULL;

    if (vp_facts_create(&facts) != VP_OK ||
        vp_facts_set_int(facts, "turn", turn) != VP_OK ||
        vp_facts_set_bits(facts, "seed", 0xFEDCBA9876543210u ^ turn) != VP_OK ||
        vp_facts_set_real(facts, "loss", 1.0 / (3.0 + turn)) != VP_OK ||
        vp_facts_set_text(facts, "config", "model_type: bert\n") != VP_OK ||
        vp_facts_set_json(facts, "depths", "[3, 2, 1, 0]") != VP_OK)
        abort();
    return facts;
}

enum vp_status save_state(struct vp_ckpt_writer *writer, int64_t step,
                          uint32_t turn, double score, struct vp_err *err)
{
    struct vp_facts *facts = make_facts(turn);
    enum vp_status st;

    st = vp_ckpt_writer_begin(writer, step, PATIENCE_MS, err);
    if (st == VP_OK) {
        put_state(writer, turn);
        st = vp_ckpt_writer_commit(writer, facts, score, err);
    }
    if (st == VP_OK)
        st = vp_ckpt_writer_finish(writer, PATIENCE_MS, err);
    vp_facts_free(facts);
    return st;
}

void save_well(struct vp_ckpt_writer *writer, int64_t step, uint32_t turn,
               double score)
{
    struct vp_err err = { .text = "" };

    if (save_state(writer, step, turn, score, &err) != VP_OK)
        fail_msg("step %d: %s", (int)step, err.text);
    assert_int_equal(vp_ckpt_writer_saved(writer), step);
}

uint32_t check_state(const struct vp_ckpt *ckpt)
{
    unsigned char want[MAX_ITEM_BYTES], got[MAX_ITEM_BYTES];
    const struct vp_facts *facts = vp_ckpt_facts(ckpt);
    struct vp_err err = { .text = "" };
    const char *text = NULL;
    int64_t turn = -1;
    uint64_t seed = 0;
    double loss = 0;

    assert_int_equal(vp_facts_int(facts, "turn", &turn, &err), VP_OK);
    assert_int_equal(vp_facts_bits(facts, "seed", &seed, &err), VP_OK);
    assert_int_equal(vp_facts_real(facts, "loss", &loss, &err), VP_OK);
    assert_int_equal(vp_facts_text(facts, "config", &text, &err), VP_OK);
    assert_true(seed == (0xFEDCBA9876543210u ^ (uint64_t)turn));
    assert_true(loss == 1.0 / (3.0 + (double)turn));
    assert_string_equal(text, "model_type: bert\n");
    assert_int_equal(vp_ckpt_n_tensors(ckpt), N_ITEMS);
    for (int i = 0; i < N_ITEMS; i++) {
        const struct vp_ckpt_item *item = &state_items[i];
        struct vp_st_tensor shape = { .type = item->type,
                                      .n_dims = item->n_dims };

        memcpy(shape.dims, item->dims, sizeof(shape.dims));
        memset(got, 0xA5, sizeof(got));
        if (vp_ckpt_read(ckpt, item->name, &shape, got, &err) != VP_OK)
            fail_msg("%s", err.text);
        state_fill((uint32_t)turn, i, want);
        assert_memory_equal(got, want, item_bytes(item));
        assert_int_equal(got[item_bytes(item)], 0xA5);
    }
    return (uint32_t)turn;
}

void take_note(void *ctx, const char *line)
{
    struct notes *notes = ctx;

    notes->n++;
    snprintf(notes->last, sizeof(notes->last), "%s", line);
}

/* ---- Random changes of bytes -------------------------------------------- */

uint32_t draw(uint32_t seed, uint32_t i, uint32_t below)
{
    return vp_rng_below(vp_rng(seed, VP_RNG_TEST, 7, i, 0, 0).v[0], below);
}

size_t mutate(unsigned char *bytes, size_t n, size_t room, uint32_t seed)
{
    static const char *const words[] = {
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "0",
        "1",
        "-1",
        "4",
        "8",
        "9223372036854775807",
        "18446744073709551615",
        "1e3",
        "0.0",
        "null",
        "\"dtype\"",
        "\"shape\"",
        "\"data_offsets\"",
        "\"F32\"",
        "\"BF16\"",
        "__metadata__",
        "\\u0000",
        "\\ud800",
        "\xff",
        " ",
        "\n",
    };
    uint32_t n_changes = 1 + draw(seed, 0, 3);

    for (uint32_t c = 1; c <= n_changes; c++) {
        size_t where = n > 0 ? draw(seed, 16 * c, (uint32_t)n) : 0;
        const char *word = words[draw(seed, 16 * c + 1, VP_COUNT_OF(words))];
        size_t n_word = strlen(word);

        switch (n > 0 ? draw(seed, 16 * c + 2, 5) : 3) {
        case 0: /* replace a byte */
            bytes[where] = (unsigned char)draw(seed, 16 * c + 3, 256);
            break;
        case 1: /* flip a bit */
            bytes[where] ^= (unsigned char)(1 << draw(seed, 16 * c + 3, 8));
            break;
        case 2: /* remove a piece */
            n_word = 1 + draw(seed, 16 * c + 3, 20);
            if (n_word > n - where)
                n_word = n - where;
            memmove(bytes + where, bytes + where + n_word, n - where - n_word);
            n -= n_word;
            break;
        case 3: /* insert a word */
            if (n + n_word > room)
                break;
            memmove(bytes + where + n_word, bytes + where, n - where);
            memcpy(bytes + where, word, n_word);
            n += n_word;
            break;
        default: /* overwrite with a word */
            if (n_word > n - where)
                break;
            memcpy(bytes + where, word, n_word);
        }
    }
    return n;
}

/* ---- Faults of file operations ------------------------------------------ */

struct fault_plan fault;

/* Files and renames that are not synced to disk yet. */
static struct {
    char path[512];
    int fd;
    bool used, data_synced, name_synced;
} tracked[MAX_TRACKED];

static struct {
    char from[512], to[512];
} renamed[MAX_TRACKED];

static int n_renamed;

static bool is_inside(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/' &&
           !strchr(path + n + 1, '/');
}

/* Finds the path of an open descriptor. */
static void path_of(int fd, char *path, size_t n_path)
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, n_path - 1);
    path[n > 0 ? n : 0] = '\0';
}

static void track_open(int fd, int flags)
{
    for (int i = 0; i < MAX_TRACKED && (flags & O_CREAT); i++) {
        if (tracked[i].used)
            continue;
        tracked[i].used = true;
        tracked[i].fd = fd;
        tracked[i].data_synced = tracked[i].name_synced = false;
        path_of(fd, tracked[i].path, sizeof(tracked[i].path));
        return;
    }
}

static void track_sync(int fd)
{
    char path[512];

    path_of(fd, path, sizeof(path));
    for (int i = 0; i < MAX_TRACKED; i++) {
        if (!tracked[i].used)
            continue;
        if (strcmp(tracked[i].path, path) == 0)
            tracked[i].data_synced = true;
        if (is_inside(tracked[i].path, path))
            tracked[i].name_synced = true;
        if (tracked[i].data_synced && tracked[i].name_synced)
            tracked[i].used = false;
    }
    if (n_renamed > 0 && is_inside(renamed[0].to, path))
        n_renamed = 0;
}

static void track_rename(const char *from, const char *to)
{
    snprintf(renamed[n_renamed].from, sizeof(renamed[0].from), "%s", from);
    snprintf(renamed[n_renamed].to, sizeof(renamed[0].to), "%s", to);
    n_renamed++;
    for (int i = 0; i < MAX_TRACKED; i++) {
        char rest[512];

        if (!tracked[i].used || !is_inside(tracked[i].path, from))
            continue;
        snprintf(rest, sizeof(rest), "%s", tracked[i].path + strlen(from));
        snprintf(tracked[i].path, sizeof(tracked[i].path), "%.400s%.100s", to,
                 rest);
    }
}

/* Simulates a power cut: removes new files whose folder was not synced,
 * truncates files whose data was not, and undoes renames. */
static void lose_all(void)
{
    for (int i = 0; i < MAX_TRACKED; i++) {
        if (!tracked[i].used)
            continue;
        if (!tracked[i].name_synced)
            unlink(tracked[i].path);
        else if (truncate(tracked[i].path, 100) != 0)
            continue;
    }
    while (n_renamed-- > 0)
        rename(renamed[n_renamed].to, renamed[n_renamed].from);
}

void leave(int status)
{
    syscall(SYS_exit_group, status);
}

/* Counts a call. Returns true if it has to fail. */
static bool fault_call(void)
{
    int n = ++fault.n;

    if (fault.choppy && n % 3 != 0) {
        errno = EINTR;
        return true;
    }
    if (n < fault.at || fault.kind == FAULT_NONE)
        return false;
    if (fault.kind == FAULT_PERSIST ||
        (fault.kind == FAULT_FAIL && n == fault.at)) {
        errno = fault.error;
        return true;
    }
    if (fault.kind == FAULT_LOSS)
        lose_all();
    if (fault.kind == FAULT_STOP || fault.kind == FAULT_LOSS)
        leave(STOP_STATUS);
    return false;
}

static int fault_open(const char *path, int flags, mode_t mode)
{
    int fd;

    if (fault_call())
        return -1;
    fd = open(path, flags, mode);
    if (fd >= 0) {
        fault.n_open++;
        track_open(fd, flags);
    }
    return fd;
}

static ssize_t fault_pread(int fd, void *buf, size_t n, off_t from)
{
    if (fault_call())
        return -1;
    if (fault.kind == FAULT_EOF && fault.n == fault.at)
        return 0;
    return pread(fd, buf, fault.choppy && n > 5 ? 5 : n, from);
}

/* Behaves like a file system that takes direct writes of whole sectors only, or
 * none. Returns true if the write is refused. */
static bool direct_refused(int fd, const void *buf, size_t *n)
{
    if (!(fcntl(fd, F_GETFL) & O_DIRECT))
        return false;
    fault.n_direct++;
    if (fault.direct == DIRECT_NONE || (uintptr_t)buf % 512 != 0 ||
        *n % 512 != 0) {
        errno = EINVAL;
        return true;
    }
    if (fault.direct == DIRECT_CHOPPY)
        *n = *n > 512 * 9 ? 512 * 9 : *n;
    return false;
}

static ssize_t fault_write(int fd, const void *buf, size_t n)
{
    if (fault_call() || direct_refused(fd, buf, &n))
        return -1;
    for (int i = 0; i < MAX_TRACKED; i++)
        if (tracked[i].used && tracked[i].fd == fd)
            tracked[i].data_synced = false;
    return write(fd, buf, fault.choppy && n > 7 ? 7 : n);
}

static int fault_fsync(int fd)
{
    if (fault_call())
        return -1;
    if (fault.sync_ms > 0)
        usleep((useconds_t)fault.sync_ms * 1000);
    track_sync(fd);
    return fault.syncing ? fsync(fd) : 0;
}

/* A close that fails has closed the file nevertheless. */
static int fault_close(int fd)
{
    bool failed = fault_call();
    int error = errno;

    fault.n_open--;
    for (int i = 0; i < MAX_TRACKED; i++)
        if (tracked[i].fd == fd)
            tracked[i].fd = -1;
    close(fd);
    errno = error;
    return failed ? -1 : 0;
}

static int fault_mkdir(const char *path, mode_t mode)
{
    if (fault_call() && errno != EINTR)
        return -1;
    return mkdir(path, mode);
}

static int fault_rename(const char *from, const char *to)
{
    int rc;

    if (fault_call() && errno != EINTR)
        return -1;
    rc = rename(from, to);
    if (rc == 0)
        track_rename(from, to);
    return rc;
}

static int fault_unlink(const char *path)
{
    if (fault_call() && errno != EINTR)
        return -1;
    return unlink(path);
}

static int fault_rmdir(const char *path)
{
    if (fault_call() && errno != EINTR)
        return -1;
    return rmdir(path);
}

static const struct vp_io fault_io = {
    .open = fault_open,
    .pread = fault_pread,
    .write = fault_write,
    .fsync = fault_fsync,
    .close = fault_close,
    .mkdir = fault_mkdir,
    .rename = fault_rename,
    .unlink = fault_unlink,
    .rmdir = fault_rmdir,
};

void fault_start(enum fault_kind kind, int at_call, int error)
{
    memset(&fault, 0, sizeof(fault));
    memset(tracked, 0, sizeof(tracked));
    n_renamed = 0;
    fault.kind = kind;
    fault.at = at_call;
    fault.error = error;
    vp_io_swap(&fault_io);
}

void fault_end(void)
{
    fault.kind = FAULT_NONE;
    vp_io_swap(&vp_io_system);
}
