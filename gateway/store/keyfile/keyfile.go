// Package keyfile keeps generated secrets, such as signing keys and the key of
// the local certificate authority, in files, so that they survive restarts.
//
// # Limits and threats
//
// A file appears complete or not at all, and a secret is never replaced: two processes
// that start at once get the same one. Only its owner can read it. It is not
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
	temp, err := writeBeside(path, mode, content)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temp)
	// A link, unlike a rename, never replaces the file of another process.
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keeping %s: %w", path, err)
	}
	return os.ReadFile(path)
}

// ReplacePublic replaces the content of a file of KeepPublic. After an error the file is
// as it was.
func ReplacePublic(path string, content []byte) error {
	temp, err := writeBeside(path, 0o644, content)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("replacing %s: %w", path, errors.Join(err, os.Remove(temp)))
	}
	return nil
}

// writeBeside writes a new file in the folder of path, and returns its name.
func writeBeside(path string, mode fs.FileMode, content []byte) (name string, err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return "", err
	}
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return "", fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(temp.Name())))
	}
	return temp.Name(), nil
}
