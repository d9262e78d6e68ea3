package wire

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

const (
	readRoutes = `
routes:
  - {match: /open/, upstream: app, auth: [none]}
  - {match: /secure/, upstream: app, auth: [session]}
`
	droppedLines = "authgate_log_lines_dropped_total"
)

// loggingTo starts a gateway whose log goes to a file that the caller has opened for writing.
func loggingTo(t *testing.T, writer *os.File, within ...string) *world.Instance {
	t.Helper()
	g := world.Prepare(t)
	g.Stderr, g.Within = writer, within
	g.Configure(world.People + readRoutes + world.App(world.Record(t).URL))
	g.Run()
	world.NoError(t, writer.Close())
	return g
}

// loseLines sends requests until lines of the log are lost.
func loseLines(t *testing.T, g *world.Instance) {
	t.Helper()
	c, path := g.Stranger(), "/open/"+strings.Repeat("x", 1000)
	before := g.Scrape(t)[droppedLines]
	world.Until(t, "a line that is lost", func() bool {
		for range 200 {
			if got := g.Status(c, "GET", path); got != http.StatusOK {
				t.Fatalf("a public page is %d", got)
			}
		}
		return g.Scrape(t)[droppedLines] > before
	})
}

// reload makes the gateway run a configuration with one more route, by that way.
func reload(t *testing.T, g *world.Instance, route string, by func() error) {
	t.Helper()
	g.Configure(world.People + readRoutes + "  - {match: " + route + ", upstream: app, auth: [none]}\n" +
		world.App("http://127.0.0.1:1"))
	world.NoError(t, by())
	world.Until(t, "the route "+route, func() bool {
		return g.Status(g.Stranger(), "GET", route) == http.StatusBadGateway
	})
}

// TestLogIsNotRead: a reader of the log that takes nothing delays nothing: no request, no sign-in,
// no reload and no stop. When it reads again, it learns how many lines are lost.
func TestLogIsNotRead(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	world.NoError(t, err)
	defer reader.Close()
	g := loggingTo(t, writer)
	loseLines(t, g)
	for host, pages := range map[string]map[string]int{
		"localhost":     {"/open/": 200, "/secure/": 401, "/nowhere": 404, "/me": 401},
		"other.example": {"/open/": 421},
	} {
		for path, want := range pages {
			if a := g.Raw(t, "GET "+path+" HTTP/1.1\nHost: "+host+"\n\n"); a.Status != want {
				t.Errorf("%s%s is %d, want %d", host, path, a.Status, want)
			}
		}
	}
	g.SignIn(g.Stranger(), "alice")
	if status, body := g.Ready(); status != 200 || !strings.Contains(body, `"log":"nothing reads the log; lines lost: `) {
		t.Errorf("/readyz is %d %s", status, body)
	}
	reload(t, g, "/signalled", func() error { return g.Cmd.Process.Signal(syscall.SIGHUP) })
	reload(t, g, "/commanded", exec.Command(world.Program("authgate"), "reload", "--config",
		filepath.Join(g.Dir, "config.yaml")).Run)

	read := make(chan error)
	go func() {
		_, err := io.Copy(g.Log, reader)
		read <- err
	}()
	world.Until(t, "an end of the problem", func() bool { _, body := g.Ready(); return !strings.Contains(body, "log") })
	if got := g.Status(g.Stranger(), "GET", "/open/last"); got != http.StatusBadGateway {
		t.Errorf("a request after that is %d", got)
	}
	world.Until(t, "its line", func() bool { return strings.Contains(g.Log.String(), `"path":"/open/last"`) })
	lost := g.Scrape(t)[droppedLines]
	if line := g.Log.Last(t, "lines of the log are lost here: nothing read it"); line["lines"] != lost {
		t.Errorf("the log has %v, want %v lines lost", line, lost)
	}
	g.Signal(syscall.SIGTERM)
	g.Ends(5 * time.Second)
	world.NoError(t, <-read)
	g.Log.Last(t, "stopping")
}

// TestStopWithoutLogReader: a stop does not wait for a reader of the log that takes nothing.
func TestStopWithoutLogReader(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	world.NoError(t, err)
	defer reader.Close()
	g := loggingTo(t, writer)
	loseLines(t, g)
	g.Signal(syscall.SIGTERM)
	g.Ends(5 * time.Second)
}

// logFiles are ways to what reads a log: each returns the ends to read from and to write to.
var logFiles = map[string]func(*testing.T) (reader, writer *os.File){
	"pipe": func(t *testing.T) (reader, writer *os.File) {
		reader, writer, err := os.Pipe()
		world.NoError(t, err)
		return reader, writer
	},
	"socket": func(t *testing.T) (reader, writer *os.File) {
		ends := world.Must(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
		return os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "writer")
	},
	"named pipe": func(t *testing.T) (reader, writer *os.File) {
		path := filepath.Join(t.TempDir(), "log")
		world.NoError(t, syscall.Mkfifo(path, 0o600))
		reader = world.Must(os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0))(t)
		return reader, world.Must(os.OpenFile(path, os.O_WRONLY, 0))(t)
	},
}

// TestLogReaderGoes: a reader of the log that ends does not end the gateway, whatever the log goes
// through, and also if the parent process ignores SIGPIPE. The next reader gets what has been
// written meanwhile.
func TestLogReaderGoes(t *testing.T) {
	t.Parallel()
	for name, open := range logFiles {
		for _, within := range [][]string{nil, {"sh", "-c", `trap "" PIPE; exec "$@"`, "sh"}} {
			t.Run(fmt.Sprintf("%s, ignored by the parent %t", name, within != nil), func(t *testing.T) {
				t.Parallel()
				reader, writer := open(t)
				path := reader.Name()
				g := loggingTo(t, writer, within...)
				world.NoError(t, reader.Close())
				g.SignIn(g.Stranger(), "alice")
				if got := g.Status(g.Stranger(), "GET", "/open/away"); got != http.StatusOK {
					t.Errorf("a request is %d", got)
				}
				world.Until(t, "the problem", func() bool {
					status, body := g.Ready()
					return status == 200 && strings.Contains(body, `"log":"the log cannot be written: `)
				})
				read := make(chan error, 1)
				if name == "named pipe" {
					next := world.Must(os.Open(path))(t)
					defer next.Close()
					go func() {
						_, err := io.Copy(g.Log, next)
						read <- err
					}()
					world.Until(t, "an end of the problem", func() bool {
						_, body := g.Ready()
						return !strings.Contains(body, "log")
					})
				} else {
					read <- nil
				}
				g.Signal(syscall.SIGTERM)
				g.Ends(5 * time.Second)
				if world.NoError(t, <-read); name == "named pipe" {
					g.Log.Last(t, "stopping")
					if !strings.Contains(g.Log.String(), `"path":"/open/away"`) {
						t.Errorf("the line of a request without a reader is lost:\n%s", g.Log)
					}
				}
			})
		}
	}
}
