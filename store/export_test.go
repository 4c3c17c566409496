package store

import (
	"context"
	"time"
)

// Exec lets a test age or damage what no exported method can, and fill tables for as
// long as that takes.
func (s *Store) Exec(query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	return s.db.WithContext(ctx).Exec(query, args...).Error
}

// Count is the single number that a query returns.
func (s *Store) Count(query string, args ...any) (n int64, err error) {
	return n, s.db.Raw(query, args...).Find(&n).Error
}

// ListCapacity is how many indices of a status list are given out.
const ListCapacity = listCapacity
