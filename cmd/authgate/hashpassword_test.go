package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// hash-password takes the first line of standard input, and refuses a password that
// cannot be typed or that an editor has changed.
func TestReadPassword(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		"secret": "secret", "secret\n": "secret", "secret\r\n": "secret", "two words\n": "two words",
		"päss\n密码": "päss", "a\n\n": "a",
		"": "", "\n": "", "\r\n": "", " \n": "", "\n\nsecret\n": "",
		" secret\n": "", "secret \n": "", "secret\u00a0\n": "", "secret\t\n": "",
		"se\tcret\n": "", "secret\r\r\n": "", "secret\r": "",
		"\xef\xbb\xbfsecret\n": "", "\xff\xfes\x00e\x00\n\x00": "", "s\x00e\x00c\x00\n\x00": "",
		"\x00s\x00e\x00c\x00\n": "",
		"a\x00b\n":              "", "a\x07b": "", "caf\xe9\n": "", "a\u0085b\n": "",
	} {
		path := filepath.Join(t.TempDir(), "input")
		if err := os.WriteFile(path, []byte(input), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readPassword(file, io.Discard)
		if err != nil {
			got = ""
		}
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", input, got, err, want)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}
