package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sample is a release with all texts that packages need, and no program.
func sample(t *testing.T) *release {
	t.Helper()
	unit, err := readFiles("..", []string{unitFile, unitFolder + "authgate.socket", unitFolder + "authgate-http.socket",
		sysusersFile, "LICENSE", "CHANGELOG.md"}, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	texts := unit
	for name, content := range map[string]string{
		"man/man1/authgate.1": ".TH authgate\n", "completions/authgate.bash": "complete authgate\n",
		"completions/authgate.fish": "# fish\n", "completions/_authgate": "#compdef authgate\n",
		"completions/authgate.ps1": "# PowerShell\n", thirdParty: "licences\n",
	} {
		texts = append(texts, file{name: name, content: []byte(content), mode: 0o644})
	}
	for _, name := range []string{"config.yaml", "accounts.yaml"} {
		content, err := examples.ReadFile("etc/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, file{name: "examples/" + name, content: content, mode: 0o644})
	}
	return &release{
		version: "v1.2.3", number: "1.2.3", time: time.Date(2001, 2, 3, 12, 0, 1, 0, time.UTC),
		texts: texts.with(), modules: map[string]*module{},
	}
}

// command runs a program and returns its output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// madeOnce makes an archive of each kind and a package of each kind.
func madeOnce(t *testing.T) map[string][]byte {
	t.Helper()
	r, program := sample(t), []byte("\x7fELF, not a real program")
	inside := r.texts.with(file{name: "authgate", content: program, mode: 0o755}).below("authgate_1.2.3")
	tarball, err := inside.tarball(r.time)
	zipped, err2 := inside.zip(r.time)
	if err := cmp.Or(err, err2); err != nil {
		t.Fatal(err)
	}
	made := map[string][]byte{"authgate.tar.gz": tarball, "authgate.zip": zipped}
	for _, format := range []string{"deb", "rpm"} {
		name, content, err := r.pack(format, "arm64", program)
		if err != nil {
			t.Fatal(err)
		}
		made[name] = content
	}
	return made
}

// TestReproducible makes archives and packages twice, in other folders. `make reproduce`
// does so with whole releases.
func TestReproducible(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first := madeOnce(t)
	t.Setenv("TMPDIR", t.TempDir())
	second := madeOnce(t)
	if len(first) != 4 || first["authgate_1.2.3_arm64.deb"] == nil || first["authgate-1.2.3-1.aarch64.rpm"] == nil {
		t.Errorf("the files are %q", sortedKeys(first))
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs between two builds", name)
		}
	}
	if a, b := sums(first), sums(second); !bytes.Equal(a, b) || bytes.Count(a, []byte("\n")) != 4 {
		t.Errorf("SHA256SUMS:\n%s\n%s", a, b)
	}
}

func TestArchives(t *testing.T) {
	t.Parallel()
	made := madeOnce(t)
	packed, err := gzip.NewReader(bytes.NewReader(made["authgate.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for r := tar.NewReader(packed); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "root" || header.ModTime.Unix() != sample(t).time.Unix() {
			t.Errorf("%s belongs to %s (%d:%d), and is from %s", header.Name, header.Uname, header.Uid, header.Gid,
				header.ModTime)
		}
	}
	zipped, err := zip.NewReader(bytes.NewReader(made["authgate.zip"]), int64(len(made["authgate.zip"])))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range zipped.File {
		if want := modes[f.Name]; int64(f.Mode().Perm()) != want {
			t.Errorf("%s has the mode %o in the zip file, and %o in the tar file", f.Name, f.Mode().Perm(), want)
		}
	}
	for name, mode := range map[string]int64{
		"authgate": 0o755, "LICENSE": 0o644, thirdParty: 0o644, "examples/config.yaml": 0o644,
	} {
		if modes["authgate_1.2.3/"+name] != mode {
			t.Errorf("%s has the mode %o, expected %o", name, modes["authgate_1.2.3/"+name], mode)
		}
	}
	if len(zipped.File) != len(modes) {
		t.Errorf("the zip file has %d files, the tar file %d", len(zipped.File), len(modes))
	}
}

// TestBillOfMaterials describes this test's own program.
func TestBillOfMaterials(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil || len(info.Deps) == 0 {
		t.Fatalf("the program of the test lists no modules: %v", err)
	}
	r := sample(t)
	r.modules[standardLibrary] = &module{licences: []string{"BSD-3-Clause"}}
	if _, err := r.billOfMaterials(program); err == nil || !strings.Contains(err.Error(), info.Deps[0].Path) {
		t.Errorf("a module without a known licence: %v", err)
	}
	for _, dependency := range info.Deps {
		r.modules[dependency.Path] = &module{licences: []string{"MIT", "Zlib"}}
	}
	first, err := r.billOfMaterials(program)
	second, err2 := r.billOfMaterials(program)
	if err != nil || err2 != nil || !bytes.Equal(first, second) {
		t.Fatalf("two lists of one program differ (%v, %v)", err, err2)
	}
	var bom struct {
		BOMFormat, SerialNumber string
		Metadata                struct{ Timestamp string }
		Components              []struct{ Purl string }
	}
	if err := json.Unmarshal(first, &bom); err != nil || bom.BOMFormat != "CycloneDX" ||
		bom.Metadata.Timestamp != "2001-02-03T12:00:01Z" || len(bom.Components) != len(info.Deps)+1 {
		t.Errorf("the list is %+v (%v)", bom, err)
	}
	if want := "pkg:golang/" + info.Deps[0].Path + "@" + info.Deps[0].Version; !bytes.Contains(first, []byte(want)) {
		t.Errorf("the list lacks %s", want)
	}
}

func TestReplaceFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "letters")
	if err := writeFolder(foreign, map[string][]byte{"private.txt": nil}); err != nil {
		t.Fatal(err)
	}
	err := replaceFolder(foreign, map[string][]byte{sumsFile: nil})
	if err == nil || !strings.Contains(err.Error(), "is not of a release") {
		t.Errorf("a folder with other files is replaced: %v", err)
	}
	dist := filepath.Join(dir, "dist")
	for _, name := range []string{"old.deb", "new.deb"} {
		files := map[string][]byte{name: nil}
		files[sumsFile] = sums(files)
		if name == "old.deb" {
			files[signatureFile] = []byte("a signature, which a release without a key does not keep")
		}
		if err := replaceFolder(dist, files); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(dist)
	if err != nil || len(left) != 2 {
		t.Errorf("the folder has %v (%v)", left, err)
	}
	if err := writeFolder(dist, map[string][]byte{"private.txt": nil}); err != nil {
		t.Fatal(err)
	}
	if err := replaceFolder(dist, map[string][]byte{sumsFile: nil}); err == nil ||
		!strings.Contains(err.Error(), "private.txt") {
		t.Errorf("a release with another file beside it is replaced: %v", err)
	}
}

// TestSignedChecksums signs a release with a key of its own, and runs the command of
// docs/install.md that verifies it. The command refuses a file, checksums or a signature that
// are not those of the release.
func TestSignedChecksums(t *testing.T) {
	t.Parallel()
	signers, verify := documentedCheck(t)
	dir := t.TempDir()
	key, other := newKey(t, dir, "key"), newKey(t, dir, "other")
	made := map[string][]byte{"authgate.deb": []byte("a program"), "authgate.tar.gz": []byte("an archive")}
	made[sumsFile] = sums(made)
	if err := addSignature(made, key); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers = strings.Replace(signers, "ssh-ed25519 AAAA…", strings.TrimSpace(string(public)), 1)
	made["authgate.signers"] = []byte(signers)

	accepted := func(change func(files map[string][]byte)) error {
		t.Helper()
		folder, files := t.TempDir(), maps.Clone(made)
		change(files)
		if err := writeFolder(folder, files); err != nil {
			t.Fatal(err)
		}
		sh := exec.CommandContext(t.Context(), "sh", "-c", verify)
		sh.Dir = folder
		out, err := sh.CombinedOutput()
		t.Logf("%v\n%s", err, out)
		return err
	}
	if err := accepted(func(map[string][]byte) {}); err != nil {
		t.Errorf("the release is refused: %v", err)
	}
	if err := accepted(func(files map[string][]byte) { delete(files, "authgate.tar.gz") }); err != nil {
		t.Errorf("one file of the release is refused: %v", err)
	}
	for what, change := range map[string]func(files map[string][]byte){
		"a changed byte of a file": func(files map[string][]byte) { files["authgate.deb"] = []byte("b program") },
		"no file": func(files map[string][]byte) {
			delete(files, "authgate.deb")
			delete(files, "authgate.tar.gz")
		},
		"a changed byte of a checksum": func(files map[string][]byte) {
			files[sumsFile] = append([]byte("0"), files[sumsFile][1:]...)
		},
		"a file and its new checksum": func(files map[string][]byte) {
			files["authgate.deb"] = []byte("b program")
			files[sumsFile] = sums(map[string][]byte{"authgate.deb": files["authgate.deb"]})
		},
		"no signature": func(files map[string][]byte) { delete(files, signatureFile) },
		"the signature of another key": func(files map[string][]byte) {
			if err := addSignature(files, other); err != nil {
				t.Fatal(err)
			}
		},
		"a signature for another purpose": func(files map[string][]byte) {
			path := filepath.Join(t.TempDir(), sumsFile)
			if err := os.WriteFile(path, files[sumsFile], 0o600); err != nil {
				t.Fatal(err)
			}
			command(t, "ssh-keygen", "-Y", "sign", "-n", "file", "-f", key, path)
			if files[signatureFile], err = os.ReadFile(path + ".sig"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if err := accepted(change); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if err := addSignature(made, filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a key that is not there: %v", err)
	}
}

// documentedCheck returns what docs/install.md shows about signatures: the file of signers, and
// the command that verifies.
func documentedCheck(t *testing.T) (signers, verify string) {
	t.Helper()
	page, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```(.*?)\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		switch {
		case block[1] == "text authgate.signers":
			signers = block[2]
		case strings.Contains(block[2], "ssh-keygen -Y verify"):
			verify = block[2]
		}
	}
	if signers == "" || verify == "" {
		t.Fatal("docs/install.md does not say how to verify a signature")
	}
	return signers, verify
}

// newKey makes a key without a passphrase.
func newKey(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", path)
	return path
}
