/* A page of two texts, whose content security policy allows only its own
 * scripts. */
#include "monitor/page.h"

#include "base/sha256.h"

#include <string.h>

static const char own_script[] =
    "\"use strict\";const vpipe = (() => {\n"
    "const lines = [], put = (id, text) => {\n"
    "    document.getElementById(id).textContent = text;\n"
    "};\n"
    "return {\n"
    "    add: (line) => {\n"
    "        lines.push(line);\n"
    "        if (lines.length > 20) lines.shift();\n"
    "        put(\"lines\", lines.join(\"\\n\"));\n"
    "    },\n"
    "    show: (text) => {\n"
    "        put(\"status\", JSON.stringify(JSON.parse(text), null, 1));\n"
    "    },\n"
    "};\n"
    "})();\n";

static void add_base64(struct vp_strbuf *out, const unsigned char *bytes,
                       size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
        "uvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned word = (unsigned)bytes[i] << 16 |
                        (i + 1 < n ? (unsigned)bytes[i + 1] << 8 : 0) |
                        (i + 2 < n ? bytes[i + 2] : 0);
        char four[] = { digits[word >> 18], digits[word >> 12 & 63],
                        i + 1 < n ? digits[word >> 6 & 63] : '=',
                        i + 2 < n ? digits[word & 63] : '=' };

        vp_strbuf_add(out, four, sizeof(four));
    }
}

/* Appends the source expression that allows an inline script. */
static void add_hash(struct vp_strbuf *out, const char *script)
{
    unsigned char digest[VP_SHA256_BYTES];
    struct vp_sha256 sha;

    vp_sha256_init(&sha);
    vp_sha256_update(&sha, script, strlen(script));
    vp_sha256_final(&sha, digest);
    vp_strbuf_adds(out, " 'sha256-");
    add_base64(out, digest, sizeof(digest));
    vp_strbuf_adds(out, "'");
}

enum vp_status vp_page_plain(const char *folder, const char *script,
                             struct vp_strbuf *out, struct vp_err *err)
{
    (void)folder;
    (void)err;
    vp_strbuf_adds(out, "<!doctype html>\n<html lang=\"en\">\n<meta "
                        "charset=\"utf-8\">\n<meta "
                        "http-equiv=\"Content-Security-Policy\" "
                        "content=\"default-src 'none'; connect-src 'self'; "
                        "script-src");
    add_hash(out, own_script);
    add_hash(out, script);
    vp_strbuf_addf(out,
                   "\">\n<title>vpipe</title>\n<h1>vpipe</h1>\n"
                   "<pre id=\"status\">waiting for the run</pre>\n"
                   "<pre id=\"lines\"></pre>\n"
                   "<script>%s</script>\n<script>%s</script>\n",
                   own_script, script);
    return VP_OK;
}
