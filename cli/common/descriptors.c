/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.c: opens /dev/null in place of closed standard descriptors. */
#define _POSIX_C_SOURCE 200809L /* open */
#include "common/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Without /dev/null, as in some chroots, the root folder: writing to it fails, too. */
static bool occupy(int descriptor, int flags)
{
    int opened = open("/dev/null", flags);
    if (opened < 0)
        opened = open("/", O_RDONLY);
    return opened == descriptor; /* the lowest free number, since the lower ones are open */
}

bool descriptors_open(void)
{
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        const bool is_closed = fcntl(descriptor, F_GETFD) < 0 && errno == EBADF;
        if (is_closed && !occupy(descriptor, descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY))
            return false;
    }
    return true;
}
