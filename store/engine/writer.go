package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mattn/go-sqlite3"
)

// Bounds of a transaction that several operations share: all of them wait for its end.
const (
	sharedOperations = 64
	sharedTime       = 5 * time.Millisecond
)

var (
	errRolledBack    = errors.New("SQLite rolled the transaction back")
	errAborted       = errors.New("an operation of the transaction ended its goroutine")
	errPanicked      = errors.New("the operation panicked")
	errNoTransaction = errors.New("no transaction is open")
)

// writer lets the operations of this process write to SQLite one after another, since it has one
// writer anyway. Waiting here is fair and ends with the context; SQLite itself would poll.
//
// An operation that finds the database free gets the turn at once, in the goroutine of its caller.
// Others queue meanwhile. The operation with the turn begins a transaction, does its own work and
// then that of the queue, and commits: one fsync for all of them (synchronous=FULL), without
// waiting for others to come. Then the next in the queue gets the turn. A goroutine of its own for
// this would cost a lone caller two more switches.
//
//   - No operation is answered before the COMMIT has returned, not even a refused one: an operation
//     sees what those before it in the transaction have changed, so "this code is spent" would be
//     wrong if the COMMIT failed. If it fails, or SQLite rolls the transaction back on its own
//     (full disk, I/O error), all of its operations end with Options.Unavailable, whatever they
//     had found, and none of their changes is in the database. Only the first, which has seen no
//     changes of others, is refused without a COMMIT.
//   - An operation that fails, panics or whose context has ended is rolled back to its savepoint,
//     and the others are kept. The first of a transaction has no savepoint: if it fails, the
//     transaction is rolled back and ends with it. A single statement needs none.
//   - The context of a caller ends its wait in the queue but interrupts no statement, because
//     SQLite rolls the whole transaction back when a writing statement is interrupted. So a
//     statement begins the transaction, not database/sql with a context, on a connection of its
//     own, and statements run under the time limit of the Store alone. Once an operation has begun,
//     its caller waits for the end, because the operation uses the caller's variables.
//   - References are checked with each statement. No table has deferred ones, with which one
//     operation could make the COMMIT of all fail.
//   - A long operation (operation.alone) has a turn to itself, on a connection of the pool and with
//     the context of its caller.
type writer struct {
	pool *sql.DB // with one connection

	mu      sync.Mutex
	busy    bool      // an operation has the turn
	closed  bool      // the turn closes the connection at its end
	waiting []*queued // in their order

	c *writerConn // used by the operation with the turn; nil before the first
}

// writerConn is the connection, with its statements without parameters: the driver keeps only those
// with parameters prepared.
type writerConn struct {
	conn                                                 *sql.Conn
	begin, commit, rollback, savepoint, release, restore *sql.Stmt
}

// queued is an operation that waits for its turn, or to be done in another's.
type queued struct {
	Operation
	ctx      context.Context
	turn     chan bool // true: has the turn; false: done
	err      error
	panicked any
}

// take waits for the turn of q. If it returns neither the turn nor an error, q was done in
// another's turn.
func (w *writer) take(q *queued) (turn bool, err error) {
	if err := q.ctx.Err(); err != nil {
		return false, err // without waiting for another process
	}
	w.mu.Lock()
	if !w.busy {
		w.busy = true
		w.mu.Unlock()
		return true, nil
	}
	q.turn = make(chan bool, 1)
	w.waiting = append(w.waiting, q)
	w.mu.Unlock()
	wait := writerWait
	if q.limit > 0 {
		wait = min(wait, q.limit)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case turn = <-q.turn:
		return turn, nil
	case <-q.ctx.Done():
		err = fmt.Errorf("wait for other writers: %w", q.ctx.Err())
	case <-t.C:
		err = errWriterBusy
	}
	if w.leave(q) {
		return false, err
	}
	if <-q.turn {
		w.pass()
		return false, err
	}
	return false, nil // q had begun
}

// leave takes q out of the queue and reports whether it was still there.
func (w *writer) leave(q *queued) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, q)
	if i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	return i >= 0
}

// pass gives the turn to the next in the queue.
func (w *writer) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		w.drop()
	}
	if len(w.waiting) == 0 {
		w.busy = false
		return
	}
	w.pop().turn <- true
}

// pop takes the first of the queue, which must not be empty.
func (w *writer) pop() *queued {
	q := w.waiting[0]
	w.waiting[0] = nil
	if w.waiting = w.waiting[1:]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	return q
}

// next takes the first of the queue. It returns nil if the queue is empty or its first wants to
// write alone.
func (w *writer) next() *queued {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 || w.waiting[0].alone {
		return nil
	}
	return w.pop()
}

// lock waits for the turn to write alone, by other connections. The returned function passes it on
// and may be called more than once.
func (w *writer) lock(ctx context.Context) (func(), error) {
	if _, err := w.take(&queued{ctx: ctx, Operation: Operation{alone: true}}); err != nil {
		return nil, err
	}
	return sync.OnceFunc(w.pass), nil
}

// write runs an operation, perhaps in one transaction with others.
func (w *writer) write(ctx context.Context, d *DB, op Operation) error {
	q := &queued{Operation: op, ctx: ctx}
	turn, err := w.take(q)
	if err != nil {
		return err
	}
	if turn {
		w.transaction(d, q)
	}
	if q.panicked != nil {
		panic(q.panicked)
	}
	return q.err
}

// transaction runs first, and others from the queue, in one transaction.
func (w *writer) transaction(d *DB, first *queued) {
	var array [sharedOperations]*queued
	array[0] = first
	all, err := array[:1], errAborted // what remains if do calls runtime.Goexit
	defer func() {
		if err != nil {
			w.drop() // rolls back
		}
		w.pass() // first: the next transaction can begin while these are answered
		for _, q := range all {
			if err != nil {
				q.err = err
			}
			if q != first {
				q.turn <- false
			}
		}
	}()
	if failed := w.begin(first.ctx); failed != nil {
		err = failed
		return
	}
	begun := d.clock()
	undo, lost := w.do(d, first, false)
	for lost == nil && !undo && len(all) < sharedOperations {
		q := w.next()
		if q == nil {
			break
		}
		all = append(all, q)
		if _, lost = w.do(d, q, true); d.clock().Sub(begun) > sharedTime {
			break
		}
	}
	switch {
	case lost != nil:
		err = lost
	case undo:
		_, err = w.c.rollback.ExecContext(context.Background())
	default:
		_, err = w.c.commit.ExecContext(context.Background())
	}
}

// do runs an operation in the transaction. undo means that it failed and its changes have to be
// rolled back, lost that the transaction has ended.
func (w *writer) do(d *DB, q *queued, others bool) (undo bool, lost error) {
	if q.err = q.ctx.Err(); q.err != nil {
		return false, nil
	}
	named := q.Several && others
	if named {
		if _, err := w.c.savepoint.ExecContext(context.Background()); err != nil {
			return false, err
		}
	}
	w.call(d, q)
	if q.Several && q.err == nil {
		q.err = q.ctx.Err()
	}
	if named {
		var err error
		if q.err != nil {
			_, err = w.c.restore.ExecContext(context.Background())
		}
		if err == nil {
			_, err = w.c.release.ExecContext(context.Background())
		}
		return false, lostError(err, q.err)
	}
	return q.Several && q.err != nil, lostError(w.c.alive(), q.err)
}

// lostError wraps the error by which a transaction ended early; nil stays nil. because is not
// wrapped: it may be a refusal, which concerns one operation alone.
func lostError(err, because error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (%v) after: %v", errRolledBack, err, because)
}

// call runs an operation and recovers its panic. The caller panics again, with this stack: it may
// be in another goroutine.
func (w *writer) call(d *DB, q *queued) {
	defer func() {
		if v := recover(); v != nil {
			q.panicked = fmt.Sprintf("%v, in an operation:\n%s", v, debug.Stack())
			q.err = errPanicked
		}
	}()
	q.err = q.run(context.WithoutCancel(q.ctx), d, w.c.conn)
}

// begin begins a transaction. It waits for the writers of other processes.
func (w *writer) begin(ctx context.Context) error {
	if w.c == nil {
		c, err := openWriter(context.WithoutCancel(ctx), w.pool)
		if err != nil {
			return err
		}
		w.c = c
	}
	_, err := w.c.begin.ExecContext(context.Background())
	return err
}

func openWriter(ctx context.Context, pool *sql.DB) (*writerConn, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &writerConn{conn: conn}
	for _, p := range []struct {
		statement **sql.Stmt
		query     string
	}{
		{&c.begin, "BEGIN IMMEDIATE"}, {&c.commit, "COMMIT"}, {&c.rollback, "ROLLBACK"},
		{&c.savepoint, "SAVEPOINT operation"}, {&c.release, "RELEASE operation"},
		{&c.restore, "ROLLBACK TO operation"},
	} {
		if *p.statement, err = conn.PrepareContext(ctx, p.query); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// alive returns an error if the connection is in no transaction.
func (c *writerConn) alive() error {
	return c.conn.Raw(func(of any) error {
		if of.(*sqlite3.SQLiteConn).AutoCommit() {
			return errNoTransaction
		}
		return nil
	})
}

// close closes the connection, which rolls an open transaction back.
func (c *writerConn) close() {
	for _, statement := range []*sql.Stmt{c.begin, c.commit, c.rollback, c.savepoint, c.release, c.restore} {
		if statement != nil {
			_ = statement.Close() // the pool does not, and the file would stay open
		}
	}
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
}

// drop closes the connection, during a turn. The next turn opens another.
func (w *writer) drop() {
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}

// close closes the connection, or lets the current turn do so.
func (w *writer) close() error {
	err := w.pool.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed = true; !w.busy {
		w.drop()
	}
	return err
}

// Waiting returns how many operations wait for the writer of SQLite.
func Waiting(d *DB) int {
	d.writer.mu.Lock()
	defer d.writer.mu.Unlock()
	return len(d.writer.waiting)
}
