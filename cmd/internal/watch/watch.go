// Package watch tells when files may have changed.
//
// It watches the folders of files, not the files: a file that an editor or a
// program replaces by renaming is another file, and a watch of the old one would
// see nothing. It watches every symbolic link on the way to a file too, because
// Kubernetes changes mounted files by turning a link of their folder.
//
// A notice is a reason to look, not a proof of a change. Some file systems, like
// those of networks, send no notices at all, so that users look from time to time
// anyway.
package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// maxLinks is how many symbolic links lead to a file at most, as in Linux.
const maxLinks = 40

// Watcher tells when files may have changed.
type Watcher struct {
	notices chan struct{}
	events  *fsnotify.Watcher
	done    chan struct{}

	mu      sync.Mutex
	files   []string
	names   map[string]bool        // paths whose events count
	folders map[string]fs.FileInfo // that are watched
}

// New returns a Watcher of no file. It fails if the system has no more watches to
// give.
func New() (*Watcher, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		notices: make(chan struct{}, 1), events: events, done: make(chan struct{}),
		names: map[string]bool{}, folders: map[string]fs.FileInfo{},
	}
	go w.run()
	return w, nil
}

// Notices returns the channel that has a value after each change.
func (w *Watcher) Notices() <-chan struct{} { return w.notices }

// Close ends the watch.
func (w *Watcher) Close() error {
	err := w.events.Close()
	<-w.done
	return err
}

// Watch replaces the files that are watched. Missing files are watched too, and patterns of
// filepath.Match. Files
// in folders that cannot be watched are left out, and the error tells why for one of
// these folders.
func (w *Watcher) Watch(files []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append([]string(nil), files...)
	return w.follow()
}

// follow watches the folders on the way to each file as they are now.
func (w *Watcher) follow() error {
	names, folders := map[string]bool{}, map[string]bool{}
	for _, file := range w.files {
		for _, name := range way(file) {
			names[name], folders[filepath.Dir(name)] = true, true
		}
	}
	w.names = names
	for folder, before := range w.folders {
		now, err := os.Stat(folder)
		if !folders[folder] || err != nil || !os.SameFile(before, now) {
			_ = w.events.Remove(folder) // it may be gone
			delete(w.folders, folder)
		}
	}
	var failed error
	for folder := range folders {
		if w.folders[folder] != nil {
			continue
		}
		info, err := os.Stat(folder)
		if err == nil {
			err = w.events.Add(folder)
		}
		if err != nil {
			failed = err
			continue
		}
		w.folders[folder] = info
	}
	return failed
}

// run turns events into notices.
func (w *Watcher) run() {
	defer close(w.done)
	for {
		select {
		case event, ok := <-w.events.Events:
			if !ok {
				return
			}
			if !w.counts(event.Name) {
				continue
			}
		case _, ok := <-w.events.Errors: // events may be lost
			if !ok {
				return
			}
		}
		select {
		case w.notices <- struct{}{}:
		default:
		}
	}
}

// counts reports whether an event of this path can be a change, and watches the
// files where they are now.
func (w *Watcher) counts(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	path = filepath.Clean(path)
	if !w.names[path] && w.folders[path] == nil && !w.matches(path) {
		return false
	}
	_ = w.follow() // users who look anyway see files that cannot be watched now
	return true
}

// matches reports whether a path is one of a pattern that is watched.
func (w *Watcher) matches(path string) bool {
	for name := range w.names {
		if is, _ := filepath.Match(name, path); is {
			return true
		}
	}
	return false
}

// way returns the paths that lead to a file: each symbolic link on the way, and
// the file itself, or the first part of the way that is missing. The folder of
// each is free of links.
func way(file string) []string {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil
	}
	volume := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest, links := volume, strings.TrimPrefix(path, volume), 0
	var all []string
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, string(filepath.Separator))
		if part == "" || part == "." {
			continue
		}
		next := filepath.Join(at, part) // ".." leads up, because at has no links
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return append(all, next)
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		all = append(all, next)
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return all
		}
		if filepath.IsAbs(target) {
			at, target = volume, strings.TrimPrefix(target, volume)
		}
		rest = target + string(filepath.Separator) + rest // not Join: ".." leads up from where a link leads
	}
	return append(all, at)
}
