#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"

#define MEGABYTES_MAX 1000000000ul

static int bad_value(const struct option *option, const char *value, const char *wanted,
                     struct error *err)
{
    error_set(err, ERROR_INVALID, "--%s cannot be \"%.60s\"", option->name, value);
    return error_hint(err, "it wants %s", wanted);
}

static int set_count(const struct option *option, const char *value, struct error *err)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(value, &end, 10);
    if (!isdigit((unsigned char)value[0]) || *end || errno || number > 1000000)
        return bad_value(option, value, "a whole number", err);
    *(unsigned *)option->target = (unsigned)number;
    return 0;
}

static int set_megabytes(const struct option *option, const char *value, struct error *err)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(value, &end, 10);
    unsigned long factor = toupper((unsigned char)*end) == 'G' ? 1024 : 1;
    if (*end && strchr("MGmg", *end))
        end++;
    if (!isdigit((unsigned char)value[0]) || *end || errno || number > MEGABYTES_MAX / factor)
        return bad_value(option, value, "megabytes, such as 512, or with a unit, such as 2G", err);
    *(unsigned *)option->target = (unsigned)(number * factor);
    return 0;
}

static int set_bytes(const struct option *option, const char *value, struct error *err)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    uint64_t number = strtoull(value, &end, 10);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    uint64_t factor = unit ? 1024ull << 10 * (unit - units) : 1;
    if (unit)
        end++;
    if (!isdigit((unsigned char)value[0]) || *end || errno || number > INT64_MAX / factor)
        return bad_value(option, value, "bytes, such as 5000, or with a unit, such as 64K or 2M",
                         err);
    *(uint64_t *)option->target = number * factor;
    return 0;
}

static int set_seconds(const struct option *option, const char *value, struct error *err)
{
    static const char wanted[] = "seconds, such as 30 or 1.5, or with a unit, such as 5m or 2h";
    char *end;
    double number = strtod(value, &end);
    double factor = *end == 'm' ? 60 : *end == 'h' ? 3600 : 1;
    if (*end && strchr("smh", *end))
        end++;
    if (!isdigit((unsigned char)value[0]) || *end || !(number >= 0) || number * factor > 1e9)
        return bad_value(option, value, wanted, err);
    uint64_t ms = (uint64_t)(number * factor * 1000);
    if (ms == 0)
        return bad_value(option, value, wanted, err);
    *(uint64_t *)option->target = ms;
    return 0;
}

static int set_option(const struct option *option, char *value, struct error *err)
{
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->target = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)option->target = value;
        return 0;
    case OPTION_LIST:
        strv_append((char ***)option->target, xstrdup(value));
        return 0;
    case OPTION_COUNT:
        return set_count(option, value, err);
    case OPTION_MEGABYTE:
        return set_megabytes(option, value, err);
    case OPTION_BYTES:
        return set_bytes(option, value, err);
    case OPTION_SECONDS:
        return set_seconds(option, value, err);
    }
    return 0;
}

static const struct option *find_long(const struct command *command, const char *name,
                                      size_t length)
{
    for (const struct option *option = command->options; option->name; option++) {
        if (strlen(option->name) == length && strncmp(option->name, name, length) == 0)
            return option;
    }
    return NULL;
}

static const struct option *find_letter(const struct command *command, char letter)
{
    for (const struct option *option = command->options; option->name; option++) {
        if (option->letter == letter)
            return option;
    }
    return NULL;
}

/* argv[*at] is an option; its value may be part of it (--name=value) or the next word. */
static int parse_option(const struct command *command, int argc, char **argv, int *at,
                        struct error *err)
{
    char *word = argv[*at];
    char *value = NULL;
    const struct option *option;
    if (word[1] == '-') {
        value = strchr(word, '=');
        option =
            find_long(command, word + 2, value ? (size_t)(value - word - 2) : strlen(word + 2));
        value = value ? value + 1 : NULL;
    } else {
        option = find_letter(command, word[1]);
        value = word[2] ? word + 2 : NULL;
    }
    if (!option) {
        error_set(err, ERROR_INVALID, "msb %s knows no option %s", command->name, word);
        return error_hint(err,
                          "msb %s --help lists its options; what is to run inside goes "
                          "behind --",
                          command->name);
    }
    if (option->kind == OPTION_FLAG && value)
        return error_set(err, ERROR_INVALID, "--%s takes no value", option->name);
    if (option->kind != OPTION_FLAG && !value) {
        if (*at + 1 >= argc) {
            error_set(err, ERROR_INVALID, "--%s needs a value", option->name);
            return error_hint(err, "--%s %s", option->name, option->value);
        }
        value = argv[++*at];
    }
    return set_option(option, value, err);
}

int command_parse(const struct command *command, int argc, char **argv, struct arguments *arguments,
                  struct error *err)
{
    *arguments = (struct arguments){.words = xcalloc((size_t)argc + 1, sizeof(char *))};
    for (int at = 0; at < argc; at++) {
        if (strcmp(argv[at], "--") == 0) {
            arguments->command = argv + at + 1;
            return 0;
        }
        if (argv[at][0] != '-' || argv[at][1] == '\0') {
            arguments->words[arguments->count++] = argv[at];
            continue;
        }
        int result = parse_option(command, argc, argv, &at, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static void print_option(const struct option *option)
{
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", option->letter ? '-' : ' ',
             option->letter ? option->letter : ' ', option->letter ? "," : " ", option->name,
             option->value ? " " : "", option->value ? option->value : "");
    printf("  %-28s %s\n", left, option->help);
}

void command_help(const struct command *command)
{
    printf("Usage: msb %s\n\n%s\n", command->usage, command->description);
    if (command->options && command->options->name) {
        printf("\nOptions:\n");
        for (const struct option *option = command->options; option->name; option++)
            print_option(option);
    }
    printf("  -h, --help                   this text\n");
    if (command->examples)
        printf("\nExamples:\n%s", command->examples);
}

int report_error(const struct error *err, int exit_code)
{
    fprintf(stderr, "msb: %s\n", err->message);
    if (err->hint[0])
        fprintf(stderr, "     %s\n", err->hint);
    return exit_code;
}
