# Draws the loss of a run as SVG.
#   awk -f curve.awk runs/fables/run/metrics.jsonl >loss.svg
# The line shows the training loss, as means over up to 100 equal parts of the
# run; dots are held-out losses. The axis of losses is logarithmic.

# Returns the number after "name": in this line, or "".
function value(name,   at, rest)
{
    at = index($0, "\"" name "\": ")
    if (!at)
        return ""
    rest = substr($0, at + length(name) + 4)
    sub(/[,}].*/, "", rest)
    return rest
}

/"event": "eval"/ {
    n_evals++
    eval_step[n_evals] = value("step")
    eval_loss[n_evals] = value("eval_loss") + 0
}

value("loss") != "" {
    n++
    loss[n] = value("loss") + 0
}

function x_of(step)
{
    return sprintf("%.1f", left + step / n * width)
}

function y_of(level)
{
    return sprintf("%.1f", top + height * log(most / level) / log(most / least))
}

# Returns tick number i of ..., 0.1, 0.2, 0.5, 1, 2, 5, 10, ...; tick 0 is 1.
function tick(i,   digit, power)
{
    digit = (i % 3 + 3) % 3
    power = 10 ^ ((i - digit) / 3)
    return (digit == 0 ? 1 : digit == 1 ? 2 : 5) * power
}

# Returns the number of the largest tick that is not above level.
function tick_below(level,   i)
{
    for (i = 30; tick(i) > level && i > -30; i--)
        continue
    return i
}

function label(x, y, anchor, text)
{
    printf "<text x=\"%s\" y=\"%s\" font-size=\"12\" fill=\"#475569\" " \
        "text-anchor=\"%s\">%s</text>\n", x, y, anchor, text
}

function dot(x, y)
{
    printf "<circle cx=\"%s\" cy=\"%s\" r=\"4\" fill=\"#d97706\"/>\n", x, y
}

function draw_axes(   i)
{
    for (i = tick_below(least); tick(i) <= most; i++) {
        printf "<path d=\"M%d %sh%d\" stroke=\"#e2e8f0\"/>\n", left,
            y_of(tick(i)), width
        label(left - 8, y_of(tick(i)) + 4, "end", tick(i))
    }
    for (i = 0; i <= 4; i++)
        label(x_of(n * i / 4), top + height + 18, "middle", int(n * i / 4))
    label(left, 22, "start", "loss against steps")
    printf "<path d=\"M%d 18h24\" stroke=\"#2f6fde\" stroke-width=\"2.4\"/>\n",
        left + 200
    label(left + 232, 22, "start", "training")
    dot(left + 316, 18)
    label(left + 328, 22, "start", n_evals ? "held out, at the end " \
        sprintf("%.4f", eval_loss[n_evals]) : "held out")
}

# Fills mean[1 .. n_parts] and mean_step[], the middle steps of the parts.
function average(   i, k, from, to)
{
    n_parts = n < 100 ? n : 100
    for (k = 1; k <= n_parts; k++) {
        from = int((k - 1) * n / n_parts)
        to = int(k * n / n_parts)
        mean[k] = 0
        for (i = from + 1; i <= to; i++)
            mean[k] += loss[i] / (to - from)
        mean_step[k] = (from + 1 + to) / 2
    }
}

# Widens the range least .. most to include level.
function include(level)
{
    if (level > most)
        most = level
    if (!least || level < least)
        least = level
}

END {
    left = 48
    top = 40
    width = 560
    height = 220
    if (!n) {
        print "curve.awk: no loss in " FILENAME | "cat >&2"
        exit 1
    }
    average()
    for (i = 1; i <= n_parts; i++)
        include(mean[i])
    for (i = 1; i <= n_evals; i++)
        include(eval_loss[i])
    most = tick(tick_below(most) + 1)
    least = tick(tick_below(least))
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" " \
        "height=\"%d\" font-family=\"Helvetica, Arial, sans-serif\">\n",
        left + width + 24, top + height + 32
    print "<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#fff\"/>"
    draw_axes()
    printf "<polyline fill=\"none\" stroke=\"#2f6fde\" stroke-width=\"2.4\" " \
        "points=\""
    for (i = 1; i <= n_parts; i++)
        printf "%s,%s ", x_of(mean_step[i]), y_of(mean[i])
    print "\"/>"
    for (i = 1; i <= n_evals; i++)
        dot(x_of(eval_step[i]), y_of(eval_loss[i]))
    print "</svg>"
}
