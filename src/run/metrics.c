/* Parses metrics.jsonl with a small JSON scanner that allocates nothing per
 * line. */
#include "run/metrics.h"

#include "base/path.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Scanning ------------------------------------------------------------- */

enum { MAX_DEPTH = 16 };

/* Unread bytes of the text. */
struct scan {
    const char *at, *end;
};

static void skip_space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' ||
                              *s->at == '\r' || *s->at == '\n'))
        s->at++;
}

/* Skips spaces and takes `c`. Returns false if the next character is
 * another. */
static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool take_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* Takes the four digits after \u, and writes the code point as UTF-8.
 * Surrogates and NUL become '?'. */
static bool take_code(struct scan *s, char out[4], size_t *n_out)
{
    unsigned code = 0;

    if (s->end - s->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = memchr(digits, *s->at++, sizeof(digits) - 1);

        if (!digit)
            return false;
        code = code * 16 + (unsigned)(digit - digits) -
               (digit - digits > 15 ? 6U : 0U);
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        code = '?';
    *n_out = code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
    if (*n_out == 1) {
        out[0] = (char)code;
    } else if (*n_out == 2) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
    } else {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
    }
    return true;
}

/* Takes a string, truncated to fit `out`. */
static bool take_text(struct scan *s, char *out, size_t n_bytes)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;

    if (!take(s, '"'))
        return false;
    while (s->at < s->end && *s->at != '"') {
        char piece[4] = { *s->at++ };
        size_t n_piece = 1;

        if (piece[0] == '\\') {
            const char *plain;

            if (s->at == s->end)
                return false;
            plain = memchr(from, *s->at, sizeof(from) - 1);
            if (plain)
                piece[0] = to[plain - from];
            else if (*s->at != 'u')
                return false;
            s->at++;
            if (!plain && !take_code(s, piece, &n_piece))
                return false;
        }
        if (n + n_piece < n_bytes) {
            memcpy(out + n, piece, n_piece);
            n += n_piece;
        }
    }
    out[n] = '\0';
    return take(s, '"');
}

/* A number of at most 15 digits and no exponent is computed exactly by one
 * division; strtod() does the others. */
static bool take_number(struct scan *s, double *out)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3, 1e4,  1e5,
                                     1e6,  1e7,  1e8,  1e9, 1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15 };
    const char *start = s->at;
    char text[64], *end;
    int64_t digits = 0;
    int n = 0, n_after = 0;
    bool minus = s->at < s->end && *s->at == '-', point = false;

    for (s->at += minus; s->at < s->end; s->at++) {
        if (*s->at == '.' && !point && n > 0) {
            point = true;
            continue;
        }
        if (*s->at < '0' || *s->at > '9')
            break;
        if (n < 16)
            digits = digits * 10 + (*s->at - '0');
        n++;
        n_after += point;
    }
    if (n == 0)
        return false;
    if (n <= 15 && (s->at == s->end || (*s->at != 'e' && *s->at != 'E'))) {
        *out = (double)(minus ? -digits : digits) / powers[n_after];
        return true;
    }
    snprintf(text, sizeof(text), "%.*s", (int)(s->end - start), start);
    *out = strtod(text, &end);
    s->at = start + (end - text);
    return isfinite(*out);
}

/* Takes a number, or null as NAN. */
static bool take_real(struct scan *s, double *out)
{
    skip_space(s);
    if (!take_word(s, "null"))
        return take_number(s, out);
    *out = NAN;
    return true;
}

static bool take_list(struct scan *s, struct vp_metrics_list *out)
{
    double value;

    out->n = 0;
    if (!take(s, '['))
        return false;
    if (take(s, ']'))
        return true;
    do {
        if (!take_real(s, &value))
            return false;
        if (out->n < VP_METRICS_STAGES)
            out->at[out->n++] = value;
    } while (take(s, ','));
    return take(s, ']');
}

/* Skips a value of any type. */
static bool skip_value(struct scan *s, int depth)
{
    char text[8], close;
    double number;

    skip_space(s);
    if (s->at == s->end || depth == MAX_DEPTH)
        return false;
    if (*s->at == '"')
        return take_text(s, text, sizeof(text));
    if (*s->at != '{' && *s->at != '[')
        return take_word(s, "null") || take_word(s, "true") ||
               take_word(s, "false") || take_number(s, &number);
    close = *s->at++ == '{' ? '}' : ']';
    if (take(s, close))
        return true;
    do {
        if (close == '}' && !(take_text(s, text, sizeof(text)) && take(s, ':')))
            return false;
        if (!skip_value(s, depth + 1))
            return false;
    } while (take(s, ','));
    return take(s, close);
}

/* ---- Records -------------------------------------------------------------- */

/* Takes the gradient norm, which is a list with a value per stage in sync_mode
 * asp. */
static bool take_norm(struct scan *s, double *out)
{
    struct vp_metrics_list list;

    skip_space(s);
    if (s->at == s->end || *s->at != '[')
        return take_real(s, out);
    if (!take_list(s, &list))
        return false;
    *out = 0.0;
    for (int i = 0; i < list.n; i++)
        *out += list.at[i] * list.at[i];
    *out = sqrt(*out);
    return true;
}

static bool take_field(struct scan *s, const char *key,
                       struct vp_metrics_record *out)
{
#define REAL(name)                                      \
    {                                                   \
#name, offsetof(struct vp_metrics_record, name) \
    }
    static const struct {
        const char *name;
        size_t offset;
    } reals[] = {
        REAL(loss),
        REAL(lr),
        REAL(seconds),
        REAL(bubble),
        REAL(samples_per_second),
        REAL(tokens_per_second),
        REAL(minibatch),
        REAL(loss_scale),
        REAL(skipped),
        REAL(eval_loss),
        REAL(step_seconds_forecast),
        REAL(step_seconds_measured),
        REAL(bubble_forecast),
        REAL(bubble_measured),
        REAL(blocks_moved),
        REAL(bytes_moved),
        REAL(move_seconds),
    };
#undef REAL
    double step;

    if (strcmp(key, "step") == 0) {
        if (!take_real(s, &step) || !(step >= 0.0 && step < 9e15))
            return false;
        out->step = (int64_t)step;
        return true;
    }
    for (size_t i = 0; i < VP_COUNT_OF(reals); i++)
        if (strcmp(key, reals[i].name) == 0)
            return take_real(s,
                             (double *)(void *)((char *)out + reals[i].offset));
    if (strcmp(key, "grad_norm") == 0)
        return take_norm(s, &out->grad_norm);
    if (strcmp(key, "memory") == 0)
        return take_list(s, &out->memory);
    if (strcmp(key, "partition") == 0)
        return take_list(s, &out->partition);
    if (strcmp(key, "event") == 0)
        return take_text(s, out->event, sizeof(out->event));
    if (strcmp(key, "why") == 0)
        return take_text(s, out->why, sizeof(out->why));
    if (strcmp(key, "forecast_by") == 0)
        return take_text(s, out->forecast_by, sizeof(out->forecast_by));
    return skip_value(s, 0);
}

static void clear(struct vp_metrics_record *out)
{
    const double none = NAN;

    out->step = -1;
    out->minibatch = out->loss = out->lr = out->seconds = out->bubble = none;
    out->samples_per_second = out->tokens_per_second = out->grad_norm = none;
    out->loss_scale = out->skipped = out->eval_loss = none;
    out->step_seconds_forecast = out->step_seconds_measured = none;
    out->bubble_forecast = out->bubble_measured = none;
    out->blocks_moved = out->bytes_moved = out->move_seconds = none;
    out->memory.n = out->partition.n = 0;
    out->event[0] = out->forecast_by[0] = out->why[0] = '\0';
}

bool vp_metrics_parse(const char *line, size_t n_bytes,
                      struct vp_metrics_record *out)
{
    struct scan s = { line, line + n_bytes };
    char key[32];

    clear(out);
    if (!take(&s, '{'))
        return false;
    do {
        if (!take_text(&s, key, sizeof(key)) || !take(&s, ':') ||
            !take_field(&s, key, out))
            return false;
    } while (take(&s, ','));
    if (!take(&s, '}') || out->step < 0)
        return false;
    skip_space(&s);
    return s.at == s.end;
}

/* ---- The file ------------------------------------------------------------- */

struct reader {
    FILE *file;
    char *line; /* VP_METRICS_LINE bytes */
    size_t n_bytes;
    bool whole; /* ends with a line feed, and fits in `line` */
};

/* Reads the next line. Returns false at the end of the file. */
static bool next_line(struct reader *r)
{
    bool cut = false;

    r->whole = false;
    if (!fgets(r->line, VP_METRICS_LINE, r->file))
        return false;
    r->n_bytes = strlen(r->line);
    /* Skip the rest of a line that is too long. */
    while (r->n_bytes > 0 && r->line[r->n_bytes - 1] != '\n' &&
           r->n_bytes == VP_METRICS_LINE - 1) {
        cut = true;
        if (!fgets(r->line, VP_METRICS_LINE, r->file))
            break;
        r->n_bytes = strlen(r->line);
    }
    r->whole = !cut && r->n_bytes > 0 && r->line[r->n_bytes - 1] == '\n';
    return true;
}

static void read_lines(struct reader *r, vp_metrics_fn fn, void *ctx,
                       struct vp_metrics_faults *faults)
{
    struct vp_metrics_record record;

    for (int64_t number = 1; next_line(r); number++)
        if (r->whole && vp_metrics_parse(r->line, r->n_bytes - 1, &record))
            fn(ctx, &record);
        else if (faults->n_bad++ == 0)
            faults->first_bad = number;
}

enum vp_status vp_metrics_read(const char *folder, vp_metrics_fn fn, void *ctx,
                               struct vp_metrics_faults *faults_out,
                               struct vp_err *err)
{
    char path[PATH_MAX];
    struct reader r = { .file = NULL };
    bool failed;

    *faults_out = (struct vp_metrics_faults){ 0 };
    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    if (access(path, F_OK) != 0)
        return VP_OK;
    r.file = vp_path_is_special(path) ? NULL : fopen(path, "re");
    if (!r.file)
        return vp_err_set(err, VP_ERR_IO,
                          "%s: cannot be read (%s); give the folder of a run",
                          path, strerror(errno));
    r.line = malloc(VP_METRICS_LINE);
    if (r.line)
        read_lines(&r, fn, ctx, faults_out);
    failed = ferror(r.file);
    fclose(r.file);
    if (!r.line)
        return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
    free(r.line);
    if (failed)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be read; check the disk",
                          path);
    return VP_OK;
}
