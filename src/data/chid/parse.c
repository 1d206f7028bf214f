/* The parser of CHID files: bytes, numbers, keys, samples. */
#include "data/chid/parse.h"

#include <stdio.h>
#include <string.h>

enum { NO_BYTE = -1 };

#define REMEDY "copy the file, or write it with CPM-1-Finetune, anew"

static enum vp_status refuse(const struct vp_chid_reader *reader,
                             struct vp_err *err, const char *cause)
{
    return vp_err_set(err, VP_ERR_INVALID, "%s: offset %lld: %s; " REMEDY,
                      vp_file_set_path(reader->set, reader->file),
                      (long long)(reader->offset + reader->at), cause);
}

/* ---- Bytes -------------------------------------------------------------- */

/* Returns the next byte in *out without consuming it; NO_BYTE at the end of the
 * file. */
static enum vp_status peek(struct vp_chid_reader *reader, int *out,
                           struct vp_err *err)
{
    if (reader->at == reader->n) {
        int64_t n = vp_file_set_bytes(reader->set, reader->file);

        reader->offset += reader->n;
        reader->at = 0;
        n -= reader->offset;
        reader->n = 0;
        if (n > VP_CHID_BUFFER)
            n = VP_CHID_BUFFER;
        VP_TRY(vp_file_set_read(reader->set, reader->file, reader->offset, n,
                                reader->buffer, err));
        reader->n = (int)n;
    }
    *out = reader->n == 0 ? NO_BYTE : reader->buffer[reader->at];
    return VP_OK;
}

/* Like peek(), after skipping white space. */
static enum vp_status peek_mark(struct vp_chid_reader *reader, int *out,
                                struct vp_err *err)
{
    for (;;) {
        VP_TRY(peek(reader, out, err));
        if (*out != ' ' && *out != '\n' && *out != '\r' && *out != '\t')
            return VP_OK;
        reader->at++;
    }
}

static enum vp_status take(struct vp_chid_reader *reader, int mark,
                           struct vp_err *err)
{
    char cause[64];
    int byte;

    VP_TRY(peek_mark(reader, &byte, err));
    if (byte != mark) {
        snprintf(cause, sizeof(cause),
                 byte == NO_BYTE ? "the file ends where '%c' belongs"
                                 : "'%c' belongs here",
                 mark);
        return refuse(reader, err, cause);
    }
    reader->at++;
    return VP_OK;
}

/* Consumes ',' or `end`. */
static enum vp_status take_more(struct vp_chid_reader *reader, int end,
                                bool *more_out, struct vp_err *err)
{
    int byte;

    VP_TRY(peek_mark(reader, &byte, err));
    *more_out = byte == ',';
    return take(reader, *more_out ? ',' : end, err);
}

/* ---- Values ------------------------------------------------------------- */

static enum vp_status take_number(struct vp_chid_reader *reader, int64_t limit,
                                  int64_t *out, struct vp_err *err)
{
    int64_t number = 0;
    int byte, n_digits = 0;
    char cause[96];

    VP_TRY(peek_mark(reader, &byte, err));
    for (; byte >= '0' && byte <= '9' && n_digits < 18; n_digits++) {
        number = 10 * number + (byte - '0');
        reader->at++;
        VP_TRY(peek(reader, &byte, err));
    }
    if (n_digits > 0 && number < limit && byte != '.' && byte != 'e' &&
        byte != 'E') {
        *out = number;
        return VP_OK;
    }
    snprintf(cause, sizeof(cause), "a whole number from 0 to %lld belongs here",
             (long long)limit - 1);
    return refuse(reader, err, cause);
}

/* Reads "[id, ...]". */
static enum vp_status take_ids(struct vp_chid_reader *reader, int32_t *ids,
                               int64_t max_ids, int64_t *n_out,
                               struct vp_err *err)
{
    bool more = true;
    int64_t id = 0;
    int byte;

    *n_out = 0;
    VP_TRY(take(reader, '[', err));
    VP_TRY(peek_mark(reader, &byte, err));
    if (byte == ']')
        return take(reader, ']', err);
    while (more) {
        VP_TRY(take_number(reader, reader->vocab, &id, err));
        if (*n_out == max_ids)
            return refuse(reader, err, "the sentence has too many ids");
        if (ids)
            ids[*n_out] = (int32_t)id;
        ++*n_out;
        VP_TRY(take_more(reader, ']', &more, err));
    }
    return VP_OK;
}

/* Reads a key without escapes, and its colon. */
static enum vp_status take_key(struct vp_chid_reader *reader, char out[16],
                               struct vp_err *err)
{
    int byte, n = 0;

    VP_TRY(take(reader, '"', err));
    for (;;) {
        VP_TRY(peek(reader, &byte, err));
        if (byte == '"')
            break;
        if (byte < ' ' || byte == '\\' || n == 15)
            return refuse(reader, err, "the key is not \"sent\" or \"truth\"");
        out[n++] = (char)byte;
        reader->at++;
    }
    out[n] = '\0';
    reader->at++;
    return take(reader, ':', err);
}

/* ---- Samples ------------------------------------------------------------ */

void vp_chid_seek(struct vp_chid_reader *reader, struct vp_file_set *set,
                  int file, int64_t vocab, int64_t offset)
{
    reader->set = set;
    reader->file = file;
    reader->vocab = vocab;
    reader->offset = offset;
    reader->at = reader->n = 0;
}

/* Reads the rest after the array of samples: the outer ']' and the end of the
 * file. */
static enum vp_status take_end(struct vp_chid_reader *reader,
                               struct vp_err *err)
{
    int byte;

    VP_TRY(take(reader, ']', err));
    VP_TRY(peek_mark(reader, &byte, err));
    return byte == NO_BYTE ? VP_OK
                           : refuse(reader, err, "the file should end here");
}

enum vp_status vp_chid_begin(struct vp_chid_reader *reader,
                             struct vp_file_set *set, int file, int64_t vocab,
                             bool *more_out, struct vp_err *err)
{
    int64_t n;
    int byte;

    vp_chid_seek(reader, set, file, vocab, 0);
    VP_TRY(take(reader, '[', err));
    VP_TRY(take_ids(reader, reader->choices, VP_CHID_CHOICES, &n, err));
    if (n != VP_CHID_CHOICES)
        return refuse(reader, err, "ten tokens of choices belong before this");
    VP_TRY(take(reader, ',', err));
    VP_TRY(take(reader, '[', err));
    VP_TRY(peek_mark(reader, &byte, err));
    *more_out = byte != ']';
    if (*more_out)
        return VP_OK;
    reader->at++;
    return take_end(reader, err);
}

enum vp_status vp_chid_next(struct vp_chid_reader *reader,
                            struct vp_chid_sample *sample, struct vp_err *err)
{
    bool has_sent = false, has_truth = false, more = true;
    char key[16];
    int byte;

    VP_TRY(peek_mark(reader, &byte, err));
    sample->offset = reader->offset + reader->at;
    VP_TRY(take(reader, '{', err));
    while (more) {
        VP_TRY(take_key(reader, key, err));
        if (strcmp(key, "sent") == 0 && !has_sent) {
            has_sent = true;
            VP_TRY(take_ids(reader, sample->ids, sample->max_ids,
                            &sample->n_ids, err));
        } else if (strcmp(key, "truth") == 0 && !has_truth) {
            has_truth = true;
            VP_TRY(take_number(reader, VP_CHID_CHOICES, &sample->truth, err));
        } else {
            return refuse(reader, err,
                          "the key before is not \"sent\" or \"truth\", or "
                          "occurs twice");
        }
        VP_TRY(take_more(reader, '}', &more, err));
    }
    if (!has_sent || !has_truth || sample->n_ids < 2)
        return refuse(reader, err,
                      "the sample before has no \"truth\", or no \"sent\" of "
                      "two ids or more");
    VP_TRY(take_more(reader, ']', &sample->more, err));
    return sample->more ? VP_OK : take_end(reader, err);
}
