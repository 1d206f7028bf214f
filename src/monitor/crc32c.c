/* CRC-32C with a table for four bits at a time. */
#include "monitor/crc32c.h"

/* A small table is fast enough: each step writes one short record. */
static const uint32_t table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
    0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
    0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t vp_crc32c(const void *bytes, size_t n_bytes)
{
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= at[i];
        crc = table[crc & 15] ^ (crc >> 4);
        crc = table[crc & 15] ^ (crc >> 4);
    }
    return ~crc;
}
