/* Prints and parses the lines that ranks and their supervisor send to each
 * other. */
#include "job/message.h"

#include "base/value.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[VP_MESSAGE_KIND_COUNT] = {
    [VP_MESSAGE_CHALLENGE] = "challenge", [VP_MESSAGE_HELLO] = "hello",
    [VP_MESSAGE_WELCOME] = "welcome",     [VP_MESSAGE_BEAT] = "beat",
    [VP_MESSAGE_WORD] = "word",           [VP_MESSAGE_FOLDER] = "folder",
    [VP_MESSAGE_HERE] = "here",           [VP_MESSAGE_HEARD] = "heard",
    [VP_MESSAGE_STOP] = "stop",           [VP_MESSAGE_END] = "end",
    [VP_MESSAGE_VITALS] = "vitals",
};

static const char *const word_names[VP_WORD_COUNT] = {
    [VP_WORD_NONE] = "none",
    [VP_WORD_DONE] = "done",
    [VP_WORD_INTERRUPTED] = "interrupted",
    [VP_WORD_FAILED] = "failed",
};

/* ---- Printing ----------------------------------------------------------- */

static int print_beat(const struct vp_beat *beat, char *out, size_t n)
{
    int used = snprintf(out, n, "beat %s %d %lld",
                        vp_job_phase_name(beat->phase), beat->stop,
                        (long long)beat->n_actions);

    if (beat->idle)
        return used;
    return used +
           snprintf(out + used, n - (size_t)used, " %s %d %d %d %d %lld %lld",
                    vp_action_kind_name(beat->action.kind), beat->action.stage,
                    beat->action.mb, beat->action.peer, beat->eval,
                    (long long)beat->busy_ms, (long long)beat->wait_ms);
}

/* Replaces newlines and other control characters by spaces: an error's text may
 * contain any bytes. */
static void make_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = ' ';
}

/* An empty text is left out, because take_rest() refuses an empty rest. */
static int print_vitals(const struct vp_vitals *vitals, char *out, size_t n)
{
    int used = snprintf(out, n, "vitals %lld %lld %lld %lld %lld%s%s",
                        (long long)vitals->n_calls, (long long)vitals->ran_ms,
                        (long long)vitals->delayed_ms,
                        (long long)vitals->call_ms, (long long)vitals->wait_ms,
                        vitals->text[0] ? " " : "", vitals->text);

    make_line(out);
    return used;
}

static int print_word(const struct vp_last_word *final, char *out, size_t n)
{
    int used = snprintf(out, n, "word %s", word_names[final->word]);

    if (final->word != VP_WORD_FAILED)
        return used;
    used += snprintf(out + used, n - (size_t)used, " %d %s", final->status,
                     final->line[0] ? final->line : "-");
    make_line(out);
    return used;
}

int vp_message_print(const struct vp_message *message,
                     char out[VP_MESSAGE_BYTES])
{
    const struct vp_hello *hello = &message->hello;
    const size_t n = VP_MESSAGE_BYTES - 1;
    int used;

    switch (message->kind) {
    case VP_MESSAGE_CHALLENGE:
        used = snprintf(out, n, "challenge %s", message->nonce);
        break;
    case VP_MESSAGE_HELLO:
        used = snprintf(out, n, "hello %s %s %d %d %d %s %s", message->nonce,
                        message->proof, hello->rank, hello->n_ranks, hello->pid,
                        hello->machine, hello->host);
        break;
    case VP_MESSAGE_WELCOME:
        used = snprintf(out, n, "welcome %s", message->proof);
        break;
    case VP_MESSAGE_BEAT:
        used = print_beat(&message->beat, out, n);
        break;
    case VP_MESSAGE_VITALS:
        used = print_vitals(&message->vitals, out, n);
        break;
    case VP_MESSAGE_FOLDER:
        used = snprintf(out, n, "folder %s", message->folder);
        break;
    case VP_MESSAGE_WORD:
        used = print_word(&message->final, out, n);
        break;
    default:
        used = snprintf(out, n, "%s", kind_names[message->kind]);
        break;
    }
    out[used] = '\n';
    out[used + 1] = '\0';
    return used + 1;
}

/* ---- Parsing ------------------------------------------------------------ */

struct line {
    const char *at; /* the next character to parse */
};

/* The functions below take one word, or the rest, off the front of the line and
 * return false if it is not of the right form. */

static bool take_text(struct line *line, char *out, size_t n)
{
    size_t length = strcspn(line->at, " ");

    if (length == 0 || length >= n)
        return false;
    memcpy(out, line->at, length);
    out[length] = '\0';
    line->at += length;
    if (*line->at == '\0')
        return true;
    return *++line->at != '\0'; /* a space has something after it */
}

/* Takes a word of n - 1 hexadecimal digits. */
static bool take_hex(struct line *line, char *out, size_t n)
{
    return take_text(line, out, n) && strlen(out) == n - 1 &&
           strspn(out, "0123456789abcdef") == n - 1;
}

/* Takes the rest of the line, including spaces. */
static bool take_rest(struct line *line, char *out, size_t n)
{
    size_t length = strlen(line->at);

    if (length == 0 || length >= n)
        return false;
    memcpy(out, line->at, length + 1);
    line->at += length;
    return true;
}

static bool take_number(struct line *line, int64_t min, int64_t max,
                        int64_t *out)
{
    char text[24];

    return take_text(line, text, sizeof(text)) && vp_text_to_i64(text, out) &&
           *out >= min && *out <= max;
}

static bool take_int(struct line *line, int min, int max, int *out)
{
    int64_t value;

    if (!take_number(line, min, max, &value))
        return false;
    *out = (int)value;
    return true;
}

static bool take_bool(struct line *line, bool *out)
{
    int value;

    if (!take_int(line, 0, 1, &value))
        return false;
    *out = value;
    return true;
}

static bool take_one_of(struct line *line, const char *const *names, int n,
                        int *out)
{
    char text[24];

    if (!take_text(line, text, sizeof(text)))
        return false;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool take_kind(struct line *line, enum vp_action_kind *out)
{
    const char *names[VP_ACTION_KIND_COUNT];
    int kind;

    for (int k = 0; k < VP_ACTION_KIND_COUNT; k++)
        names[k] = vp_action_kind_name((enum vp_action_kind)k);
    if (!take_one_of(line, names, VP_ACTION_KIND_COUNT, &kind))
        return false;
    *out = (enum vp_action_kind)kind;
    return true;
}

enum { MOST_RANKS = 4094 }; /* a peer has 12 bits in a blackbox */

static bool parse_hello(struct line *line, struct vp_hello *out)
{
    return take_int(line, 0, MOST_RANKS, &out->rank) &&
           take_int(line, out->rank + 1, MOST_RANKS + 1, &out->n_ranks) &&
           take_int(line, 1, INT32_MAX, &out->pid) &&
           take_text(line, out->machine, sizeof(out->machine)) &&
           take_text(line, out->host, sizeof(out->host));
}

static bool take_phase(struct line *line, enum vp_job_phase *out)
{
    const char *names[VP_JOB_PHASE_COUNT];
    int phase;

    for (int d = 0; d < VP_JOB_PHASE_COUNT; d++)
        names[d] = vp_job_phase_name((enum vp_job_phase)d);
    if (!take_one_of(line, names, VP_JOB_PHASE_COUNT, &phase))
        return false;
    *out = (enum vp_job_phase)phase;
    return true;
}

static bool parse_beat(struct line *line, struct vp_beat *out)
{
    struct vp_action *action = &out->action;

    if (!take_phase(line, &out->phase) || !take_bool(line, &out->stop) ||
        !take_number(line, 0, INT64_MAX, &out->n_actions))
        return false;
    out->idle = *line->at == '\0';
    *action = (struct vp_action){
        .peer = -1, .slot = -1, .version = -1, .msg = -1
    };
    if (out->idle)
        return true;
    return take_kind(line, &action->kind) &&
           take_int(line, 0, 255, &action->stage) &&
           take_int(line, INT32_MIN, INT32_MAX, &action->mb) &&
           take_int(line, -1, MOST_RANKS, &action->peer) &&
           take_bool(line, &out->eval) &&
           take_number(line, 0, INT64_MAX, &out->busy_ms) &&
           take_number(line, 0, INT64_MAX, &out->wait_ms);
}

static bool parse_vitals(struct line *line, struct vp_vitals *out)
{
    return take_number(line, 0, INT64_MAX, &out->n_calls) &&
           take_number(line, 0, INT64_MAX, &out->ran_ms) &&
           take_number(line, 0, INT64_MAX, &out->delayed_ms) &&
           take_number(line, 0, INT64_MAX, &out->call_ms) &&
           take_number(line, 0, INT64_MAX, &out->wait_ms) &&
           (*line->at == '\0' || take_rest(line, out->text, sizeof(out->text)));
}

static bool parse_word(struct line *line, struct vp_last_word *out)
{
    int word, status;

    if (!take_one_of(line, word_names, VP_WORD_COUNT, &word) ||
        word == VP_WORD_NONE)
        return false;
    out->word = (enum vp_word)word;
    if (word != VP_WORD_FAILED)
        return true;
    if (!take_int(line, VP_ERR_INVALID, VP_ERR_END, &status))
        return false;
    out->status = (enum vp_status)status;
    return take_rest(line, out->line, sizeof(out->line));
}

bool vp_message_parse(const char *text, struct vp_message *out)
{
    struct line line = { text };
    int kind;

    *out = (struct vp_message){ 0 };
    if (!take_one_of(&line, kind_names, VP_MESSAGE_KIND_COUNT, &kind))
        return false;
    out->kind = (enum vp_message_kind)kind;
    switch (out->kind) {
    case VP_MESSAGE_CHALLENGE:
        if (!take_hex(&line, out->nonce, sizeof(out->nonce)))
            return false;
        break;
    case VP_MESSAGE_HELLO:
        if (!take_hex(&line, out->nonce, sizeof(out->nonce)) ||
            !take_hex(&line, out->proof, sizeof(out->proof)) ||
            !parse_hello(&line, &out->hello))
            return false;
        break;
    case VP_MESSAGE_WELCOME:
        if (!take_hex(&line, out->proof, sizeof(out->proof)))
            return false;
        break;
    case VP_MESSAGE_BEAT:
        if (!parse_beat(&line, &out->beat))
            return false;
        break;
    case VP_MESSAGE_VITALS:
        if (!parse_vitals(&line, &out->vitals))
            return false;
        break;
    case VP_MESSAGE_FOLDER:
        if (!take_rest(&line, out->folder, sizeof(out->folder)))
            return false;
        break;
    case VP_MESSAGE_WORD:
        if (!parse_word(&line, &out->final))
            return false;
        break;
    default:
        break;
    }
    return *line.at == '\0';
}

/* ---- Blackboxes --------------------------------------------------------- */

/* Returns the milliseconds since the later of `then_ns` and `resumed_ns`. */
static int64_t ms_since(int64_t then_ns, int64_t resumed_ns, int64_t now_ns)
{
    if (then_ns < resumed_ns)
        then_ns = resumed_ns;
    return now_ns > then_ns ? (now_ns - then_ns) / 1000000 : 0;
}

struct vp_beat vp_beat_of(const struct vp_blackbox *blackbox, int64_t now_ns,
                          int64_t resumed_ns)
{
    struct vp_doing doing = vp_blackbox_read(blackbox);
    struct vp_beat beat = {
        .n_actions = doing.n_actions,
        .idle = doing.idle,
        .action = doing.action,
        .eval = doing.eval,
    };

    if (doing.idle)
        return beat;
    beat.busy_ms = ms_since(doing.since_ns, resumed_ns, now_ns);
    /* 0 means that it does not wait. */
    if (doing.waits_ns)
        beat.wait_ms = ms_since(doing.waits_ns, resumed_ns, now_ns) + 1;
    return beat;
}
