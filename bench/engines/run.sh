#!/bin/sh
# Measures the HTTP engines for the public listener and prints the tables of
# docs/decisions/0002-public-listener-engine.md. Needs Go, nginx and wrk
# (Debian: apt-get install nginx-light wrk), Linux, and about six minutes.
# Arguments go to the driver: run.sh -only cpu -rounds 3
set -eu
cd "$(dirname "$0")"
PATH=$PATH:/usr/sbin
for tool in go nginx wrk; do
	command -v $tool >/dev/null || { echo "run.sh: $tool is not installed" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -n "$(ulimit -H -n)"
go build -o "$work/server" ./server
go build -o "$work/driver" ./driver
export PATH
"$work/driver" -server "$work/server" -script "$PWD/purchase.lua" -work "$work" "$@"
