# Writes n different fables, one per line.
#   awk -v n=4000 [-v seed=1] [-v voice=pirate] -f fables.awk
#
# A fable is one of six plots with two or three animals. A model can learn that
# the home, food and sound of an animal are the same in all fables, and that the
# moral depends on the end of the story.
#
# rand() differs between versions of awk; draw() gives the same bytes in all.

BEGIN {
    # home | food | the sound it made | the sound it makes
    animal["fox"] = "in a den under the hill|grapes|barked|bark"
    animal["bear"] = "in a cave in the mountains|honey|growled|growl"
    animal["owl"] = "in a hollow oak|moths|hooted|hoot"
    animal["otter"] = "by the river|fish|whistled|whistle"
    animal["mouse"] = "behind the stove|cheese|squeaked|squeak"
    animal["frog"] = "in the pond|flies|croaked|croak"
    animal["squirrel"] = "in the walnut tree|nuts|chattered|chatter"
    animal["crow"] = "on the church tower|bread|cawed|caw"
    animal["goat"] = "on the rocks|thistles|bleated|bleat"
    animal["rabbit"] = "in the meadow|carrots|hummed|hum"
    animal["hen"] = "in the farmyard|corn|clucked|cluck"
    animal["cat"] = "at the mill|cream|purred|purr"
    animal["donkey"] = "in the stable|oats|brayed|bray"
    animal["hedgehog"] = "under the hedge|apples|snuffled|snuffle"
    animal["pig"] = "in a house of straw|turnips|grunted|grunt"
    animal["wren"] = "among the roses|berries|sang|sing"
    n_animals = split("fox bear owl otter mouse frog squirrel crow goat " \
        "rabbit hen cat donkey hedgehog pig wren", names, " ")

    state = seed ? seed : 1
    while (n_written < n) {
        text = fable()
        if (text in seen)
            continue
        seen[text] = 1
        n_written++
        print (voice == "pirate" ? pirate(text) : text)
    }
}

# Returns a number from 0 to limit - 1, by the generator of Park and Miller.
function draw(limit)
{
    state = state * 16807 % 2147483647
    return int(state / 2147483647 * limit)
}

function pick(choices,   part)
{
    return part[1 + draw(split(choices, part, "|"))]
}

function fact(name, column,   part)
{
    split(animal[name], part, "|")
    return part[column]
}

function home(name) { return fact(name, 1) }
function food(name) { return fact(name, 2) }
function sang(name) { return fact(name, 3) }
function sing(name) { return fact(name, 4) }

function a(words)
{
    return (words ~ /^[aeiou]/ ? "an " : "a ") words
}

function fable(   x, y, z)
{
    x = names[1 + draw(n_animals)]
    do y = names[1 + draw(n_animals)]; while (y == x)
    do z = names[1 + draw(n_animals)]; while (z == x || z == y)
    return plot(1 + draw(6), x, y, z)
}

function plot(number, x, y, z)
{
    if (number == 1)
        return winter(x, y)
    if (number == 2)
        return flattery(x, y)
    if (number == 3)
        return race(x, y)
    if (number == 4)
        return rescue(x, y)
    if (number == 5)
        return quarrel(x, y, z)
    return moon(x, y)
}

function opening(trait, x)
{
    return pick("Once upon a time|Long ago|" \
        "In the days when animals could talk") " there was " a(trait) " " x \
        " that lived " home(x) " and ate " food(x) ". "
}

function neighbour(trait, y)
{
    return "Not far away, " home(y) ", lived " a(trait) " " y ". "
}

function winter(x, y,   text)
{
    text = opening(pick("busy|careful|patient"), x) \
        neighbour(pick("lazy|merry|cheerful"), y) \
        "All summer long the " x " gathered " food(x) ", while the " y \
        " lay in the " pick("sun|grass|shade") " and " sang(y) ". \"" \
        pick("Why do you work so hard?|Come and dance with me!") \
        "\" said the " y ". \"Winter is far away.\" " \
        "Then the snow fell, and the " y " had no " food(y) " left. "
    if (draw(2))
        return text "It knocked at the door, and the " x " shared its " \
            food(x) " with the " y ". Moral: " \
            pick("A guest makes the winter short.|" \
            "What you share tastes twice as good.")
    return text "\"You " sang(y) " all summer,\" said the " x \
        ", \"so dance all winter.\" Moral: " \
        pick("Work today and you will eat tomorrow.|" \
        "Summer does not last for ever.")
}

function flattery(x, y,   text)
{
    text = opening(pick("sly|cunning|hungry"), x) "One " \
        pick("morning|evening|day") " it saw " a(pick("vain|proud|pretty")) \
        " " y " with a mouth full of " food(y) ". \"Dear " y \
        ",\" said the " x ", \"how beautifully you " sing(y) \
        "! Let me hear it once more.\" "
    if (draw(2))
        return text "The " y " opened its mouth and " sang(y) \
            ", and down fell the " food(y) ". The " x \
            " ate it all. Moral: " pick("Flattery is never free.|" \
            "Sweet words can cost you a supper.")
    return text "The " y " ate the " food(y) " first and then " \
        sang(y) " for an hour. The " x " went home hungry. Moral: " \
        pick("Think first and sing later.|The clever eat before they answer.")
}

function race(x, y,   goal)
{
    goal = pick("the old bridge|the windmill|the big stone|the sea")
    return opening(pick("proud|fast|boastful"), x) "\"I am the fastest " \
        "animal in the world,\" it said every day. \"Then let us run to " \
        goal ",\" said " a(pick("slow|quiet|patient")) " " y \
        " that lived " home(y) ". The " x " ran ahead, but after a while " \
        pick("it lay down and fell asleep|it stopped to eat some " food(x) \
        "|it stopped to look at itself in the water") \
        ". The " y " walked on, step by step. When the " x " came to " goal \
        ", the " y " was already there and " sang(y) ". Moral: " \
        pick("Slow and steady wins the race.|" \
        "The road belongs to those who keep walking.")
}

function rescue(x, y,   trap)
{
    trap = pick("a deep well|the net of a hunter|the mud")
    return opening(pick("strong|big|mighty"), x) "It laughed at " \
        a(pick("small|tiny|little")) " " y " that lived " home(y) \
        ". \"What is " a(y) " good for?\" it said. But one day the " x \
        " fell into " trap " and could not get out. The " y " heard how it " \
        sang(x) ", " pick("fetched a rope|called all its cousins|" \
        "pulled and pulled") ", and soon the " x " was free. Since that day " \
        "the two eat " food(x) " and " food(y) \
        " at one table. Moral: " pick("No friend is too small.|" \
        "Help comes from where you do not look.")
}

function quarrel(x, y, z,   prize)
{
    prize = pick("pumpkin|cake|pie|melon")
    return opening(pick("greedy|stubborn|quarrelsome"), x) \
        "One day it found a big " prize " together with " \
        a(pick("stubborn|greedy|noisy")) " " y ". \"I saw it first!\" said " \
        "the " x ". \"I smelled it first!\" said the " y ". So they asked " \
        "the " z " that lived " home(z) ". \"Nothing is easier,\" said the " z \
        ", cut the " prize " into two pieces and ate a bite of the larger " \
        "one, and then a bite of the other one, until nothing was left. The " \
        x " " sang(x) " and the " y " " sang(y) ". Moral: " \
        pick("Those who quarrel feed the judge.|" \
        "Half of a " prize " is better than none.")
}

function moon(x, y)
{
    return opening(pick("foolish|young|curious"), x) "One night it saw the " \
        "moon in the " pick("pond|well|river") ". \"What a big and shining " \
        pick("plate of " food(x) "|bowl of " food(x)) "!\" it said, " \
        pick("jumped|leapt|dived") " into the water and came out wet and " \
        "cold. " a_capital(pick("wise|old|learned")) " " y " that lived " \
        home(y) " " sang(y) " with laughter and lent it a towel. " \
        "Moral: " pick("Not all that shines is supper.|" \
        "Look twice before you jump.")
}

function a_capital(word)
{
    return (word ~ /^[aeiou]/ ? "An " : "A ") word
}

# Returns the fable in the language of pirates.
function pirate(text)
{
    sub(/^[A-Za-z ]* there was/, "Arr! Gather round, for there sailed", text)
    gsub(/Not far away/, "Three leagues to starboard", text)
    gsub(/Moral:/, "So mark me words, ye scurvy dogs:", text)
    gsub(/"Dear /, "\"Ahoy, ye handsome ", text)
    gsub(/"I am /, "\"I be ", text)
    gsub(/ said/, " roared", text)
    gsub(/ you /, " ye ", text)
    gsub(/ your /, " yer ", text)
    gsub(/ is /, " be ", text)
    gsub(/ my /, " me ", text)
    gsub(/ ate /, " plundered ", text)
    gsub(/ One day /, " One stormy day ", text)
    gsub(/ the door/, " the cabin", text)
    gsub(/ the water /, " the briny deep ", text)
    return text
}
