/* Prints generated texts or ids while they are generated. */
#include "answers.h"

#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "out of memory for generated texts; close other "
                      "programs");
}

enum vp_status answers_init(struct answers *answers, int64_t n,
                            struct vp_err *err)
{
    answers->at = calloc((size_t)n + 1, sizeof(*answers->at));
    answers->n = n;
    return answers->at ? VP_OK : no_memory(err);
}

void answers_release(struct answers *answers)
{
    for (int64_t k = 0; answers->at && k < answers->n; k++) {
        vp_ids_release(&answers->at[k].ids);
        vp_strbuf_release(&answers->at[k].text);
        vp_strbuf_release(&answers->at[k].numbers);
    }
    free(answers->at);
}

static const struct vp_strbuf *printed(const struct answers *answers,
                                       const struct answer *answer)
{
    return answers->print_ids ? &answer->numbers : &answer->text;
}

static void print_ready(struct answers *answers)
{
    while (answers->current < answers->n) {
        struct answer *answer = &answers->at[answers->current];

        if (answer->n_ready > answer->n_printed) {
            fwrite(vp_strbuf_text(printed(answers, answer)) + answer->n_printed,
                   1, answer->n_ready - answer->n_printed, stdout);
            answer->n_printed = answer->n_ready;
        }
        if (!answer->ended)
            break;
        fputc('\n', stdout);
        answers->current++;
    }
    tool_flush(stdout);
}

/* ---- Text --------------------------------------------------------------- */

/* Returns the length of the longest suffix of `text` that is a prefix of
 * `stop`. */
static size_t begun_stop(const char *text, size_t n, const char *stop)
{
    size_t most = strlen(stop);

    for (size_t m = most < n ? most : n; m > 0; m--)
        if (memcmp(text + n - m, stop, m) == 0)
            return m;
    return 0;
}

/* Returns the place of `stop` in a text, or `n`. */
static size_t find_stop(const char *text, size_t n, const char *stop)
{
    size_t m = strlen(stop);

    for (size_t i = 0; i + m <= n; i++)
        if (memcmp(text + i, stop, m) == 0)
            return i;
    return n;
}

/* Returns the length without a final U+FFFD, which stands for a character whose
 * last bytes are not there yet. */
static size_t without_part(const char *text, size_t n)
{
    return n >= 3 && memcmp(text + n - 3, "\xEF\xBF\xBD", 3) == 0 ? n - 3 : n;
}

static enum vp_status decode(const struct answers *answers,
                             struct answer *answer, bool *stop_out,
                             struct vp_err *err)
{
    const char *text;
    size_t n, at;

    vp_strbuf_release(&answer->text);
    VP_TRY(vp_tokenizer_decode(answers->tokenizer, answer->ids.at,
                               answer->ids.n, true, &answer->text, err));
    if (answer->text.failed)
        return no_memory(err);
    text = vp_strbuf_text(&answer->text);
    n = answer->text.n_bytes;
    answer->n_ready = without_part(text, n);
    if (!answers->stop)
        return VP_OK;
    at = find_stop(text, n, answers->stop);
    *stop_out = at < n;
    if (*stop_out)
        answer->text.n_bytes = answer->n_ready = at;
    else
        answer->n_ready -= begun_stop(text, answer->n_ready, answers->stop);
    return VP_OK;
}

static enum vp_status add_text(struct answers *answers, struct answer *answer,
                               int32_t id, bool *stop_out, struct vp_err *err)
{
    size_t n_bytes;

    if (!vp_tokenizer_token(answers->tokenizer, (uint32_t)id, &n_bytes))
        return VP_OK;
    if (vp_ids_reserve(&answer->ids, 1) != VP_OK)
        return no_memory(err);
    answer->ids.at[answer->ids.n++] = (uint32_t)id;
    return decode(answers, answer, stop_out, err);
}

static enum vp_status add_number(struct answer *answer, int32_t id,
                                 struct vp_err *err)
{
    struct vp_strbuf *numbers = &answer->numbers;

    vp_strbuf_addf(numbers, "%s%" PRId32, numbers->n_bytes > 0 ? " " : "", id);
    answer->n_ready = numbers->n_bytes;
    return numbers->failed ? no_memory(err) : VP_OK;
}

enum vp_status answers_add(struct answers *answers, int64_t k, int32_t id,
                           bool *stop_out, struct vp_err *err)
{
    struct answer *answer = &answers->at[k];

    if (answers->stop || !answers->print_ids)
        VP_TRY(add_text(answers, answer, id, stop_out, err));
    if (answers->print_ids)
        VP_TRY(add_number(answer, id, err));
    if (k == answers->current)
        print_ready(answers);
    return VP_OK;
}

void answers_end(struct answers *answers, int64_t k)
{
    struct answer *answer = &answers->at[k];

    answer->n_ready = printed(answers, answer)->n_bytes;
    answer->ended = true;
    if (k == answers->current)
        print_ready(answers);
}
