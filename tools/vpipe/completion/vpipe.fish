# Completion of vpipe for fish, printed by 'vpipe completion fish'.

# Rows of commands, options and keys; columns are separated by tabs: command
# NAME KIND MEANING; option COMMAND NAME VALUE KIND MEANING; key NAME GROUP TYPE
# DEFAULT KIND MEANING.
set -g __vpipe_rows (string split \n '
@DATA@
')

# __vpipe_kind TYPE NAME [COMMAND]: prints the kind of a value.
function __vpipe_kind
    for row in (string match -e -- $argv[2] $__vpipe_rows)
        set -l column (string split \t -- $row)
        switch $argv[1]:$column[1]
            case command:command
                test $column[2] = "$argv[2]"; and echo $column[3]
            case key:key
                test $column[2] = "$argv[2]"; and echo $column[6]
            case option:option
                test $column[2] = "$argv[3]" -a $column[3] = "$argv[2]"
                and echo $column[5]
        end
    end
end

# __vpipe_offer KIND PREFIX WORD: prints values of this kind, each after PREFIX,
# which is part of the same argument.
function __vpipe_offer
    switch $argv[1]
        case 'word *'
            printf "$argv[2]%s\n" (string split ' ' -- $argv[1])[2..-1]
        case config
            __fish_complete_path $argv[3] |
                string match -r '.*(?:/|\.ya?ml|\.json)(?:\t.*)?$'
        case file
            printf "$argv[2]%s\n" (__fish_complete_path $argv[3])
        case folder
            printf "$argv[2]%s\n" (__fish_complete_directories $argv[3])
        case 'key *'
            __vpipe_offer (__vpipe_kind key (string sub -s 5 -- $argv[1])) '' ''
            __fish_complete_path $argv[3]
        case key
            set -l parts (string split -m 1 = -- $argv[3])
            if test (count $parts) -gt 1
                __vpipe_offer (__vpipe_kind key $parts[1]) \
                    "$argv[2]$parts[1]=" $parts[2]
            else
                for row in $__vpipe_rows
                    set -l column (string split \t -- $row)
                    test "$column[1]" = key
                    and printf '%s%s=\t%s\n' $argv[2] $column[2] $column[7]
                end
            end
    end
end

function __vpipe_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l command $words[2]
    set -l kind

    if test "$command" = data -a (count $words) -gt 2
        set command "data $words[3]"
    end
    if test -z "$command" -o "$command" = help -o "$command" = data
        for row in $__vpipe_rows
            set -l column (string split \t -- $row)
            test "$column[1]" = command; or continue
            if test "$command" = data
                string match -q 'data *' -- $column[2]
                and printf '%s\t%s\n' (string sub -s 6 -- $column[2]) $column[4]
            else if not string match -q '* *' -- $column[2]
                printf '%s\t%s\n' $column[2] $column[4]
            end
        end
        return
    end
    set kind (__vpipe_kind option $words[-1] $command)
    if test -n "$kind" -a "$kind" != -
        __vpipe_offer $kind '' $word
    else if string match -q -- '--*=*' $word
        set -l parts (string split -m 1 = -- $word)
        __vpipe_offer (__vpipe_kind option $parts[1] $command) \
            "$parts[1]=" $parts[2]
    else if string match -q -- '-*' $word
        for row in $__vpipe_rows
            set -l column (string split \t -- $row)
            test "$column[1]" = option -a "$column[2]" = "$command"
            and printf '%s\t%s\n' $column[3] $column[6]
        end
    else
        __vpipe_offer (__vpipe_kind command $command) '' $word
    end
end

complete -c vpipe -f -a '(__vpipe_complete)'
