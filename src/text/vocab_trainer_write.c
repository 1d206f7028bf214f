/* Writes the files of a trained vocabulary, byte for byte as Hugging Face
 * does. */
#include "text/vocab_trainer.h"

#include "base/strbuf.h"
#include "text/vocab_trainer_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* ---- Texts -------------------------------------------------------------- */

static void add_json_text(struct vp_strbuf *out, const char *bytes, size_t n)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";

    vp_strbuf_add(out, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const char *known = bytes[i] ? strchr(from, bytes[i]) : NULL;

        if (known)
            vp_strbuf_addf(out, "\\%c", to[known - from]);
        else if ((unsigned char)bytes[i] < ' ')
            vp_strbuf_addf(out, "\\u%04x", (unsigned)bytes[i]);
        else
            vp_strbuf_add(out, bytes + i, 1);
    }
    vp_strbuf_add(out, "\"", 1);
}

static void add_json_token(struct vp_strbuf *out,
                           const struct vp_vocab_trainer *trainer, uint32_t id)
{
    const struct vp_token *token = &trainer->vocabulary.tokens[id];

    add_json_text(out, token->bytes, token->n_bytes);
}

/* {"token":0,...} */
static void add_json_vocab(struct vp_strbuf *out,
                           const struct vp_vocab_trainer *trainer)
{
    for (int id = 0; id < trainer->vocabulary.n; id++) {
        vp_strbuf_adds(out, id == 0 ? "{" : ",");
        add_json_token(out, trainer, (uint32_t)id);
        vp_strbuf_addf(out, ":%d", id);
    }
    vp_strbuf_adds(out, "}");
}

static void add_merges(struct vp_strbuf *out,
                       const struct vp_vocab_trainer *trainer)
{
    vp_strbuf_adds(out, "#version: 0.2\n");
    for (int i = 0; i < trainer->n_merges; i++) {
        const struct vp_vocab_merge *merge = &trainer->merges[i];
        const struct vp_token *tokens = trainer->vocabulary.tokens;

        vp_strbuf_add(out, tokens[merge->left].bytes,
                      tokens[merge->left].n_bytes);
        vp_strbuf_add(out, " ", 1);
        vp_strbuf_add(out, tokens[merge->right].bytes,
                      tokens[merge->right].n_bytes);
        vp_strbuf_add(out, "\n", 1);
    }
}

static void add_lines(struct vp_strbuf *out,
                      const struct vp_vocab_trainer *trainer)
{
    for (int id = 0; id < trainer->vocabulary.n; id++) {
        const struct vp_token *token = &trainer->vocabulary.tokens[id];

        vp_strbuf_add(out, token->bytes, token->n_bytes);
        vp_strbuf_add(out, "\n", 1);
    }
}

static void add_config(struct vp_strbuf *out,
                       const struct vp_vocab_trainer *trainer)
{
    vp_strbuf_addf(out, "{\"tokenizer_class\":\"%s\"",
                   trainer->options.wordpiece ? "BertTokenizer"
                                              : "GPT2Tokenizer");
    if (trainer->options.wordpiece)
        vp_strbuf_addf(out, ",\"do_lower_case\":%s",
                       trainer->options.cased ? "false" : "true");
    vp_strbuf_adds(out, "}\n");
}

/* ---- tokenizer.json ----------------------------------------------------- */

static void add_added_tokens(struct vp_strbuf *out,
                             const struct vp_vocab_trainer *trainer)
{
    const struct vp_vocab_options *options = &trainer->options;
    const char *comma = "";

    vp_strbuf_adds(out, "\"added_tokens\":[");
    for (int i = 0; i < options->n_special; i++) {
        const char *text = options->special[i];

        vp_strbuf_addf(
            out, "%s{\"id\":%d,\"content\":", comma,
            (int)vp_vocabulary_find(&trainer->vocabulary, text, strlen(text)));
        add_json_text(out, text, strlen(text));
        vp_strbuf_adds(out, ",\"single_word\":false,\"lstrip\":false,"
                            "\"rstrip\":false,\"normalized\":false,"
                            "\"special\":true}");
        comma = ",";
    }
    vp_strbuf_adds(out, "],");
}

static void add_bpe(struct vp_strbuf *out,
                    const struct vp_vocab_trainer *trainer)
{
    vp_strbuf_adds(
        out, "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
             "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":"
             "true},\"post_processor\":null,\"decoder\":{\"type\":"
             "\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
             "\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":"
             "null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
             "\"end_of_word_suffix\":null,\"fuse_unk\":false,"
             "\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":");
    add_json_vocab(out, trainer);
    vp_strbuf_adds(out, ",\"merges\":[");
    for (int i = 0; i < trainer->n_merges; i++) {
        vp_strbuf_adds(out, i == 0 ? "[" : ",[");
        add_json_token(out, trainer, trainer->merges[i].left);
        vp_strbuf_adds(out, ",");
        add_json_token(out, trainer, trainer->merges[i].right);
        vp_strbuf_adds(out, "]");
    }
    vp_strbuf_adds(out, "]}}");
}

static void add_wordpiece(struct vp_strbuf *out,
                          const struct vp_vocab_trainer *trainer)
{
    vp_strbuf_addf(
        out,
        "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
        "\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":"
        "%s},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"WordPiece\","
        "\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":"
        "\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":"
        "\"##\",\"max_input_chars_per_word\":100,\"vocab\":",
        trainer->options.cased ? "false" : "true");
    add_json_vocab(out, trainer);
    vp_strbuf_adds(out, "}}");
}

static void add_tokenizer(struct vp_strbuf *out,
                          const struct vp_vocab_trainer *trainer)
{
    vp_strbuf_adds(out, "{\"version\":\"1.0\",\"truncation\":null,"
                        "\"padding\":null,");
    add_added_tokens(out, trainer);
    if (trainer->options.wordpiece)
        add_wordpiece(out, trainer);
    else
        add_bpe(out, trainer);
}

/* ---- Files -------------------------------------------------------------- */

static const struct {
    const char *name;
    bool of_wordpiece, of_bpe;
    void (*add)(struct vp_strbuf *out, const struct vp_vocab_trainer *trainer);
} files[] = {
    { "vocab.txt", true, false, add_lines },
    { "vocab.json", false, true, add_json_vocab },
    { "merges.txt", false, true, add_merges },
    { "tokenizer_config.json", true, true, add_config },
    { "tokenizer.json", true, true, add_tokenizer },
};
enum { N_FILES = sizeof(files) / sizeof(files[0]) };

static void make_path(char path[PATH_MAX], const char *folder, int i,
                      const char *end)
{
    snprintf(path, PATH_MAX, "%s/%s%s", folder, files[i].name, end);
}

static enum vp_status write_new(const struct vp_vocab_trainer *trainer,
                                const char *folder, int i, struct vp_err *err)
{
    struct vp_strbuf text = VP_STRBUF_INIT;
    char path[PATH_MAX];
    FILE *file;
    bool good;

    make_path(path, folder, i, ".tmp");
    files[i].add(&text, trainer);
    if (text.failed) {
        vp_strbuf_release(&text);
        return VP_ERR_NOMEM;
    }
    file = fopen(path, "wb");
    good = file && fwrite(text.at, 1, text.n_bytes, file) == text.n_bytes;
    vp_strbuf_release(&text);
    if (file)
        good = (fflush(file) == 0 && fsync(fileno(file)) == 0) & good;
    if (file)
        good = (fclose(file) == 0) & good;
    return good ? VP_OK : vp_err_write(err, path, errno);
}

enum vp_status vp_vocab_trainer_write(const struct vp_vocab_trainer *trainer,
                                      const char *folder, struct vp_err *err)
{
    enum vp_status st = VP_OK;

    if (strlen(folder) + sizeof("/tokenizer_config.json.tmp") > PATH_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the path of the folder is too long; move it");
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < N_FILES; i++) {
            char new[PATH_MAX], path[PATH_MAX];

            if (!(trainer->options.wordpiece ? files[i].of_wordpiece
                                             : files[i].of_bpe))
                continue;
            make_path(new, folder, i, ".tmp");
            make_path(path, folder, i, "");
            if (pass == 0 && st == VP_OK)
                st = write_new(trainer, folder, i, err);
            else if (pass == 1 && st != VP_OK)
                unlink(new);
            else if (pass == 1 && rename(new, path) != 0)
                st = vp_err_write(err, path, errno);
        }
    return st;
}
