// Package control lets commands talk to the gateways that run on this machine.
//
// Each gateway listens on a socket in the folder "control" of its data_dir. The
// folder has mode 0700 and the socket 0600, so that only the user of the gateway,
// and root, get in. There is no other authentication. HTTP goes over the socket.
//
// The sockets have random names, so that gateways with the same data_dir do not
// take each other's. A gateway that is killed leaves its socket behind. Nothing
// answers there, so commands skip it, and the next start removes it.
package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// folderName is the folder with the sockets in data_dir, and suffix ends their
// names. A socket gets its name when it listens.
const (
	folderName = "control"
	suffix     = ".sock"
)

// Folder returns the folder with the sockets of the gateways with a data_dir.
func Folder(dataDir string) string { return filepath.Join(dataDir, folderName) }

// controlled is the gateway of a Server, as commands use it.
type controlled interface {
	// Reload reads the configuration again. It returns the changes, or why the configuration is
	// refused. users tells that a command has changed accounts.
	Reload(ctx context.Context, users bool) (changes []string, err error)
	// EachLogin calls f for each live login.
	EachLogin(ctx context.Context, f func(*Login) error) error
	// EndLogin ends a login. It returns false if there is none with this id.
	EndLogin(ctx context.Context, id string) (bool, error)
	// EndLoginsOf ends all logins of a user, and returns how many there were. user is a local
	// account, or PROVIDER:NAME.
	EndLoginsOf(ctx context.Context, user string) (int, error)
	// Invite makes an invitation for a local account, and returns its link. The error is
	// ErrNotInvited if it is refused.
	Invite(ctx context.Context, username string) (link string, err error)
}

// ErrNotInvited: the gateway does not invite that account.
var ErrNotInvited = errors.New("the account cannot be invited")

// Process is a gateway that runs.
type Process struct {
	PID           int    `json:"pid"`
	Version       string `json:"version"`
	Configuration string `json:"configuration"` // the path of the file
}

// Login is a live login. Times are in UTC.
type Login struct {
	ID        string    `json:"id"`
	User      string    `json:"user"` // a local account, or PROVIDER:username
	Mechanism string    `json:"mechanism"`
	Provider  string    `json:"provider"`
	Created   time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used_at"`
	Expires   time.Time `json:"expires_at"`
	Client    string    `json:"client"`
	UserAgent string    `json:"user_agent"`
}

// refusal is the body of an answer that is an error.
type refusal struct {
	Error string `json:"error"`
}

// reloaded is the body of an answer to a reload that was applied.
type reloaded struct {
	Changes []string `json:"changes"`
}

// ended is the body of an answer when logins were ended.
type ended struct {
	Ended int `json:"ended"`
}

// invited is the body of an answer with the link of an invitation.
type invited struct {
	Link string `json:"link"`
}

// line is one line of a list of logins. The last one has End or Error.
type line struct {
	Login *Login `json:"login,omitempty"`
	End   bool   `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
}

// maxSocketPath is the longest path of a socket that all systems take.
const maxSocketPath = 100

// socketPath returns a path of a socket that the system takes, and a function that frees it.
func socketPath(path string) (string, func(), error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("the path %s is longer than the %d bytes that a socket may have; "+
			"choose a shorter data_dir", path, maxSocketPath)
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path)), func() { folder.Close() }, nil
}
