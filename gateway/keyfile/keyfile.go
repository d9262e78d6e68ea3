// Package keyfile keeps generated secrets, such as signing keys and the key of
// the local certificate authority, in files, so that they survive restarts.
//
// # Limits and threats
//
// A file appears complete or not at all, and is never replaced: two processes
// that start at once get the same secret. Only its owner can read it. It is not
// encrypted.
package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Keep returns the content of the file at path. If there is no file, Keep creates
// it with mode 0600 and the result of generate.
func Keep(path string, generate func() ([]byte, error)) ([]byte, error) {
	return keep(path, 0o600, generate)
}

// KeepPublic is Keep for public content, such as a certificate: the mode is 0644.
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
	// A link, unlike a rename, never replaces the file of another process.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keeping %s: %w", path, err)
	}
	return os.ReadFile(path)
}
