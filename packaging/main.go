// Command packaging makes a release of authgate: static programs, archives, Debian
// and RPM packages, a chart for Helm, a list of what is in each program (SBOM), and SHA256SUMS with a
// signature. The same commit and the same version of Go give the same bytes, but for the
// signature. `make dist` runs it.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sumsFile lists the files of a release, as sha256sum does.
const sumsFile = "SHA256SUMS"

func main() {
	source := flag.String("source", "..", "top `folder` of the repository")
	described := flag.String("version", "", "version, as .ci/version prints it (default: that of the source)")
	out := flag.String("out", "../dist", "`folder` for the release; an earlier release in it is replaced")
	key := flag.String("key", "", "`file` with the SSH key that signs "+sumsFile+"; without one there is no signature")
	flag.Parse()
	if err := run(*source, *described, *out, *key); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(source, described, out, key string) error {
	r, err := newRelease(source, described)
	if err != nil {
		return err
	}
	if _, err := os.Stat(key); key != "" && err != nil { // before minutes of building
		return fmt.Errorf("the key that signs: %w", err)
	}
	work, err := os.MkdirTemp("", "authgate-packaging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.prepare(work); err != nil {
		return err
	}
	made := map[string][]byte{}
	for _, on := range platforms {
		fmt.Fprintln(os.Stderr, "packaging:", on)
		if err := r.make(work, on, made); err != nil {
			return fmt.Errorf("%s: %w", on, err)
		}
	}
	name, chart, err := r.chart()
	if err != nil {
		return err
	}
	made[name] = chart
	made[sumsFile] = sums(made)
	if key == "" {
		fmt.Fprintln(os.Stderr, "packaging: "+sumsFile+" is NOT SIGNED: make dist SIGNING_KEY=FILE signs it with an SSH key")
	} else if err := addSignature(made, key); err != nil {
		return err
	}
	return replaceFolder(out, made)
}

// release is what all files of a release have in common.
type release struct {
	source  string
	version string    // of the programs
	number  string    // of the files, see fileVersion
	time    time.Time // of everything in it: that of the commit
	modules map[string]*module
	texts   tree // what each archive and package has
}

// newRelease reads from the repository what the caller does not give.
func newRelease(source, described string) (*release, error) {
	r := &release{source: source, version: described}
	if r.version == "" {
		out, err := output(source, nil, "sh", ".ci/version")
		if err != nil {
			return nil, err
		}
		r.version = strings.TrimSpace(out)
	}
	seconds, ok := os.LookupEnv("SOURCE_DATE_EPOCH")
	if !ok {
		out, err := output(source, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return nil, err
		}
		seconds = strings.TrimSpace(out)
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the time of the release is %q, expected seconds since 1970: set SOURCE_DATE_EPOCH", seconds)
	}
	r.time = time.Unix(unix, 0).UTC()
	if r.number, err = fileVersion(r.version, r.time); err != nil {
		return nil, err
	}
	changelog, err := os.ReadFile(filepath.Join(source, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	return r, inChangelog(changelog, r.number)
}

// make adds to made the files of a release that are for one platform.
func (r *release) make(work string, on platform, made map[string][]byte) error {
	program, err := r.build(work, on)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("authgate_%s_%s_%s", r.number, on.os, on.arch)
	if made[name+".cdx.json"], err = r.billOfMaterials(program); err != nil {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	inside := r.texts.with(file{name: on.program(), content: content, mode: 0o755}).below(name)
	if on.os == "windows" {
		made[name+".zip"], err = inside.zip(r.time)
	} else {
		made[name+".tar.gz"], err = inside.tarball(r.time)
	}
	if err != nil || on.os != "linux" {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		name, content, err := r.pack(format, on.arch, content)
		if err != nil {
			return err
		}
		made[name] = content
	}
	return nil
}

// sums lists the files as sha256sum does.
func sums(files map[string][]byte) []byte {
	var list []byte
	for _, name := range sortedKeys(files) {
		list = fmt.Appendf(list, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	return list
}

// replaceFolder writes the files into the folder and removes those of an older release
// from it. It touches no folder with a file that SHA256SUMS does not list.
func replaceFolder(folder string, files map[string][]byte) error {
	old, err := os.ReadDir(folder)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	list, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, entry := range old {
		known := entry.Name() == sumsFile || entry.Name() == signatureFile
		if !known && !bytes.Contains(list, []byte("  "+entry.Name()+"\n")) {
			return fmt.Errorf("%s is not of a release, so its folder is not replaced; give another folder with -out",
				filepath.Join(folder, entry.Name()))
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	return writeFolder(folder, files)
}

func writeFolder(folder string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// output runs a command in a folder, with more variables, and returns what it prints.
func output(folder string, environment []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = folder, append(os.Environ(), environment...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// readFiles returns files by their paths below a folder.
func readFiles(folder string, names []string, mode fs.FileMode) (tree, error) {
	var all tree
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: name, content: content, mode: mode})
	}
	return all, nil
}
