#!/bin/sh
# Build Cairn and start its demo: sh demo.sh. The first build compiles SQLite and says every ten seconds that it is under way.
set -eu
cd "$(dirname "$0")"
for tool in go gcc; do
	command -v $tool >/dev/null || { echo "demo.sh: $tool is missing: it needs Go 1.26 and gcc" >&2; exit 1; }
done
go build -o cairn ./cmd/cairn &
build=$!
trap 'kill $build 2>/dev/null || true' INT TERM
seconds=0
while kill -0 $build 2>/dev/null; do
	sleep 1
	seconds=$((seconds + 1))
	[ $((seconds % 10)) -ne 0 ] || echo "building, $seconds s so far: the first time takes three to four minutes on two cores" >&2
done
wait $build
exec ./cairn demo "$@"
