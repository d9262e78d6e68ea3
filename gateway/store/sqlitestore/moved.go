package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
)

// errMoved: what SQLite writes reaches no file that the next start opens.
var errMoved = errors.New("was deleted or replaced while the gateway runs")

// openFiles are the database and its companions as they were when SQLite opened
// them. SQLite goes on with an open file that has lost its name, so that writes
// seem to succeed and are gone at the next start.
type openFiles struct {
	logger *slog.Logger
	files  []openFile
	moved  atomic.Bool // what the last check found, for the log
}

type openFile struct {
	path string
	info os.FileInfo
}

// holdFiles notes which files are open. SQLite has created all three by then.
func holdFiles(path string, logger *slog.Logger) (*openFiles, error) {
	held := &openFiles{logger: logger}
	for _, name := range []string{path, path + walSuffix, path + shmSuffix} {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		held.files = append(held.files, openFile{name, info})
	}
	return held, nil
}

// check returns an error unless each path leads to the file that is open. It
// logs when that changes.
func (o *openFiles) check() error {
	err := o.compare()
	if o.moved.Load() == (err != nil) || o.moved.Swap(err != nil) == (err != nil) {
		return err
	}
	if err != nil {
		o.logger.LogAttrs(context.Background(), slog.LevelError, "the store refuses all writes", slog.Any("error", err))
	} else {
		o.logger.LogAttrs(context.Background(), slog.LevelInfo, "the files of the store are in their place again", slog.String("path", o.files[0].path))
	}
	return err
}

func (o *openFiles) compare() error {
	for _, file := range o.files {
		now, err := os.Stat(file.path)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(now, file.info):
			return fmt.Errorf("%s %w, so logins and logouts would not outlive a restart: %s", file.path, errMoved, remedy(file.path))
		case err != nil:
			return err
		}
	}
	return nil
}

// remedy says what a person can do about a file that has gone.
func remedy(path string) string {
	if strings.HasSuffix(path, walSuffix) || strings.HasSuffix(path, shmSuffix) {
		return "stop the gateway with SIGTERM, which saves what it holds, and start it again"
	}
	return "stop the gateway, restore the file if it is needed, and start the gateway again"
}
