package store

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

// How much one transaction of several operations does at most: all of them wait for its end.
const (
	sharedOperations = 64
	sharedTime       = 5 * time.Millisecond
)

var (
	errRolledBack    = errors.New("SQLite has rolled the transaction back")
	errAborted       = errors.New("an operation of the transaction has ended its goroutine")
	errPanicked      = errors.New("the operation panicked")
	errNoTransaction = errors.New("no transaction is open")
)

// writer lets the operations of this process write to SQLite, which has one writer anyway:
// waiting here is fair and ends with the context, SQLite's own waiting is polling.
//
// An operation that finds the database free has the turn at once, in the goroutine of its
// caller. Others are queued meanwhile. The operation with the turn begins a transaction, does its
// own work and then that of those in the queue, and commits: one fsync for all of them
// (synchronous=FULL), without a wait for others to come. Then the next in the queue has the turn.
// A goroutine that does all of them would cost a lone caller two switches more.
//
//   - No operation is answered before the COMMIT has returned. That goes for refusals too: an
//     operation sees what those before it in the transaction have changed, so that "this code is
//     spent" would be wrong if the COMMIT failed. When it fails, or SQLite has rolled the transaction
//     back by itself (full disk, I/O error), all of its operations end with account.ErrUnavailable,
//     whatever they had found, and nothing of them is in the database. Only the first, which
//     has seen no changes of others, is refused without a COMMIT.
//   - An operation that fails, panics or whose context has ended is rolled back to its
//     savepoint, and the others are kept. The first of a transaction has none: when it fails,
//     the transaction is rolled back and ends with it. A single statement needs none.
//   - The context of one caller ends its wait in the queue, but interrupts no statement: SQLite
//     rolls the whole transaction back when a statement that writes is interrupted. So the
//     transaction is begun by a statement, not by database/sql with a context, on a connection of its
//     own, and statements run under the time limit of the Store alone. Once an operation has
//     begun, its caller waits for the end, because it uses the caller's variables.
//   - References are checked with each statement. No table has deferred ones, with which one
//     operation could make the COMMIT of all fail.
//   - What takes long (operation.alone) has its turn by itself, on a connection of the pool and
//     with the context of its caller.
type writer struct {
	pool *sql.DB // of one connection

	mu      sync.Mutex
	busy    bool      // an operation has the turn
	closed  bool      // the connection is closed with the turn
	waiting []*queued // in their order

	c *writerConn // used by the operation with the turn; nil before the first
}

// writerConn is the connection, with the statements that have no parameters: the driver keeps
// only others prepared.
type writerConn struct {
	conn                                                 *sql.Conn
	begin, commit, rollback, savepoint, release, restore *sql.Stmt
}

// queued is an operation that waits for its turn or is done in that of another.
type queued struct {
	operation
	ctx      context.Context
	turn     chan bool // true: its turn; false: it was done
	err      error
	panicked any
}

// take waits for the turn of q. Without an error it is either that, or q was done in the
// turn of another.
func (w *writer) take(q *queued) (turn bool, err error) {
	if err := q.ctx.Err(); err != nil {
		return false, err // before it waits for another process
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
	return false, nil // it had begun
}

// leave takes q out of the queue, if it is still there.
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

// pop is the first of the queue, which is not empty.
func (w *writer) pop() *queued {
	q := w.waiting[0]
	w.waiting[0] = nil
	if w.waiting = w.waiting[1:]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	return q
}

// next is the first of the queue, or nil when that wants to write alone or there is none.
func (w *writer) next() *queued {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 || w.waiting[0].alone {
		return nil
	}
	return w.pop()
}

// lock waits for a turn for what writes alone, by other connections; the result passes
// it on and may be called more than once.
func (w *writer) lock(ctx context.Context) (func(), error) {
	if _, err := w.take(&queued{ctx: ctx, operation: operation{alone: true}}); err != nil {
		return nil, err
	}
	return sync.OnceFunc(w.pass), nil
}

// write does an operation, with those of others.
func (w *writer) write(ctx context.Context, s *Store, op operation) error {
	q := &queued{operation: op, ctx: ctx}
	turn, err := w.take(q)
	if err != nil {
		return err
	}
	if turn {
		w.transaction(s, q)
	}
	if q.panicked != nil {
		panic(q.panicked)
	}
	return q.err
}

// transaction is the turn of first.
func (w *writer) transaction(s *Store, first *queued) {
	var array [sharedOperations]*queued
	array[0] = first
	all, err := array[:1], errAborted // until an end is reached
	defer func() {
		if err != nil {
			w.drop() // and with it what is open in it
		}
		w.pass() // before the answers: the next transaction begins meanwhile
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
	begun := s.clock()
	undo, lost := w.do(s, first, false)
	for lost == nil && !undo && len(all) < sharedOperations {
		q := w.next()
		if q == nil {
			break
		}
		all = append(all, q)
		if _, lost = w.do(s, q, true); s.clock().Sub(begun) > sharedTime {
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

// do does an operation in the transaction. undo means that it has failed and what it has
// changed is still there, lost that the transaction is over.
func (w *writer) do(s *Store, q *queued, others bool) (undo bool, lost error) {
	if q.err = q.ctx.Err(); q.err != nil {
		return false, nil
	}
	named := q.several && others
	if named {
		if _, err := w.c.savepoint.ExecContext(context.Background()); err != nil {
			return false, err
		}
	}
	w.call(s, q)
	if q.several && q.err == nil {
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
		return false, over(err, q.err)
	}
	return q.several && q.err != nil, over(w.c.alive(), q.err)
}

// over is what a transaction has ended with before its time, if it has.
func over(err, because error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (%v) after: %v", errRolledBack, err, because) // because is not wrapped: it may be a refusal, of one operation alone
}

// call calls an operation.
func (w *writer) call(s *Store, q *queued) {
	defer func() {
		if v := recover(); v != nil {
			q.panicked, q.err = fmt.Sprintf("%v, in an operation:\n%s", v, debug.Stack()), errPanicked // the stack is another's
		}
	}()
	q.err = q.run(context.WithoutCancel(q.ctx), s, w.c.conn)
}

// begin begins a transaction. It waits for other processes.
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
		{&c.savepoint, "SAVEPOINT operation"}, {&c.release, "RELEASE operation"}, {&c.restore, "ROLLBACK TO operation"},
	} {
		if *p.statement, err = conn.PrepareContext(ctx, p.query); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// alive is an error when the connection is in no transaction.
func (c *writerConn) alive() error {
	return c.conn.Raw(func(of any) error {
		if of.(*sqlite3.SQLiteConn).AutoCommit() {
			return errNoTransaction
		}
		return nil
	})
}

// close closes the connection, and with it a transaction that is open.
func (c *writerConn) close() {
	for _, statement := range []*sql.Stmt{c.begin, c.commit, c.rollback, c.savepoint, c.release, c.restore} {
		if statement != nil {
			_ = statement.Close() // the pool does not: the file would stay open
		}
	}
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
}

// drop closes the connection, during a turn. The next one opens another.
func (w *writer) drop() {
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}

// close closes the connection, after the turn that has begun.
func (w *writer) close() error {
	err := w.pool.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed = true; !w.busy {
		w.drop()
	}
	return err
}
