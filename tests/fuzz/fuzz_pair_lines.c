/* libFuzzer target: reads any bytes line by line as parallel text (two files,
 * .tsv and .jsonl), and splits them into sentences. */
#include "base/utf8.h"
#include "data/bert/sentences.h"
#include "data/pairs/pair_reader.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    VP_BUG_ON(!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0);
}

static void read_pairs(const char *const *paths, int n_paths, bool replace)
{
    struct vp_pair_options options = {
        paths, n_paths, { "de", "en" }, replace
    };
    struct vp_err err = { .text = "" };
    struct vp_pair_reader *reader = NULL;
    struct vp_text_pair pair;
    enum vp_status st = vp_pair_reader_open(&options, &reader, &err);

    while (st == VP_OK) {
        st = vp_pair_reader_next(reader, &pair, &err);
        for (int side = 0; st == VP_OK && side < 2; side++)
            VP_BUG_ON(pair.n_bytes[side] == 0 ||
                      !vp_utf8_is_valid(VP_UTF8_TEXT,
                                        (const unsigned char *)pair.bytes[side],
                                        pair.n_bytes[side]));
    }
    vp_pair_reader_close(reader);
    if (st != VP_ERR_END)
        VP_BUG_ON(!strstr(err.text, "; ") || strchr(err.text, '\n'));
}

/* Splits a text: sentences are in order, and only white space is between
 * them. */
static void cut(const char *text, size_t n, enum vp_sentence_style style)
{
    size_t at = 0, begin, end, before = 0;
    bool blank;

    while (vp_sentence_next(text, n, style, &at, &begin, &end, &blank)) {
        VP_BUG_ON(begin < before || end <= begin || end > n || at < end);
        for (size_t i = before; i < begin; i++)
            VP_BUG_ON(!memchr(" \t\n\v\f\r", text[i], 6));
        before = end;
    }
    for (size_t i = before; i < n; i++)
        VP_BUG_ON(!memchr(" \t\n\v\f\r", text[i], 6));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const char *const endings[] = { "de", "en", "tsv", "jsonl" };
    char names[4][64];
    const char *paths[4];

    for (int i = 0; i < 4; i++) {
        snprintf(names[i], sizeof(names[i]), "/dev/shm/vpipe-fuzz-lines-%d.%s",
                 getpid(), endings[i]);
        paths[i] = names[i];
        write_file(names[i], bytes, i == 1 ? n - n / 4 : n);
    }
    for (int replace = 0; replace < 2; replace++) {
        read_pairs(paths, 2, replace);
        read_pairs(paths + 2, 1, replace);
        read_pairs(paths + 3, 1, replace);
    }
    for (enum vp_sentence_style style = VP_SENTENCES_LINES;
         style <= VP_SENTENCES_WRAPPED; style++)
        cut((const char *)bytes, n, style);
    (void)vp_sentence_style_of((const char *)bytes, n);
    return 0;
}
