/* Subcommands of `vpipe data`; argv[0] is the subcommand's name. */
#ifndef VP_TOOLS_DATA_H
#define VP_TOOLS_DATA_H

#include "tool.h"

int data_encode(int argc, char **argv);
int data_decode(int argc, char **argv);
int data_vocab(int argc, char **argv);

#endif
