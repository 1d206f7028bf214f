# Removes paragraph macros from scdoc's output that have no effect and that
# `mandoc -T lint` warns about: after a heading, and before another
# macro that begins or ends a paragraph.
/^\.P$/ { pending = !after_heading; next }
/^\.(SH|SS|RE|RS)/ { pending = 0 }
{
    if (pending)
        print ".P"
    pending = 0
    print
    after_heading = /^\.S[HS]/
}
