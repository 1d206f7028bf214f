/* make_tables CLASSES MAPPINGS OUT.c: turns the text files of src/text/unicode
 * into the C tables that src/text/unicode.c reads. Runs when vpipe is built. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_CODE_POINTS = 0x110000,
    BLOCK = 256,
    N_BLOCKS = N_CODE_POINTS / BLOCK,
    MAX_WORD = 64,
    MAX_MAPPINGS = 8192,
    MAX_SEQUENCE = 4,
};

/* Sections of CLASSES. Bit i of a code point's class is class_names[i];
 * unicode.h has the same order. */
static const char *const class_names[] = {
    "removed", "blank",  "cjk",   "mark",     "punctuation",
    "letter",  "number", "space", "unstable",
};
/* Sections of MAPPINGS. Code points in the first, second and last one have a
 * class bit of mapping_bits. */
static const char *const mapping_names[] = { "lower", "decompose", "compose",
                                             "combining" };
enum { LOWER, DECOMPOSE, COMPOSE, COMBINING, N_MAPPINGS };
static const int mapping_bits[N_MAPPINGS] = {
    [LOWER] = 9, [DECOMPOSE] = 10, [COMBINING] = 11
};
enum { N_CLASSES = sizeof(class_names) / sizeof(class_names[0]) };

struct mapping {
    unsigned from[2]; /* compose: a pair; combining: a range */
    unsigned to[MAX_SEQUENCE];
    int n_to;
};

static uint16_t class_of[N_CODE_POINTS];
static struct mapping mappings[N_MAPPINGS][MAX_MAPPINGS];
static int n_mappings[N_MAPPINGS];
static uint8_t block_of[N_BLOCKS];
static unsigned first_in_block[BLOCK]; /* code point of each distinct block */
static int n_distinct;

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "make_tables: %s: %s\n", what, detail);
    exit(1);
}

/* Reads a code point and moves *at behind it. */
static unsigned take_hex(char **at, const char *word)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(*at, &end, 16);
    if (end == *at || errno != 0 || value >= N_CODE_POINTS)
        die("not a code point", word);
    *at = end;
    return (unsigned)value;
}

/* ---- Reading ------------------------------------------------------------ */

/* Takes "41-5A" or "41". */
static void take_class(int bit, char *word)
{
    char *at = word;
    unsigned low = take_hex(&at, word), high = low;

    if (*at == '-') {
        at++;
        high = take_hex(&at, word);
    }
    if (*at || high < low)
        die("not a range", word);
    for (unsigned c = low; c <= high; c++)
        class_of[c] |= (uint16_t)(1u << bit);
}

/* Takes "C0=41.300", "41.300=C0" or "300-314=E6". */
static void take_mapping(int kind, char *word)
{
    struct mapping *mapping = &mappings[kind][n_mappings[kind]];
    char *at = word;

    if (++n_mappings[kind] > MAX_MAPPINGS)
        die("too many mappings", mapping_names[kind]);
    mapping->from[0] = mapping->from[1] = take_hex(&at, word);
    if (*at == '.' || *at == '-') {
        at++;
        mapping->from[1] = take_hex(&at, word);
    }
    if (*at != '=')
        die("'=' is missing", word);
    while (*at) {
        at++;
        if (mapping->n_to == MAX_SEQUENCE)
            die("too long", word);
        mapping->to[mapping->n_to++] = take_hex(&at, word);
    }
    if (kind == COMPOSE)
        return;
    for (unsigned c = mapping->from[0]; c <= mapping->from[1]; c++)
        class_of[c] |= (uint16_t)(1u << mapping_bits[kind]);
}

static int find_name(const char *const *names, int n, const char *word)
{
    char name[MAX_WORD];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 1, "]"), word + 1);
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    die("unknown section", word);
    return -1;
}

static void read_file(const char *path, const char *const *names, int n_names,
                      void (*take)(int section, char *word))
{
    FILE *file = fopen(path, "r");
    char word[MAX_WORD];
    int section = -1;

    if (!file)
        die(path, strerror(errno));
    if (fscanf(file, "#%*[^\n]") < 0)
        die(path, "is empty");
    while (fscanf(file, "%63s", word) == 1) {
        if (word[0] == '[')
            section = find_name(names, n_names, word);
        else if (section < 0)
            die("no section yet", word);
        else
            take(section, word);
    }
    fclose(file);
}

/* ---- Writing ------------------------------------------------------------ */

static void find_blocks(void)
{
    for (unsigned b = 0; b < N_BLOCKS; b++) {
        const uint16_t *block = class_of + b * BLOCK;
        int i = 0;

        while (i < n_distinct && memcmp(class_of + first_in_block[i], block,
                                        BLOCK * sizeof(*block)) != 0)
            i++;
        if (i == n_distinct) {
            if (n_distinct == BLOCK)
                die("too many distinct blocks", "for one byte");
            first_in_block[n_distinct++] = b * BLOCK;
        }
        block_of[b] = (uint8_t)i;
    }
}

static void write_classes(FILE *out)
{
    fprintf(out, "const uint8_t vp_unicode_block[%d] = {", N_BLOCKS);
    for (int b = 0; b < N_BLOCKS; b++)
        fprintf(out, "%s%d,", b % 20 == 0 ? "\n" : "", block_of[b]);
    fprintf(out, "\n};\nconst uint16_t vp_unicode_class[%d][%d] = {",
            n_distinct, BLOCK);
    for (int i = 0; i < n_distinct; i++) {
        fputs("\n{", out);
        for (int c = 0; c < BLOCK; c++)
            fprintf(out, "%s%d,", c % 16 == 0 ? "\n" : "",
                    class_of[first_in_block[i] + (unsigned)c]);
        fputs("},", out);
    }
    fputs("\n};\n", out);
}

static void write_mapping(FILE *out, int kind)
{
    fprintf(out, "const struct vp_unicode_mapping vp_unicode_%s[%d] = {\n",
            mapping_names[kind], n_mappings[kind]);
    for (int i = 0; i < n_mappings[kind]; i++) {
        const struct mapping *m = &mappings[kind][i];

        fprintf(out, "{{%u,%u},{%u,%u,%u,%u},%d},\n", m->from[0], m->from[1],
                m->to[0], m->to[1], m->to[2], m->to[3], m->n_to);
    }
    fprintf(out, "};\nconst int vp_unicode_n_%s = %d;\n", mapping_names[kind],
            n_mappings[kind]);
}

static int by_code_point(const void *a, const void *b)
{
    const struct mapping *x = a, *y = b;
    int by_first = (x->from[0] > y->from[0]) - (x->from[0] < y->from[0]);

    if (by_first != 0)
        return by_first;
    return (x->from[1] > y->from[1]) - (x->from[1] < y->from[1]);
}

int main(int argc, char **argv)
{
    FILE *out;

    if (argc != 4)
        die("usage", "make_tables CLASSES MAPPINGS OUT.c");
    read_file(argv[1], class_names, N_CLASSES, take_class);
    read_file(argv[2], mapping_names, N_MAPPINGS, take_mapping);
    find_blocks();
    out = fopen(argv[3], "w");
    if (!out)
        die(argv[3], strerror(errno));
    fputs("/* Written by tools/unicode/make_tables.c. */\n"
          "#include \"text/unicode_tables.h\"\n\n",
          out);
    write_classes(out);
    for (int kind = 0; kind < N_MAPPINGS; kind++) {
        qsort(mappings[kind], (size_t)n_mappings[kind], sizeof(struct mapping),
              by_code_point);
        write_mapping(out, kind);
    }
    if (ferror(out) || fclose(out) != 0)
        die(argv[3], "cannot be written");
    return 0;
}
