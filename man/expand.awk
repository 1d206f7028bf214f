# awk -v program=VPIPE -v version=V -v share=DIR -v root=DIR -f man/expand.awk
# PAGE.scd: expands a manual page in scdoc's format. Lines that begin with "@" are
# replaced by text from the program's own tables:
#   @name COMMAND      "vpipe-COMMAND - meaning"
#   @usage COMMAND     the usage lines of its help
#   @text COMMAND      the paragraphs of its help
#   @options COMMAND   its options
#   @commands          all commands
#   @subcommands data  usage, text and options of each
#   @keys              all keys of a configuration, by group
#   @header FILE       declarations and comments of a C header below `root`
# Inside other lines, @VERSION@ is the version and @SHARE@ the folder of configs.

function escape(text)
{
    gsub(/\\/, "\\\\", text)
    gsub(/[_*]/, "\\\\&", text)
    return text
}

# Escapes the start of a line, where more characters have a meaning in scdoc.
function escape_line(text)
{
    text = escape(text)
    return text ~ /^[-#.|\[\]@;<>`]/ ? "\\" text : text
}

function quote(word)
{
    gsub(/'/, "'\\''", word)
    return "'" word "'"
}

# Reads the rows of `vpipe completion data` into row[1..n_rows].
function read_rows(   command)
{
    command = quote(program) " completion data"
    while ((command | getline row[n_rows + 1]) > 0)
        n_rows++
    close(command)
    if (n_rows == 0) {
        print "man: '" program " completion data' prints nothing" > "/dev/stderr"
        exit 1
    }
}

# Reads the lines of the command's help into help[1..n_help].
function read_help(name,   command)
{
    command = quote(program) " " name " --help </dev/null"
    n_help = 0
    while ((command | getline help[n_help + 1]) > 0)
        n_help++
    close(command)
}

function bold_words(line,   n, i, word, out)
{
    n = split(line, word, " ")
    for (i = 1; i <= n; i++) {
        if (word[i] ~ /^(vpipe|-)/ || (i > 1 && word[i - 1] == "vpipe") ||
            (i == 3 && word[2] == "data"))
            out = out (i > 1 ? " " : "") "*" escape(word[i]) "*"
        else
            out = out (i > 1 ? " " : "") escape(word[i])
    }
    return out
}

function usage(name,   i, line, open)
{
    read_help(name)
    for (i = 1; i <= n_help; i++) {
        line = help[i]
        if (line ~ /^usage: /)
            open = 1
        else if (open && line == "")
            break
        if (!open)
            continue
        sub(/^usage: /, "       ", line)
        if (line ~ /^       vpipe/ && text != "") {
            print bold_words(text) "++"
            text = ""
        }
        sub(/^ +/, "", line)
        text = text == "" ? line : text " " line
    }
    print bold_words(text)
    text = ""
}

# Prints one paragraph, or a list of lines "  word  meaning".
function flush_paragraph()
{
    if (paragraph != "" && paragraph != "Options:")
        print escape_line(paragraph) "\n"
    paragraph = ""
}

function describe(name,   i, line, in_usage, list)
{
    read_help(name)
    for (i = 1; i <= n_help; i++) {
        line = help[i]
        if (line ~ /^usage: /)
            in_usage = 1
        if (line == "") {
            flush_paragraph()
            in_usage = list = 0
            continue
        }
        if (line ~ /^  -/ || line ~ /^Keys: /)
            break
        if (in_usage)
            continue
        if (line ~ /^  [^ ]/) {
            flush_paragraph()
            match(line, /^  [^ ]+ +/)
            print "*" escape(substr(line, 3, index(substr(line, 3), " ") - 1)) "*"
            print "\t" escape(substr(line, RLENGTH + 1))
            list = 1
        } else if (list) {
            sub(/^ +/, "", line)
            print "\t" escape(line)
        } else {
            paragraph = paragraph == "" ? line : paragraph " " line
        }
        if (list && help[i + 1] !~ /^    /)
            print ""
    }
    flush_paragraph()
}

function options(name,   i, column)
{
    for (i = 1; i <= n_rows; i++) {
        split(row[i], column, "\t")
        if (column[1] != "option" || column[2] != name)
            continue
        print "*" escape(column[3]) "*" \
            (column[4] == "-" ? "" : " _" escape(column[4]) "_")
        print "\t" (column[3] == "--help" ? "print usage and options" : \
            escape(column[6])) "\n"
    }
}

function commands(   i, column)
{
    for (i = 1; i <= n_rows; i++) {
        split(row[i], column, "\t")
        if (column[1] == "command" && column[2] !~ / /)
            print "*vpipe-" column[2] "*(1)\n\t" escape(column[4]) "\n"
    }
}

function subcommands(name,   i, column)
{
    for (i = 1; i <= n_rows; i++) {
        split(row[i], column, "\t")
        if (column[1] != "command" || index(column[2], name " ") != 1)
            continue
        print "# " toupper(column[2]) "\n"
        usage(column[2])
        print ""
        describe(column[2])
        options(column[2])
    }
}

function keys(   i, column, group, fallback)
{
    for (i = 1; i <= n_rows; i++) {
        split(row[i], column, "\t")
        if (column[1] != "key")
            continue
        if (column[3] != group)
            print "## " column[3] "\n"
        group = column[3]
        fallback = column[5]
        if (fallback ~ /^\(.*\)$/)
            fallback = substr(fallback, 2, length(fallback) - 2)
        print "*" escape(column[2]) "*"
        print "\t" escape(column[7]) ".++"
        print escape(column[4]) "; " \
            (fallback == "required" ? "" : "default: ") escape(fallback) "\n"
    }
}

function meaning(name,   i, column)
{
    for (i = 1; i <= n_rows; i++) {
        split(row[i], column, "\t")
        if (column[1] == "command" && column[2] == name)
            return column[4]
    }
    print "man: there is no command '" name "'" > "/dev/stderr"
    exit 1
}

# Prints the text of a C comment; indented lines become a literal block.
function print_comment(text,   n, i, line, open)
{
    n = split(text, line, "\n")
    for (i = 1; i <= n; i++) {
        sub(/^(\/\*| \*) ?/, "", line[i])
        sub(/ ?\*\/$/, "", line[i])
        if (!open != (line[i] !~ /^  / || (open && line[i] == ""))) {
            print "```"
            open = !open
        }
        print open ? line[i] : escape_line(line[i])
    }
    print (open ? "```\n" : "")
}

function print_declaration()
{
    if (code != "") {
        if (sub(/^VPIPE_API /, "", code))
            gsub(/\n          /, "\n", code) # keeps the alignment
        print "```\n" code "```\n"
    }
    if (comment != "")
        print_comment(comment)
    code = comment = ""
}

# A comment precedes its declaration in the header, and is printed below it.
function header(file,   line, in_comment, started)
{
    while ((getline line < file) > 0) {
        if (line ~ /^\/\* ----/) {
            print_declaration()
            started = 1
            gsub(/^\/\* -+ | -+ \*\/$/, "", line)
            print "## " line "\n"
        } else if (line ~ /^\/\*/ || in_comment) {
            if (line ~ /^\/\*/)
                print_declaration()
            comment = comment (comment == "" ? "" : "\n") line
            in_comment = line !~ /\*\/$/
        } else if (line == "" && code != "") {
            print_declaration()
        } else if (line ~ /^#ifdef|^#endif/) {
            started = 0
        } else if (started && line != "") {
            code = code line "\n"
        }
    }
    print_declaration()
}

BEGIN { read_rows() }

/^@name /        { print "vpipe-" $2 " - " escape(meaning($2)); next }
/^@usage /       { usage($2); next }
/^@text /        { describe($2); next }
/^@options /     { options($2); next }
/^@commands$/    { commands(); next }
/^@subcommands / { subcommands($2); next }
/^@keys$/        { keys(); next }
/^@header /      { header(root "/" $2); next }
{ gsub(/@VERSION@/, version); gsub(/@SHARE@/, share); print }
