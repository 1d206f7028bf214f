/* CRC-32C (Castagnoli), reflected, as in RFC 3720: the checksum of event
 * files. */
#ifndef VP_MONITOR_CRC32C_H
#define VP_MONITOR_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t vp_crc32c(const void *bytes, size_t n_bytes);

#endif
