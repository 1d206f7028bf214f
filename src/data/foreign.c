/* Detection of files that are not UTF-8 text, by name and by first bytes. */
#include "data/foreign.h"

#include "base/status.h"

#include <string.h>

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

bool vp_foreign_is_tokens(const char *name)
{
    return ends_in(name, ".bin") || ends_in(name, ".idx");
}

bool vp_foreign_is_dictionary(const char *name)
{
    return strncmp(name, "dict.", 5) == 0 && ends_in(name, ".txt");
}

#define CONVERT(from) "convert it with 'iconv -f " from " -t UTF-8 FILE -o NEW'"
#define NEEDS_TEXT "give text in UTF-8"

/* If one head begins with another one, the longer must be first. */
static const struct {
    const char *head;
    size_t n_bytes;
    struct vp_foreign foreign;
} heads[] = {
    { "\xFF\xFE\0\0", 4, { "is UTF-32", CONVERT("UTF-32") } },
    { "\0\0\xFE\xFF", 4, { "is UTF-32", CONVERT("UTF-32") } },
    { "\xFF\xFE",
      2,
      { "is UTF-16 (byte order mark FF FE)", CONVERT("UTF-16") } },
    { "\xFE\xFF",
      2,
      { "is UTF-16 (byte order mark FE FF)", CONVERT("UTF-16") } },
    { "\xFD"
      "7zXZ\0",
      6,
      { "is compressed by xz", "decompress it with 'unxz -k FILE'" } },
    { "BZh91AY&SY",
      10,
      { "is compressed by bzip2", "decompress it with 'bunzip2 -k FILE'" } },
    { "PK\3\4", 4, { "is a zip archive", "unpack it with 'unzip FILE'" } },
    { "\x89PNG", 4, { "is a PNG image", NEEDS_TEXT } },
    { "\xFF\xD8\xFF", 3, { "is a JPEG image", NEEDS_TEXT } },
    { "%PDF-",
      5,
      { "is a PDF document", "extract its text with 'pdftotext FILE NEW'" } },
    { "PAR1", 4, { "is a Parquet file", "export its text to a text file" } },
    { "\x93NUMPY",
      6,
      { "is a NumPy array", "give the text that it was made from" } },
    { "\x7F"
      "ELF",
      4,
      { "is a program", NEEDS_TEXT } },
};

static bool is_ascii_text(unsigned char byte)
{
    return (byte >= ' ' && byte < 0x7F) || (byte >= '\t' && byte <= '\r');
}

/* Detects UTF-16 without a byte order mark: most pairs of bytes are a NUL and
 * an ASCII character, in one of the two orders. */
static const struct vp_foreign *find_utf16(const unsigned char *bytes, size_t n)
{
    static const struct vp_foreign order[] = {
        { "is UTF-16, big endian without a byte order mark",
          CONVERT("UTF-16BE") },
        { "is UTF-16, little endian without a byte order mark",
          CONVERT("UTF-16LE") },
    };
    size_t n_pairs = (n < 512 ? n : 512) / 2;

    for (size_t nul = 0; nul < VP_COUNT_OF(order); nul++) {
        size_t n_like = 0;

        for (size_t i = 0; i < n_pairs; i++)
            n_like += bytes[2 * i + nul] == 0 &&
                      is_ascii_text(bytes[2 * i + 1 - nul]);
        if (n_pairs >= 4 && 2 * n_like > n_pairs)
            return &order[nul];
    }
    return NULL;
}

const struct vp_foreign *vp_foreign_by_head(const unsigned char *bytes,
                                            size_t n)
{
    for (size_t i = 0; i < VP_COUNT_OF(heads); i++)
        if (n >= heads[i].n_bytes &&
            memcmp(bytes, heads[i].head, heads[i].n_bytes) == 0)
            return &heads[i].foreign;
    return find_utf16(bytes, n);
}
