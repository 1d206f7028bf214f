/* What ranks and their supervisor say to each other: lines of text.
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

#define VP_MESSAGE_BYTES 768 /* the longest line, with its end */
#define VP_HOST_BYTES 64
#define VP_FOLDER_BYTES 640
#define VP_NONCE_BYTES 33 /* hexadecimal digits, with the final zero */
#define VP_PROOF_BYTES 65 /* likewise */

enum vp_word {
    VP_WORD_NONE,
    VP_WORD_DONE,
    VP_WORD_INTERRUPTED, /* a signal asked for it, and all is saved */
    VP_WORD_FAILED,
    VP_WORD_COUNT
};

enum vp_message_kind {
    VP_MESSAGE_CHALLENGE,
    VP_MESSAGE_HELLO,
    VP_MESSAGE_WELCOME,
    VP_MESSAGE_BEAT,
    VP_MESSAGE_VITALS, /* before the beat that they belong to */
    VP_MESSAGE_FOLDER, /* of the run: there are files about ranks */
    VP_MESSAGE_WORD,
    VP_MESSAGE_HERE,  /* the supervisor lives; sent all the time */
    VP_MESSAGE_HEARD, /* it has the last word */
    VP_MESSAGE_STOP,  /* checkpoint at the next update, and end */
    VP_MESSAGE_END,   /* end at once */
    VP_MESSAGE_KIND_COUNT
};

/* What a rank says about itself. */
struct vp_hello {
    int rank, n_ranks;
    int pid;
    char machine[VP_HOST_BYTES]; /* on which pids mean the same */
    char host[VP_HOST_BYTES];    /* as the user calls it */
};

/* How it is. */
struct vp_beat {
    enum vp_job_phase phase;
    bool stop;       /* a signal asked it to stop */
    int64_t busy_ms; /* in its action */
    int64_t wait_ms; /* it waits; 0: it computes */
    int64_t n_actions;
    bool idle;               /* no action: */
    struct vp_action action; /* kind, stage, mb of the run, peer */
    bool eval;
};

struct vp_last_word {
    enum vp_word word;
    enum vp_status status; /* of a failure */
    char line[512];        /* of it */
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

/* Writes the line and its end; its length. */
int vp_message_print(const struct vp_message *message,
                     char out[VP_MESSAGE_BYTES]);
/* A line without its end. False if it is none. */
bool vp_message_parse(const char *line, struct vp_message *out);

/* The content of a blackbox at `now_ns` of its host. Time before `resumed_ns`,
 * when the process was continued after it was frozen, does not count; 0: it
 * never was. */
struct vp_beat vp_beat_of(const struct vp_blackbox *blackbox, int64_t now_ns,
                          int64_t resumed_ns);

#endif
