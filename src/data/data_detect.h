/* Detects the format of the files at config->path by their names and first
 * bytes. Subfolders are not searched.
 *
 *   HDF5 shards      *.hdf5 and *.h5; in a folder those named *training*
 *   Megatron-LM,     *.idx with a *.bin beside it; distinguished by the header
 *   fairseq          and size of the .idx
 *   llm.c            *.bin without an .idx
 *   CHID             *.json that begins with two brackets
 *   parallel text    for pairs only, see parallel.h
 *   text             everything else
 *
 * Text is ignored if the folder has files of another format. Formats without
 * samples for the task are ignored if the folder has one with samples. If
 * several formats remain, the result is an error: the key data_format must
 * choose. */
#ifndef VP_DATA_DATA_DETECT_H
#define VP_DATA_DATA_DETECT_H

#include "base/status.h"
#include "data/data_config.h"

/* Returns the name of a format: "auto", "text", ...; NULL past the last. */
const char *vp_data_format_name(int format);

/* Detects the format of one file. Files named like a Python pickle are
 * refused. */
enum vp_status vp_data_format_of(const char *path, enum vp_data_format *out,
                                 struct vp_err *err);

/* Copies `config` to `*out` with `source` and `format` set by detection. */
enum vp_status vp_data_detect(const struct vp_data_config *config,
                              struct vp_data_config *out, struct vp_err *err);

#endif
