#!/bin/sh
# Measures the speed of this checkout and prints the tables. Flags are passed on:
# see run.sh -help.
set -eu
cd "$(dirname "$0")/../.."
exec go run ./integration/bench "$@"
