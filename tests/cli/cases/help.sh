# SPDX-License-Identifier: Apache-2.0
show --help
show -h
show --version | sed 's/[0-9][0-9.]*[0-9]$/NUMBER/'
show train --help
show train --lr 1 -h
