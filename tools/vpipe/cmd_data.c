/* vpipe data: runs the subcommands that make and show data sets and
 * vocabularies. */
#include "data.h"

#include "commands.h"

#include <string.h>

const struct tool_command data_commands[] = {
    { "bert", data_bert, &data_bert_options, "file",
      "make HDF5 shards for BERT from text" },
    { "convert", data_convert, &data_convert_options, "file",
      "copy a token file to another format" },
    { "encode", data_encode, &data_encode_options, "file",
      "print the token ids of every line of a file" },
    { "decode", data_decode, &data_decode_options, "file",
      "print the text of lines of token ids" },
    { "gpt", data_gpt, &data_gpt_options, "file",
      "make token files for training from text" },
    { "inspect", data_inspect, &data_inspect_options, "file",
      "print the content of a file" },
    { "pairs", data_pairs, &data_pairs_options, "file",
      "make a fairseq data folder from parallel text" },
    { "vocab", data_vocab, &data_vocab_options, "file",
      "train a vocabulary from text files" },
    { NULL, NULL, NULL, NULL, NULL },
};

static void print_help(FILE *out)
{
    tool_print(out, help_width(out), 0,
               "vpipe data makes data sets, token ids and vocabularies.\n\n"
               "usage: vpipe data SUBCOMMAND [argument...]\n"
               "       vpipe data SUBCOMMAND --help\n\n"
               "subcommands:\n");
    tool_print_commands(out, data_commands);
}

static int unknown_subcommand(const char *word)
{
    const char *nearest = tool_nearest_command(data_commands, word);

    if (nearest)
        return tool_usage_error("vpipe data: unknown subcommand '%.48s'; did "
                                "you mean '%s'?",
                                word, nearest);
    return tool_usage_error("vpipe data: unknown subcommand '%.48s'; 'vpipe "
                            "data --help' lists them",
                            word);
}

int cmd_data(int argc, char **argv)
{
    const struct tool_command *command;

    if (argc < 2) {
        print_help(stderr);
        return TOOL_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return TOOL_OK;
    }
    command = tool_find_command(data_commands, argv[1]);
    if (command)
        return command->run(argc - 1, argv + 1);
    return unknown_subcommand(argv[1]);
}
