//go:build linux && cgo

// Package steps counts the work of SQLite, for tests that bound how much is read instead of how
// long it takes.
//
// It leaves to others: how much is too much.
package steps

/*
#cgo LDFLAGS: -Wl,--unresolved-symbols=ignore-all
#include <stdint.h>

// Of SQLite, which the driver brings along.
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_auto_extension(void (*entry)(void));
int sqlite3_trace_v2(sqlite3 *, unsigned, int (*)(unsigned, void *, void *, void *), void *);
int sqlite3_stmt_status(sqlite3_stmt *, int, int);
enum { vm_step = 4, profile = 2 };

static int64_t total;
static int64_t largest;

static int ended(unsigned what, void *ctx, void *stmt, void *ns) {
	int64_t n = sqlite3_stmt_status(stmt, vm_step, 1);
	__atomic_add_fetch(&total, n, __ATOMIC_SEQ_CST);
	int64_t was = __atomic_load_n(&largest, __ATOMIC_SEQ_CST);
	while (n > was && !__atomic_compare_exchange_n(&largest, &was, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
	}
	return 0;
}

static int opened(sqlite3 *db, const char **message, const void *api) {
	return sqlite3_trace_v2(db, profile, ended, 0);
}

static void watch(void) { sqlite3_auto_extension((void (*)(void))opened); }
static int64_t take(int64_t *n) { return __atomic_exchange_n(n, 0, __ATOMIC_SEQ_CST); }
static int64_t take_total(void) { return take(&total); }
static int64_t take_largest(void) { return take(&largest); }
*/
import "C"

// Watch counts in every SQLite database that this process opens from now on.
func Watch() { C.watch() }

// Take returns the steps of SQLite's virtual machine since the last call, of all statements and of
// the largest one. A visited row takes about ten.
func Take() (total, largest int64) { return int64(C.take_total()), int64(C.take_largest()) }
