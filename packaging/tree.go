package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// file is one file of an archive or a package. Its name has slashes.
type file struct {
	name    string
	content []byte
	mode    fs.FileMode
}

// tree is a set of files in the order of their names.
type tree []file

// with returns the tree with more files.
func (t tree) with(more ...file) tree {
	all := append(slices.Clone(t), more...)
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return all
}

// below returns the tree in a folder.
func (t tree) below(folder string) tree {
	all := slices.Clone(t)
	for i := range all {
		all[i].name = folder + "/" + all[i].name
	}
	return all
}

// find returns the content of a file, nil if there is none.
func (t tree) find(name string) []byte {
	for _, f := range t {
		if f.name == name {
			return f.content
		}
	}
	return nil
}

// tarball returns the files as .tar.gz. All are root's and of one time.
func (t tree) tarball(at time.Time) ([]byte, error) {
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(packed)
	for _, f := range t {
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: int64(f.mode),
			Uname: "root", Gname: "root", ModTime: at, Format: tar.FormatPAX,
		}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(w.Close(), packed.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zip returns the files as .zip.
func (t tree) zip(at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range t {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// gzipped returns the content as gzip -9n writes it: without a name and a time.
func gzipped(content []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level exists
	_, _ = w.Write(content)                                 // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
