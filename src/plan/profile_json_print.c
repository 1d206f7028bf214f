/* Writes a profile as JSON. */
#include "plan/profile.h"

#include "base/strbuf.h"
#include "base/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void add_real(struct vp_strbuf *b, double value)
{
    char text[40];

    vp_real_to_text(value, text, sizeof(text));
    vp_strbuf_adds(b, text);
}

/* Prints a number in the unit of the file that reads back as exactly `value`:
 * the quotient, or one of its neighbouring doubles. */
static void add_scaled(struct vp_strbuf *b, double value, double unit)
{
    double quotient = value / unit;
    const double near[] = { nextafter(quotient, 0.0),
                            nextafter(quotient, INFINITY), quotient };
    char text[40];

    snprintf(text, sizeof(text), "%.15g", quotient);
    for (size_t i = 0; i < 3 && strtod(text, NULL) * unit != value; i++)
        snprintf(text, sizeof(text), "%.17g", near[i]);
    vp_strbuf_adds(b, text);
}

static void add_rate(struct vp_strbuf *b, const char *name, double value,
                     double unit)
{
    if (!(value > 0.0))
        return;
    vp_strbuf_addf(b, ",\n    \"%s\": ", name);
    add_scaled(b, value, unit);
}

/* Names of devices and versions may contain any character. */
static void add_text(struct vp_strbuf *b, const char *text)
{
    vp_strbuf_adds(b, "\"");
    for (const char *at = text; *at; at++) {
        if (*at == '"' || *at == '\\')
            vp_strbuf_adds(b, "\\");
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            vp_strbuf_adds(b, " ");
        else
            vp_strbuf_add(b, at, 1);
    }
    vp_strbuf_adds(b, "\"");
}

/* Prints {"same_host": 10, ...}: names with values in `unit`. */
static void add_object(struct vp_strbuf *b, const char *name,
                       const char *const *names, const double *values, int n,
                       double unit)
{
    vp_strbuf_addf(b, ",\n    \"%s\": {", name);
    for (int i = 0; i < n; i++) {
        vp_strbuf_addf(b, "%s\"%s\": ", i ? ", " : "", names[i]);
        add_scaled(b, values[i], unit);
    }
    vp_strbuf_adds(b, "}");
}

static void add_facts(struct vp_strbuf *b, const struct vp_profile_facts *facts)
{
    const struct {
        const char *name, *text;
    } entries[] = { { "driver", facts->driver },
                    { "clocks", facts->clocks },
                    { "build", facts->build },
                    { "libraries", facts->libraries } };

    vp_strbuf_adds(b, ",\n    \"made_with\": {");
    for (size_t i = 0; i < VP_COUNT_OF(entries); i++) {
        vp_strbuf_addf(b, "%s\"%s\": ", i ? ", " : "", entries[i].name);
        add_text(b, entries[i].text);
    }
    vp_strbuf_adds(b, "}");
}

static void add_rates(struct vp_strbuf *b,
                      const struct vp_device_profile *profile)
{
    static const char *const ways[] = { "out", "in", "both_out", "both_in" };
    static const char *const links[] = { "same_host", "between_hosts" };
    const struct vp_profile_rates *rates = &profile->rates;
    const double copies[] = { profile->copy_out, profile->copy_in,
                              profile->copy_out_both, profile->copy_in_both };
    const double speeds[] = { profile->same_host.bytes_per_second,
                              profile->between_hosts.bytes_per_second };
    const double delays[] = { profile->same_host.seconds,
                              profile->between_hosts.seconds };

    add_rate(b, "peak_tflops_fp32", rates->flops[0], 1e12);
    add_rate(b, "peak_tflops_bf16", rates->flops[1], 1e12);
    add_rate(b, "peak_tflops_fp16", rates->flops[2], 1e12);
    add_rate(b, "copy_gb_per_s", rates->bytes_per_second, 1e9);
    add_rate(b, "microseconds_per_kernel", rates->kernel_seconds, 1e-6);
    add_rate(b, "capacity", profile->capacity, 1.0);
    vp_strbuf_adds(b, ",\n    \"efficiency_of_products_by_rows\": [");
    for (int i = 0; i < rates->n_efficiency; i++) {
        vp_strbuf_adds(b, i ? ", [" : "[");
        add_real(b, rates->efficiency[i].rows);
        vp_strbuf_adds(b, ", ");
        add_real(b, rates->efficiency[i].share);
        vp_strbuf_adds(b, "]");
    }
    vp_strbuf_adds(b, "]");
    if (profile->copy_out > 0.0)
        add_object(b, "host_link_gb_per_s", ways, copies, 4, 1e9);
    add_object(b, "links_gb_per_s", links, speeds, 2, 1e9);
    add_object(b, "link_microseconds", links, delays, 2, 1e-6);
}

static void add_hosts(struct vp_strbuf *b,
                      const struct vp_device_profile *profile)
{
    if (profile->n_hosts == 0)
        return;
    vp_strbuf_adds(b, ",\n    \"hosts\": [");
    for (int i = 0; i < profile->n_hosts; i++)
        vp_strbuf_addf(b, "%s%d", i ? ", " : "", profile->hosts[i]);
    vp_strbuf_adds(b, "]");
}

static void add_loads(struct vp_strbuf *b,
                      const struct vp_device_profile *profile)
{
    if (profile->n_loads == 0)
        return;
    vp_strbuf_adds(b, ",\n    \"under_load\": [");
    for (int i = 0; i < profile->n_loads; i++) {
        const struct vp_profile_load *load = &profile->loads[i];

        vp_strbuf_addf(b, "%s\n        {\"ranks\": %d, \"f\": ", i ? "," : "",
                       load->n_ranks);
        add_real(b, load->f);
        vp_strbuf_adds(b, ", \"b\": ");
        add_real(b, load->b);
        vp_strbuf_adds(b, ", \"update\": ");
        add_real(b, load->update);
        vp_strbuf_adds(b, "}");
    }
    vp_strbuf_adds(b, "]");
}

static void add_lists(struct vp_strbuf *b,
                      const struct vp_block_seconds *seconds)
{
    vp_strbuf_adds(b, "\"f\": ");
    add_real(b, seconds->f);
    vp_strbuf_adds(b, ", \"b\": ");
    add_real(b, seconds->b);
    vp_strbuf_adds(b, ", \"w\": ");
    add_real(b, seconds->w);
}

static void add_set(struct vp_strbuf *b, const struct vp_profile_set *set)
{
    const char *before = "";

    vp_strbuf_adds(b, "{\"operators\": [");
    for (int i = 0; i < 64; i++)
        if (set->ops >> i & 1) {
            vp_strbuf_addf(b, "%s%d", before, i);
            before = ", ";
        }
    vp_strbuf_adds(b, "], \"seconds\": ");
    add_real(b, set->seconds);
    vp_strbuf_adds(b, ", \"beside_copies\": ");
    add_real(b, set->beside_copies);
    vp_strbuf_adds(b, "}");
}

static void add_block(struct vp_strbuf *b, const struct vp_profile_block *block)
{
    vp_strbuf_addf(b, "        {\"key\": \"%016llx%016llx\", \"name\": ",
                   (unsigned long long)block->key.high,
                   (unsigned long long)block->key.low);
    add_text(b, block->name);
    vp_strbuf_adds(b, ",\n         ");
    add_lists(b, &block->alone);
    vp_strbuf_adds(b, ", \"update\": ");
    add_real(b, block->update);
    vp_strbuf_adds(b, ",\n         \"beside_copies\": {");
    add_lists(b, &block->beside_copies);
    vp_strbuf_adds(b, "},\n         \"recompute\": [");
    for (int i = 0; i < block->n_sets; i++) {
        vp_strbuf_adds(b, i ? ",\n             " : "\n             ");
        add_set(b, &block->sets[i]);
    }
    vp_strbuf_adds(b, "]}");
}

enum vp_status vp_profile_print(const struct vp_device_profile *profile,
                                char **text_out)
{
    static const char *const precisions[] = { [VP_DTYPE_F32] = "fp32",
                                              [VP_DTYPE_BF16] = "bf16",
                                              [VP_DTYPE_F16] = "fp16" };
    struct vp_strbuf b = VP_STRBUF_INIT;

    vp_strbuf_addf(
        &b, "{\n    \"version\": %d,\n    \"device\": ", VP_PROFILE_VERSION);
    add_text(&b, profile->facts.device);
    vp_strbuf_addf(&b,
                   ",\n    \"precision\": \"%s\",\n    \"batch_size\": %lld",
                   precisions[profile->precision], (long long)profile->batch);
    add_facts(&b, &profile->facts);
    vp_strbuf_addf(&b, ",\n    \"memory_bytes\": %lld",
                   (long long)profile->memory_bytes);
    add_rates(&b, profile);
    add_hosts(&b, profile);
    add_loads(&b, profile);
    vp_strbuf_adds(&b, ",\n    \"blocks\": [\n");
    for (int i = 0; i < profile->n_blocks; i++) {
        add_block(&b, &profile->blocks[i]);
        vp_strbuf_adds(&b, i + 1 < profile->n_blocks ? ",\n" : "\n");
    }
    vp_strbuf_adds(&b, "    ]\n}\n");
    return vp_strbuf_detach(&b, text_out);
}
