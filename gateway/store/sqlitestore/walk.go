package sqlitestore

import (
	"context"
	"strings"

	"authgate/gateway/store"
)

// selectKeys reads a page of the keys of live entries.
const selectKeys = `SELECT key FROM entries WHERE key >= ? AND (expires = 0 OR expires > ?) ORDER BY key LIMIT ?`

// Walk implements store.Store. It reads the keys of live entries in their order, in
// pages, beside other reads and writes.
func (s *Store) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	from := prefix
	for {
		if err := s.usable(ctx); err != nil {
			return s.failed("walk", err)
		}
		keys, err := s.page(ctx, from)
		if err == nil {
			err = s.db.files.checkPaths()
		}
		if err != nil {
			return s.failed("walk", err)
		}
		of := 0
		for of < len(keys) && strings.HasPrefix(keys[of], prefix) {
			of++
		}
		if of > 0 {
			if err := visit(keys[:of]); err != nil {
				return err
			}
		}
		if of < store.WalkSize {
			return nil
		}
		from = keys[of-1] + "\x00" // the least key that is greater
	}
}

// page returns the first keys of live entries that are not less than from.
func (s *Store) page(ctx context.Context, from string) ([]string, error) {
	rows, err := s.db.reader.QueryContext(ctx, selectKeys, []byte(from), s.now().UnixNano(), store.WalkSize)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	keys := make([]string, 0, store.WalkSize)
	for rows.Next() {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, string(key))
	}
	return keys, rows.Err()
}
