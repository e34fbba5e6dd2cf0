# SPDX-License-Identifier: Apache-2.0
# The bar appears on a terminal only.
script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip 'no pseudo-terminal can be opened (no /dev/pts)'
script -qec "stty cols 50; '$gradscaler' train --data synthetic --steps 2000 --json" /dev/null </dev/null >terminal
tr '\r' '\n' <terminal | sed -n '/epoch [0-9]*  /s/\x1b\[K.*//p' >lines
grep -q 'epoch [0-9]*  [0-9]*/2000  loss [0-9.]*  scale 2^[0-9]*' lines && echo 'the bar tells epoch, step, loss and scale'
[ -s lines ] && awk 'length > 49 { print "FAILED: too wide: " $0 }' lines
