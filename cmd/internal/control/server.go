package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// readTime bounds how long a command takes to send a request.
	readTime = 5 * time.Second
	// closeTime is how long Close waits for commands in progress.
	closeTime = 2 * time.Second
)

// Server answers commands for one gateway.
type Server struct {
	path     string
	listener net.Listener
	http     *http.Server
}

// Listen opens a socket for commands in a data_dir, and removes those that no
// gateway answers. Serve answers with the results of gateway. problems gets the
// failures.
func Listen(dataDir string, process Process, gateway controlled, problems *log.Logger) (*Server, error) {
	folder := Folder(dataDir)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o700)); err != nil {
		return nil, err
	}
	if err := removeDead(folder); err != nil {
		return nil, err
	}
	name := rand.Text()[:10]
	hidden, path := filepath.Join(folder, "."+name), filepath.Join(folder, name+suffix)
	listener, err := listenAt(hidden)
	if err != nil {
		return nil, err
	}
	// A socket has its name only when it listens: one that refuses is dead.
	if err := errors.Join(os.Chmod(hidden, 0o600), os.Rename(hidden, path)); err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(hidden))
	}
	return &Server{path: path, listener: listener,
		http: &http.Server{Handler: handler(process, gateway), ReadTimeout: readTime, ErrorLog: problems}}, nil
}

func listenAt(path string) (net.Listener, error) {
	short, free, err := socketPath(path)
	if err != nil {
		return nil, err
	}
	defer free()
	listener, err := net.Listen("unix", short)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener, nil
}

// removeDead removes the sockets of gateways that were killed.
func removeDead(folder string) error {
	paths, err := sockets(folder)
	if err != nil {
		return err
	}
	for _, path := range paths {
		conn, err := dial(context.Background(), path)
		switch {
		case err == nil:
			conn.Close()
		case isDead(err):
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// sockets returns the paths of the sockets in a folder.
func sockets(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), suffix) {
			all = append(all, filepath.Join(folder, entry.Name()))
		}
	}
	return all, nil
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	short, free, err := socketPath(path)
	if err != nil {
		return nil, err
	}
	defer free()
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", short)
}

// Serve answers commands until Close.
func (s *Server) Serve() error {
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close removes the socket, and ends Serve. It waits for commands in progress, but
// not for long.
func (s *Server) Close() error {
	removed := os.Remove(s.path)
	if errors.Is(removed, fs.ErrNotExist) {
		removed = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		return errors.Join(removed, s.http.Close())
	}
	return removed
}

func handler(process Process, gateway controlled) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /process", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, process) })
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		changes, err := gateway.Reload(r.Context(), r.FormValue("users") != "")
		if err != nil {
			answer(w, http.StatusConflict, refusal{err.Error()})
			return
		}
		answer(w, http.StatusOK, reloaded{changes})
	})
	mux.HandleFunc("GET /logins", func(w http.ResponseWriter, r *http.Request) {
		lines := json.NewEncoder(w)
		last := line{End: true}
		write := func(l *Login) error { return lines.Encode(line{Login: l}) }
		if err := gateway.EachLogin(r.Context(), write); err != nil {
			last = line{Error: err.Error()}
		}
		_ = lines.Encode(last) // the client misses it if it does not arrive
	})
	mux.HandleFunc("DELETE /logins", func(w http.ResponseWriter, r *http.Request) {
		switch found, err := gateway.EndLogin(r.Context(), r.FormValue("id")); {
		case err != nil:
			answer(w, http.StatusServiceUnavailable, refusal{err.Error()})
		case !found:
			answer(w, http.StatusNotFound, refusal{"no live login has this id"})
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("DELETE /users/logins", func(w http.ResponseWriter, r *http.Request) {
		n, err := gateway.EndLoginsOf(r.Context(), r.FormValue("user"))
		if err != nil {
			answer(w, http.StatusServiceUnavailable, refusal{err.Error()})
			return
		}
		answer(w, http.StatusOK, ended{n})
	})
	mux.HandleFunc("POST /accounts/invitation", func(w http.ResponseWriter, r *http.Request) {
		switch link, err := gateway.Invite(r.Context(), r.FormValue("user")); {
		case errors.Is(err, ErrNotInvited):
			answer(w, http.StatusConflict, refusal{err.Error()})
		case err != nil:
			answer(w, http.StatusServiceUnavailable, refusal{err.Error()})
		default:
			answer(w, http.StatusCreated, invited{link})
		}
	})
	return mux
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client misses it if it does not arrive
}
