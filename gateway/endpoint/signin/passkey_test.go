package signin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// answerTo returns the answer of an authenticator to options.
func answerTo(t testing.TB, a *authenticator.Authenticator, options []byte) string {
	t.Helper()
	return string(must.Get(a.Get(options))(t))
}

// A passkey signs in without a user name. It proves two factors.
func TestPasskeySignsIn(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	alice := key(true)
	p.addPasskey(alice, "alice")
	for _, body := range []string{"", "{}"} {
		begun := options(p.Client, body)
		var shown struct {
			RPID             string `json:"rpId"`
			UserVerification string
			Allow            []any `json:"allowCredentials"`
			Challenge        string
		}
		must.Do(t, json.Unmarshal(begun, &shown))
		if shown.RPID != "gw.example" || shown.UserVerification != "required" || len(shown.Allow) > 0 ||
			len(shown.Challenge) != 43 {
			t.Errorf("the options are %s", begun)
		}
		w := p.Want(200, "POST", "/signin/passkey", answerTo(t, alice, begun), rig.JSON)
		if got := issued(p.Rig, w); got != "session" {
			t.Errorf("a passkey issues %q", got)
		}
		before := p.Reached()
		p.Want(200, "GET", "/vault/", "", rig.JarOf(w).Line())
		if p.Reached() != before+1 || p.LastUser() != "alice" {
			t.Errorf("%d requests, of %s", p.Reached()-before, p.LastUser())
		}
	}
	w := p.Want(200, "POST", "/signin/passkey?mechanism=bearer", answerTo(t, alice, options(p.Client, "")), rig.JSON)
	if got := amrOf(t, rig.ReadLogin(t, w).Access); got != "hwk user mfa" {
		t.Errorf("amr is %q", got)
	}
	// A passkey is no less good while passwords are guessed.
	for range 10 {
		p.Do("POST", "/login", `{"username":"alice","password":"x"}`, rig.JSON)
	}
	p.Want(429, "POST", "/login", rig.Alice, rig.JSON)
	p.Want(200, "POST", "/signin/passkey", answerTo(t, alice, options(p.Client, "")), rig.JSON)
}

// After the password, a passkey without verification is the second factor, and only one of
// the account's.
func TestPasskeyAfterThePassword(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	alice, bob := key(false), key(false)
	p.addPasskey(alice, "alice")
	p.addPasskey(bob, "bob")
	if got := factorsOf(t, p.Want(401, "POST", "/login", rig.Alice, rig.JSON)); got != "passkey" {
		t.Errorf("the factors are %q", got)
	}
	noCookie(t, "alone", p.Want(401, "POST", "/signin/passkey", answerTo(t, alice, options(p.Client, "")), rig.JSON))
	begun := options(p.Client, rig.Alice)
	id := authenticator.Encode(alice.Credentials[0].ID)
	if !strings.Contains(string(begun), id) ||
		strings.Contains(string(begun), authenticator.Encode(bob.Credentials[0].ID)) {
		t.Errorf("the options are %s", begun)
	}
	w := p.Want(200, "POST", "/signin/passkey?mechanism=bearer", answerTo(t, alice, begun), rig.JSON)
	if got := amrOf(t, rig.ReadLogin(t, w).Access); got != "pwd hwk mfa" {
		t.Errorf("amr is %q", got)
	}
	// Bob's passkey after alice's password, with the options as a hostile browser shows them.
	crossed := strings.ReplaceAll(string(options(p.Client, rig.Alice)), id, authenticator.Encode(bob.Credentials[0].ID))
	noCookie(t, "another user's passkey",
		p.Want(401, "POST", "/signin/passkey", answerTo(t, bob, []byte(crossed)), rig.JSON))

	secret, _ := p.addTOTP("bob")
	if got := factorsOf(t, p.Want(401, "POST", "/login", rig.Bob, rig.JSON)); got != "totp passkey" {
		t.Errorf("the factors are %q", got)
	}
	p.Login(withCode(rig.Bob, p.code(secret)))
	for _, body := range []string{`{"username":"alice"}`, `{"password":"x"}`, `{"username":1,"password":"x"}`, "[]", "x",
		`{"username":"a","username":"b","password":""}`} {
		p.Want(400, "POST", "/signin/passkey/options", body, rig.JSON)
	}
	p.Want(401, "POST", "/signin/passkey/options", `{"username":"alice","password":"x"}`, rig.JSON)
	p.Want(401, "POST", "/signin/passkey/options", `{"username":"nobody","password":"x"}`, rig.JSON)
	p.Want(415, "POST", "/signin/passkey/options", "username=alice&password=wonderland", rig.Form)
}

// An account without a passkey has no options, and its password says so.
func TestPasswordWithoutAPasskey(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	p.addTOTP("alice")
	if got := factorsOf(t, p.Want(401, "POST", "/signin/passkey/options", rig.Alice, rig.JSON)); got != "totp" {
		t.Errorf("the factors are %q", got)
	}
	w := p.Want(401, "POST", "/signin/passkey/options", rig.Bob, rig.JSON)
	noCookie(t, "a password", w)
	if got := w.Body.String(); !strings.Contains(got, `"detail":"The password is right. This account has no passkey."`) {
		t.Errorf("an account without factors: %s", got)
	}
}

// What a passkey has signed counts once, at the place and for the challenge that it was
// signed for. Nothing else gives a session.
func TestForgedPasskeyAnswers(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	alice, bob := key(true), key(true)
	p.addPasskey(alice, "alice")
	p.addPasskey(bob, "bob")
	refuse := func(what string, status int, answer string) {
		t.Helper()
		before := p.Reached()
		w := p.Want(status, "POST", "/signin/passkey", answer, rig.JSON)
		noCookie(t, what, w)
		p.Want(401, "GET", "/session/", "", rig.JarOf(w).Line())
		if p.Reached() != before {
			t.Errorf("%s: the application was reached", what)
		}
	}
	answer := answerTo(t, alice, options(p.Client, ""))
	p.Want(200, "POST", "/signin/passkey", answer, rig.JSON)
	refuse("the answer again", 401, answer)
	begun := options(p.Client, "")
	for what, forge := range map[string]func(a *authenticator.Authenticator){
		"another origin":    func(a *authenticator.Authenticator) { a.Origin = "https://gw.example.evil.example" },
		"another port":      func(a *authenticator.Authenticator) { a.Origin = "https://gw.example:8443" },
		"another scheme":    func(a *authenticator.Authenticator) { a.Origin = "http://gw.example" },
		"a subdomain":       func(a *authenticator.Authenticator) { a.Origin = "https://app.gw.example" },
		"another RP ID":     func(a *authenticator.Authenticator) { a.RPID = "evil.example" },
		"another user's id": func(a *authenticator.Authenticator) { a.Credentials[0].ID = bob.Credentials[0].ID },
		"an unknown id":     func(a *authenticator.Authenticator) { a.Credentials[0].ID = []byte("unknown") },
		"another user": func(a *authenticator.Authenticator) {
			a.Credentials[0].UserHandle = bob.Credentials[0].UserHandle
		},
		"no user":          func(a *authenticator.Authenticator) { a.Anonymous = true },
		"another key":      func(a *authenticator.Authenticator) { a.Credentials[0].Key = bob.Credentials[0].Key },
		"no verification":  func(a *authenticator.Authenticator) { a.Verified = false },
		"no user there":    func(a *authenticator.Authenticator) { a.Absent = true },
		"an older counter": func(a *authenticator.Authenticator) { a.Credentials[0].Counter = 0 },
		"another challenge": func(a *authenticator.Authenticator) {
			a.ClientData = func(c map[string]any) { c["challenge"] = strings.Repeat("A", 43) }
		},
		"a frame": func(a *authenticator.Authenticator) {
			a.ClientData = func(c map[string]any) { c["crossOrigin"] = true }
		},
		"another ceremony": func(a *authenticator.Authenticator) {
			a.ClientData = func(c map[string]any) { c["type"] = "webauthn.create" }
		},
		"an earlier success": func(a *authenticator.Authenticator) { a.NoCounter = true },
	} {
		forged := alice.Clone()
		forge(forged)
		refuse(what, 401, answerTo(t, forged, options(p.Client, "")))
	}
	for _, body := range []string{"", "{}", "[]", "x", `{"id":"x","response":{}}`, strings.Repeat("[", 1000)} {
		refuse("no answer", 400, body)
	}
	p.Clock.Advance(10 * time.Minute)
	refuse("after ten minutes", 401, answerTo(t, alice, begun))
	p.Want(415, "POST", "/signin/passkey", answer, "Content-Type: text/plain")
	p.Want(405, "GET", "/signin/passkey", "")
	// Another site cannot sign its visitors in.
	for _, site := range rig.Sites {
		status := 200
		if site.Foreign {
			status = 403
		}
		w := p.Want(status, "POST", "/signin/passkey", answerTo(t, alice, options(p.Client, "")),
			append(site.Headers, rig.JSON)...)
		if site.Foreign {
			noCookie(t, fmt.Sprint(site.Headers), w)
		}
	}
}

// Of equal answers that come to two instances at once, one signs in, and so it is with those of
// two copies of an authenticator.
func TestReplayOfAnAssertion(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	alice := key(true)
	p.addPasskey(alice, "alice")
	other := p.Instance(p.yaml)
	answer := answerTo(t, alice, options(p.Client, ""))
	var copies []string
	for range 8 {
		copies = append(copies, answerTo(t, alice.Clone(), options(p.Client, "")))
	}
	for _, answers := range [][]string{slices.Repeat([]string{answer}, len(copies)), copies} {
		if won := atOnce(t, p.Rig, other, len(answers), func(i int) *http.Request {
			return rig.Request("POST", "/signin/passkey", answers[i], rig.JSON)
		}); won != 1 {
			t.Errorf("%d sign-ins", won)
		}
	}
}

// The sign-in page has passkeys among what browsers fill in, and leads on as after a password.
func TestPasskeyOnThePage(t *testing.T) {
	t.Parallel()
	p := newPeopleOf(t, rig.FiveHostsConfig)
	device := key(true)
	p.addPasskey(device, "alice")
	alice := p.Person()
	_, page := alice.Visit("GET", rig.PageOf("wiki.example.org"), "")
	rig.WantPage(t, page, `autocomplete="username webauthn"`, `data-options="/signin/passkey/options"`,
		"Sign in with a passkey",
		"<script>", "<div hidden data-passkeys>", `type="password"`)
	csp := page.Header().Get("Content-Security-Policy")
	if !strings.Contains(csp, "script-src 'sha256-") || strings.Contains(csp, "unsafe") {
		t.Errorf("the policy is %s", csp)
	}
	send := func(
		page *httptest.ResponseRecorder, body string, a *authenticator.Authenticator,
	) (string, *httptest.ResponseRecorder) {
		t.Helper()
		action, fields := formWith(t, page, "credential")
		place := attributeOf(t, page, "data-options")
		begun := alice.Ask("POST", "https://gw.example"+place, body, rig.JSON, "Origin: https://gw.example")
		if begun.Code != 200 {
			t.Fatalf("%s: %d %s", place, begun.Code, begun.Body)
		}
		fields.Set("credential", answerTo(t, a, begun.Body.Bytes()))
		return alice.Visit("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example")
	}
	stranger := device.Clone()
	stranger.Origin = "https://evil.example"
	_, again := send(page, "{}", stranger)
	rig.WantPage(t, again, "The passkey was not accepted", `name="credential"`, "https://wiki.example.org/x")
	if again.Code != 401 {
		t.Errorf("a passkey that is refused: %d", again.Code)
	}
	if at, w := send(again, "{}", device); at != rig.PageOf("wiki.example.org") || w.Code != 200 {
		t.Errorf("at %s by %q: %d", at, alice.Trail, w.Code)
	}

	// As the second step, a passkey without verification is enough, if it is the account's.
	alice = p.Person()
	simple, bobs := key(false), key(true)
	p.addPasskey(simple, "alice")
	p.addPasskey(bobs, "bob")
	place := rig.PageOf("gw.example")
	_, page = alice.SignIn(place, "alice")
	rig.WantPage(t, page, "Continue with a passkey", "Lost your passkey?", "data-options=\"/signin/passkey/options?step=",
		"not wonderland")
	for what, credential := range map[string]string{"": "", "x": "x"} {
		action, fields := formWith(t, page, "credential")
		fields.Set("credential", credential)
		w := alice.Ask("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example")
		if w.Code != 400 {
			t.Errorf("%q: %d", what, w.Code)
		}
	}
	// Another user's own passkey, with options of its own, does not end alice's step.
	action, fields := formWith(t, page, "credential")
	fields.Set("credential", answerTo(t, bobs, options(p.Client, "")))
	w := alice.Ask("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example")
	if w.Code != 401 {
		t.Errorf("another user's passkey: %d", w.Code)
	}
	noCookie(t, "another user's passkey", w)
	mallory := p.Person()
	if w := mallory.Ask("POST", "https://gw.example"+attributeOf(t, page, "data-options"), "{}", rig.JSON); w.Code != 400 {
		t.Errorf("options in another browser: %d", w.Code)
	}
	if at, w := send(page, "{}", simple); at != place || w.Code != 200 {
		t.Errorf("at %s by %q: %d", at, alice.Trail, w.Code)
	}
	alice.Sees(place, "alice")
}

func attributeOf(t testing.TB, w *httptest.ResponseRecorder, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(w.Body.String(), " "+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("the page has no %s", name)
	}
	return strings.ReplaceAll(value, "&amp;", "&")
}

// Where there are no passkeys, their endpoints are not there, and an account that has one is
// not open to its password alone.
func TestPasskeysOff(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	alice := key(true)
	p.addPasskey(alice, "alice")
	answer := answerTo(t, alice, options(p.Client, ""))
	p.Reload(p.yaml + "factors: {passkeys: false}\n")
	p.Want(404, "POST", "/signin/passkey", answer, rig.JSON)
	p.Want(404, "POST", "/signin/passkey/options", "{}", rig.JSON)
	w := p.Want(401, "POST", "/login", rig.Alice, rig.JSON)
	noCookie(t, "the password alone", w)
	if got := factorsOf(t, w); got != "passkey" {
		t.Errorf("the factors are %q", got)
	}
	rig.WantPage(t, p.Want(200, "GET", "/signin", "", rig.Browser), `autocomplete="username"`, "not <script",
		"not data-passkey")
	rig.WantPage(t, p.Want(200, "POST", "/login", rig.AliceForm, rig.Form, rig.Browser), `name="code"`, "not data-passkey")

	// Without a file of accounts no user can have a passkey.
	plain := rig.New(t, rig.Base)
	rig.WantPage(t, plain.Want(200, "GET", "/signin", "", rig.Browser), `autocomplete="username"`, "not <script")
	address := newPeopleOf(t, strings.Replace(rig.Base, "https://gw.example", "https://192.0.2.1", 1))
	address.WantAt("192.0.2.1", 404, "POST", "/signin/passkey/options", "{}", rig.JSON)
}

// Options are records in the store, and each look at an invitation reads it. One address cannot
// fill it, or guess without end.
func TestTooManyStarts(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	for _, c := range []struct {
		method, target, body string
		status               int // of those that are not too many
	}{
		{"POST", "/signin/passkey/options", "{}", 200},
		{"GET", "/signin/invite?token=x", "", 400},
	} {
		refused := 0
		for range 1100 {
			w := p.Do(c.method, c.target, c.body, rig.JSON)
			if w.Code == 429 && w.Header().Get("Retry-After") == "1" &&
				strings.Contains(w.Body.String(), "sign-ins were begun") {
				refused++
			}
		}
		if refused != 100 {
			t.Errorf("%s: %d of 1100 were refused", c.target, refused)
		}
		q := rig.Request(c.method, c.target, c.body, rig.JSON)
		q.RemoteAddr = "198.51.100.1:1"
		p.WantOf(c.status, q)
	}
}
