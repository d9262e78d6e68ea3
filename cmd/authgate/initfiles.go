package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/people/password"
	"authgate/gateway/store/rewrite"
)

// schemaFile is the name of the schema that init writes beside the configuration, and to
// which the configuration refers.
const schemaFile = "config.schema.json"

// beside are files and folders that a configuration names.
type beside struct {
	Accounts string // the file with the account; empty: the account is written in the configuration
	Schema   string // empty: none
	Data     string // data_dir; empty: the default
}

// keepData takes data_dir of a configuration that is to be replaced. That of a package is a folder
// that its service can write to.
func (b *beside) keepData(path string) {
	data, err := config.DataDir(path)
	if err != nil {
		return
	}
	relative, err := filepath.Rel(filepath.Dir(path), data)
	if err == nil && (filepath.IsLocal(relative) || !filepath.IsAbs(data)) {
		data = relative
	}
	b.Data = data
}

// DataDir is data_dir as the configuration has it.
func (b *beside) DataDir() string { return cmp.Or(b.Data, "data") }

// authority returns the file with the local authority of the configuration at path.
func (b *beside) authority(path string) string {
	file := filepath.Join(b.DataDir(), "ca.pem")
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(path), file)
}

// writeSchema writes the schema into a folder, unless a file of its name is there. If that is
// another schema, the configuration does not refer to it.
func (b *beside) writeSchema(folder string) error {
	path := filepath.Join(folder, schemaFile)
	there, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = writeFile(path, config.Schema())
	case err == nil && !bytes.Equal(there, config.Schema()):
		return nil
	}
	if err == nil {
		b.Schema = schemaFile
	}
	return err
}

// accountsBeside returns where the account for the configuration at path is written. Several
// configurations can be in one folder.
func accountsBeside(path string) string {
	folder, name := filepath.Split(path)
	if name = strings.TrimSuffix(name, filepath.Ext(name)); name == "config" {
		return folder + "accounts.yaml"
	}
	return folder + name + ".accounts.yaml"
}

// write writes the configuration to path, and the account and the schema beside it, if they
// are valid.
func (s *firstSteps) write(path, plain string, force bool) error {
	if err := s.checkUser(); err != nil {
		return err
	}
	hash, err := password.New(plain)
	if err != nil {
		return err
	}
	s.Hash = hash
	if err := s.checkConfig(path); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := s.writeSchema(folder); err != nil {
		return err
	}
	s.Accounts = filepath.Base(accountsBeside(path))
	text, err := fill(initTemplate, s)
	if err != nil {
		return err
	}
	account, err := fill(initAccountsTemplate, s)
	if err != nil {
		return err
	}
	files := []newFile{{accountsBeside(path), account}, {path, text}}
	if s.secret != "" {
		files = slices.Insert(files, 0, newFile{filepath.Join(folder, s.SecretFile), []byte(s.secret + "\n")})
	}
	return writeFiles(files, force)
}

// checkAbsent returns an error for a file that exists.
func checkAbsent(files ...string) error {
	for _, file := range files {
		if _, err := os.Lstat(file); err == nil {
			return existsError(file)
		}
	}
	return nil
}

func existsError(path string) error {
	return fmt.Errorf("%s exists; choose another file with --config, or give --force to replace it", path)
}

// newFile is a file to write.
type newFile struct {
	path    string
	content []byte
}

// writeFiles writes files, of which the configuration is the last. With force it replaces files that
// exist. Without, it writes all or none.
func writeFiles(files []newFile, force bool) error {
	for i, file := range files {
		var err error
		if force {
			err = replaceFile(file.path, files[len(files)-1].path, file.content)
		} else if err = writeFile(file.path, file.content); err != nil {
			for _, written := range files[:i] {
				err = errors.Join(err, os.Remove(written.path))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file that only its owner can read. A file that exists stays.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return existsError(path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// replaceFile is writeFile for a file that may exist. The owner and the group stay, and so does the
// right of the group to read; a new file takes them from the file like. After an error, the old file is
// still there.
func replaceFile(path, like string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".authgate-init-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	old, statErr := os.Lstat(path)
	if errors.Is(statErr, fs.ErrNotExist) {
		old, statErr = os.Lstat(like)
	}
	if statErr == nil && old.Mode().IsRegular() && rewrite.KeepOwner(f, old) == nil {
		err = errors.Join(err, f.Chmod(0o600|old.Mode()&0o040))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
