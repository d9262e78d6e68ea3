//go:build unix

package accounts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// Nothing is written unless all is ready, and the new content is there when it is applied.
func TestEdit(t *testing.T) {
	t.Parallel()
	const content = "- {username: alice, password_hash: \"" + oldHash + "\"}\n"
	path := filepath.Join(t.TempDir(), "accounts.yaml")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	f := &File{Path: path, Reader: newReader}
	set := func(ready, apply func() error) error {
		return f.Edit(t.Context(), Edit{
			Username: "alice", Change: SetPasswordHash(hashed(oldHash), newHash), Ready: ready, Apply: apply,
		})
	}
	wantContent := func(want string) {
		t.Helper()
		if got := must.Get(os.ReadFile(path))(t); string(got) != want {
			t.Errorf("the file has %q, want %q", got, want)
		}
	}
	nothing := func() error { return nil }
	errTest := errors.New("as the test says")
	applied := func() error { wantContent(strings.ReplaceAll(content, oldHash, newHash)); return nil }
	if err := set(func() error { return errTest }, applied); !errors.Is(err, errTest) {
		t.Errorf("it is not ready: %v", err)
	}
	wantContent(content)
	must.Do(t, set(nothing, applied))
	must.Do(t, applied())
	if err := set(nothing, applied); !errors.Is(err, ErrOtherHash) {
		t.Errorf("the second time: %v", err)
	}
}
