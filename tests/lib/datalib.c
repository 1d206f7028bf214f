#include "lib/datalib.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *file = fopen(at(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

unsigned char *write_noise(const char *name, size_t n)
{
    static const struct {
        unsigned char first, n_first, n_bytes;
    } forms[] = {
        { 0x01, 0x7F, 1 },
        { 0xC2, 0x1E, 2 },
        { 0xE1, 0x0C, 3 },
        { 0xF1, 0x03, 4 },
    };
    unsigned char *bytes = malloc(n);
    size_t i = 0;

    assert_non_null(bytes);
    while (i < n - 1) {
        struct vp_rng4 r = vp_rng(3, VP_RNG_TEST, 0, (uint32_t)i, 0, 0);
        size_t form = r.v[0] % 4;

        if (forms[form].n_bytes > n - 1 - i)
            form = 0;
        bytes[i++] = (unsigned char)(forms[form].first +
                                     r.v[1] % forms[form].n_first);
        for (int k = 1; k < forms[form].n_bytes; k++)
            bytes[i++] = (unsigned char)(0x80 | (r.v[2] >> 6 * k & 0x3F));
    }
    bytes[n - 1] = '\n';
    write_file(name, bytes, n);
    return bytes;
}

struct vp_data *open_data(const struct vp_data_config *config)
{
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    if (vp_data_open(config, &data, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_non_null(data);
    return data;
}

struct vp_batch *make_batch(const struct vp_data *data)
{
    struct vp_batch *batch = NULL;

    assert_int_equal(vp_batch_create(data, &batch), VP_OK);
    return batch;
}

void fill(const struct vp_data *data, uint64_t m, struct vp_batch *batch)
{
    struct vp_err err = { .text = "" };

    if (vp_data_fill(data, m, batch, &err) != VP_OK)
        fail_msg("%s", err.text);
}

void assert_same_batch(const struct vp_data_config *config,
                       const struct vp_batch *a, const struct vp_batch *b)
{
    assert_int_equal(a->bucket, b->bucket);
    assert_int_equal(a->first_sample, b->first_sample);
    assert_int_equal(a->n_samples, b->n_samples);
    assert_int_equal(a->n_tokens, b->n_tokens);
    for (int role = 0; role < VP_ROLE_COUNT; role++) {
        int64_t n = vp_dims_role(&config->dims[a->bucket], role);

        assert_int_equal(!a->array[role], !b->array[role]);
        if (a->array[role])
            assert_memory_equal(a->array[role], b->array[role], n * 4);
    }
}

void check_resuming(const struct vp_data_config *config, uint64_t n,
                    uint64_t step)
{
    struct vp_data *data = open_data(config);
    struct vp_batch *batch = make_batch(data), *again = make_batch(data);

    for (uint64_t m = 0; m < n; m += step) {
        struct vp_data *resumed = open_data(config);

        fill(data, m, batch);
        fill(resumed, m, again);
        assert_same_batch(config, batch, again);
        vp_data_close(resumed);
    }
    vp_batch_free(batch);
    vp_batch_free(again);
    vp_data_close(data);
}

void assert_line(const struct vp_data_config *config, const char *want)
{
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    if (vp_data_open(config, &data, &err) == VP_OK)
        fail_msg("taken, and not: %s", want);
    if (!strstr(err.text, want))
        fail_msg("\"%s\" is not in \"%s\"", want, err.text);
}

double entropy_of(const double *count, int64_t n)
{
    double total = 0, sum = 0;

    for (int64_t i = 0; i < n; i++)
        total += count[i];
    for (int64_t i = 0; i < n; i++) {
        if (count[i] > 0)
            sum -= count[i] / total * log(count[i] / total);
    }
    return sum;
}
