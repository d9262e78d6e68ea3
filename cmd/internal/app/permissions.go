package app

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"authgate/gateway/config"
)

// What others may do with data_dir and with a secret: nothing. The group may
// read, which is how a service is commonly given files, and change nothing.
const (
	othersOrGroupWrite fs.FileMode = 0o027
	groupWrite         fs.FileMode = 0o020
)

// exposure is a path that others can get at.
type exposure struct {
	path string
	mode fs.FileMode
}

// warnOfExposure tells operators of secrets that others can read or change.
func (a *App) warnOfExposure(cfg *config.Config) {
	if runtime.GOOS == "windows" { // whose modes say nothing of that
		return
	}
	for _, e := range exposed(cfg) {
		a.logger.Warn("other users of this machine can get at secrets: close this to them",
			"path", e.path, "mode", fmt.Sprintf("%04o", e.mode), "command", "chmod g-w,o-rwx "+shellQuoted(e.path))
	}
}

// exposed finds what others can get at: data_dir, what is in it, and the files
// beside the configuration that hold secrets or hashes of passwords.
func exposed(cfg *config.Config) []exposure {
	paths := []string{cfg.DataDir, cfg.Token.PrivateKey}
	for _, path := range cfg.SideFiles() {
		if path != cfg.TLS.Certificate { // everybody gets that
			paths = append(paths, path)
		}
	}
	entries, err := os.ReadDir(cfg.DataDir)
	if err == nil {
		for _, entry := range entries {
			if entry.Type().IsRegular() && entry.Name() != publicCertificate {
				paths = append(paths, filepath.Join(cfg.DataDir, entry.Name()))
			}
		}
	}
	var all []exposure
	for _, path := range paths {
		info, err := os.Stat(path)
		if path == "" || err != nil { // a file that is missing is told of elsewhere
			continue
		}
		which := groupWrite
		if reachable(path) {
			which = othersOrGroupWrite
		}
		if info.Mode().Perm()&which != 0 {
			all = append(all, exposure{path, info.Mode().Perm()})
		}
	}
	return all
}

// publicCertificate is the file in data_dir that is for everybody.
const publicCertificate = "ca.pem"

// reachable reports whether others can enter the folder of path. What cannot be
// found out counts as yes.
func reachable(path string) bool {
	folder, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	for {
		parent := filepath.Dir(folder)
		if parent == folder {
			return true
		}
		if info, err := os.Stat(parent); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		folder = parent
	}
}

// shellQuoted returns a path as a word of the shell.
func shellQuoted(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if !strings.HasPrefix(path, "-") && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "-- '" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
