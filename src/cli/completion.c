/* Shell completion, made from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

/* Which listing of msb has the names; files where there is none. */
static const char *const listings[] = {
    [ARGUMENT_PROJECT] = "list",       [ARGUMENT_SANDBOX] = "ps",   [ARGUMENT_KEPT] = "kept",
    [ARGUMENT_SNAPSHOT] = "snapshots", [ARGUMENT_IMAGE] = "images",
};
#define LISTING_COUNT (sizeof listings / sizeof listings[0])
#define NAMES_FORMAT "msb %s 2>/dev/null | awk 'NR > 1 { print $1 }'"

static bool is_first_of_its_word(size_t i)
{
    size_t length = strcspn(commands[i]->name, " ");
    for (size_t j = 0; j < i; j++) {
        if (strcspn(commands[j]->name, " ") == length &&
            memcmp(commands[j]->name, commands[i]->name, length) == 0)
            return false;
    }
    return true;
}

/* The first of those with two words stands for them all. */
static bool begins_a_pair(size_t i)
{
    return strchr(commands[i]->name, ' ') && is_first_of_its_word(i);
}

static void print_second_words(size_t i)
{
    size_t length = strcspn(commands[i]->name, " ") + 1;
    for (size_t j = i; commands[j]; j++) {
        if (strncmp(commands[j]->name, commands[i]->name, length) == 0)
            printf(" %s", commands[j]->name + length);
    }
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void print_bash_words(void)
{
    for (size_t i = 0; commands[i]; i++) {
        if (is_first_of_its_word(i))
            printf(" %.*s", (int)strcspn(commands[i]->name, " "), commands[i]->name);
    }
}

static void print_bash_command(const struct command *command)
{
    printf("    '%s'", command->name);
    if (command->alias)
        printf(" | '%s'", command->alias);
    printf(")\n        options='--help");
    for (const struct option *option = command->options; option && option->name; option++)
        printf(" --%s", option->name);
    printf("'\n");
    if (listings[command->argument])
        printf("        names=$(" NAMES_FORMAT ")\n", listings[command->argument]);
    printf("        ;;\n");
}

static void print_bash_second(size_t i)
{
    if (!begins_a_pair(i))
        return;
    printf("    if [ \"$command\" = %.*s ]; then\n"
           "        if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
           "            COMPREPLY=($(compgen -W '",
           (int)strcspn(commands[i]->name, " "), commands[i]->name);
    print_second_words(i);
    printf("' -- \"$word\"))\n"
           "            return\n"
           "        fi\n"
           "        command=\"$command ${COMP_WORDS[2]}\"\n"
           "    fi\n");
}

static void print_bash(void)
{
    printf("# bash completion for msb, made by: msb completion bash\n"
           "_msb() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} options names\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W 'help");
    print_bash_words();
    printf("' -- \"$word\"))\n"
           "        return\n"
           "    fi\n");
    for (size_t i = 0; commands[i]; i++)
        print_bash_second(i);
    printf("    case $command in\n");
    for (size_t i = 0; commands[i]; i++)
        print_bash_command(commands[i]);
    printf("    esac\n"
           "    case $word in\n"
           "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
           "    *) COMPREPLY=($(compgen -W \"$names\" -- \"$word\")) ;;\n"
           "    esac\n"
           "}\n"
           "complete -o default -F _msb msb\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Inside single quotes, and inside the brackets or behind the colon of a specification. */
static void print_zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            printf("'\\''");
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void print_zsh_option(const struct option *option)
{
    printf(" \\\n            '%s--%s%s[", option->kind == OPTION_LIST ? "*" : "", option->name,
           option->kind == OPTION_FLAG ? "" : "=");
    print_zsh_text(option->help);
    printf("]");
    if (option->kind != OPTION_FLAG) {
        printf(":");
        print_zsh_text(option->value);
        printf(":_files");
    }
    printf("'");
}

static void print_zsh_command(const struct command *command)
{
    printf("    '%s'", command->name);
    if (command->alias)
        printf(" | '%s'", command->alias);
    printf(")\n        _arguments '--help[explain it]'");
    for (const struct option *option = command->options; option && option->name; option++)
        print_zsh_option(option);
    const char *listing = listings[command->argument];
    printf(" \\\n            '*:argument:%s%s'\n        ;;\n", listing ? "_msb_names_" : "_files",
           listing ? listing : "");
}

static void print_zsh_second(size_t i)
{
    if (!begins_a_pair(i))
        return;
    printf("    if [[ $command == %.*s ]]; then\n"
           "        if (( CURRENT == 2 )); then\n"
           "            compadd --",
           (int)strcspn(commands[i]->name, " "), commands[i]->name);
    print_second_words(i);
    printf("\n"
           "            return\n"
           "        fi\n"
           "        command=\"$command $words[2]\"\n"
           "        shift words\n"
           "        (( CURRENT-- ))\n"
           "    fi\n");
}

static void print_zsh(void)
{
    printf("#compdef msb\n"
           "# zsh completion for msb, made by: msb completion zsh\n");
    for (size_t i = 0; i < LISTING_COUNT; i++) {
        if (listings[i])
            printf("_msb_names_%s() { compadd -- ${(f)\"$(" NAMES_FORMAT ")\"} }\n", listings[i],
                   listings[i]);
    }
    printf("_msb() {\n"
           "    local command=$words[2]\n"
           "    local -a known=(\n");
    for (size_t i = 0; commands[i]; i++) {
        if (!is_first_of_its_word(i))
            continue;
        printf("        '%.*s:", (int)strcspn(commands[i]->name, " "), commands[i]->name);
        print_zsh_text(commands[i]->summary);
        printf("'\n");
    }
    printf("    )\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe command known\n"
           "        return\n"
           "    fi\n"
           "    shift words\n"
           "    (( CURRENT-- ))\n");
    for (size_t i = 0; commands[i]; i++)
        print_zsh_second(i);
    printf("    case $command in\n");
    for (size_t i = 0; commands[i]; i++)
        print_zsh_command(commands[i]);
    printf("    esac\n"
           "}\n"
           "if [[ $funcstack[1] == _msb ]]; then _msb \"$@\"; else compdef _msb msb; fi\n");
}

static int run(const struct arguments *arguments)
{
    struct error err;
    const char *shell = arguments->count == 1 ? arguments->words[0] : "";
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else {
        error_set(&err, ERROR_INVALID, "completion for which shell?");
        error_hint(&err, "msb completion bash, or msb completion zsh");
        return report_error(&err, EXIT_USAGE);
    }
    return 0;
}

static const struct option option_table[] = {{0}};

const struct command completion_command = {
    .name = "completion",
    .summary = "print what makes a shell complete msb's words",
    .usage = "completion bash|zsh",
    .description =
        "Prints a script that makes bash or zsh complete commands, options and names of\n"
        "sandboxes. make install puts it where the shells find it by themselves.",
    .examples = "  . <(msb completion bash)\n",
    .options = option_table,
    .run = run,
};
