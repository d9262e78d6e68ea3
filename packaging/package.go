package main

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // likewise
)

const (
	etc          = "/etc/authgate/"
	documents    = "/usr/share/doc/authgate/"
	installed    = "/usr/bin/authgate"
	unitFolder   = "docs/deploy/systemd/"
	unitFile     = unitFolder + "authgate.service"
	sysusersFile = unitFolder + "sysusers.conf"
	group        = "authgate" // may read the configuration
	maintainer   = "authgate maintainers <packages@authgate.invalid>"
	description  = "auth gateway: a reverse proxy that adds sign-in to applications\n" +
		"It authenticates each request, checks it against a policy, and forwards it with\n" +
		"an identity that the application can trust: HTTP Basic, sessions, bearer tokens\n" +
		"and sign-in at an OpenID Connect provider."
)

// pack returns the name and the content of a package of the format deb or rpm.
func (r *release) pack(format, arch string, program []byte) (string, []byte, error) {
	stage, err := os.MkdirTemp("", "authgate-package-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(stage)
	contents, err := r.stage(stage, format, program)
	if err != nil {
		return "", nil, err
	}
	info := &nfpm.Info{
		Name: "authgate", Arch: arch, Platform: "linux", Version: r.number, VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: maintainer, Description: description, License: "Apache-2.0",
		DisableGlobbing: true, MTime: r.time,
	}
	info.Contents = contents
	info.Recommends = []string{"ca-certificates"} // of providers, upstreams and ACME
	info.Deb.Compression = "xz"
	info.RPM.Compression, info.RPM.BuildHost = "xz", "localhost"
	info.RPM.Group = "System Environment/Daemons"
	if format == "rpm" {
		info.Depends = []string{"/bin/sh", "findutils"} // of the scripts
	}
	info.Scripts, err = r.writeScripts(stage, format)
	if err != nil {
		return "", nil, err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", nil, err
	}
	info = nfpm.WithDefaults(info)
	var out bytes.Buffer
	err = packager.Package(info, &out)
	return packager.ConventionalFileName(info), out.Bytes(), err
}

// stage writes the files of a package into a folder, and says where each belongs.
func (r *release) stage(folder, format string, program []byte) (files.Contents, error) {
	unit, err := packagedUnit(r.texts.find(unitFile))
	if err != nil {
		return nil, err
	}
	const units = "/usr/lib/systemd/system/"
	all := tree{
		{name: installed, content: program, mode: 0o755},
		{name: units + "authgate.service", content: unit, mode: 0o644},
		{name: units + "authgate.socket", content: r.texts.find(unitFolder + "authgate.socket"), mode: 0o644},
		{name: units + "authgate-http.socket", content: r.texts.find(unitFolder + "authgate-http.socket"), mode: 0o644},
		{name: "/usr/lib/sysusers.d/authgate.conf", content: r.texts.find(sysusersFile), mode: 0o644},
		{name: etc + "config.yaml", content: r.texts.find("examples/config.yaml"), mode: 0o640},
		{name: etc + "accounts.yaml", content: r.texts.find("examples/accounts.yaml"), mode: 0o640},
	}
	bans, err := readBans()
	if err != nil {
		return nil, err
	}
	all = append(all, bans...)
	for _, f := range r.texts {
		if f.name = place(f.name, format); strings.HasSuffix(f.name, ".gz") {
			f.content = gzipped(f.content)
		}
		if f.name != "" {
			all = append(all, f)
		}
	}
	owner := "root"
	if format == "rpm" {
		owner = group // Debian's postinst does it, because dpkg unpacks before the group exists
	}
	contents := files.Contents{{
		Destination: path.Clean(etc), Type: files.TypeDir,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: owner, Mode: 0o750, MTime: r.time},
	}}
	for _, f := range all {
		source := filepath.Join(folder, "root", filepath.FromSlash(f.name))
		if err := writeFolder(filepath.Dir(source), map[string][]byte{filepath.Base(source): f.content}); err != nil {
			return nil, err
		}
		one := &files.Content{
			Source: source, Destination: f.name,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time},
		}
		if strings.HasPrefix(f.name, etc) {
			one.FileInfo.Group = owner
		}
		if strings.HasPrefix(f.name, "/etc/") {
			one.Type = files.TypeConfigNoReplace
		}
		contents = append(contents, one)
	}
	return contents, nil
}

// readBans returns the files for fail2ban and CrowdSec.
func readBans() (all tree, err error) {
	err = fs.WalkDir(examples, "etc", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Dir(name) == "etc" {
			return err
		}
		content, err := examples.ReadFile(name)
		all = append(all, file{name: "/" + name, content: content, mode: 0o644})
		return err
	})
	return all, err
}

// place returns where a file of an archive belongs in a package, "" if nowhere.
func place(name, format string) string {
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}
	switch {
	case name == completions["bash"]:
		return "/usr/share/bash-completion/completions/authgate"
	case name == completions["fish"]:
		return "/usr/share/fish/vendor_completions.d/authgate.fish"
	case name == completions["zsh"]:
		return "/usr/share/zsh/" + zsh[format] + "/_authgate"
	case name == completions["powershell"]:
		return ""
	case strings.HasPrefix(name, "man/"):
		return "/usr/share/" + name + ".gz"
	case name == "CHANGELOG.md":
		return documents + "changelog.gz"
	case name == "LICENSE" && format == "deb":
		return documents + "copyright"
	}
	return documents + name
}

// packagedUnit is the unit of the deployment example for a package: the program is
// elsewhere, and the gateway generates its keys in its state directory.
func packagedUnit(unit []byte) ([]byte, error) {
	const from = "/usr/local/bin/authgate "
	var out bytes.Buffer
	for line := range bytes.Lines(unit) {
		if !bytes.HasPrefix(line, []byte("LoadCredential=")) {
			out.Write(bytes.ReplaceAll(line, []byte(from), []byte(installed+" ")))
		}
	}
	if !bytes.Contains(unit, []byte(from)) || bytes.Contains(out.Bytes(), []byte("/usr/local")) {
		return nil, fmt.Errorf("%s does not run the program as %s", unitFile, strings.TrimSpace(from))
	}
	return out.Bytes(), nil
}

//go:embed scripts
var scripts embed.FS

// writeScripts writes what runs when a package is installed or removed.
func (r *release) writeScripts(folder, format string) (nfpm.Scripts, error) {
	shared, err := scripts.ReadFile("scripts/shared.sh")
	if err != nil {
		return nfpm.Scripts{}, err
	}
	sysusers := strings.TrimSpace(string(r.texts.find(sysusersFile)))
	shared = bytes.ReplaceAll(shared, []byte("@SYSUSERS@"), []byte(sysusers))
	var paths nfpm.Scripts
	for name, to := range map[string]*string{
		"preinstall": &paths.PreInstall, "postinstall": &paths.PostInstall,
		"preremove": &paths.PreRemove, "postremove": &paths.PostRemove,
	} {
		own, err := scripts.ReadFile("scripts/" + format + "/" + name + ".sh")
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return paths, err
		}
		script := append([]byte("#!/bin/sh\nset -e\n"), own...)
		if bytes.Contains(own, []byte("add_user")) || bytes.Contains(own, []byte("refresh")) {
			script = append(append([]byte("#!/bin/sh\nset -e\n\n"), shared...), own...)
		}
		*to = filepath.Join(folder, name)
		if err := os.WriteFile(*to, script, 0o755); err != nil {
			return paths, err
		}
	}
	return paths, nil
}
