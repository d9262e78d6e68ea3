// Package keyfile keeps generated secrets in files, such as signing keys and
// the key of the local certificate authority.
//
// A file appears whole or not at all, readable by its owner alone, and is
// never replaced: what was once generated survives restarts, and of two
// processes that start at once both end up with the same secret.
package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Keep returns the content of the file at path, which it first makes with
// generate, mode 0600, if there is none.
func Keep(path string, generate func() ([]byte, error)) ([]byte, error) {
	return keep(path, 0o600, generate)
}

// KeepPublic is Keep for what everybody may read, such as a certificate: mode
// 0644.
func KeepPublic(path string, generate func() ([]byte, error)) ([]byte, error) {
	return keep(path, 0o644, generate)
}

func keep(path string, mode fs.FileMode, generate func() ([]byte, error)) ([]byte, error) {
	content, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	content, err = generate()
	if err != nil {
		return nil, fmt.Errorf("generating %s: %w", path, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	// A link, unlike a rename, never replaces what another process kept.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keeping %s: %w", path, err)
	}
	return os.ReadFile(path)
}
