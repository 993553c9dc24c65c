#!/usr/bin/env bash
# The whole way on real photographs: pack, verify, inspect, bench, train. Run by `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/demo}
bin=.venv/bin
step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

mkdir -p "$out"
step $bin/python benchmarks/photos.py "$out/photos" --count 600 --cache build/photos
step $bin/toolkit pack "$out/photos" "$out/dataset" --jobs 2 --on-existing overwrite
step $bin/toolkit verify "$out/dataset" --full --decode
step $bin/toolkit inspect "$out/dataset"
step $bin/toolkit bench "$out/dataset" --split train --threads 1,2
step $bin/python examples/train_torch.py "$out/dataset"
