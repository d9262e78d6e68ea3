// Package systemd speaks with systemd for a service. It takes the sockets that are open before the service
// starts and stay open when it ends (sd_listen_fds(3)), and sends the notices of Type=notify and
// WatchdogSec= (sd_notify(3)).
//
// The environment has all of this. Take removes the variables, so that no program that the
// process starts takes itself for the service.
//
// # Limits and threats
//
// The variables LISTEN_FDS and WATCHDOG_USEC of another process, by LISTEN_PID and WATCHDOG_PID, count
// for nothing. A notice that does not get through ends nothing here: systemd knows
// when it misses one. Other systems have no such variables.
package systemd

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Notices of a service. Reloading returns one more.
const (
	Ready    = daemon.SdNotifyReady // also: a reload is over
	Stopping = daemon.SdNotifyStopping
	Alive    = daemon.SdNotifyWatchdog
)

// Reloading is the notice of a reload that begins now. Ready tells its end.
func Reloading() string { return daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec() }

// Service is this process as a service. The zero value is one that systemd did not start.
type Service struct {
	Sockets  []*os.File                // open ones, with the names that FileDescriptorName= gives them
	Watchdog time.Duration             // systemd ends a service that is not Alive for so long; 0: it does not look
	Notify   func(notice string) error // nil: systemd waits for no notices
}

// Take returns the service that the environment describes, and removes its variables. It can be
// called once.
func Take() (Service, error) {
	s, notices := Service{Sockets: activation.Files(true)}, os.Getenv("NOTIFY_SOCKET")
	watchdog, err := daemon.SdWatchdogEnabled(true)
	if notices != "" {
		s.Watchdog, s.Notify = watchdog, func(notice string) error { return send(notices, notice) }
	}
	return s, errors.Join(err, os.Unsetenv("NOTIFY_SOCKET"), os.Unsetenv("LISTEN_PIDFDID"))
}

// send sends a notice. daemon.SdNotify finds the socket by the variable, which children would
// then have.
func send(to, notice string) error {
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: to, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = socket.Write([]byte(notice))
	return errors.Join(err, socket.Close())
}
