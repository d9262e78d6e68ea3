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
	path    string
	real    string // path, absolute and without symbolic links
	mode    fs.FileMode
	what    string // the access of others
	command string // that mends it, for a shell
}

// The access of others to an exposed path.
const (
	canReadSecrets    = "other users of this machine can read or change secrets"
	canChange         = "other users of this machine can change the configuration"
	canReplace        = "other users of this machine can replace files of the configuration"
	closedForSecrets  = "chmod g-w,o-rwx "
	closedForOthers   = "chmod go-w "
	publicCertificate = "ca.pem" // the public file in data_dir
)

// warnOfExposure warns about secrets that others can read or change, and about files
// that they can change.
func (a *App) warnOfExposure(cfg *config.Config) {
	for _, e := range exposed(cfg) {
		a.logger.Warn(e.what, "path", e.path, "mode", fmt.Sprintf("%04o", e.mode), "command", e.command)
	}
}

// String returns the exposure as one line.
func (e exposure) String() string {
	return fmt.Sprintf("%s: %s; its mode is %04o: %s", e.path, e.what, e.mode, e.command)
}

// exposed returns the paths that others can read or change, as far as the
// configuration depends on that.
func exposed(cfg *config.Config) []exposure {
	if runtime.GOOS == "windows" { // file modes mean nothing there
		return nil
	}
	all := exposedSecrets(cfg)
	paths := slices.Concat([]string{cfg.Path(), cfg.DataDir}, cfg.Parts(), cfg.SideFiles(), cfg.NamedFiles())
	for _, path := range paths {
		for _, e := range changeable(path) {
			if !slices.ContainsFunc(all, func(known exposure) bool { return known.real == e.real }) {
				all = append(all, e)
			}
		}
	}
	return all
}

// exposedSecrets returns those of data_dir, of the files in it, and of the files of the
// configuration, and beside it, with secrets or password hashes.
func exposedSecrets(cfg *config.Config) []exposure {
	public := cfg.PublicFiles()
	paths := append([]string{cfg.DataDir}, slices.DeleteFunc(cfg.SideFiles(),
		func(path string) bool { return slices.Contains(public, path) })...)
	entries, err := os.ReadDir(cfg.DataDir)
	if err == nil {
		for _, entry := range entries {
			if entry.Type().IsRegular() && entry.Name() != publicCertificate {
				paths = append(paths, filepath.Join(cfg.DataDir, entry.Name()))
			}
		}
	}
	own := cfg.SecretFiles()
	var all []exposure
	for _, path := range append(own, paths...) {
		info, err := os.Stat(path)
		if err != nil { // a missing file is reported elsewhere
			continue
		}
		which := groupWrite
		switch open := reachable(path); {
		case open:
			which = othersOrGroupWrite
		case slices.Contains(own, path):
			continue // changeable finds it, if others can change it
		}
		if mode := info.Mode().Perm(); mode&which != 0 {
			_, real := walk(path)
			all = append(all, exposure{path, real, mode, canReadSecrets, closedForSecrets + shellQuoted(path)})
		}
	}
	return all
}

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

// changeable returns the modes that let others change the file at path: the mode of the
// file, or that of a folder on the way to it, also behind symbolic links. As for the
// files of ssh, write access of any group counts. A folder above that is closed does
// not help: its mode is changed for another reason one day.
func changeable(path string) []exposure {
	const write fs.FileMode = 0o022
	folders, file := walk(path)
	if file == "" {
		return nil
	}
	var all []exposure
	for _, place := range append(folders, file) {
		info, err := os.Stat(place)
		if err != nil || info.Mode().Perm()&write == 0 || readOnly(place) {
			continue
		}
		what := canChange
		if info.IsDir() {
			if what = canReplace; info.Mode()&fs.ModeSticky != 0 {
				continue // as in /tmp, nobody replaces files of others
			}
		}
		all = append(all, exposure{place, place, info.Mode().Perm(), what, closedForOthers + shellQuoted(place)})
	}
	return all
}

// maxLinks is how many symbolic links the way to a file may have.
const maxLinks = 40

// walk returns the folders on the way to a file, from the root on, and the file, all
// absolute and without symbolic links. file is empty if there is none.
func walk(path string) (folders []string, file string) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, ""
	}
	const separator = string(filepath.Separator)
	root := filepath.VolumeName(absolute) + separator
	at, left, links := root, strings.TrimPrefix(absolute, root), 0
	for left != "" {
		var name string
		if name, left, _ = strings.Cut(left, separator); name == "" || name == "." {
			continue
		}
		if !slices.Contains(folders, at) {
			folders = append(folders, at)
		}
		next := filepath.Join(at, name) // ".." leads up, because at has no links
		info, err := os.Lstat(next)
		if err != nil {
			return nil, ""
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return nil, ""
		}
		if filepath.IsAbs(target) {
			at, target = root, strings.TrimPrefix(target, root)
		}
		left = target + separator + left
	}
	return folders, at
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
