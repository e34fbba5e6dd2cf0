# SPDX-License-Identifier: Apache-2.0
"""Threads and forked children that return their result or exception, and never hang."""

import os
import signal
import sys
import threading
import warnings

PATIENCE = 20.0  # seconds; nothing here takes one
LARGE = 1 << 16  # elements from which the interpreter is let go


class Thread(threading.Thread):
    """A thread whose function's value or exception join() returns or raises."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function, self.value, self.error = function, None, None
        self.start()

    def run(self):
        try:
            self.value = self.function()
        except BaseException as error:
            self.error = error

    def join(self, timeout=PATIENCE):
        super().join(timeout)
        assert not self.is_alive(), "the thread hangs"
        if self.error:
            raise self.error
        return self.value


def in_child(function):
    """The exit status of a forked child: 0 if function returned something true. A child that hangs is killed."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, from Python 3.12 on
        pid = os.fork()
    if pid == 0:
        status = 70
        try:
            signal.alarm(30)
            status = 0 if function() else 1
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
