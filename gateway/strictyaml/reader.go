package strictyaml

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Options say how to read the files of one configuration.
type Options struct {
	// Main is the path of the main file. Relative paths start from its folder,
	// and its diagnostics come before those of other files.
	Main string
	// Lookup returns the value of an environment variable.
	Lookup func(name string) (string, bool)
	// SecretKeys are the keys of secret values. Diagnostics mask the values of
	// these keys, of misspellings of them, and of all keys that contain
	// "secret" or "passw".
	SecretKeys []string
	// PublicSecrets are those that everybody knows.
	PublicSecrets []Secret
	// PublicKeys are keys that look like those of secrets but are not.
	PublicKeys []string
	// Checks are the functions that the tags check of fields name.
	Checks map[string]func(d *Document, path, value string)
	// Parse holds the function that reads a value for each type that is
	// written as one string. path is the path of the value.
	Parse map[reflect.Type]func(path, value string) (any, error)
	// Either holds the struct types whose values are written either as a
	// string or as a mapping. Such a type has two fields: a string, and a
	// pointer to the struct for the mapping. In place of a list of them a
	// single one may be written, unless the type is in Listed. The text says
	// what is expected, for diagnostics.
	Either map[reflect.Type]string
	Listed map[reflect.Type]bool
	// HashKeys are the keys of secrets that are hashes of passwords.
	HashKeys []string
	// Placeholders gives variables that are not set, and secrets whose file cannot be read, a
	// stand-in, so that a configuration can be checked where these are not.
	Placeholders bool
}

// MaxSecret is the largest size of a file with one secret, in bytes.
const MaxSecret = 64 << 10

// Reader reads the files of one configuration and collects what is wrong.
type Reader struct {
	Options
	problems
	warnings problems
	files    []File
	public   []string // see PublicFiles
	named    []string // see NamedFiles
}

// NewReader returns a Reader.
func NewReader(o Options) *Reader { return &Reader{Options: o} }

// Err returns the diagnostics so far as an error of type Diagnostics, or nil.
func (r *Reader) Err() error {
	if len(r.list) == 0 {
		return nil
	}
	return r.ordered(r.Main, r.redacter())
}

// Warnings returns the warnings so far.
func (r *Reader) Warnings() Diagnostics { return r.warnings.ordered(r.Main, r.redacter()) }

// Redact makes diagnostics mask a secret wherever it appears.
func (r *Reader) Redact(secret string) { r.secrets = append(r.secrets, secret) }

// Files returns the side files, also those that could not be read, sorted by
// path. A file that several keys name is there several times.
func (r *Reader) Files() []File {
	byPath := func(a, b File) int { return strings.Compare(a.Path, b.Path) }
	return slices.SortedStableFunc(slices.Values(r.files), byPath)
}

// PublicFiles returns the paths that keys with the tag file:"public" have.
func (r *Reader) PublicFiles() []string { return r.public }

// NamedFiles returns the paths that keys with the tag file have, those that are read or run later among them.
func (r *Reader) NamedFiles() []string { return r.named }

// Resolve makes a path of the main file relative to the folder of that file.
func (r *Reader) Resolve(path string) string { return resolve(filepath.Dir(r.Main), path) }

func resolve(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// ReadSide reads a side file of at most limit bytes, which a key names. path must
// be resolved.
func (r *Reader) ReadSide(key, path string, limit int) ([]byte, error) {
	content, file, err := ReadFile(path, limit)
	if file.Key = key; key != "" {
		file.sum = sha256.Sum256(content)
	}
	r.files = append(r.files, file)
	return content, err
}

// readSecret reads a file with one secret, whose path must be resolved. One line break at its
// end is not part of the secret.
func (r *Reader) readSecret(path string) (string, error) {
	if path == "" {
		return "", errors.New("expected the path of a file")
	}
	content, err := r.ReadSide("", path, MaxSecret)
	if err != nil {
		return "", err
	}
	text := string(content)
	if line, ended := strings.CutSuffix(text, "\n"); ended {
		text = strings.TrimSuffix(line, "\r")
	}
	r.Redact(text)
	if text == "" {
		return "", fmt.Errorf("the file %s is empty", path)
	}
	if err := Secret(text).Check(); err != nil {
		return "", fmt.Errorf("the secret in the file %s %w", path, err)
	}
	return text, nil
}

// Read decodes a YAML file of at most limit bytes into the value that into
// points to. name is the path of the file, source its content, and root the
// path that its top level has in diagnostics, empty for the main file.
func (r *Reader) Read(name string, source []byte, limit int, root string, into any) *Document {
	doc := r.document(newText(name, source, r.maskYAML), root)
	r.decode(doc, source, limit, into)
	return doc
}

// decode reads the content of a document into the value that into points to.
func (r *Reader) decode(doc *Document, source []byte, limit int, into any) {
	body := r.parse(doc.text, source, limit)
	if body == nil {
		doc.Break(doc.root)
		return
	}
	doc.places = make(map[string]span, 2*len(doc.lines))
	d := &decoder{
		Reader: r, Document: doc, aliases: resolveAliases(body),
		unknown: map[position]string{}, fields: map[reflect.Type]map[string]field{}, single: map[string]bool{},
		words: map[string][]string{},
	}
	doc.places[doc.root] = span{start(body), start(body)}
	d.value(body, doc.root, reflect.ValueOf(into).Elem())
}

// ReadLines checks a file of plain lines in the same way as a YAML file. mask
// returns a line without its secrets. ok is false after an error.
func (r *Reader) ReadLines(
	name string, source []byte, limit int, root string, mask func(line string) string,
) (doc *Document, ok bool) {
	shown := func(lines []string) func(int) string {
		return func(i int) string { return maskPatterns(mask(lines[i])) }
	}
	doc = r.document(newText(name, source, shown), root)
	if !r.wellFormed(doc.text, source, limit) {
		doc.Break(root)
		return doc, false
	}
	return doc, true
}
