/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the command `gradscaler`: its first argument chooses what to do. */
#define _POSIX_C_SOURCE 200809L /* SIGPIPE */
#include "common/message.h"
#include "train/command.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct command {
    const char *name, *help;
    int (*main)(int argc, char **argv); /* gets the arguments after the name */
} command;

static int print_version(int argc, char **argv);
static int print_help(int argc, char **argv);

static const command commands[] = {
    {"train", "train a network and print a summary; see gradscaler train --help", train_command},
    {"--version", "print the version", print_version},
    {"--help", "print this page", print_help},
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

static int print_help(int argc, char **argv)
{
    if (argc > 0)
        return refuse_arguments("--help", argv[0]);
    write_help(stdout);
    return EXIT_DONE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        write_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = strcmp(argv[1], "-h") == 0 ? "--help" : argv[1];
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].main(argc - 2, argv + 2);
    }
    say("unknown command '%s'; see gradscaler --help", name);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* writing to a closed pipe is then an ordinary error */
    int code = dispatch(argc, argv);
    return stdout_flushed() || code != EXIT_DONE ? code : EXIT_FAILED;
}
