#!/bin/sh
# The tests of the virtual board compile Arm code. Installs the cross compiler where that is possible; otherwise says
# that these tests will be skipped. Never fails: everything else works without it.
set -u

packages='gcc-arm-none-eabi libnewlib-arm-none-eabi'

say() { printf '%s\n' "$*" >&2; }
usable() { printf '#include <stdint.h>\n#include <math.h>\n' | arm-none-eabi-gcc -x c -c -o /dev/null - >/dev/null 2>&1; }

usable && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "no Arm cross compiler: installing the Debian packages $packages"
    # shellcheck disable=SC2086
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages) \
        >/dev/null 2>&1
fi
usable || say "No Arm cross compiler: tests of the virtual board are skipped (Debian, Ubuntu: sudo apt install $packages)."
exit 0
