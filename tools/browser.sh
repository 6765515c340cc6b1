#!/bin/sh
# The tests of the HTML report open it in Chromium. Installs it where that is possible; otherwise says that these tests
# will be skipped. Never fails: everything else works without it.
set -u

say() { printf '%s\n' "$*" >&2; }

command -v chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "no Chromium: installing the Debian package"
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium) \
        >/dev/null 2>&1
fi
command -v chromium >/dev/null 2>&1 || say "No Chromium: tests of the HTML report are skipped (Debian: sudo apt install chromium)."
exit 0
