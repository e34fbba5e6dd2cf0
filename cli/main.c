/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the command `gradscaler`: its first argument chooses what to do. */
#define _POSIX_C_SOURCE 200809L /* SIGPIPE */
#include "common/descriptors.h"
#include "common/message.h"
#include "common/suggest.h"
#include "train/command.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct command {
    const char *name, *help;
    int (*main)(int argc, char **argv); /* gets the arguments after the name */
    const char *aliases;                /* what it may be called by mistake, separated by spaces */
} command;

static int print_version(int argc, char **argv);
static int print_help(int argc, char **argv);

static const command commands[] = {
    {"train", "train a network and print a summary; see gradscaler help train", train_command, "fit run"},
    {"help", "print this page, or with the name of a command its options", print_help, "h man usage"},
    {"--version", "print the version", print_version, "v"},
    {"--help", "print this page", print_help, NULL},
};
#define COMMANDS (sizeof commands / sizeof *commands)

static int refuse_arguments(const char *name, const char *argument)
{
    say("%s takes no arguments, but got '%s'", name, argument);
    return EXIT_USAGE;
}

static int print_version(int argc, char **argv)
{
    if (argc > 0)
        return refuse_arguments("--version", argv[0]);
    printf("gradscaler %s\n", gsc_version());
    return EXIT_DONE;
}

static void write_help(FILE *out)
{
    fputs("Usage: gradscaler COMMAND [OPTION]...\nDynamic loss scaling for mixed-precision training.\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
}

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* The command that was probably meant; NULL: none. */
static const command *suggest_command(const char *given)
{
    char name[SUGGEST_SIZE];
    suggest_normalize(name, given);
    const command *nearest = NULL;
    size_t best = SUGGEST_SIZE;
    for (size_t i = 0; i < COMMANDS; i++) {
        char own[SUGGEST_SIZE];
        suggest_normalize(own, commands[i].name);
        const size_t distance = suggest_distance_to(name, own, commands[i].aliases);
        if (distance < best) {
            best = distance;
            nearest = &commands[i];
        }
    }
    return nearest && suggest_is_near(name, best) ? nearest : NULL;
}

static int refuse_command(const char *given)
{
    const command *meant = suggest_command(given);
    if (meant)
        say("unknown command '%s'; did you mean %s? See gradscaler --help", given, meant->name);
    else if (given[0] == '-')
        say("unknown option '%s'; the options of a command come after its name: gradscaler train [OPTION]...", given);
    else
        say("unknown command '%s'; see gradscaler --help", given);
    return EXIT_USAGE;
}

/* `gradscaler help train` is `gradscaler train --help`. */
static int print_help(int argc, char **argv)
{
    static char option[] = "--help";
    char *arguments[] = {option, NULL};
    if (argc > 1) {
        say("help takes the name of one command, but got '%s' as well", argv[1]);
        return EXIT_USAGE;
    }
    const command *asked = argc == 1 ? find_command(argv[0]) : NULL;
    if (argc == 1 && !asked)
        return refuse_command(argv[0]);
    if (asked && asked->main == train_command)
        return train_command(1, arguments);
    write_help(stdout);
    return EXIT_DONE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        write_help(stderr);
        return EXIT_USAGE;
    }
    const command *asked = find_command(strcmp(argv[1], "-h") == 0 ? "--help" : argv[1]);
    return asked ? asked->main(argc - 2, argv + 2) : refuse_command(argv[1]);
}

int main(int argc, char **argv)
{
    if (!descriptors_open())
        return EXIT_FAILED;   /* there is nowhere to say it */
    signal(SIGPIPE, SIG_IGN); /* writing to a closed pipe is then an ordinary error */
    int code = dispatch(argc, argv);
    return stdout_flushed() || code != EXIT_DONE ? code : EXIT_FAILED;
}
