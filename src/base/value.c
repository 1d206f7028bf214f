/* Checks the syntax by hand, then converts with strtoll() and strtod(). */
#include "base/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Does not use isdigit(), which depends on the locale. */
static const char *skip_digits(const char *s)
{
    while (*s >= '0' && *s <= '9')
        s++;
    return s;
}

bool vp_text_to_i64(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    const char *end = skip_digits(digits);
    long long value;

    if (end == digits || *end || (digits[0] == '0' && end - digits > 1))
        return false;
    errno = 0;
    value = strtoll(text, NULL, 10);
    if (errno)
        return false;
    *out = value;
    return true;
}

/* Returns the end of the decimal number at the start of `s`, or NULL. */
static const char *skip_real(const char *s)
{
    const char *whole, *fraction;
    size_t n_digits;

    if (*s == '-' || *s == '+')
        s++;
    whole = s;
    s = skip_digits(s);
    n_digits = (size_t)(s - whole);
    if (*s == '.') {
        fraction = s + 1;
        s = skip_digits(fraction);
        n_digits += (size_t)(s - fraction);
    }
    if (n_digits == 0)
        return NULL;
    if (*s == 'e' || *s == 'E') {
        const char *exponent = s + 1;

        if (*exponent == '-' || *exponent == '+')
            exponent++;
        s = skip_digits(exponent);
        if (s == exponent)
            return NULL;
    }
    return s;
}

bool vp_text_to_real(const char *text, double *out)
{
    const char *end = skip_real(text);
    double value;

    if (!end || *end)
        return false;
    value = strtod(text, NULL);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

bool vp_text_to_bool(const char *text, bool *out)
{
    static const char *const words[2][9] = {
        { "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF" },
        { "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON" },
    };

    for (int value = 0; value < 2; value++)
        for (int i = 0; i < 9; i++)
            if (strcmp(text, words[value][i]) == 0) {
                *out = value;
                return true;
            }
    return false;
}

bool vp_text_to_bytes(const char *text, int64_t *out)
{
    static const char units[] = "KMGT";
    const char *end = skip_real(text);
    const char *unit;
    double value;

    if (!end || (*text == '-' || *text == '+'))
        return false;
    value = strtod(text, NULL);
    unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
    }
    /* From 2^53 on a double cannot represent every integer. */
    if (*end || !(value < 0x1p53))
        return false;
    *out = (int64_t)value;
    return true;
}

void vp_float_to_text(float value, char *out, size_t n_bytes)
{
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(out, n_bytes, "%.*g", digits, (double)value);
        if ((float)strtod(out, NULL) == value)
            return;
    }
}

void vp_real_to_text(double value, char *out, size_t n_bytes)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, n_bytes, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            return;
    }
}
