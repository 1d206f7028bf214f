/* Finds out what config->path holds, by names and first bytes; the folders in a
 * folder are not looked into.
 *
 *   HDF5 shards      *.hdf5 and *.h5, of a folder those named *training*
 *   Megatron-LM,     *.idx with a *.bin beside it; told apart by the size of
 *   fairseq          the .idx
 *   llm.c            *.bin without an .idx
 *   CHID             *.json that begins with two brackets
 *   parallel text    for pairs only, see parallel.h
 *   text             all else
 *
 * Text beside files of the other kinds is not read, nor are kinds without samples
 * for the task beside one that has some. Several kinds that remain are an error
 * that names the key data_format, which decides. */
#ifndef VP_DATA_DATA_DETECT_H
#define VP_DATA_DATA_DETECT_H

#include "base/status.h"
#include "data/data_config.h"

/* "auto", "text", ...; NULL past the last. */
const char *vp_data_format_name(int format);

/* The format of a file, by its name and first bytes; pickles are refused. */
enum vp_status vp_data_format_of(const char *path, enum vp_data_format *out,
                                 struct vp_err *err);

/* Sets source and format of `*out`, a copy of `*config` otherwise. */
enum vp_status vp_data_detect(const struct vp_data_config *config,
                              struct vp_data_config *out, struct vp_err *err);

#endif
