package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal for a program.
type terminal struct {
	screen lines    // what the program and the echo of typing show
	keys   *os.File // the side of the user
	line   *os.File // the side of the program
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close() })
	number, err := unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0) // it is locked at first
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	term := &terminal{keys: keys, line: line}
	go func() { _, _ = io.Copy(&term.screen, keys) }() // ends with the terminal
	return term
}

// echo reports whether typing is shown.
func (term *terminal) echo(t *testing.T) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(term.line.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// answer types text when the question is on the screen and typing is hidden.
func (term *terminal) answer(t *testing.T, question, text string) {
	t.Helper()
	until(t, question, func() bool { return strings.HasSuffix(term.screen.String(), question) && !term.echo(t) })
	if _, err := io.WriteString(term.keys, text+"\n"); err != nil {
		t.Fatal(err)
	}
}

// TestHashPasswordOnTerminal: hash-password asks twice on a terminal, without
// echo, and prints only the hash.
func TestHashPasswordOnTerminal(t *testing.T) {
	t.Parallel()
	const plain = "correct horse battery staple"
	for _, test := range []struct {
		name, first, second string
		ok                  bool
	}{
		{"the same twice", plain, plain, true},
		{"something else", plain, plain + "r", false},
		{"nothing", "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			term := openTerminal(t)
			var stdout lines
			cmd := exec.Command(filepath.Join(programs, "authgate"), "hash-password")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = term.line, &stdout, term.line
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			term.answer(t, "Password: ", test.first)
			term.answer(t, "Again: ", test.second)
			err := cmd.Wait()
			if strings.Contains(term.screen.String(), "horse") {
				t.Errorf("the password is on the screen: %q", term.screen.String())
			}
			if !term.echo(t) {
				t.Error("typing stays hidden afterwards")
			}
			if !test.ok {
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != 1 || stdout.String() != "" {
					t.Errorf("it ends with %v and prints %q", err, stdout.String())
				}
				until(t, "the reason", func() bool { return strings.Contains(term.screen.String(), "authgate: ") })
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, term.screen.String())
			}
			if !isHashOf(strings.TrimSuffix(stdout.String(), "\n"), plain) {
				t.Errorf("it prints %q, expected a hash of the password", stdout.String())
			}
		})
	}
}
