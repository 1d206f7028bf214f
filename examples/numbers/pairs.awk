# Writes n different numbers and dates on two lines each: figures, a tab, words;
# and words, a tab, figures.
#   awk -v n=40000 [-v seed=1] -f pairs.awk
#
#   4217                                 four thousand two hundred seventeen
#   four thousand two hundred seventeen  4217
#
# rand() differs between versions of awk; draw() gives the same bytes in all.

BEGIN {
    split("one two three four five six seven eight nine ten eleven twelve " \
        "thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
        small, " ")
    split("ten twenty thirty forty fifty sixty seventy eighty ninety", tens,
        " ")
    split("January February March April May June July August September " \
        "October November December", month, " ")
    split("31 28 31 30 31 30 31 31 30 31 30 31", length_of, " ")

    state = seed ? seed : 1
    while (n_written < n) {
        if (draw(2)) {
            figures = number()
            text = cardinal(figures)
        } else {
            figures = date()
            text = spoken(figures)
        }
        if (figures in seen)
            continue
        seen[figures] = 1
        n_written++
        print figures "\t" text
        print text "\t" figures
    }
}

# Returns a number from 0 to limit - 1, by the generator of Park and Miller.
function draw(limit)
{
    state = state * 16807 % 2147483647
    return int(state / 2147483647 * limit)
}

# Returns a number of 1 to 6 digits. Zeros are more frequent than other digits,
# because 30007 is harder to learn than 34567.
function number(   n_digits, x)
{
    n_digits = 1 + draw(6)
    x = 1 + draw(9)
    while (--n_digits > 0)
        x = 10 * x + (draw(3) ? draw(10) : 0)
    return x
}

function date(   y, m, n_days)
{
    y = 1100 + draw(1000)
    m = 1 + draw(12)
    n_days = length_of[m]
    if (m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0))
        n_days++
    return 1 + draw(n_days) " " month[m] " " y
}

# Returns a number from 1 to 999999 in words.
function cardinal(x,   text)
{
    if (x >= 1000) {
        text = cardinal(int(x / 1000)) " thousand"
        x %= 1000
    }
    if (x >= 100) {
        text = text " " small[int(x / 100)] " hundred"
        x %= 100
    }
    if (x > 0)
        text = text " " below_hundred(x)
    sub(/^ /, "", text)
    return text
}

function below_hundred(x)
{
    if (x < 20)
        return small[x]
    return tens[int(x / 10)] (x % 10 ? "-" small[x % 10] : "")
}

function ordinal(x,   text)
{
    text = below_hundred(x)
    if (sub(/one$/, "first", text) || sub(/two$/, "second", text) ||
        sub(/three$/, "third", text) || sub(/five$/, "fifth", text) ||
        sub(/eight$/, "eighth", text) || sub(/nine$/, "ninth", text) ||
        sub(/twelve$/, "twelfth", text) || sub(/y$/, "ieth", text))
        return text
    return text "th"
}

# 1987: nineteen eighty-seven; 1905: nineteen oh five; 1900: nineteen hundred;
# 2000 to 2009 as cardinal numbers.
function year(x,   rest)
{
    rest = x % 100
    if (int(x / 10) == 200)
        return cardinal(x)
    if (rest == 0)
        return below_hundred(int(x / 100)) " hundred"
    return below_hundred(int(x / 100)) " " \
        (rest < 10 ? "oh " : "") below_hundred(rest)
}

function spoken(figures,   part)
{
    split(figures, part, " ")
    return "the " ordinal(part[1]) " of " tolower(part[2]) " " year(part[3])
}
