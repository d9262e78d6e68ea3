package app

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"authgate/gateway/config"
)

// Others must not read or change data_dir and secrets. The group can read them,
// which is a common way to give files to a service, but must not change them.
const (
	othersOrGroupWrite fs.FileMode = 0o027
	groupWrite         fs.FileMode = 0o020
)

// exposure is a path that others can read or change.
type exposure struct {
	path string
	mode fs.FileMode
}

// warnOfExposure warns about secrets that others can read or change.
func (a *App) warnOfExposure(cfg *config.Config) {
	if runtime.GOOS == "windows" { // file modes mean nothing there
		return
	}
	for _, e := range exposed(cfg) {
		a.logger.Warn("other users of this machine can read or change secrets",
			"path", e.path, "mode", fmt.Sprintf("%04o", e.mode), "command", "chmod g-w,o-rwx "+shellQuoted(e.path))
	}
}

// exposed returns the paths that others can read or change, of data_dir, the files
// in it, and the files beside the configuration with secrets or password hashes.
func exposed(cfg *config.Config) []exposure {
	public := cfg.PublicFiles()
	paths := append([]string{cfg.DataDir}, slices.DeleteFunc(cfg.SideFiles(), func(path string) bool { return slices.Contains(public, path) })...)
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
		if err != nil { // a missing file is reported elsewhere
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

// publicCertificate is the public file in data_dir.
const publicCertificate = "ca.pem"

// reachable reports whether others can enter the folder of path. On an error it
// returns true.
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

// shellQuoted quotes a path for the shell.
func shellQuoted(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-", r)
	}
	if !strings.HasPrefix(path, "-") && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "-- '" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
