/* The messages between ranks and their supervisor, as lines of text.
 *
 *   supervisor   challenge NONCE
 *   rank         hello NONCE PROOF RANK N_RANKS PID MACHINE HOST
 *   supervisor   welcome PROOF
 *
 * The handshake (handshake.h). Then, in any order:
 *
 *   rank         beat PHASE STOP N_ACTIONS
 *                     [KIND STAGE MINIBATCH PEER EVAL BUSY_MS WAIT_MS]
 *                vitals N_CALLS RAN_MS DELAYED_MS CALL_MS WAIT_MS [TEXT...]
 *                folder PATH
 *                word done | interrupted | failed STATUS LINE...
 *   supervisor   here | heard | stop | end
 *
 * Pure: no sockets, no clock. */
#ifndef VP_JOB_MESSAGE_H
#define VP_JOB_MESSAGE_H

#include "job/vitals.h"
#include "runtime/rank/blackbox.h"

#define VP_MESSAGE_BYTES 768 /* the longest line, with newline and final zero */
#define VP_HOST_BYTES 64
#define VP_FOLDER_BYTES 640
#define VP_NONCE_BYTES 33 /* hexadecimal digits, with the final zero */
#define VP_PROOF_BYTES 65 /* hexadecimal digits, with the final zero */

/* How a rank ended. */
enum vp_word {
    VP_WORD_NONE, /* it has not ended */
    VP_WORD_DONE,
    VP_WORD_INTERRUPTED, /* by a signal, after a checkpoint */
    VP_WORD_FAILED,
    VP_WORD_COUNT
};

enum vp_message_kind {
    VP_MESSAGE_CHALLENGE,
    VP_MESSAGE_HELLO,
    VP_MESSAGE_WELCOME,
    VP_MESSAGE_BEAT,
    VP_MESSAGE_VITALS, /* sent before the beat that they belong to */
    VP_MESSAGE_FOLDER, /* the run folder, which holds the blackbox files */
    VP_MESSAGE_WORD,   /* the last message: how the rank ended */
    VP_MESSAGE_HERE,   /* heartbeat of the supervisor */
    VP_MESSAGE_HEARD,  /* receipt for VP_MESSAGE_WORD */
    VP_MESSAGE_STOP,   /* request: checkpoint at the next update, then end */
    VP_MESSAGE_END,    /* request: end at once */
    VP_MESSAGE_KIND_COUNT
};

/* Identity of a rank. */
struct vp_hello {
    int rank, n_ranks;
    int pid;
    char machine[VP_HOST_BYTES]; /* vp_machine_id(): where the pid is valid */
    char host[VP_HOST_BYTES];    /* name for users */
};

/* State of a rank. */
struct vp_beat {
    enum vp_job_phase phase;
    bool stop;         /* it has received a signal to stop */
    int64_t busy_ms;   /* time in its action */
    int64_t wait_ms;   /* time for which it waits in it; 0: it computes */
    int64_t n_actions; /* done so far */
    bool idle;         /* it is in no action; the fields below are unset */
    struct vp_action action; /* kind, stage, mb of the run, peer */
    bool eval;               /* the action belongs to an evaluation */
};

struct vp_last_word {
    enum vp_word word;
    enum vp_status status; /* VP_WORD_FAILED: the error ... */
    char line[512];        /* ... and its text */
};

struct vp_message {
    enum vp_message_kind kind;
    char nonce[VP_NONCE_BYTES];   /* CHALLENGE, HELLO */
    char proof[VP_PROOF_BYTES];   /* HELLO, WELCOME */
    struct vp_hello hello;        /* HELLO */
    struct vp_beat beat;          /* BEAT */
    struct vp_vitals vitals;      /* VITALS */
    char folder[VP_FOLDER_BYTES]; /* FOLDER */
    struct vp_last_word final;    /* WORD */
};

/* Writes the line with its newline. Returns its length. */
int vp_message_print(const struct vp_message *message,
                     char out[VP_MESSAGE_BYTES]);
/* Parses a line without its newline. Returns false if it is no message. */
bool vp_message_parse(const char *line, struct vp_message *out);

/* Returns the content of a blackbox as a beat; phase and stop are not set.
 * `now_ns`: vp_clock_ns() of the rank's machine. `resumed_ns`: time at which
 * the process was continued after it was frozen; time before it does not count.
 * 0: it was never frozen. */
struct vp_beat vp_beat_of(const struct vp_blackbox *blackbox, int64_t now_ns,
                          int64_t resumed_ns);

#endif
