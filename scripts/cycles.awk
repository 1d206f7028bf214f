# Finds units that include each other. A unit is a .c file with the headers of
# the same name. Reads pairs that are allowed ("a b: reason"), then includes in
# src ("src/file:line:header"); prints one line for each complaint.
function unit_of(name)
{
    sub(/\.[a-z]+$/, "", name)
    return name
}

# Returns true for headers of vpipe.
function exists(header,   line, found)
{
    if (!(header in is_ours)) {
        found = (getline line < ("src/" header))
        close("src/" header)
        is_ours[header] = found >= 0
    }
    return is_ours[header]
}

function report(group, n,   pair, swapped)
{
    split(group, pair, " ")
    swapped = pair[2] " " pair[1]
    if (n == 2 && (group in reason || swapped in reason)) {
        is_used[(group in reason) ? group : swapped] = 1
        return
    }
    print "src: " n " units include each other: " group \
        "; move what they share into a header below them" \
        (n == 2 ? ", or give a reason in scripts/cycles.txt" : "")
}

# Tarjan's algorithm for strongly connected components.
function visit(unit,   after, n, i, other, group)
{
    index_of[unit] = low[unit] = ++n_seen
    stack[++top] = unit
    on_stack[unit] = 1
    n = split(included[unit], after, " ")
    for (i = 1; i <= n; i++) {
        other = after[i]
        if (!(other in index_of)) {
            visit(other)
            if (low[other] < low[unit])
                low[unit] = low[other]
        } else if (on_stack[other] && index_of[other] < low[unit])
            low[unit] = index_of[other]
    }
    if (low[unit] != index_of[unit])
        return
    group = unit
    for (n = 1; stack[top] != unit; n++) {
        group = group " " stack[top]
        on_stack[stack[top--]] = 0
    }
    on_stack[stack[top--]] = 0
    if (n > 1)
        report(group, n)
}

FNR == NR {
    if ($0 ~ /^#/ || $0 == "")
        next
    if ($0 !~ /^[^ ]+ [^ ]+: ./) {
        print FILENAME ":" FNR ": write 'unit unit: reason'"
        next
    }
    pair = $0
    sub(/:.*/, "", pair)
    reason[pair] = FNR
    next
}

{
    split($0, field, ":")
    from = field[1]
    sub(/^src\//, "", from)
    from = unit_of(from)
    to = unit_of(field[3])
    if (from == to || (from, to) in known || !exists(field[3]))
        next
    known[from, to] = 1
    included[from] = included[from] " " to
}

END {
    for (from in included)
        if (!(from in index_of))
            visit(from)
    for (pair in reason)
        if (!(pair in is_used))
            print "scripts/cycles.txt:" reason[pair] ": " pair \
                " do not include each other any more; remove the line"
}
