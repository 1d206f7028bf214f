# Comments that a stranger has to decode, over all sources; see scripts/check-style
# and CONTRIBUTING.md, "Words". Prints a line for each complaint.

# Fragments that open a comment without a subject, and phrases that stand for a name
# or a number that the comment should give.
BEGIN {
    opening = "^(of|what|who|whoever|whether|whose|so) "
    phrase = "(^|[^a-z])(so long|so many|so much|as many|whoever|" \
        "somebody|nobody|for who|of who|those who|as it came|makes it\\.|" \
        "lets go of|is news|roll(s|er)? (of )?the dice)([^a-z]|$)"
}

function judge(text, line,   lower)
{
    lower = tolower(text)
    gsub(/[ \t]+/, " ", lower)
    sub(/^ /, "", lower)
    sub(/^-+ /, "", lower)
    if (lower ~ opening)
        print FILENAME ":" line ": a comment begins with '" \
            substr(text, match(text, /[A-Za-z]/), 30) "'; name its subject"
    if (match(lower, phrase))
        print FILENAME ":" line ": '" substr(lower, RSTART, RLENGTH) \
            "' in a comment; say who, which or how many"
}

FNR == 1 {
    in_comment = 0
}

{
    rest = $0
    while (rest != "") {
        if (!in_comment) {
            # A string may hold the two characters.
            gsub(/"([^"\\]|\\.)*"/, "", rest)
            at = index(rest, "/*")
            if (at == 0)
                break
            rest = substr(rest, at + 2)
            in_comment = 1
            text = ""
            first = FNR
        }
        at = index(rest, "*/")
        if (at == 0) {
            sub(/^[ \t]*\*/, "", rest)
            text = text " " rest
            break
        }
        judge(text " " substr(rest, 1, at - 1), first)
        rest = substr(rest, at + 2)
        in_comment = 0
    }
}
