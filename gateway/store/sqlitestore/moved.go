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

// errMoved means that writes would not reach the files that the next start opens.
var errMoved = errors.New("was deleted or replaced while the gateway runs")

// openFiles are the database, its log and its index when SQLite opened them.
// SQLite also writes to an open file that was deleted: such writes seem to
// succeed, and are lost at the next start.
type openFiles struct {
	logger *slog.Logger
	files  []openFile
	moved  atomic.Bool // the result of the last check, to log changes only
}

type openFile struct {
	path string
	info os.FileInfo
}

// holdFiles records which files are open. SQLite has created them by then: all three,
// unless the index of the log is in memory.
func holdFiles(path string, at index, logger *slog.Logger) (*openFiles, error) {
	held := &openFiles{logger: logger}
	names := []string{path, path + walSuffix}
	if at == indexInFile {
		names = append(names, path+shmSuffix)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		held.files = append(held.files, openFile{name, info})
	}
	return held, nil
}

// checkPaths returns an error unless each path leads to the open file. It logs
// when the result changes.
func (o *openFiles) checkPaths() error {
	err := o.compare()
	if o.moved.Load() == (err != nil) || o.moved.Swap(err != nil) == (err != nil) {
		return err
	}
	if err != nil {
		o.logger.LogAttrs(context.Background(), slog.LevelError, "the store refuses all writes", slog.Any("error", err))
	} else {
		o.logger.LogAttrs(context.Background(), slog.LevelInfo, "the files of the store are back",
			slog.String("path", o.files[0].path))
	}
	return err
}

func (o *openFiles) compare() error {
	for _, file := range o.files {
		now, err := os.Stat(file.path)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(now, file.info):
			return fmt.Errorf("%s %w, so logins and logouts would not outlive a restart: %s", file.path, errMoved,
				remedy(file.path))
		case err != nil:
			return err
		}
	}
	return nil
}

// remedy tells operators how to repair the loss of a file.
func remedy(path string) string {
	if strings.HasSuffix(path, walSuffix) || strings.HasSuffix(path, shmSuffix) {
		return "stop the gateway with SIGTERM, which saves what it holds, and start it again"
	}
	return "stop the gateway, restore the file if it is needed, and start the gateway again"
}
