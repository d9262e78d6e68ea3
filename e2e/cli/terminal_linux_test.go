package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal for a program.
type terminal struct {
	screen world.Output // what the program and the echo of typing show
	keys   *os.File     // the side of the user
	line   *os.File     // the side of the program
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	keys := world.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { keys.Close() })
	number := world.Must(unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN))(t)
	world.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)) // it is locked at first
	line := world.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	t.Cleanup(func() { line.Close() })
	term := &terminal{keys: keys, line: line}
	go func() { _, _ = io.Copy(&term.screen, keys) }() // ends with the terminal
	return term
}

// echo reports whether typing is shown.
func (term *terminal) echo(t *testing.T) bool {
	t.Helper()
	state := world.Must(unix.IoctlGetTermios(int(term.line.Fd()), unix.TCGETS))(t)
	return state.Lflag&unix.ECHO != 0
}

// TestHashPasswordOnTerminal: hash-password asks twice on a terminal, without
// echo, and prints only the hash.
func TestHashPasswordOnTerminal(t *testing.T) {
	t.Parallel()
	const plain = "correct horse battery staple"
	for again, ok := range map[string]bool{plain: true, plain + "r": false} {
		term := openTerminal(t)
		var stdout world.Output
		cmd := exec.Command(world.Program("authgate"), "hash-password")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = term.line, &stdout, term.line
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		ended := world.Spawn(t, cmd)
		for _, asked := range []struct{ question, answer string }{{"Password: ", plain}, {"Again: ", again}} {
			world.Until(t, asked.question, func() bool {
				return strings.HasSuffix(term.screen.String(), asked.question) &&
					!term.echo(t)
			})
			world.Must(io.WriteString(term.keys, asked.answer+"\n"))(t)
		}
		<-ended
		if strings.Contains(term.screen.String(), "horse") || !term.echo(t) {
			t.Errorf("the password is on the screen, or typing stays hidden: %q", term.screen.String())
		}
		if ok {
			if hash := strings.TrimSuffix(stdout.String(), "\n"); !cmd.ProcessState.Success() || !isHashOf(hash, plain) {
				t.Errorf("%v; it prints %q, expected a hash of the password: %s", cmd.ProcessState, hash, term.screen.String())
			}
			continue
		}
		world.Until(t, "the reason", func() bool { return strings.Contains(term.screen.String(), "authgate: ") })
		if cmd.ProcessState.ExitCode() != 1 || stdout.String() != "" {
			t.Errorf("it ends with %v and prints %q", cmd.ProcessState, stdout.String())
		}
	}
}

// TestServeOnTerminal: on a terminal, the gateway shows what it serves, as a table.
func TestServeOnTerminal(t *testing.T) {
	t.Parallel()
	term, g := openTerminal(t), world.Prepare(t)
	g.Configure("store: {driver: memory}\nupstreams: {app: {url: \"http://127.0.0.1:1\"}}\nroutes: [{match: /, name: " +
		"all, upstream: app, auth: [none]}]\n")
	cmd := exec.Command(world.Program("authgate"), "serve")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.Dir, term.line, term.line, term.line
	ended := world.Spawn(t, cmd)
	world.Until(t, "the table", func() bool {
		return strings.Contains(term.screen.String(),
			"  ROUTE   UPSTREAM   AUTH   RULE\r\n  all     app        none   public\r\n")
	})
	for _, part := range []string{"runs at " + g.Base, "  https          127.0.0.1:", "ca.pem  (clients must trust it)"} {
		if !strings.Contains(term.screen.String(), part) {
			t.Errorf("%q is not on the screen:\n%s", part, term.screen.String())
		}
	}
	world.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	<-ended
}
