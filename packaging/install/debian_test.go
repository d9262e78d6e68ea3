package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// debian is a minimal Debian in a folder, without a running systemd before boot.
type debian struct {
	t    *testing.T
	root string
	pid  string // of its systemd; empty: there is none
}

// newDebian makes a Debian of the release of this machine, with more packages.
func newDebian(t *testing.T, more ...string) *debian {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("a package can be installed by root alone; run make packages as root")
	}
	suite := regexp.MustCompile(`(?m)^VERSION_CODENAME=(.*)$`).
		FindStringSubmatch(read(t, "/etc/os-release") + "\nVERSION_CODENAME=stable")[1]
	d := &debian{t: t, root: filepath.Join(t.TempDir(), "debian")}
	args := []string{"--mode=root", "--variant=minbase", "--quiet"}
	for _, name := range more {
		args = append(args, "--include="+name)
	}
	run(t, exec.Command("mmdebstrap", append(args, suite, d.root)...))
	return d
}

// command returns a command of this Debian.
func (d *debian) command(environment []string, name string, args ...string) *exec.Cmd {
	within := []string{"chroot", d.root}
	if d.pid != "" {
		within = []string{"nsenter", "--target=" + d.pid, "--mount", "--pid", "--cgroup", "--ipc", "--root", "--wd"}
	}
	args = append(append(within, name), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"},
		environment...)
	return cmd
}

// run runs a command of this Debian as root, and returns what it prints.
func (d *debian) run(name string, args ...string) string {
	d.t.Helper()
	return run(d.t, d.command(nil, name, args...))
}

// dpkg installs a package file, or does what the arguments say.
func (d *debian) dpkg(args ...string) string {
	d.t.Helper()
	for i, arg := range args {
		if strings.HasSuffix(arg, ".deb") {
			args[i] = "/" + filepath.Base(arg)
			d.write(args[i], read(d.t, arg), 0o644)
		}
	}
	return d.run("dpkg", args...)
}

func (d *debian) read(path string) string { d.t.Helper(); return read(d.t, d.root+path) }

func (d *debian) write(path, content string, mode fs.FileMode) {
	d.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(d.root+path), 0o755),
		os.WriteFile(d.root+path, []byte(content), mode)); err != nil {
		d.t.Fatal(err)
	}
}

// change replaces text in a file, which keeps its owner and mode.
func (d *debian) change(path string, oldnew ...string) {
	d.t.Helper()
	text := d.read(path)
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			d.t.Fatalf("%s has no %q:\n%s", path, oldnew[i], text)
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	d.write(path, text, 0)
}

// has checks which of the paths exist.
func (d *debian) has(want bool, paths ...string) {
	d.t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(d.root + path); (err == nil) != want {
			d.t.Errorf("%s exists: %v, expected %v", path, err == nil, want)
		}
	}
}

// owned checks owner, group and mode of a path.
func (d *debian) owned(path, want string) {
	d.t.Helper()
	if got := strings.TrimSpace(d.run("stat", "--format=%U:%G %a", path)); got != want {
		d.t.Errorf("%s is %s, expected %s", path, got, want)
	}
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", cmd.Args, err, out, problems.Bytes())
	}
	return string(out) + problems.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// packageFile returns the package of the release for this machine.
func packageFile(t *testing.T, format string) string {
	t.Helper()
	arch := map[string]string{
		"deb_amd64": "amd64", "deb_arm64": "arm64", "rpm_amd64": "x86_64", "rpm_arm64": "aarch64",
	}[format+"_"+runtime.GOARCH]
	found, err := filepath.Glob(fmt.Sprintf("../../dist/*%s.%s", arch, format))
	if err != nil || len(found) != 1 {
		t.Fatalf("dist has the packages %q for this machine (%v); run make dist first", found, err)
	}
	return found[0]
}
