package systemd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// variables are those that systemd sets.
var variables = []string{
	"LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "LISTEN_PIDFDID", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
}

// asService is the variable by which a process of this program is a service of TestSockets: LISTEN_PID is
// its own ("own") or has another value.
const asService = "AUTHGATE_TEST_SERVICE"

// TestMain runs the tests, or the service of TestSockets: it prints the names and addresses of its
// sockets, and what is left of the variables.
func TestMain(m *testing.M) {
	pid, service := os.LookupEnv(asService)
	if !service {
		os.Exit(m.Run())
	}
	if pid == "own" {
		pid = strconv.Itoa(os.Getpid())
	}
	os.Setenv("LISTEN_PID", pid)
	s, err := Take()
	for _, file := range s.Sockets {
		var at net.Addr
		if listener, err := net.FileListener(file); err == nil {
			at = listener.Addr()
		}
		fmt.Println(file.Name(), at)
	}
	fmt.Println(s.Watchdog, err)
	for _, name := range variables {
		if value, left := os.LookupEnv(name); left {
			fmt.Println("left:", name, value)
		}
	}
}

// A service has the sockets that systemd opened for it, with their names; a socket without a name has
// its number. Sockets of another process, and those without a process, are none. No variable is left.
func TestSockets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variables []string
		want      string
	}{
		"its own": {[]string{asService + "=own", "LISTEN_FDS=2", "LISTEN_FDNAMES=https:admin"},
			"https %[1]s\nadmin %[2]s\n0s <nil>\n"},
		"without names": {[]string{asService + "=own", "LISTEN_FDS=1", "LISTEN_PIDFDID=7"},
			"LISTEN_FD_3 %[1]s\n0s <nil>\n"},
		"of another process": {[]string{asService + "=1", "LISTEN_FDS=2", "LISTEN_FDNAMES=https:admin",
			"WATCHDOG_USEC=2000000", "WATCHDOG_PID=1", "NOTIFY_SOCKET=/nowhere"}, "0s <nil>\n"},
		"of no process": {[]string{asService + "=", "LISTEN_FDS=2"}, "0s <nil>\n"},
		"a watchdog": {[]string{asService + "=own", "WATCHDOG_USEC=2000000", "NOTIFY_SOCKET=/nowhere"},
			"2s <nil>\n"},
		"a watchdog that waits nowhere": {[]string{asService + "=own", "WATCHDOG_USEC=2000000"}, "0s <nil>\n"},
		"a watchdog without a time": {[]string{asService + "=own", "WATCHDOG_USEC=soon", "NOTIFY_SOCKET=/nowhere"},
			"0s error converting WATCHDOG_USEC: strconv.Atoi: parsing \"soon\": invalid syntax\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := exec.CommandContext(t.Context(), os.Args[0])
			service.Env = c.variables
			var addresses []any
			for range 2 {
				listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
				if err != nil {
					t.Fatal(err)
				}
				defer listener.Close()
				file, err := listener.File()
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				service.ExtraFiles = append(service.ExtraFiles, file)
				addresses = append(addresses, listener.Addr())
			}
			want := c.want
			if strings.Contains(want, "%") {
				want = strings.NewReplacer(
					"%[1]s", fmt.Sprint(addresses[0]), "%[2]s", fmt.Sprint(addresses[1])).Replace(want)
			}
			if got, err := service.CombinedOutput(); string(got) != want {
				t.Errorf("the service prints %q (%v), want %q", got, err, want)
			}
		})
	}
}

// Notices reach the socket that systemd names, in a file or abstract, when its variable is gone. A
// notice without a reader is an error. A reload has the time of the monotonic clock.
func TestNotices(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "notify"), "@authgate-" + strconv.Itoa(os.Getpid())} {
		reader, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", address)
		s, err := Take()
		if _, left := os.LookupEnv("NOTIFY_SOCKET"); left || err != nil || s.Notify == nil {
			t.Fatalf("Take: %v; the variable is left: %t", err, left)
		}
		read := func(notice string) string {
			t.Helper()
			if err := s.Notify(notice); err != nil {
				t.Error(err)
			}
			_ = reader.SetReadDeadline(time.Now().Add(time.Minute))
			b := make([]byte, 1000)
			n, err := reader.Read(b)
			if err != nil {
				t.Error(err)
			}
			return string(b[:n])
		}
		if got := read(Ready); got != "READY=1" {
			t.Errorf("read %q", got)
		}
		first, second := Reloading(), Reloading()
		var from, to int
		const form = "RELOADING=1\nMONOTONIC_USEC=%d\n"
		_, errFirst := fmt.Sscanf(read(first), form, &from)
		_, errSecond := fmt.Sscanf(second, form, &to)
		if errFirst != nil || errSecond != nil || from < 1 || to < from {
			t.Errorf("two reloads: %q and %q", first, second)
		}
		reader.Close()
		os.Remove(address)
		if err := s.Notify(Alive); err == nil {
			t.Errorf("%s: a notice without a reader is no error", address)
		}
	}
	os.Unsetenv("NOTIFY_SOCKET")
	if s, err := Take(); err != nil || s.Notify != nil || s.Sockets != nil || s.Watchdog != 0 {
		t.Errorf("without systemd: %+v, %v", s, err)
	}
}
