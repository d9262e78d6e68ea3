package app

import (
	"context"
	"errors"
	"os"
	"time"

	"authgate/cmd/internal/systemd"
	"authgate/cmd/internal/watch"
	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/config/changes"
)

const (
	// quiet is how long files must stay the same before they are read: a part of a
	// file that is being written can be valid.
	quiet = 250 * time.Millisecond
	// patience is how long files may go on changing before they are read all the same.
	// A disabled account must not stay because some file is never quiet.
	patience = 2 * time.Second
	// lookEvery is how often follow looks at the files without a notice. Some file
	// systems send none. It is also the pause between attempts that can succeed although
	// no file changes.
	lookEvery = 2 * time.Second
)

// fileWatch tells when files may have changed.
type fileWatch interface {
	// Watch replaces the files that are watched.
	Watch(files []string) error
	Notices() <-chan struct{}
}

// follower is the state of follow.
type follower struct {
	read        []config.File     // the main file and those that it names, as they were read last
	seen        []config.File     // as follow saw them last
	changedAt   time.Time         // when it saw a change last
	unreadSince time.Time         // when it saw the first change that is not read yet; zero: there is none
	refused     bool              // the last attempt failed
	retry       bool              // and is to be repeated, although no file changes
	noticed     bool              // there was a notice since
	logged      map[string]string // the failures that were logged since the last change, by the failed part
}

func newFollower(files []config.File) follower {
	return follower{read: files, seen: files, logged: map[string]string{}}
}

// watch returns the watch of the files, and its end.
func (a *App) watch() (fileWatch, func()) {
	w, err := watch.New()
	if err != nil {
		a.logger.Warn("the system sends no notices of changed files; the gateway looks at them instead",
			"every", lookEvery.String(), "error", err.Error())
		return noNotices{}, func() {}
	}
	return w, func() {
		if err := w.Close(); err != nil {
			a.logger.Warn("closing the watch of files", "error", err.Error())
		}
	}
}

// noNotices is a fileWatch that sees nothing.
type noNotices struct{}

func (noNotices) Watch([]string) error     { return nil }
func (noNotices) Notices() <-chan struct{} { return nil }

// follow applies changes until ctx ends: for each value from reload, when a command asks for
// it, and when the configuration or a file that it names has changed. Here systemd learns that
// the gateway is alive: one that applies no changes any more, such as the end of an account, must end.
func (a *App) follow(ctx context.Context, files fileWatch, reload <-chan os.Signal) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	settled := time.NewTimer(quiet)
	defer settled.Stop()
	alive := time.Tick(a.service.Watchdog / 2) // nil without a watchdog
	look := func() {
		if a.look() {
			settled.Reset(quiet)
		}
	}
	for a.aim(files); ctx.Err() == nil; a.aim(files) {
		select { // one at random, if several are ready
		case <-ctx.Done():
		case <-reload:
			clear(a.follower.logged)
			a.reload(gateway.ByFile)
		case c := <-a.commands:
			clear(a.follower.logged)
			c.done <- a.reload(c.who)
		case <-files.Notices():
			a.follower.noticed = true
			look()
			settled.Reset(quiet)
		case <-settled.C:
			look()
		case <-ticker.C:
			look()
		case <-alive:
			a.server.Responds(ctx)
			a.notify(systemd.Alive)
		}
	}
}

// aim watches the files that were read last.
func (a *App) aim(files fileWatch) {
	paths := make([]string, len(a.follower.read))
	for i, file := range a.follower.read {
		paths[i] = file.Path
	}
	if err := files.Watch(paths); err != nil {
		a.logger.Debug("a folder cannot be watched; the gateway looks at its files instead",
			"every", lookEvery.String(), "error", err.Error())
	}
}

// look reloads if files have changed and are quiet since, or have changed for longer
// than patience, or if the last attempt is to be repeated. It returns true if it saw a
// change that waits, so that another look is needed.
func (a *App) look() bool {
	f := &a.follower
	now, changed := make([]config.File, len(f.read)), false
	moved := len(f.seen) != len(f.read)
	for i, file := range f.read {
		now[i] = file.Now()
		changed = changed || !file.Same(now[i])
		moved = moved || !f.seen[i].Same(now[i])
	}
	if moved {
		f.seen, f.changedAt = now, time.Now()
		if f.unreadSince.IsZero() {
			f.unreadSince = f.changedAt
		}
		clear(f.logged)
		if f.changedAt.Sub(f.unreadSince) < patience {
			return true
		}
	}
	switch {
	case !moved && time.Since(f.changedAt) < quiet:
	// A notice without a change that shows, like a new owner, can be the repair.
	case changed || f.retry || f.refused && f.noticed:
		a.reload(gateway.ByFile)
	default:
		f.unreadSince = time.Time{} // the files are again as they were read
	}
	return false
}

// command asks for a reload.
type command struct {
	who  string         // changed the accounts
	done chan<- outcome // where the command waits
}

// outcome is the result of a reload.
type outcome struct {
	Changes []string // of the configuration, if it was applied
	Err     error    // nil: it was applied
}

// reload reads the configuration again and applies it. A configuration with
// mistakes changes nothing, but a new certificate is still used, and so are the
// files that the running configuration names. who tells who changed accounts.
func (a *App) reload(who string) outcome {
	a.notify(systemd.Reloading())
	defer a.notify(systemd.Ready)
	f, old := &a.follower, a.Config()
	f.unreadSince = time.Time{}
	err := a.gateway.ReloadBy(who, func() (cfg *config.Config, err error) {
		cfg, f.read, err = a.environment.LoadFiles(a.path)
		return cfg, err
	})
	a.logFailure("configuration", err)
	refreshErr := a.server.RefreshCertificates()
	a.logFailure("certificate", refreshErr)
	f.refused, f.retry, f.noticed = err != nil || refreshErr != nil, isTransient(err), false
	outcome := outcome{Err: errors.Join(err, refreshErr)}
	if err == nil {
		outcome.Changes = changes.Between(old, a.Config())
		a.warnOfExposure(a.Config())
	}
	if outcome.Err == nil {
		a.logger.Info("reloaded", "what", "configuration", "changes", outcome.Changes)
	}
	if err != nil {
		a.reloadBeside(who)
	}
	f.seen = f.read
	return outcome
}

// reloadBeside applies the files that the running configuration names, because the
// configuration itself is refused: a removed account must not stay until that is
// repaired.
func (a *App) reloadBeside(who string) {
	f, old := &a.follower, a.Config()
	changed := false
	for _, file := range old.Files() {
		now := file.Now()
		changed = changed || !file.Same(now)
		f.read = append(f.read, now)
	}
	if !changed {
		return
	}
	const what = "files beside the configuration"
	err := a.gateway.ReloadBy(who, old.Reread)
	a.logFailure(what, err)
	if f.retry = f.retry || isTransient(err); err == nil {
		a.warnOfExposure(a.Config())
		a.logger.Info("reloaded", "what", what, "changes", changes.Between(old, a.Config()))
	}
}

// isTransient reports whether a reload that failed is to be tried again, although no file
// has changed: a key could not be generated on a full disk. Files with mistakes, or that
// need a restart, wait for their next change.
func isTransient(err error) bool {
	_, atFault := errors.AsType[config.Diagnostics](err)
	_, unreadable := errors.AsType[*config.ReadError](err)
	return err != nil && !atFault && !unreadable && !errors.Is(err, gateway.ErrNeedsRestart)
}

// logFailure logs each problem of err. It logs the same failure once until the next
// change.
func (a *App) logFailure(what string, err error) {
	logged := a.follower.logged
	if err == nil {
		delete(logged, what)
		return
	}
	const kept = "reload failed, the running configuration is kept"
	if logged[what] == err.Error() {
		return
	}
	logged[what] = err.Error()
	var problems config.Diagnostics
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			a.logger.Error(kept, "what", what,
				"file", p.File, "line", p.Line, "column", p.Column, "key", p.Key, "problem", p.Message)
		}
	default:
		a.logger.Error(kept, "what", what, "error", err.Error())
	}
}
