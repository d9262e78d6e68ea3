package sqlitestore

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherProgramsWrite has another program write to an open database, as a
// restore does: from the next write on, the cache does not hide it.
func TestOtherProgramsWrite(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "test.db")
	s := openTest(t, Options{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	put(t, s, "changed", "ours")
	put(t, s, "deleted", "ours")
	wantAbsent(t, s, "created")
	put(t, s, "other", "value")
	if log.Len() > 0 {
		t.Fatalf("before another program has written, the log has %s", &log)
	}
	execute(t, path, "UPDATE entries SET value = X'31' WHERE key = X'"+hex.EncodeToString([]byte("changed"))+"'",
		"DELETE FROM entries WHERE key = X'"+hex.EncodeToString([]byte("deleted"))+"'",
		"INSERT INTO entries VALUES (X'"+hex.EncodeToString([]byte("created"))+"', 0, X'32')")
	put(t, s, "other", "newer value")
	wantValue(t, s, "changed", "1")
	wantAbsent(t, s, "deleted")
	wantValue(t, s, "created", "2")
	wantValue(t, s, "other", "newer value")
	put(t, s, "other", "newest value")
	if got := strings.Count(log.String(), "another program has written"); got != 1 {
		t.Errorf("the log says it %d times, want once: %s", got, &log)
	}
}
