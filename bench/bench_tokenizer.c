/* bench_tokenizer TOKENIZER FILE [PASSES]: encodes the lines of a file with one
 * thread. Each pass has an encoder of its own, whose cache is empty. Prints a
 * line per pass: seconds of CPU time, MB/s, the number of ids. */
#include "text/encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static char *read_file(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long n;

    if (file && fseek(file, 0, SEEK_END) == 0 && (n = ftell(file)) > 0) {
        bytes = malloc((size_t)n);
        rewind(file);
        *n_out = (size_t)n;
        if (bytes && fread(bytes, 1, *n_out, file) != *n_out) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (file)
        fclose(file);
    return bytes;
}

/* Returns the number of ids; 0 after an error. */
static size_t encode(const struct vp_tokenizer *tokenizer, const char *text,
                     size_t n)
{
    const char *end = text + n;
    struct vp_encoder *encoder;
    struct vp_ids ids = { .n = 0 };
    size_t n_ids = 0;
    enum vp_status st = vp_encoder_create(tokenizer, &encoder);

    if (st != VP_OK)
        return 0;
    while (st == VP_OK && text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));

        stop = stop ? stop : end;
        ids.n = 0;
        st = vp_encoder_add(encoder, text, (size_t)(stop - text), false, &ids);
        n_ids += ids.n;
        text = stop + (stop < end);
    }
    vp_ids_release(&ids);
    vp_encoder_free(encoder);
    return n_ids;
}

int main(int argc, char **argv)
{
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer;
    int passes = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 1;
    size_t n = 0;
    char *text = argc > 2 ? read_file(argv[2], &n) : NULL;

    if (!text) {
        fprintf(stderr, "usage: bench_tokenizer TOKENIZER FILE [PASSES]\n");
        return 2;
    }
    if (vp_tokenizer_open(argv[1], &tokenizer, &err) != VP_OK) {
        fprintf(stderr, "bench_tokenizer: %s\n", err.text);
        return 2;
    }
    for (int i = 0; i < passes; i++) {
        double start = cpu_seconds(), seconds;
        size_t n_ids = encode(tokenizer, text, n);

        seconds = cpu_seconds() - start;
        printf("%.4f s %.1f MB/s %zu ids\n", seconds,
               (double)n * 1e-6 / seconds, n_ids);
    }
    vp_tokenizer_free(tokenizer);
    free(text);
    return 0;
}
