package strictyaml

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// File is a file as it was when it was opened to be read, or the names that a pattern matched.
type File struct {
	Path string // of the file, or the pattern
	Key  string // that names the file, empty for the main file, its parts, and files with one secret

	info    fs.FileInfo // nil: there was none
	sum     [sha256.Size]byte
	pattern bool
	names   []string // that the pattern matched
}

// statFile returns a file as it is now.
func statFile(path string) File {
	info, err := os.Stat(path)
	if err != nil {
		return File{Path: path}
	}
	return File{Path: path, info: info}
}

// Glob returns the names that a pattern of filepath.Match matches, in order, and a File that
// tells when these have changed. The error is filepath.ErrBadPattern.
func Glob(pattern string) ([]string, File, error) {
	names, err := filepath.Glob(pattern)
	return names, File{Path: pattern, pattern: true, names: names}, err
}

// Now returns the file, or the names that the pattern matches, as they are now.
func (f File) Now() File {
	if !f.pattern {
		return statFile(f.Path)
	}
	_, now, _ := Glob(f.Path)
	return now
}

// IsMissing reports whether there was no such file.
func (f File) IsMissing() bool { return f.info == nil && !f.pattern }

// Same reports whether f and other are the same file in the same state: none of
// the two was replaced, written or given another mode in between. It does not
// compare the contents.
func (f File) Same(other File) bool {
	if f.info == nil || other.info == nil {
		return f.Path == other.Path && f.info == nil && other.info == nil && slices.Equal(f.names, other.names)
	}
	a, b := f.info, other.info
	return f.Path == other.Path && os.SameFile(a, b) &&
		a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// SameContent reports whether two files that were read have the same content.
func (f File) SameContent(other File) bool { return f.sum == other.sum }
