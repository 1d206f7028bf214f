/* Collects sequences of token ids from options, files and texts. */
#include "sequences.h"

#include "lines.h"
#include "text/encoder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "out of memory for sequences; close other programs");
}

static enum vp_status append(struct sequences *list,
                             const struct vp_sequence *sequence,
                             struct vp_err *err)
{
    int64_t capacity = 2 * list->capacity + 16;
    struct vp_sequence *wider;

    if (list->n == list->capacity) {
        wider = realloc(list->at, (size_t)capacity * sizeof(*wider));
        if (!wider)
            return no_memory(err);
        list->at = wider;
        list->capacity = capacity;
    }
    list->at[list->n++] = *sequence;
    return VP_OK;
}

enum vp_status sequences_add(struct sequences *list, const uint32_t *ids,
                             size_t n, struct vp_err *err)
{
    int32_t *copy = vp_arena_alloc(&list->arena, (n + 1) * sizeof(*copy));

    if (!copy)
        return no_memory(err);
    for (size_t i = 0; i < n; i++)
        copy[i] = (int32_t)ids[i];
    return append(
        list, &(struct vp_sequence){ .ids = copy, .n_ids = (int64_t)n }, err);
}

void sequences_release(struct sequences *list)
{
    free(list->at);
    vp_arena_release(&list->arena);
    *list = (struct sequences){ .n = 0 };
}

/* ---- Ids ---------------------------------------------------------------- */

enum vp_status sequences_add_ids(struct sequences *list, const char *text,
                                 size_t n_bytes, struct vp_err *err)
{
    int32_t *ids = vp_arena_alloc(&list->arena, (n_bytes + 1) * sizeof(*ids));
    struct vp_sequence sequence;

    if (!ids)
        return no_memory(err);
    VP_TRY(vp_sequence_parse(text, n_bytes, ids, &sequence, err));
    return append(list, &sequence, err);
}

/* ---- Text --------------------------------------------------------------- */

/* Converts a line to ids. */
struct encoding {
    struct vp_encoder *encoder; /* NULL: lines are ids */
    struct vp_ids ids;
    int32_t first, last; /* put around the ids; -1: none */
};

static enum vp_status open_encoding(struct encoding *encoding,
                                    const struct vp_tokenizer *tokenizer,
                                    enum vp_task task, struct vp_err *err)
{
    *encoding = (struct encoding){ .first = -1, .last = -1 };
    if (!tokenizer)
        return VP_OK;
    if (task == VP_TASK_TRANSLATION)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "text of two languages cannot be encoded yet; give "
                          "ids by '--ids SOURCE:TARGET'");
    if (task == VP_TASK_MASKED_LM) {
        encoding->first = vp_tokenizer_special(tokenizer, VP_SPECIAL_CLS);
        encoding->last = vp_tokenizer_special(tokenizer, VP_SPECIAL_SEP);
    }
    return vp_encoder_create(tokenizer, &encoding->encoder) == VP_OK
               ? VP_OK
               : no_memory(err);
}

static void close_encoding(struct encoding *encoding)
{
    vp_encoder_free(encoding->encoder);
    vp_ids_release(&encoding->ids);
}

static enum vp_status add_text(struct sequences *list,
                               struct encoding *encoding,
                               const struct vp_text_span *line,
                               struct vp_err *err)
{
    struct vp_ids *ids = &encoding->ids;
    int32_t *copy;
    int64_t n = 0;

    ids->n = 0;
    if (vp_encoder_add(encoding->encoder, line->bytes, line->n_bytes, false,
                       ids) != VP_OK)
        return no_memory(err);
    copy = vp_arena_alloc(&list->arena, (ids->n + 2) * sizeof(*copy));
    if (!copy)
        return no_memory(err);
    if (encoding->first >= 0)
        copy[n++] = encoding->first;
    for (size_t i = 0; i < ids->n; i++)
        copy[n++] = (int32_t)ids->at[i];
    if (encoding->last >= 0)
        copy[n++] = encoding->last;
    return append(list, &(struct vp_sequence){ .ids = copy, .n_ids = n }, err);
}

enum vp_status sequences_add_text(struct sequences *list, const char *text,
                                  const struct vp_tokenizer *tokenizer,
                                  enum vp_task task, struct vp_err *err)
{
    const struct vp_text_span span = { text, strlen(text) };
    struct encoding encoding;
    enum vp_status st = open_encoding(&encoding, tokenizer, task, err);

    if (st == VP_OK)
        st = add_text(list, &encoding, &span, err);
    close_encoding(&encoding);
    return st;
}

static enum vp_status add_line(struct sequences *list,
                               struct encoding *encoding,
                               const struct vp_text_span *line,
                               struct vp_err *err)
{
    return encoding->encoder
               ? add_text(list, encoding, line, err)
               : sequences_add_ids(list, line->bytes, line->n_bytes, err);
}

static enum vp_status add_lines(struct sequences *list,
                                struct encoding *encoding, const char *path,
                                struct vp_err *err)
{
    struct lines lines;
    enum vp_status st = lines_open(&lines, path, err);

    while (st == VP_OK) {
        st = lines_next(&lines, err);
        for (int i = 0; st == VP_OK && i < lines.n_spans; i++) {
            st = add_line(list, encoding, &lines.spans[i], err);
            if (st == VP_ERR_INVALID)
                vp_err_prefix(err, "%s:%" PRId64, path, lines.n_lines + i + 1);
        }
    }
    lines_close(&lines);
    return st == VP_ERR_END ? VP_OK : st;
}

enum vp_status sequences_add_file(struct sequences *list, const char *path,
                                  const struct vp_tokenizer *tokenizer,
                                  enum vp_task task, struct vp_err *err)
{
    struct encoding encoding;
    enum vp_status st = open_encoding(&encoding, tokenizer, task, err);

    if (st == VP_OK)
        st = add_lines(list, &encoding, path, err);
    close_encoding(&encoding);
    return st;
}
