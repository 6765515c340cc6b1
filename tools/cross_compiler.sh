#!/bin/sh
# The tests of the virtual board compile Arm code and debug it. Installs the programs where that is possible; otherwise
# says which tests will be skipped. Never fails: everything else works without them.
set -u

compiler='gcc-arm-none-eabi libnewlib-arm-none-eabi'
debugging='gdb-multiarch clang openocd' # gdb, a second compiler, a GDB server: each only for its own tests

say() { printf '%s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }
usable() { printf '#include <stdint.h>\n#include <math.h>\n' | arm-none-eabi-gcc -x c -c -o /dev/null - >/dev/null 2>&1; }
install() {
    [ "$(id -u)" = 0 ] && has apt-get || return 0
    say "installing the Debian packages $*"
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@") \
        >/dev/null 2>&1
}

# shellcheck disable=SC2086
usable || install $compiler
usable || say "No Arm cross compiler: tests of the virtual board are skipped (Debian, Ubuntu: sudo apt install $compiler)."
missing=''
for package in $debugging; do has "$package" || missing="$missing $package"; done
# shellcheck disable=SC2086
[ -z "$missing" ] || install $missing
has gdb-multiarch || say 'No gdb for Arm: tests/board/test_gdb.py skips what gdb itself does (sudo apt install gdb-multiarch).'
has clang || say 'No clang: tests that compile the C code with it are skipped (sudo apt install clang).'
has openocd || say 'No OpenOCD: tests/board/test_gdb_target.py skips OpenOCD itself (sudo apt install openocd).'
exit 0
