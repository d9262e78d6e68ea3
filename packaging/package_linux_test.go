package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDebianPackage reads a package as Debian does. `make packages` installs one.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "authgate.deb")
	if err := os.WriteFile(name, madeOnce(t)["authgate_1.2.3_arm64.deb"], 0o600); err != nil {
		t.Fatal(err)
	}
	files := command(t, "dpkg-deb", "--contents", name)
	for path, mode := range map[string]string{
		installed: "-rwxr-xr-x", etc: "drwxr-x---", etc + "config.yaml": "-rw-r-----",
		etc + "accounts.yaml": "-rw-r-----", "/usr/lib/systemd/system/authgate.service": "-rw-r--r--",
		"/usr/lib/systemd/system/authgate.socket":      "-rw-r--r--",
		"/usr/lib/systemd/system/authgate-http.socket": "-rw-r--r--",
		"/usr/lib/sysusers.d/authgate.conf":            "-rw-r--r--", "/usr/share/man/man1/authgate.1.gz": "-rw-r--r--",
		"/usr/share/bash-completion/completions/authgate": "-rw-r--r--", documents + "copyright": "-rw-r--r--",
		"/usr/share/zsh/vendor-completions/_authgate": "-rw-r--r--", documents + thirdParty: "-rw-r--r--",
		"/usr/share/fish/vendor_completions.d/authgate.fish": "-rw-r--r--", documents + "changelog.gz": "-rw-r--r--",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(mode) + ` root/root .* 2001-02-03 [0-9:]+ \.` +
			regexp.QuoteMeta(path) + `$`).MatchString(files) {
			t.Errorf("the package has no %s with %s:\n%s", path, mode, files)
		}
	}
	if strings.Contains(files, ".ps1") {
		t.Error("the package has completions for PowerShell")
	}
	for member, want := range map[string]string{
		"conffiles": etc + "accounts.yaml\n" + etc + "config.yaml\n", "control": "\nVersion: 1.2.3\n",
	} {
		if got := command(t, "dpkg-deb", "--info", name, member); !strings.Contains("\n"+got, want) {
			t.Errorf("%s is:\n%s", member, got)
		}
	}
}

// TestPackageScripts checks the scripts of packages for syntax, and that each has the
// functions that it calls.
func TestPackageScripts(t *testing.T) {
	t.Parallel()
	for format, count := range map[string]int{"deb": 3, "rpm": 4} {
		dir := t.TempDir()
		if _, err := sample(t).writeScripts(dir, format); err != nil {
			t.Fatal(err)
		}
		written, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(written) != count {
			t.Errorf("%s has the scripts %q (%v)", format, written, err)
		}
		for _, path := range written {
			command(t, "sh", "-n", path)
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, function := range []string{"add_user", "refresh", "restart", "welcome"} {
				called := regexp.MustCompile(`(?m)^\s*` + function + `$`).Match(script)
				if called && !strings.Contains(string(script), "\n"+function+"() {") {
					t.Errorf("%s of %s calls %s, which it does not have", filepath.Base(path), format, function)
				}
			}
			if strings.Contains(string(script), "@SYSUSERS@") {
				t.Errorf("%s of %s does not know the user", filepath.Base(path), format)
			}
		}
	}
}

// TestPackagedUnit checks the units of packages with systemd-analyze. The program is
// not installed here.
func TestPackagedUnit(t *testing.T) {
	t.Parallel()
	unit, err := packagedUnit(sample(t).texts.find(unitFile))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(unit); !strings.Contains(text, "ExecStart=/usr/bin/authgate serve ") ||
		strings.Contains(text, "LoadCredential=") {
		t.Errorf("the unit is:\n%s", text)
	}
	if _, err := packagedUnit([]byte("ExecStart=/opt/authgate serve\n")); err == nil {
		t.Error("a unit that runs another program is accepted")
	}
	file := filepath.Join(t.TempDir(), "authgate.service")
	verify := []string{"verify", "--man=no", file}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(unit), installed, "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"authgate.socket", "authgate-http.socket"} {
		verify = append(verify, filepath.Join(filepath.Dir(file), name))
		if err := os.WriteFile(verify[len(verify)-1], sample(t).texts.find(unitFolder+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := command(t, "systemd-analyze", verify...); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	command(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=16", file)
}

// TestRestartAsUser checks that an upgrade runs nothing as root that the environment of the
// gateway chooses, because who takes over the gateway can write it, and that no argument of a
// program has a value from there, because every user of the machine sees those.
func TestRestartAsUser(t *testing.T) {
	t.Parallel()
	shared, err := os.ReadFile("scripts/shared.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tool := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	evil := tool("evil", "touch "+dir+"/taken")
	gateway := exec.Command("sleep", "60")
	const odd = "it's \"$(touch taken)\" `touch taken` a=b\n\\ 'c'\n#"
	gateway.Env = []string{evil, "-S" + evil, "PORT=8443", "EMPTY=", "SECRET=" + odd}
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = gateway.Process.Kill(), gateway.Wait() }()
	for environment := fmt.Sprintf("/proc/%d/environ", gateway.Process.Pid); ; { // it appears a moment after the start
		if all, err := os.ReadFile(environment); err != nil {
			t.Fatal(err)
		} else if len(all) > 0 {
			break
		}
	}
	tool("systemctl", fmt.Sprintf("[ \"$1\" != show ] || echo %d", gateway.Process.Pid))
	tool("deb-systemd-invoke", "echo invoked $*")
	// Programs below runuser are those of the user. It begins them like the real one, without becoming the user.
	tool("runuser", "echo $* >"+dir+"/asked\nshift 3\nexec \"$@\"")
	validate := tool("authgate", "echo $* >"+dir+"/arguments\nenv -0 >"+dir+"/environment")
	script := strings.NewReplacer("/run/systemd/system", dir, "/usr/bin/authgate", validate).Replace(string(shared))
	restart := exec.Command("sh", "-eu", "-c", script+"\nrestart")
	restart.Dir = dir
	restart.Env = []string{"PATH=" + dir + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := restart.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "invoked restart authgate.service" {
		t.Errorf("the upgrade prints %q (%v)", out, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "taken")); err == nil {
		t.Error("root ran a program that the environment of the gateway named")
	}
	for file, want := range map[string]string{
		"asked": "-u authgate -- env -i /bin/sh\n", "arguments": "validate --config /etc/authgate/config.yaml\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q (%v), want %q", file, got, err, want)
		}
	}
	environment, err := os.ReadFile(filepath.Join(dir, "environment"))
	for _, want := range []string{"PORT=8443", "EMPTY=", "SECRET=" + odd} {
		if !strings.Contains("\x00"+string(environment), "\x00"+want+"\x00") {
			t.Errorf("the new version has the environment %q (%v), want %q there", environment, err, want)
		}
	}
}
