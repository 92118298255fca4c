#include "cli/man.h"

#include <stdio.h>

#include "cli/commands.h"

/* Text as it is: nothing in it is a request or an escape of the formatter. */
static void print_text(const char *text)
{
    bool at_line_start = true;
    for (; *text; text++) {
        if (at_line_start && (*text == '.' || *text == '\''))
            printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else if (*text == '\n' && text[1] == '\n' && text++)
            printf("\n.PP\n");
        else
            putchar(*text);
        at_line_start = *text == '\n';
    }
    if (!at_line_start)
        putchar('\n');
}

/* Lines that stay as they are. */
static void print_lines(const char *text)
{
    printf(".EX\n");
    print_text(text);
    printf(".EE\n");
}

static void print_option(const struct option *option)
{
    printf(".TP\n");
    if (option->letter)
        printf("\\fB\\-%c\\fR, ", option->letter);
    printf("\\fB\\-\\-%s\\fR", option->name);
    if (option->value)
        printf(" \\fI%s\\fR", option->value);
    printf("\n");
    print_text(option->help);
}

static void print_command(const struct command *command)
{
    printf(".SS msb ");
    print_text(command->usage);
    print_text(command->description);
    if (command->alias)
        printf(".PP\nAnother name for it is \\fBmsb %s\\fR.\n", command->alias);
    for (const struct option *option = command->options; option && option->name; option++)
        print_option(option);
    if (command->examples) {
        printf(".PP\n");
        print_lines(command->examples);
    }
}

void man_print(void)
{
    printf(".TH MSB 1 \"\" \"msb %s\" \"User Commands\"\n"
           ".SH NAME\n"
           "msb \\- run code that nobody trusts in sandboxes of its own\n"
           ".SH SYNOPSIS\n"
           ".B msb\n"
           ".I COMMAND\n"
           "[\\fIOPTIONS\\fR]\n"
           ".SH DESCRIPTION\n",
           MSB_VERSION);
    print_text(overview_text);
    printf(".SH COMMANDS\n");
    for (size_t i = 0; commands[i]; i++)
        print_command(commands[i]);
    printf(".SH ENVIRONMENT\n");
    print_lines(environment_text);
}
