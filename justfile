# What a developer runs. `just` alone lists the recipes.

_default:
    @just --list

# run the service and the demo application on http://localhost:4040 and :4041
run:
    go run ./cmd/cairn demo

# the release binary, ./cairn, for this distribution; a version is only needed where there is no git
build version="":
    .ci/build cairn {{quote(version)}}

# every test without software of others, but PostgreSQL and Chromium where they are there
test:
    go test ./...
    go test -C cmd/histories ./...

# the same with relying parties, proxies, Prometheus, a mail server, axe-core, schemathesis and every page in Chromium, where they are installed
test-foreign:
    TEST_FOREIGN=yes go test ./...

# what runs on SQLite by default, on PostgreSQL
test-postgres:
    TEST_DATABASE=postgres go test ./account/... ./admin ./provider ./store/... ./cmd/cairn/...

# every test under the race detector
race:
    go test -race -timeout 30m ./...

# what CI runs, from the installation of its packages on
ci:
    CI=true bash .ci/run </dev/null

# the long forms of what a change rarely breaks, about an hour: soak, histories, all software of others, 100,000 users, PostgreSQL and the race detector everywhere
nightly:
    CI=true bash .ci/run nightly </dev/null

# operations per second of processor time; arguments as of "bench load": --peer cairn=FILE compares with another build
bench *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    programs=$(mktemp -d)
    trap 'rm -r "$programs"' EXIT
    go build -o "$programs" ./cmd/cairn ./cmd/bench
    "$programs/bench" load --server "$programs/cairn" {{arguments}}

# benchmarks of the hot paths
bench-go:
    BENCH_USERS=100000 BENCH_FILES=1000 go test -run '^$' -bench . -benchmem -timeout 60m ./account/... ./activityschema ./cmd/cairn/... ./provider ./store

# each fuzz target for a while
fuzz seconds="30":
    #!/usr/bin/env bash
    set -euo pipefail
    for package in $(go list ./...); do
        for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
            go test -run '^$' -fuzz "^$target\$" -fuzztime {{seconds}}s "$package"
        done
    done

# 16 clients at once through sign-in, code, token and userinfo
load seconds="10":
    CAIRN_LOAD_SECONDS={{seconds}} go test -count 1 -run '^TestLoadNeverAnswers5xx$' -v ./cmd/cairn/internal/httpd

# processes are killed (SIGKILL) again and again: what one acknowledged must be in the SQLite file, and no half of a backup or restore counts
kill rounds="100":
    CAIRN_KILL_ROUNDS={{rounds}} go test -count 1 -timeout 60m -run '^TestKilledProcessHasDoneWhatItAcknowledged$' -v ./store
    CAIRN_KILL_ROUNDS={{rounds}} go test -count 1 -timeout 60m -run '^TestKilledBackupAndRestoreLeaveNothingThatPassesForDone$' -v ./cmd/cairn

# three instances behind HAProxy under the load of 32 clients, with a rolling restart, a sweep, a backup and a failover of PostgreSQL; before: a program of an earlier version, to be upgraded from
soak seconds="600" before="":
    CAIRN_SOAK_SECONDS={{seconds}} CAIRN_SOAK_BEFORE="$(realpath -q {{quote(before)}} || true)" go test -count 1 -timeout 60m -run '^TestSoak$' -v ./cmd/cairn/internal/cluster

# histories of many clients under faults, checked against a model, on both databases; other arguments: go run -C cmd/histories . run -h
histories minutes="10" *arguments:
    go run -C cmd/histories . run --database sqlite,postgres --minutes {{minutes}} {{arguments}}

# the faults that the checker of histories must find in a copy of the program, each built: all, or names with commas; hours
faults names="all":
    CAIRN_FAULTS={{names}} go test -C cmd/histories -count 1 -timeout 12h -run '^TestSeededFaultsAreFound$' -v .

# more of what schemathesis sends by docs/openapi.yaml; testdata/schemathesis/install installs it
schemathesis examples="100":
    cmd/cairn/internal/httpd/testdata/schemathesis/install
    CI=true CAIRN_SCHEMATHESIS_EXAMPLES={{examples}} go test -count 1 -timeout 60m -run '^TestSchemathesisFindsNoFault$' -v ./cmd/cairn/internal/httpd

# the Debian package on a fresh Debian with systemd, as root; mmdebstrap, systemd-container and lintian are needed
package-test:
    .ci/build cairn
    deploy/debian/test ./cairn bootstrap
    .ci/build --static cairn-static
    deploy/test-container ./cairn-static

# binaries and Debian packages for amd64 and arm64, SBOM and checksums, into a folder; gcc-aarch64-linux-gnu is needed for arm64
release folder="release":
    deploy/release {{quote(folder)}}

# the release, built twice from nothing and compared, and the arm64 program run; qemu-user-static is needed
release-check:
    deploy/release --check

# pictures of each state of the pages, light, dark, on a phone and without JavaScript, into a folder
shots folder:
    mkdir -p {{quote(folder)}}
    CAIRN_SCREENSHOTS={{quote(folder)}} go test -count 1 -run '^TestStatesOfThePages$' -v ./cmd/cairn/internal/httpd

# the pictures of README.md and docs/administration.md anew, from the pages as they are
screenshot:
    CAIRN_SCREENSHOT="$PWD/docs/screenshot.webp" CAIRN_PICTURES="$PWD/docs/pictures" go test -count 1 -run '^Test(Screenshot|PicturesOfTheAdministration)$' -v ./cmd/cairn/internal/httpd

# accept the present wire formats as the golden files
golden:
    go test ./account ./provider ./cmd/cairn/internal/httpd -update

# staticcheck, as CI runs it
lint:
    .ci/lint

# format the code
fmt:
    gofmt -w $(git ls-files '*.go')
