package strictyaml

import (
	"crypto/sha256"
	"io/fs"
	"os"
)

// File is a file as it was when it was opened to be read.
type File struct {
	Path string
	Key  string // that names the file, empty for the main file and files with one secret

	info fs.FileInfo // nil: there was none
	sum  [sha256.Size]byte
}

// StatFile returns a file as it is now.
func StatFile(path string) File {
	info, err := os.Stat(path)
	if err != nil {
		return File{Path: path}
	}
	return File{Path: path, info: info}
}

// Same reports whether f and other are the same file in the same state: none of
// the two was replaced, written or given another mode in between. It does not
// compare the contents.
func (f File) Same(other File) bool {
	if f.info == nil || other.info == nil {
		return f.Path == other.Path && f.info == nil && other.info == nil
	}
	a, b := f.info, other.info
	return f.Path == other.Path && os.SameFile(a, b) &&
		a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// SameContent reports whether two files that were read have the same content.
func (f File) SameContent(other File) bool { return f.sum == other.sum }
