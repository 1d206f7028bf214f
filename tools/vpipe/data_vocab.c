/* vpipe data vocab: trains a vocabulary from text files. */
#include "data.h"

#include "base/value.h"
#include "lines.h"
#include "text/vocab_trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FLAG_TYPE,
    FLAG_SIZE,
    FLAG_OUT,
    FLAG_SPECIAL,
    FLAG_MIN_COUNT,
    FLAG_CHARACTERS,
    FLAG_CASED,
    FLAG_HELP
};

static const struct tool_flag flags[] = {
    [FLAG_TYPE] = { "--type", "bpe|wordpiece",
                    "byte-level BPE, or WordPiece [bpe]" },
    [FLAG_SIZE] = { "--size", "N", "the number of tokens [30000]" },
    [FLAG_OUT] = { "--out", "DIR", "the folder for the files" },
    [FLAG_SPECIAL] = { "--special", "TOKEN",
                       "a special token, in order; may be repeated [bpe: "
                       "<|endoftext|>; wordpiece: [PAD] [UNK] [CLS] [SEP] "
                       "[MASK]]" },
    [FLAG_MIN_COUNT] = { "--min-count", "N",
                         "merge pairs that occur N times or more [1]" },
    [FLAG_CHARACTERS] = { "--characters", "N",
                          "wordpiece: keep the N most frequent characters "
                          "[1000]" },
    [FLAG_CASED] = { "--cased", NULL, "wordpiece: keep case and accents" },
    [FLAG_HELP] = { "--help", NULL, "this text" },
};
enum {
    N_FLAGS = sizeof(flags) / sizeof(flags[0]),
    MAX_SPECIAL = 64,
    MAX_SIZE = 1 << 20,
};
const struct tool_options data_vocab_options = { flags, N_FLAGS };

struct options {
    struct vp_vocab_options vocab;
    const char *special[MAX_SPECIAL];
    const char *out;
    char **files; /* pointers into argv */
    int n_files;
    bool help;
};

static const char *const special_bpe[] = { "<|endoftext|>" };
static const char *const special_wordpiece[] = { "[PAD]", "[UNK]", "[CLS]",
                                                 "[SEP]", "[MASK]" };

/* ---- The command line --------------------------------------------------- */

static int take_number(int flag, const char *value, int64_t min, int64_t *out)
{
    if (vp_text_to_i64(value, out) && *out >= min && *out <= MAX_SIZE)
        return TOOL_OK;
    return tool_usage_error("vpipe data vocab: option '%s' must be a whole "
                            "number from %" PRId64 " to %d, not '%.48s'; write "
                            "for example '%s 1000'",
                            flags[flag].name, min, MAX_SIZE, value,
                            flags[flag].name);
}

static int take_type(struct options *out, const char *value)
{
    out->vocab.wordpiece = strcmp(value, "wordpiece") == 0;
    if (out->vocab.wordpiece || strcmp(value, "bpe") == 0)
        return TOOL_OK;
    return tool_usage_error("vpipe data vocab: unknown type '%.48s'; write "
                            "'--type bpe' or '--type wordpiece'",
                            value);
}

static int take_special(struct options *out, const char *value)
{
    if (out->vocab.n_special == MAX_SPECIAL)
        return tool_usage_error(
            "vpipe data vocab: more than %d special tokens; "
            "give fewer",
            MAX_SPECIAL);
    out->special[out->vocab.n_special++] = value;
    return TOOL_OK;
}

static int take(void *ctx, int flag, const char *value)
{
    struct options *out = ctx;
    int64_t n = 0;
    int status;

    switch (flag) {
    case ARGS_PLAIN:
        out->files[out->n_files++] = (char *)(uintptr_t)value;
        return TOOL_OK;
    case FLAG_TYPE:
        return take_type(out, value);
    case FLAG_SIZE:
        status = take_number(flag, value, 1, &n);
        out->vocab.size = (int)n;
        return status;
    case FLAG_OUT:
        out->out = value;
        return TOOL_OK;
    case FLAG_SPECIAL:
        return take_special(out, value);
    case FLAG_MIN_COUNT:
        status = take_number(flag, value, 1, &n);
        out->vocab.min_count = n;
        return status;
    case FLAG_CHARACTERS:
        status = take_number(flag, value, 1, &n);
        out->vocab.max_characters = (int)n;
        return status;
    case FLAG_CASED:
        out->vocab.cased = true;
        return TOOL_OK;
    case FLAG_HELP:
        out->help = true;
        return TOOL_OK;
    default:
        return TOOL_USAGE;
    }
}

static int read_args(int argc, char **argv, struct options *out)
{
    struct tool_args args = { .command = "vpipe data vocab",
                              .argc = argc,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = N_FLAGS,
                              .at = 1 };
    int status = args_read(&args, take, out, &out->help);

    if (status != TOOL_OK || out->help)
        return status;
    if (!out->out)
        return tool_usage_error("vpipe data vocab: no folder for the files; "
                                "write '--out DIR'");
    if (out->n_files == 0)
        return tool_usage_error("vpipe data vocab: no text; name one or more "
                                "files");
    out->vocab.special = out->special;
    if (out->vocab.n_special == 0) {
        bool words = out->vocab.wordpiece;

        out->vocab.special = words ? special_wordpiece : special_bpe;
        out->vocab.n_special = words ? (int)VP_COUNT_OF(special_wordpiece)
                                     : (int)VP_COUNT_OF(special_bpe);
    }
    return TOOL_OK;
}

/* ---- Training ----------------------------------------------------------- */

/* Lines are added with their LF, as Hugging Face does. */
static enum vp_status add_file(struct vp_vocab_trainer *trainer,
                               const char *path, struct vp_err *err)
{
    struct lines lines;
    enum vp_status st = lines_open(&lines, path, err);

    while (st == VP_OK && (st = lines_next(&lines, err)) == VP_OK) {
        const char *end = lines.bytes + lines.used;

        for (int i = 0; st == VP_OK && i < lines.n_spans; i++) {
            const struct vp_text_span *line = &lines.spans[i];
            bool ended = line->bytes + line->n_bytes < end;

            st = vp_vocab_trainer_add(trainer, line->bytes,
                                      line->n_bytes + ended);
        }
    }
    lines_close(&lines);
    return st == VP_ERR_END ? VP_OK : st;
}

static enum vp_status train(struct vp_vocab_trainer *trainer,
                            const struct options *options, struct vp_err *err)
{
    for (int i = 0; i < options->n_files; i++)
        VP_TRY(add_file(trainer, options->files[i], err));
    if (vp_vocab_trainer_result(trainer).n_words == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the files hold no words; give text");
    VP_TRY(vp_vocab_trainer_run(trainer, err));
    VP_BUG_ON(!options->out);
    if (mkdir(options->out, 0777) != 0 && errno != EEXIST)
        return vp_err_write(err, options->out, errno);
    return vp_vocab_trainer_write(trainer, options->out, err);
}

static int run_training(const struct options *options)
{
    struct vp_err err = { .text = "" };
    struct vp_vocab_trainer *trainer;
    enum vp_status st = vp_vocab_trainer_create(&options->vocab, &trainer);

    if (st == VP_OK) {
        st = train(trainer, options, &err);
        if (st == VP_OK) {
            struct vp_vocab_result result = vp_vocab_trainer_result(trainer);

            printf(
                "%s: %d tokens, %d merges, from %" PRId64 " different words\n",
                options->out, result.n_tokens, result.n_merges, result.n_words);
        }
        vp_vocab_trainer_free(trainer);
    }
    if (st == VP_OK)
        return TOOL_OK;
    return data_fail("vpipe data vocab", st, &err);
}

static void print_help(void)
{
    tool_print(stdout, help_width(stdout), 0,
               "Trains a vocabulary and writes the files that Hugging Face "
               "and --tokenizer read: vocab.json and merges.txt, or "
               "vocab.txt; and tokenizer.json.\n\n"
               "usage: vpipe data vocab --type bpe|wordpiece --size N --out "
               "DIR FILE...\n\n");
    help_flags(flags, N_FLAGS);
}

int data_vocab(int argc, char **argv)
{
    struct options options = {
        .vocab = { .size = 30000, .min_count = 1, .max_characters = 1000 }
    };
    int status;

    options.files = calloc((size_t)argc, sizeof(*options.files));
    if (!options.files) {
        fprintf(stderr, "vpipe data vocab: out of memory; close other "
                        "programs\n");
        return TOOL_FAILED;
    }
    status = read_args(argc, argv, &options);
    if (status == TOOL_OK && options.help)
        print_help();
    else if (status == TOOL_OK)
        status = run_training(&options);
    free(options.files);
    return status;
}
