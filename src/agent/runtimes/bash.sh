# shellcheck shell=bash
# Runs code for the agent in one long-lived shell; driver.h describes the channel.
#
# The loop that evaluates code is not here but on the command line, see language.c. What would end
# the shell (exit, set -e, an interrupt) leads to __msb_leave: it writes the state of the shell down
# and starts another shell in its place, in the same process, which goes on with that.
#
# Descriptors: 200 commands, 201 messages, 202 and 203 the stdout and stderr we began with, 204 the
# state that is handed on. All names begin with __msb_, so that none hides a variable of the user's.

# So many digits and letters, the same in all locales.
__msb_read() {
    read -r -N "$1" -u 200 __msb_n || __msb_quit
}

# One text up to its NUL; __msb_left counts the bytes that remain.
__msb_text() {
    IFS= read -r -d '' -u 200 __msb_text || __msb_quit
    [[ -n $__msb_text ]] || {
        __msb_left=$((__msb_left - 1))
        return
    }
    local LC_ALL=C
    __msb_left=$((__msb_left - ${#__msb_text} - 1))
}

__msb_done() {
    printf -v __msb_n %03o "$1"
    # shellcheck disable=SC2059 # the number is a part of the format
    printf "d\\1\\0\\0\\0\\$__msb_n" >&201
}

# The agent has gone.
__msb_quit() {
    trap - EXIT
    exit 0
}

# Shells have no variables of other names, and those that are read-only stay.
__msb_set() {
    [[ ${1%%=*} =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || return 1
    local -n __msb_target=${1%%=*}
    [[ ${__msb_target@a} != *r* ]] && declare -gx "$1"
}

__msb_adopt() {
    local __msb_failed=0
    __msb_read 64
    RANDOM=$((16#${__msb_n:0:8}))
    __msb_left=$(($1 - 64))
    __msb_text
    [[ -z $__msb_text ]] || cd -- "$__msb_text" 2>/dev/null || __msb_failed=1
    while ((__msb_left > 0)); do
        __msb_text
        if [[ $__msb_text == *=* ]]; then
            __msb_set "$__msb_text"
        else
            unset -v "$__msb_text"
        fi
    done
    return $__msb_failed
}

# Sets a variable for one call and notes how to undo that, the latest first.
__msb_lend() {
    local __msb_name=${1%%=*} __msb_note="unset -v ${1%%=*}"
    if [[ -v $__msb_name ]]; then
        local -n __msb_old=$__msb_name
        printf -v __msb_note '%s=%q' "$__msb_name" "$__msb_old"
        [[ ${__msb_old@a} == *x* ]] || __msb_note+="; export -n $__msb_name"
    fi
    __msb_set "$1" && __msb_undo="$__msb_note; $__msb_undo"
}

__msb_take_back() {
    eval "$__msb_undo" 2>/dev/null
    __msb_undo=''
}

# Waits for code and puts it into __msb_code. Adoptions and notices are heeded on the way.
__msb_next() {
    local __msb_length
    while :; do
        __msb_read 9
        __msb_length=$((16#${__msb_n:1}))
        case $__msb_n in
            a*) __msb_adopt "$__msb_length"; __msb_done $? ;;
            n*) __msb_adopt "$__msb_length" ;;
            *) break ;;
        esac
    done
    __msb_read 8
    __msb_left=$((16#$__msb_n))
    __msb_length=$((__msb_length - 8 - __msb_left))
    while ((__msb_left > 0)); do
        __msb_text
        __msb_lend "$__msb_text"
    done
    __msb_code=''
    if ((__msb_length > 0)); then
        LC_ALL=C IFS= read -r -N "$__msb_length" -u 200 __msb_code || __msb_quit
    fi
    __msb_code=$__msb_options$__msb_code
    trap 'exit 130' INT
}

# Options that the code has set stay its own.
__msb_put_options_away() {
    set +eCfnuvx
    __msb_options=${1//[!eCfuvx]/}
    __msb_options=${__msb_options:+"set -$__msb_options; "}
}

# After the code: its exit code and its options.
__msb_end() {
    __msb_put_options_away "$2"
    trap '' INT
    __msb_take_back
    __msb_done "$1"
}

__msb_leave() {
    __msb_put_options_away "$2"
    exec 0</dev/null 1>&202 2>&203
    __msb_take_back
    trap - EXIT INT
    __msb_status=$1
    unset -v __msb_n __msb_text __msb_left __msb_code
    __msb_state=$(declare -p; declare -f; shopt -p; set +o; trap -p)
    exec 204<<<"$__msb_state"
    exec "$BASH" -c "$BASH_EXECUTION_STRING" bash
}

# When a state was handed on, the loop has taken it by now, and its call is to be ended.
__msb_begin() {
    trap '__msb_leave $? $-' EXIT
    trap '' INT
    [[ -z ${__msb_status-} ]] || __msb_done "$__msb_status"
    unset -v __msb_state __msb_status
}

if [[ -e /proc/self/fd/204 ]]; then
    LC_ALL=C IFS= read -r -d '' -u 204 __msb_state
    exec 204<&-
else
    exec 200<&3 201>&4 202>&1 203>&2 3<&- 4>&-
    unset -v MSB_WARM
    __msb_options='' __msb_undo='' __msb_state=''
fi
