#!/usr/bin/env bash
# Install clang with libFuzzer and its sanitizers where they are missing: what `make fuzz` compiles C targets with.
set -euo pipefail
say() { printf 'clang: %s\n' "$*" >&2; }

works() { echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return 0; }' |
    clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null 2>/dev/null; }
command -v clang >/dev/null && works && exit 0

# Debian keeps the runtime in a package of its own; where it has none, clang's package has it.
install="apt-get install -y --no-install-recommends clang libclang-rt-dev"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing clang libclang-rt-dev"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null \
        || { say "could not install them; run: apt-get update && $install"; exit 1; }
    works || { say "clang can't link a fuzzer though it is installed"; exit 1; }
else
    say "clang with libFuzzer is missing. Run: sudo $install"
    exit 1
fi
