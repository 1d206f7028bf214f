# Checks names in all files of src at once. scripts/check-style passes the variable
# `allowed`: "folder=count ...", the number of functions that are not yet in the file
# that their header names. Prints a line for each complaint.

# Static functions with these names would be taken for calls of libc.
BEGIN {
    split("abort accept access alarm bind chdir clock close connect dup err " \
        "error exit fork fsync ftell index ioctl kill link listen log lseek " \
        "mkdir open pause pipe poll printf puts raise random read recv " \
        "remove rename rewind round rmdir select send shutdown signal " \
        "sleep socket stat sync system time times truncate unlink " \
        "unshare wait waitpid warn write", word, " ")
    for (i in word)
        is_libc[word[i]] = 1
}

function folder_of(path,   part)
{
    split(path, part, "/")
    return part[2]
}

# Returns the folder of a plugin or of an implementation of a table, or "".
function plugin_of(path)
{
    if (match(path, /^src\/(backend\/(cpu|cuda)|comm\/(local|mpi|nccl))\//))
        return substr(path, 1, RLENGTH)
    return ""
}

function note_tag(tag)
{
    # Each device and transport defines its own struct for an opaque type.
    if (tag in tag_at && !(plugin_of(FILENAME) != "" &&
        plugin_of(tag_at[tag]) != "" &&
        plugin_of(FILENAME) != plugin_of(tag_at[tag])))
        print FILENAME ":" FNR ": tag " tag " is also defined at " tag_at[tag]
    else
        tag_at[tag] = FILENAME ":" FNR
}

# `head` is the text before a function's parameters.
function note_function(head, is_definition,   name)
{
    sub(/[ \t]*\(.*/, "", head)
    name = head
    sub(/.*[^A-Za-z0-9_]/, "", name)
    if (head ~ /^static /) {
        if (name in is_libc)
            print FILENAME ":" begin ": static " name "() is named like " \
                "a function of libc"
    } else if (is_definition && FILENAME ~ /\.(c|cu)$/) {
        n_defined++
        defined[n_defined] = name
        defined_at[n_defined] = FILENAME
        line_of[n_defined] = begin
    } else if (!is_definition && FILENAME ~ /\.(h|cuh)$/ &&
        !(name in declared_in))
        declared_in[name] = FILENAME
}

# Returns true if a declaration of `header` may be defined in `file`.
function is_home(header, file,   stem)
{
    if (header ~ /\/internal\.h$/) # of all files of its folder
        stem = substr(header, 1, length(header) - length("internal.h"))
    else {
        stem = header
        sub(/\.[a-z]+$/, "", stem)
        if (substr(file, 1, length(stem) + 1) == stem ".")
            return 1
        stem = stem "_"
    }
    return substr(file, 1, length(stem)) == stem
}

FNR == 1 {
    head = ""
    in_comment = 0
}

# Lines without their comments; a declaration or a function begins in column 1.
{
    line = $0
    if (in_comment) {
        if (!(at = index(line, "*/")))
            next
        line = substr(line, at + 2)
        in_comment = 0
    }
    while ((at = index(line, "/*"))) {
        rest = substr(line, at + 2)
        if ((end = index(rest, "*/")))
            line = substr(line, 1, at - 1) substr(rest, end + 2)
        else {
            line = substr(line, 1, at - 1)
            in_comment = 1
            break
        }
    }
    if (line ~ /^(struct|enum|union) vp_[a-z0-9_]+ *\{/) {
        tag = line
        sub(/^[a-z]+ /, "", tag)
        sub(/ *\{.*/, "", tag)
        note_tag(tag)
        next
    }
    if (head == "") {
        if (line !~ /^[A-Za-z_][A-Za-z0-9_]* .*\(/ ||
            line ~ /^(typedef|extern "C") / || line ~ /=/)
            next
        begin = FNR
    } else if (line ~ /^\{/) {
        note_function(head, 1)
        head = ""
        next
    }
    head = head line
    if (line ~ /;[ \t]*$/) {
        note_function(head, 0)
        head = ""
    }
}

END {
    for (i = 1; i <= n_defined; i++) {
        name = defined[i]
        if (!(name in declared_in) || is_home(declared_in[name], defined_at[i]))
            continue
        folder = folder_of(defined_at[i])
        n_strays[folder]++
        strays[folder] = strays[folder] defined_at[i] ":" line_of[i] ": " \
            name "() is declared in " declared_in[name] \
            "; it belongs in the file of that name or in <header>_<part>.c\n"
    }
    n = split(allowed, word, " ")
    for (i = 1; i <= n; i++) {
        split(word[i], pair, "=")
        limit[pair[1]] = pair[2]
    }
    for (folder in n_strays) {
        if (n_strays[folder] > limit[folder] + 0) {
            printf "%s", strays[folder]
            print "src/" folder ": " n_strays[folder] " functions are not in " \
                "the file of their header, " limit[folder] + 0 " are allowed"
        }
    }
    for (folder in limit)
        if (n_strays[folder] + 0 < limit[folder])
            print "scripts/check-style: src/" folder " has " \
                n_strays[folder] + 0 " functions outside the file of their " \
                "header; lower its number from " limit[folder]
}
