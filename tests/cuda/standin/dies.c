/* SPDX-License-Identifier: Apache-2.0 */
/* dies.c: what must not be done, in a child process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin.h"

/* Its death leaves no core file and no output, and no handler of a sanitizer or of cmocka turns it into something
 * else. */
static void prepare_child(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    signal(SIGILL, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
}

int standin_dies(void (*body)(void *ctx), void *ctx)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prepare_child();
        body(ctx);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("stand-in: a child process");
        abort();
    }
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}
