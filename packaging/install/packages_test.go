package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDebianPackage installs the .deb, runs the gateway as its unit does, upgrades,
// removes and purges it.
func TestDebianPackage(t *testing.T) {
	d := newDebian(t)
	file := packageFile(t, "deb")
	if out := d.dpkg("--install", file); !strings.Contains(out, "edit /etc/authgate/config.yaml") {
		t.Errorf("the installation does not say what to do first:\n%s", out)
	}
	checkInstalled(d)
	if out := d.run("authgate", "validate", "--config", config); !strings.Contains(out, config+" is valid") {
		t.Errorf("validate prints %s", out)
	}
	d.has(true, "/usr/share/doc/authgate/copyright", "/usr/share/zsh/vendor-completions/_authgate")
	if out := d.dpkg("--verify", "authgate"); out != "" {
		t.Errorf("dpkg --verify: %s", out)
	}

	start(d).protects()
	upgrade(d, file)

	d.dpkg("--remove", "authgate")
	d.has(false, "/usr/bin/authgate", unitFile)
	d.has(true, config, accounts, data+"/authgate.db")
	d.run("install", "-D", "/dev/null",
		"/etc/systemd/system/multi-user.target.wants/authgate.service") // as systemctl enable does
	d.dpkg("--purge", "authgate")
	d.has(false, "/etc/authgate", data, "/etc/systemd/system/multi-user.target.wants/authgate.service")
	d.run("getent", "passwd", "authgate") // the user stays
}

// checkInstalled checks files, owners and the user of a fresh package.
func checkInstalled(d *debian) {
	d.t.Helper()
	for path, want := range map[string]string{
		"/usr/bin/authgate": "root:root 755", "/etc/authgate": "root:authgate 750",
		config: "root:authgate 640", accounts: "root:authgate 640",
		unitFile: "root:root 644", "/usr/lib/sysusers.d/authgate.conf": "root:root 644",
	} {
		d.owned(path, want)
	}
	if out := d.run("getent", "passwd", "authgate"); !strings.Contains(out, ":/var/lib/authgate:/") ||
		!strings.Contains(out, "/nologin\n") {
		d.t.Errorf("the user is %s", out)
	}
	if out := d.run("authgate", "version"); !strings.HasPrefix(out, "authgate ") {
		d.t.Errorf("the program prints %s", out)
	}
	d.has(true, "/usr/share/fish/vendor_completions.d/authgate.fish",
		"/usr/share/doc/authgate/THIRD-PARTY-LICENSES.txt", "/usr/share/doc/authgate/docs/configuration.md")
	d.run("bash", "-n", "/usr/share/bash-completion/completions/authgate")
	if out := d.run("zcat", "/usr/share/man/man1/authgate-serve.1.gz"); !strings.Contains(out, "authgate-serve") {
		d.t.Errorf("the man page is %s", out)
	}
	d.checkUnit()
}

// upgrade installs a later package with another configuration. The user's files
// stay. The gateway, which runs, is restarted if its configuration is accepted.
func upgrade(d *debian, file string) {
	d.t.Helper()
	d.pretendSystemd()
	d.change(config, "https://localhost", "${SCHEME}://localhost") // a variable that only the running gateway has
	mine, users := d.read(config), d.read(accounts)
	out := d.dpkg("--install", "--force-confold", later(d.t, file, "+1"))
	if calls := d.read("/systemctl.log"); !strings.Contains(calls, "daemon-reload\n") ||
		!strings.Contains(calls, "restart authgate.service\n") {
		d.t.Errorf("the upgrade does not restart the gateway; systemctl was called with\n%s\n%s", calls, out)
	}
	if d.read(config) != mine || d.read(accounts) != users {
		d.t.Errorf("the upgrade changes the configuration:\n%s%s", d.read(config), d.read(accounts))
	}
	d.has(true, config+".dpkg-dist")
	d.owned(config, "root:authgate 640")

	d.run("rm", "/systemctl.log")
	d.change(config, "policy: staff", "policy: unknown")
	out = d.dpkg("--install", "--force-confold", later(d.t, file, "+2"))
	if calls := d.read("/systemctl.log"); strings.Contains(calls, "restart authgate.service\n") ||
		!strings.Contains(out, "was not restarted") {
		d.t.Errorf("a configuration that is refused: systemctl was called with\n%s\n%s", calls, out)
	}
	d.run("rm", "-r", "/run/systemd/system")
}

// pretendSystemd gives the scripts of packages a systemctl that writes down how it is
// called, and a gateway that runs as process 4242.
func (d *debian) pretendSystemd() {
	d.write("/run/systemd/system/.keep", "", 0o644)
	d.write("/proc/4242/environ", "SCHEME=https\x00", 0o600)
	d.write("/usr/bin/systemctl", "#!/bin/sh\necho \"$@\" >>/systemctl.log\ncase $1 in show) echo 4242 ;; esac\n", 0o755)
}

// later returns a package with a higher version and another config.yaml.
func later(t *testing.T, file, suffix string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "package")
	run(t, exec.Command("dpkg-deb", "--raw-extract", file, dir))
	for path, change := range map[string][2]string{
		"DEBIAN/control": {"\nVersion: ", "\nVersion: 1:" /* an epoch: later than any */},
		config:           {"# The configuration", "# Changed" + suffix + ". The configuration"},
	} {
		text := read(t, filepath.Join(dir, path))
		if path == "DEBIAN/control" {
			change[1] += strings.TrimPrefix(suffix, "+") + "."
		}
		if !strings.Contains(text, change[0]) {
			t.Fatalf("%s is %s", path, text)
		}
		if err := os.WriteFile(filepath.Join(dir, path),
			[]byte(strings.Replace(text, change[0], change[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	made := filepath.Join(t.TempDir(), "later.deb")
	run(t, exec.Command("dpkg-deb", "--root-owner-group", "-Znone", "--build", dir, made))
	return made
}

// TestRPMPackage reads the .rpm, installs it into a Debian that has systemd's programs,
// runs the gateway as its unit does, and removes it.
func TestRPMPackage(t *testing.T) {
	file := packageFile(t, "rpm")
	about := run(t, exec.Command("rpm", "--query", "--package", "--queryformat",
		"%{NAME} %{LICENSE} %{OS} %{BUILDHOST} %{PAYLOADCOMPRESSOR}", file))
	if about != "authgate Apache-2.0 linux localhost xz" {
		t.Errorf("the package is %s", about)
	}
	if out := run(t, exec.Command("rpm", "--checksig", "--nosignature", file)); !strings.Contains(out, "digests OK") {
		t.Errorf("rpm --checksig: %s", out)
	}
	if out := run(t, exec.Command("rpm", "--query", "--package",
		"--configfiles", file)); out != accounts+"\n"+config+"\n" {
		t.Errorf("the files of the configuration are %s", out)
	}
	d := newDebian(t, "systemd")
	rpm := func(args ...string) string {
		return run(t, exec.Command("rpm", append([]string{"--root=" + d.root}, args...)...))
	}
	rpm("--install", "--nodeps", file)
	checkInstalled(d)
	d.has(true, "/usr/share/zsh/site-functions/_authgate")
	if out := rpm("--verify", "--nodeps", "authgate"); out != "" {
		t.Errorf("rpm --verify: %s", out)
	}
	start(d).protects()
	rpm("--erase", "--nodeps", "authgate")
	d.has(false, "/usr/bin/authgate", unitFile)
	d.has(true, config+".rpmsave", data+"/authgate.db")
}
