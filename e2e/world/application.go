package world

import (
	"io"
	"net"
	"net/textproto"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Tap passes connections on to an application, and keeps the bytes for it.
type Tap struct {
	URL string

	mu  sync.Mutex
	got strings.Builder
}

// tapKeeps bounds the kept bytes of each connection.
const tapKeeps = 1 << 20

// StartTap returns a tap in front of an application at an address.
func StartTap(t testing.TB, address string) *Tap {
	t.Helper()
	p := &Tap{}
	p.URL = Listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", address)
		if err != nil {
			t.Errorf("the application: %v", err)
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(client, server) // either side may leave
			client.Close()
		}()
		kept := &tapRecord{tap: p, left: tapKeeps}
		_, _ = io.Copy(server, io.TeeReader(client, kept))
	})
	return p
}

// tapRecord is the record of a tap about one connection.
type tapRecord struct {
	tap  *Tap
	left int
}

// Write implements io.Writer.
func (k *tapRecord) Write(p []byte) (int, error) {
	k.tap.mu.Lock()
	defer k.tap.mu.Unlock()
	n := min(k.left, len(p))
	k.tap.got.Write(p[:n])
	k.left -= n
	return len(p), nil
}

// Values returns the different values of a header that reached the application.
func (p *Tap) Values(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]bool{}
	for line := range strings.Lines(p.got.String()) {
		if header, value, ok := strings.Cut(line, ":"); ok && textproto.CanonicalMIMEHeaderKey(header) == name {
			found[strings.TrimSpace(value)] = true
		}
	}
	values := []string{}
	for value := range found {
		values = append(values, value)
	}
	slices.Sort(values)
	return values
}

// Has reports whether a text reached the application.
func (p *Tap) Has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.got.String(), text)
}

// WantUser fails the test unless all requests that reached the application were those of
// a user, and none of them had a secret.
func (p *Tap) WantUser(t testing.TB, user string, secrets ...string) {
	t.Helper()
	if got := p.Values("X-Auth-User"); !slices.Equal(got, []string{user}) {
		t.Errorf("the application got the users %q, expected %s", got, user)
	}
	for _, secret := range secrets {
		if p.Has(secret) {
			t.Errorf("the application got the credential %.8s…", secret)
		}
	}
}

// Launch starts an application, and waits until it answers at url. The application
// ends with the test.
func Launch(t testing.TB, url string, cmd *exec.Cmd) {
	t.Helper()
	out := &Output{}
	cmd.Stdout, cmd.Stderr = out, out
	ended := Spawn(t, cmd)
	if err := Await(url, ended); err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Path, err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s wrote\n%s", cmd.Path, out)
		}
	})
}

// ShellIn returns a command in a folder, which is also the user's home, with more
// variables of the environment.
func ShellIn(dir string, variables []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"HOME=" + dir}, variables...)...)
	return cmd
}
