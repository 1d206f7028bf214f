/* Quotes words for a shell and appends commands to command_history.log. */
#include "run/command.h"

#include "base/file.h"

#include <stdbool.h>
#include <string.h>

void vp_command_write_word(FILE *f, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=./:,%@";
    bool control = false;

    for (const char *c = word; *c; c++)
        control |= (unsigned char)*c < ' ' || *c == 127;
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, f);
        return;
    }
    fputs(control ? "$'" : "'", f);
    for (const char *c = word; *c; c++) {
        if (control && ((unsigned char)*c < ' ' || *c == 127))
            fprintf(f, "\\%03o", (unsigned)*c);
        else if (control && (*c == '\'' || *c == '\\'))
            fprintf(f, "\\%c", *c);
        else if (*c == '\'')
            fputs("'\\''", f);
        else
            fputc(*c, f);
    }
    fputc('\'', f);
}

enum vp_status vp_command_record(const char *folder, const char *program,
                                 char *const *argv, int argc,
                                 struct vp_err *err)
{
    static const char name[] = "command_history.log";
    FILE *f = vp_file_open(folder, name, "ae", err);

    if (!f)
        return VP_ERR_IO;
    vp_command_write_word(f, program);
    for (int i = 0; i < argc; i++) {
        fputc(' ', f);
        vp_command_write_word(f, argv[i]);
    }
    fputc('\n', f);
    return vp_file_close(folder, name, f, err);
}
