package gateway

import (
	"fmt"
	"io"
	"maps"
	"net/url"
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

// fileAccounts are alice and bob with their passwords, as an operator writes them.
const fileAccounts = `# staff
- username: alice # admin
  name: Alice Example
  roles: [user, admin]
  password_hash: "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"
- {username: bob, roles: [user], ` +
	`password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"} # builder
`

// fileConfig is the basic configuration with the accounts in a file.
func fileConfig(t testing.TB, name string) string {
	t.Helper()
	before, rest, _ := strings.Cut(baseConfig, "accounts:\n")
	_, after, _ := strings.Cut(rest, "upstreams:\n")
	return before + "accounts: {file: " + name + "}\nupstreams:\n" + after
}

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

// The new password counts at once, in the file and here. The login that set it goes on
// with new values; all other logins and the API tokens of the account end. Those of other
// accounts go on.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"accounts.yaml": fileAccounts,
		"accounts.jsonl": "# staff\n" +
			`{"username":"alice","roles":["user","admin"],` +
			`"password_hash":"$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"}` + "\n" +
			`{"username":"bob","password_hash":"$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, name, file)
			here, phone, bob := r.login(aliceIn), r.another(), r.login(bobIn)
			token := r.client.NewToken(here.cookie, "")
			r.clock.Advance(time.Minute)
			sid := r.logins(here.cookie)[0].ID
			w := r.want(200, "POST", "/account/password", ownrig.ChangeTo("wonderland", "looking-glass"), jsonType, here.cookie)
			cookie := w.Header().Get("Set-Cookie")
			if !strings.Contains(cookie, "; Max-Age=3540; HttpOnly; Secure; SameSite=Lax") {
				t.Errorf("the cookie is %q", cookie) // it ends as the old one does
			}
			r.stub()
			r.clock.Advance(1)
			r.good(here, false)
			here = readLogin(t, w)
			r.wantSession(200, here)
			r.want(200, "POST", "/refresh", refreshBody(here.refresh), jsonType)
			r.good(phone, false)
			r.good(bob, true)
			r.want(401, "GET", "/bearer/", "", "Authorization: Bearer "+token.Token)
			if all := r.logins(here.cookie); len(all) != 1 || !all[0].Current || all[0].ID != sid {
				t.Errorf("the logins are %+v", all)
			}
			r.want(401, "POST", "/login", aliceIn, jsonType)
			r.login(signInWith("alice", "looking-glass"))
			now := content(t, path)
			_, rest, _ := strings.Cut(now, "$argon2id$")
			hash, _, _ := strings.Cut(rest, `"`)
			if want := strings.Replace(file, "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW", "$argon2id$"+hash,
				1); now != want || hash == "" {
				t.Errorf("the file has\n%s\nwant\n%s", now, want)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if log := r.log.String(); strings.Count(log, `"event":"password_changed"`) != 1 ||
				strings.Contains(log, "looking-glass") || strings.Contains(log, "wonderland") || strings.Contains(log, "argon2id") {
				t.Errorf("the log has\n%s", log)
			}
			// Again, by the same login, and by a form.
			r.clock.Advance(time.Minute)
			form := "current=looking-glass&new=jabberwocky&again=jabberwocky"
			w = r.want(303, "POST", "/account/password", form, formType, here.cookie)
			if w.Header().Get("Location") != "/account?done=password" {
				t.Errorf("to %q", w.Header().Get("Location"))
			}
			r.stub()
			r.clock.Advance(1)
			r.wantSession(401, here)
			byForm := jarOf(w).Line("session_id")
			r.want(200, "GET", "/session/", "", byForm)
			r.login(signInWith("alice", "jabberwocky"))
			// After a restart everything is as before.
			again, err := startRig(t, r.dir, fileConfig(t, name), r.store, r.clock.Now)
			if err != nil {
				t.Fatal(err)
			}
			again.want(200, "GET", "/session/", "", byForm)
			again.login(signInWith("alice", "jabberwocky"))
		})
	}
}

// What is refused changes nothing.
func TestChangePasswordRefused(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	here, phone := r.login(aliceIn), r.another()
	good := ownrig.ChangeTo("wonderland", "looking-glass")
	for line, want := range map[string]int{
		"": 401, here.bearer: 403, "Authorization: Bearer x": 401, basicHeader("alice", "wonderland"): 401,
		"Cookie: session_id=x": 401,
	} {
		r.want(want, "POST", "/account/password", good, jsonType, line)
	}
	r.want(403, "POST", "/account/password", good, jsonType, here.cookie, here.bearer)
	r.want(403, "POST", "/account/password", good, jsonType, here.cookie, "Sec-Fetch-Site: cross-site")
	r.want(415, "POST", "/account/password", good, "Content-Type: text/plain", here.cookie)
	r.want(405, "GET", "/account/password", "", here.cookie)
	for _, body := range []string{
		"", "{}", "[]", `{"current":"wonderland"}`, `{"new":"looking-glass"}`, `{"current":1,"new":"looking-glass"}`,
		`{"current":"wonderland","new":null}`,
		ownrig.ChangeTo("wonderland", ""), ownrig.ChangeTo("wonderland", "1234567"),
		ownrig.ChangeTo("wonderland", "日本日本日本日"), ownrig.ChangeTo("wonderland", strings.Repeat("x", 1025)),
		"{\"current\":\"wonderland\",\"new\":\"\xff23456789\"}",
	} {
		r.want(400, "POST", "/account/password", body, jsonType, here.cookie)
	}
	for _, body := range []string{
		"", "current=wonderland", "new=looking-glass",
		"current=wonderland&new=looking-glass&new=looking-glass", "current=wonderland&new=%ff23456789",
		"current=wonderland&new=1234567&again=1234567",
		"current=wonderland&new=looking-glass&again=looking-glas", "current=wonderland&new=%zz",
	} {
		r.want(400, "POST", "/account/password", body, formType, here.cookie)
	}
	for _, current := range []string{"", "Wonderland", "builder"} {
		w := r.want(403, "POST", "/account/password", ownrig.ChangeTo(current, "looking-glass"), jsonType, here.cookie)
		if detail := detailOf(t, w); detail != "The current password is wrong." {
			t.Errorf("%q: %s", current, detail)
		}
	}
	r.good(here, true)
	r.good(phone, true)
	if got := content(t, path); got != fileAccounts {
		t.Errorf("the file has\n%s", got)
	}
}

// The eighth character is enough.
func TestChangePasswordLengths(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts)
	here, current := r.login(aliceIn), "wonderland"
	for _, next := range []string{"12345678", "日本日本日本日本", strings.Repeat("x", 1024)} {
		here = readLogin(t, r.want(200, "POST", "/account/password", ownrig.ChangeTo(current, next), jsonType, here.cookie))
		r.clock.Advance(1)
		r.login(signInWith("alice", next))
		current = next
	}
}

// Wrong current passwords are throttled together with failed sign-ins.
func TestChangePasswordIsThrottled(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts)
	here := r.login(aliceIn)
	for range 10 { // limits.login_failures
		r.want(403, "POST", "/account/password", ownrig.ChangeTo("wrong", "looking-glass"), jsonType, here.cookie)
	}
	w := r.want(429, "POST", "/account/password", ownrig.ChangeTo("wonderland", "looking-glass"), jsonType, here.cookie)
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.want(429, "POST", "/login", aliceIn, jsonType)
	r.good(here, true)
	r.clock.Advance(15 * time.Minute)
	r.want(200, "POST", "/account/password", ownrig.ChangeTo("wonderland", "looking-glass"), jsonType, here.cookie)
}

// Without a file that can be written there is no such endpoint, for anyone. An account
// that is written elsewhere keeps its password.
func TestChangePasswordElsewhere(t *testing.T) {
	t.Parallel()
	good := ownrig.ChangeTo("wonderland", "looking-glass")
	r := newRig(t, baseConfig)
	r.want(404, "POST", "/account/password", good, jsonType)
	r.want(404, "POST", "/account/password", good, jsonType, r.login(aliceIn).cookie)

	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	here := r.login(aliceIn)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.want(404, "POST", "/account/password", good, jsonType, here.cookie)

	own := strings.Replace(fileConfig(t, "accounts.yaml"), "{file: accounts.yaml}",
		`{file: accounts.yaml, users: [{username: carol, password_hash: "`+aliceHash+`"}]}`, 1)
	if err := os.WriteFile(path, []byte(fileAccounts), 0o600); err != nil {
		t.Fatal(err)
	}
	r.mustReload(own)
	carol := r.login(signInWith("carol", "wonderland"))
	r.want(404, "POST", "/account/password", good, jsonType, carol.cookie)
	r.good(carol, true)

}

// A hash that comes from a variable cannot be changed in the file.
func TestChangePasswordOfAVariable(t *testing.T) {
	t.Setenv("AUTHGATE_TEST_HASH", aliceHash)
	file := "- {username: alice, password_hash: \"${AUTHGATE_TEST_HASH}\"}\n"
	r, path := newFileRig(t, "accounts.yaml", file)
	here, phone := r.login(aliceIn), r.another()
	r.want(404, "POST", "/account/password", ownrig.ChangeTo("wonderland", "looking-glass"), jsonType, here.cookie)
	r.good(here, true)
	r.good(phone, true)
	if got := content(t, path); got != file || !strings.Contains(r.log.String(), "write it in place") {
		t.Errorf("the file has %q, the log\n%s", got, r.log)
	}
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

// With delivery by cookie, the answer has new cookies and no token, by JSON and by form.
func TestNewValuesByCookies(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts, "token: {delivery: cookie}\n")
	here, current := jarOf(r.want(200, "POST", "/login", aliceIn, jsonType)), "wonderland"
	for i, media := range []string{jsonType, formType} {
		next := fmt.Sprintf("looking-glass %d", i)
		body, status := ownrig.ChangeTo(current, next), 200
		if media == formType {
			body, status = url.Values{"current": {current}, "new": {next}}.Encode(), 303
		}
		before := maps.Clone(here)
		w := r.want(status, "POST", "/account/password", body, media, here.Line())
		here.Take(w)
		r.stub()
		r.clock.Advance(1)
		if strings.Contains(w.Body.String(), here["access_token"]) || len(here) != 4 {
			t.Errorf("the browser has %v, the answer %s", here, w.Body)
		}
		for name, value := range before {
			if value == here[name] {
				t.Errorf("%s is the same", name)
			}
		}
		for line, want := range map[string]int{before.Line(): 401, here.Line(): 200} {
			r.want(want, "GET", "/session/", "", line)
			r.want(want, "GET", "/bearer/", "", line)
			r.want(want, "POST", "/refresh", "{}", jsonType, line)
		}
		here.Take(r.want(401, "POST", "/refresh", "{}", jsonType, here.Line())) // used just now: no theft
		current = next
		here = jarOf(r.want(200, "POST", "/login", signInWith("alice", current), jsonType))
	}
}

// What a thief has of the login that changes the password opens nothing, at any host, and
// neither does a ticket that they got before. The owner comes back without a sign-in.
func TestNewPasswordAtOtherHosts(t *testing.T) {
	t.Parallel()
	const wiki, mail = "wiki.example.org", "mail.example.net"
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts, `
  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session]}
  - {match: mail.example.net/, name: mail, upstream: app, auth: [session]}
`)
	p := r.client.Person()
	p.SignIn(ownrig.PageOf(wiki), "alice")
	p.Sees(ownrig.PageOf("gw.example"), "alice")
	thief := r.client.Person()
	for host, jar := range p.Jars {
		thief.Jars[host] = maps.Clone(jar)
	}
	thief.Sees(ownrig.PageOf(wiki), "alice")
	ticket := thief.TicketOf(mail)
	const change = "current=wonderland&new=looking-glass"
	w := p.Ask("POST", "https://gw.example/account/password", change, formType, "Origin: https://gw.example")
	if w.Code != 303 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r.stub()
	r.clock.Advance(1)
	before := r.upstream.Reached()
	if w := thief.Ask("GET", ticket, ""); w.Code != 400 || thief.Jars[mail]["session_id"] != "" {
		t.Errorf("the ticket: %d, %v", w.Code, thief.Jars[mail])
	}
	for _, host := range []string{"gw.example", wiki, mail} {
		thief.IsOut(ownrig.PageOf(host))
	}
	if r.upstream.Reached() != before {
		t.Error("the thief reached the application")
	}
	for _, host := range []string{"gw.example", wiki, mail} {
		p.Sees(ownrig.PageOf(host), "alice")
	}
}

// If the store fails just then, the password is changed and the login has ended.
func TestNewPasswordWithoutNewValues(t *testing.T) {
	t.Parallel()
	for media, status := range map[string]int{jsonType: 200, formType: 303} {
		r, _ := newFileRig(t, "accounts.yaml", fileAccounts)
		here := r.login(aliceIn)
		r.store.breakIf(func(operation string, _ int64, key string) bool {
			return operation == "swap" && strings.HasPrefix(key, "login:")
		})
		body := ownrig.ChangeTo("wonderland", "looking-glass")
		if media == formType {
			body = "current=wonderland&new=looking-glass"
		}
		w := r.want(status, "POST", "/account/password", body, media, here.cookie)
		r.store.heal()
		r.stub()
		r.clock.Advance(1)
		if cleared := w.Header().Get("Set-Cookie"); !strings.HasPrefix(cleared, "session_id=;") {
			t.Errorf("the cookie is %q", cleared)
		}
		r.good(here, false)
		r.login(signInWith("alice", "looking-glass"))
	}
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

// A new password gives a remembered login new values that live as long as the old ones.
func TestRememberedAfterANewPassword(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts,
		"session: {lifetime: 1h, remember: 30d}\n"+"token: {delivery: cookie, refresh_lifetime: 2h}\n")
	jar := jarOf(r.want(200, "POST", "/login", `{"username":"alice","password":"wonderland","remember":true}`, jsonType))
	r.clock.Advance(time.Minute)
	w := r.want(200, "POST", "/account/password", ownrig.ChangeTo("wonderland", "a new password"), jsonType,
		jar.Line("session_id"))
	const day = 24 * time.Hour
	for _, name := range []string{"session_id", "refresh_token"} {
		if got := ownrig.MaxAge(t, w, name); got != 30*day-time.Minute {
			t.Errorf("%s lives for %v", name, got)
		}
	}
	jar.Take(w)
	r.stub() // the change has reloaded the accounts
	r.clock.Advance(24 * time.Hour)
	r.want(200, "GET", "/session/", "", jar.Line("session_id"))
	r.want(200, "POST", "/refresh", "", jar.Line("refresh_token"))
}
