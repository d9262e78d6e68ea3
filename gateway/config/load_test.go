package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestLoadFiles: the files that were read, or should have been, are returned, also
// with mistakes.
func TestLoadFiles(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	path := dir.write("config.yaml", "accounts: {file: a.yaml}\nbasic: {htpasswd: b}\nnonsense: 1\n")
	dir.write("a.yaml", "[]\n")
	_, files, err := Environment{}.LoadFiles(path)
	if err == nil || len(files) != 3 || files[0].Path != path {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if !file.Same(file.Now()) {
			t.Errorf("%s has changed", file.Path)
		}
	}
	dir.write("b", "x\n")
	dir.write("a.yaml", "[ ]\n")
	for i, same := range []bool{true, false, false} {
		if files[i].Same(files[i].Now()) != same {
			t.Errorf("%s is the same: %t", files[i].Path, !same)
		}
	}
	if _, files, err := (Environment{}).LoadFiles(dir.write("x", "") + "y"); err == nil || len(files) != 1 {
		t.Errorf("without the main file: %v, %v", files, err)
	}
}

// The certificate that the gateway makes at its first start may be missing before, and no other file.
func TestAwaitsAuthority(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	const internal, other = "tls: {mode: internal}\n", "tls: {mode: \"off\"}\nlisten: {trusted_proxies: [127.0.0.1]}\n"
	for _, c := range []struct {
		more, named string
		valid       bool
	}{
		{"", "state/ca.pem", true},
		{internal, filepath.Join(dir.dir, "state/../state//ca.pem"), true},
		{internal, "state/ca-key.pem", false},
		{internal, "ca.pem", false},
		{other, "state/ca.pem", false},
	} {
		path := dir.write("config.yaml", "public_url: https://localhost\ndata_dir: state\n"+c.more+
			"upstreams: {app: {url: \"https://localhost:1\", tls: {ca: \""+c.named+"\"}}}\n"+
			"accounts: {users: []}\nroutes: [{match: /, upstream: app, auth: [none]}]\n")
		if cfg, err := Load(path); (err == nil) != c.valid || c.valid && !cfg.AwaitsAuthority() {
			t.Errorf("%s with %q: %v", c.named, c.more, err)
		}
	}
}

// TestDataDir: the data_dir is known as long as it can be read, whatever else is wrong.
func TestDataDir(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	for content, want := range map[string]string{
		"log: {level: warn}\n": "data", "data_dir: /var/lib\n": "/var/lib",
		"data_dir: state\nrutes: []\ntoken: {secret: short}\n": "state",
		"data_dir: [a]\n": "", "data_dir: ''\n": "", "data_dir: ${NOWHERE_AT_ALL}\n": "", "a: [\n": "",
	} {
		path := dir.write("config.yaml", content)
		if want != "" && want[0] != '/' {
			want = filepath.Join(dir.dir, want)
		}
		if got, err := DataDir(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", content, got, err, want)
		}
	}
	if _, err := DataDir(filepath.Join(dir.dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}
