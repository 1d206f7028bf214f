/* vpipe data: data sets and vocabularies, one subcommand each. */
#include "data.h"

#include "base/nearest.h"

#include <string.h>

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *meaning;
} subcommands[] = {
    { "bert", data_bert, "make HDF5 shards for BERT of text" },
    { "convert", data_convert, "copy a token file to another format" },
    { "encode", data_encode, "print the token ids of every line of a file" },
    { "decode", data_decode, "print the text of lines of token ids" },
    { "gpt", data_gpt, "make token files for training of text" },
    { "inspect", data_inspect, "print what a file holds" },
    { "pairs", data_pairs, "make a data folder of fairseq of parallel text" },
    { "vocab", data_vocab, "train a vocabulary from text files" },
};
enum { N_SUBCOMMANDS = sizeof(subcommands) / sizeof(subcommands[0]) };

static void print_help(FILE *out)
{
    tool_print(out, help_width(out), 0,
               "vpipe data makes data sets, token ids and vocabularies.\n\n"
               "usage: vpipe data SUBCOMMAND [argument...]\n"
               "       vpipe data SUBCOMMAND --help\n\n"
               "subcommands:\n");
    for (int i = 0; i < N_SUBCOMMANDS; i++)
        tool_print(out, help_width(out), 12, "  %-9s %s\n", subcommands[i].name,
                   subcommands[i].meaning);
}

static int unknown_subcommand(const char *word)
{
    const char *names[N_SUBCOMMANDS];
    int best;

    for (int i = 0; i < N_SUBCOMMANDS; i++)
        names[i] = subcommands[i].name;
    best = vp_nearest(word, names, N_SUBCOMMANDS);
    if (best >= 0)
        return tool_usage_error("vpipe data: unknown subcommand '%.48s'; did "
                                "you mean '%s'?",
                                word, names[best]);
    return tool_usage_error("vpipe data: unknown subcommand '%.48s'; 'vpipe "
                            "data --help' lists them",
                            word);
}

int cmd_data(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return TOOL_OK;
    }
    for (int i = 0; i < N_SUBCOMMANDS; i++)
        if (strcmp(argv[1], subcommands[i].name) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
    return unknown_subcommand(argv[1]);
}
