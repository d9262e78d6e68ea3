package gateway

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	ownrig "authgate/internal/test/rig"
)

const fileAccounts = ownrig.FileAccounts

// fileConfig is the basic configuration with the accounts in a file.
func fileConfig(_ testing.TB, name string) string { return ownrig.FileConfig(name) }

// newFileRig returns a rig with the accounts in a file, and more in its configuration.
func newFileRig(t testing.TB, name, content string, more ...string) (r *rig, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	c := clocktest.At(time.Now())
	memory := store.NewMemory(c.Now)
	t.Cleanup(func() { memory.Close() })
	brittle := newBrittleStore(memory)
	r, err := startRig(t, dir, fileConfig(t, name)+strings.Join(more, ""), brittle, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	r.clock, r.store = c, brittle
	return r, path
}

func signInWith(username, password string) string {
	return fmt.Sprintf(`{"username":%q,"password":%q}`, username, password)
}

func content(t testing.TB, path string) string {
	t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// A failure leaves the password and the file as they were.
func TestChangePasswordFails(t *testing.T) {
	t.Parallel()
	good := ownrig.ChangeTo("wonderland", "looking-glass")
	for name, breaks := range map[string]func(r *rig, path string){
		"the other logins": func(r *rig, _ string) {
			r.store.breakIf(func(operation string, _ int64, key string) bool {
				return operation == "swap" && strings.HasPrefix(key, "login:")
			})
		},
		"the changes": func(r *rig, _ string) {
			r.store.breakIf(func(_ string, _ int64, key string) bool { return key == "changes" })
		},
		"another file has a mistake": func(r *rig, _ string) {
			r.mustReload(strings.Replace(fileConfig(r.t, "accounts.yaml"), "basic:\n", "basic:\n  htpasswd: htpasswd\n", 1))
			_ = os.WriteFile(filepath.Join(r.dir, "htpasswd"), []byte("broken\n"), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, "accounts.yaml", fileAccounts)
			if err := os.WriteFile(filepath.Join(r.dir, "htpasswd"), []byte("# empty\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			here := r.login(aliceIn)
			r.another()
			breaks(r, path)
			w := r.do("POST", "/account/password", good, jsonType, here.cookie)
			if w.Code != 503 && w.Code != 500 {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			r.store.heal()
			if got := content(t, path); got != fileAccounts {
				t.Errorf("the file has\n%s", got)
			}
			r.good(here, true)
			r.clock.Advance(1) // logins that had begun before all others ended are refused
			r.login(aliceIn)
			files, err := os.ReadDir(r.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if strings.HasPrefix(file.Name(), ".") {
					t.Errorf("%s remains", file.Name())
				}
			}
		})
	}
}

// Changes at the same time lose nothing: of one account one wins, and others are not
// affected. An operator's change that is not loaded yet is kept too.
func TestChangePasswordsAtOnce(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	other, err := startRig(t, r.dir, fileConfig(t, "accounts.yaml"), r.store, r.clock.Now) // another instance
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(fileAccounts, "Alice Example", "Alice B. Example", 1)),
		0o640); err != nil {
		t.Fatal(err)
	}
	alice, bob := r.login(aliceIn), r.login(bobIn)
	var mu sync.Mutex
	won := []string{}
	var changes sync.WaitGroup
	for i := range 6 {
		changes.Go(func() {
			next := fmt.Sprintf("looking-glass %d", i)
			instance := []*rig{r, other}[i%2]
			switch w := instance.do("POST", "/account/password", ownrig.ChangeTo("wonderland", next), jsonType,
				alice.cookie); w.Code {
			case 200:
				mu.Lock()
				defer mu.Unlock()
				won = append(won, next)
			case 403, 401: // another one was first
			default:
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	changes.Go(func() {
		if w := other.do("POST", "/account/password", ownrig.ChangeTo("builder", "plasterer"), jsonType,
			bob.cookie); w.Code != 200 {
			t.Errorf("bob: %d %s", w.Code, w.Body)
		}
	})
	changes.Wait()
	if len(won) != 1 {
		t.Fatalf("%q have won", won)
	}
	if now := content(t, path); !strings.Contains(now, "Alice B. Example") || strings.Count(now, "$argon2id$") != 2 ||
		!strings.Contains(now, "# builder") {
		t.Errorf("the file has\n%s", now)
	}
	fresh, err := startRig(t, r.dir, fileConfig(t, "accounts.yaml"), r.store, r.clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(1)
	fresh.login(signInWith("alice", won[0]))
	fresh.login(signInWith("bob", "plasterer"))
}

// The streams of the old values end, those of others and of the login that changes the
// password.
func TestStreamsAndANewPassword(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		path := filepath.Join(s.dir, "accounts.yaml")
		if err := os.WriteFile(path, []byte(fileAccounts), 0o600); err != nil {
			t.Fatal(err)
		}
		s.mustReload(fileConfig(t, "accounts.yaml"))
		here, phone := s.login(aliceIn), s.another()
		mine := s.open("HTTP/2.0", "/session/", here.cookie)
		theirs := s.open("HTTP/2.0", "/session/", phone.cookie)
		byToken := s.open("HTTP/2.0", "/bearer/", here.bearer)
		s.alive(3)
		change := ownrig.ChangeTo("wonderland", "looking-glass")
		in := readLogin(t, s.want(200, "POST", "/account/password", change, jsonType, here.cookie))
		s.stub()
		time.Sleep(time.Second)
		s.alive(0)
		for _, body := range []io.Closer{mine, theirs, byToken} {
			body.Close()
		}
		again := s.open("HTTP/2.0", "/session/", in.cookie)
		time.Sleep(5 * time.Second)
		s.alive(1)
		again.Close()
	})
}

// If an operator has disabled the account in the file, which the gateway has not read since, the
// password is changed there and the login has ended. The change makes the file apply.
func TestNewPasswordOfADisabledAccount(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	here, phone, bob := r.login(aliceIn), r.another(), r.login(bobIn)
	disabled := edit(t, fileAccounts, "  name: Alice Example\n", "  name: Alice Example\n  disabled: true\n")
	if err := os.WriteFile(path, []byte(disabled), 0o640); err != nil {
		t.Fatal(err)
	}
	w := r.want(200, "POST", "/account/password", ownrig.ChangeTo("wonderland", "looking-glass"), jsonType, here.cookie)
	if cleared := w.Header().Get("Set-Cookie"); !strings.HasPrefix(cleared, "session_id=;") {
		t.Errorf("the cookie is %q", cleared)
	}
	if now := content(t, path); !strings.Contains(now, "disabled: true") || !strings.Contains(now, "$argon2id$") {
		t.Errorf("the file has\n%s", now)
	}
	r.stub()
	r.good(here, false)
	r.good(phone, false)
	r.good(bob, true)
	r.want(401, "POST", "/login", signInWith("alice", "looking-glass"), jsonType)
	r.mustReload(fileConfig(t, "accounts.yaml"))
}
