# SPDX-License-Identifier: Apache-2.0
# Toolchain file: cross-compiles for 64-bit ARM with Debian's and Ubuntu's gcc-aarch64-linux-gnu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
