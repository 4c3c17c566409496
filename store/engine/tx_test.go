package engine_test

import (
	"errors"
	"testing"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/storetest"
)

// refused is a refusal of the domain.
type refused string

func (e refused) Error() string { return string(e) }
func (refused) Refusal()        {}

// After a refusal no statement runs, whichever way it is built, and nothing of before stays.
func TestNothingFollowsARefusal(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const first, second = refused("first"), refused("second")
		const add = "INSERT INTO counters (name, value) VALUES (?, 1)"
		err := engine.Write(t.Context(), s.DB, "count", func(tx *engine.Tx) {
			if n := tx.Exec(add, "before"); n != 1 || tx.Failed() {
				t.Errorf("%d rows before the refusal", n)
			}
			tx.Expect(0, first)
			tx.Refuse(second)
			var names []string
			found := tx.Find(&names, "SELECT name FROM counters WHERE name = 'before'")
			built := tx.Ran(tx.Table("counters").Where("name = 'before'").Updates(map[string]any{"value": 2}))
			if ran := tx.Exec(add, "after"); ran != 0 || found != 0 || built != 0 || names != nil || !tx.Failed() {
				t.Errorf("after the refusal: %d, %d and %d rows, %v", ran, found, built, names)
			}
		})
		if !errors.Is(err, first) || errors.Is(err, second) {
			t.Errorf("%v", err)
		}
		var left int
		names := []string{"before", "after"}
		err = engine.Conn(t.Context(), s.DB).Raw("SELECT count(*) FROM counters WHERE name IN ?", names).Find(&left).Error
		if err != nil || left != 0 {
			t.Errorf("%d rows stay: %v", left, err)
		}
	})
}
