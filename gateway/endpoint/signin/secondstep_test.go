package signin_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// A right password of an account with a factor gives nothing but the kinds of its factors. A
// code, once, gives the login.
func TestSecondFactorInJSON(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, recovery := p.addTOTP("alice")
	w := p.Want(401, "POST", "/login", rig.Alice, rig.JSON)
	noCookie(t, "without a code", w)
	if got := factorsOf(t, w); got != "totp" || w.Header()["Set-Cookie"] != nil || w.Header()["Www-Authenticate"] != nil {
		t.Errorf("the factors are %q, the header is %q", got, w.Header())
	}
	if got := factorsOf(t, p.Want(401, "POST", "/login", withCode(rig.Alice, ""), rig.JSON)); got != "totp" {
		t.Errorf("with an empty code: %q", got)
	}
	for _, code := range []string{"000000", "1", recovery[0][:9], strings.Repeat("9", 5000)} {
		noCookie(t, code, p.Want(401, "POST", "/login", withCode(rig.Alice, code), rig.JSON))
	}
	for _, code := range []string{"5", "null", "true", "[]"} {
		p.Want(400, "POST", "/login", strings.TrimSuffix(rig.Alice, "}")+`,"code":`+code+"}", rig.JSON)
	}
	for _, form := range []string{"&code=1&code=" + recovery[0], "&code=" + recovery[0] + "&code="} {
		p.Want(400, "POST", "/login", "username=alice&password=wonderland"+form, rig.Form)
	}
	code := p.code(secret)
	in := p.Login(withCode(rig.Alice, code))
	p.Good(in, true)
	if got := amrOf(t, in.Access); got != "pwd otp mfa" {
		t.Errorf("amr is %q", got)
	}
	p.Want(200, "GET", "/vault/", "", in.Cookie)
	noCookie(t, "the code again", p.Want(401, "POST", "/login", withCode(rig.Alice, code), rig.JSON))

	in = p.Login(withCode(rig.Alice, recovery[0]))
	if got := amrOf(t, in.Access); got != "pwd mfa" {
		t.Errorf("amr after a recovery code is %q", got)
	}
	noCookie(t, "the recovery code again", p.Want(401, "POST", "/login", withCode(rig.Alice, recovery[0]), rig.JSON))
	p.Good(p.Login(withCode(rig.Bob, "123456")), true) // who needs none
	if got := p.Audited(); !strings.Contains(got, "login local:alice incomplete") ||
		!strings.Contains(got, "login local:alice failure") {
		t.Errorf("the audit log is %s", got)
	}
}

// Whether an account has a factor is told only to who has the password: before that, all
// accounts and names get the same answer.
func TestNoOracleOfFactors(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, recovery := p.addTOTP("alice")
	p.addPasskey(key(true), "alice")
	var answers []string
	for _, name := range []string{"alice", "bob", "nobody"} {
		for _, code := range []string{"", `,"code":"` + p.code(secret) + `"`, `,"code":"` + recovery[0] + `"`,
			`,"code":"1"`} {
			for _, target := range []string{"/login", "/signin/passkey/options"} {
				q := rig.Request("POST", target, `{"username":"`+name+`","password":"wrong"`+code+`}`, rig.JSON)
				q.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", 10+len(answers))
				w := p.WantOf(401, q)
				w.Header().Del("X-Request-Id")
				answers = append(answers, fmt.Sprint(w.Header(), w.Body))
			}
		}
		w := p.Want(401, "POST", "/login", "username="+name+"&password=wrong", rig.Form, rig.Browser)
		if strings.Contains(w.Body.String(), `name="code"`) {
			t.Errorf("%s: a wrong password leads to the second step", name)
		}
		p.Clock.Advance(time.Hour)
	}
	if different := slices.Compact(answers); len(different) != 1 {
		t.Errorf("the answers differ: %q", different)
	}
	p.Login(withCode(rig.Alice, recovery[0])) // which no wrong password has used up
}

// Neither Basic, nor a token, nor a refresh is a way around a second factor.
func TestNoWayAroundTheSecondFactor(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	before := p.Login(rig.Alice)
	token := p.NewToken(before.Cookie, "").Token
	secret, _ := p.addTOTP("alice")
	w := p.Want(401, "POST", "/login", "", rig.Basic("alice", "wonderland"))
	noCookie(t, "Basic", w)
	if got := w.Header().Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
		t.Errorf("the challenge is %q", got)
	}
	for _, query := range []string{"?mechanism=bearer", "?mechanism=session", "?code=" + p.code(secret)} {
		noCookie(t, query, p.Want(401, "POST", "/login"+query, rig.Alice, rig.JSON))
	}
	w = p.Want(200, "POST", "/login", rig.AliceForm, rig.Form, rig.Browser)
	noCookie(t, "a form", w)
	noCookie(t, "a form of a program", p.Want(401, "POST", "/login", rig.AliceForm, rig.Form))
	// The login from before ends, and does not become one with two factors.
	p.Good(before, false)
	p.Want(401, "POST", "/refresh", rig.RefreshBody(before.Refresh), rig.JSON)
	in := p.Login(withCode(rig.Alice, p.code(secret)))
	if again := p.Refresh(in.Refresh); amrOf(t, again.Access) != "pwd otp mfa" {
		t.Errorf("a refresh makes amr %q", amrOf(t, again.Access))
	}
	bob := p.Refresh(p.Login(withCode(rig.Bob, p.nextCode(secret))).Refresh)
	p.Want(401, "GET", "/vault/", "", bob.Bearer)
	p.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+token) // API tokens are not affected
	p.Want(401, "GET", "/vault/", "", "Authorization: Bearer "+token)
}

// Codes cannot be guessed: a wrong one is a failed login of the account, from whatever
// address. Who was there before is not locked out by that.
func TestBruteForceOfCodes(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, recovery := p.addTOTP("alice")
	at := func(status, from int, body string) *httptest.ResponseRecorder {
		t.Helper()
		q := rig.Request("POST", "/login", body, rig.JSON)
		q.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", from)
		return p.WantOf(status, q)
	}
	at(200, 7, withCode(rig.Alice, p.code(secret))) // alice is known there
	for i := range 10 {
		at(401, 100+i, rig.Alice) // the right password alone makes no address known
		at(401, 100+i, withCode(rig.Alice, fmt.Sprintf("%06d", i)))
	}
	code := p.nextCode(secret)
	for i := range 20 {
		noCookie(t, "a right code", at(429, 100+i, withCode(rig.Alice, code)))
	}
	at(429, 150, withCode(rig.Alice, recovery[0]))
	at(200, 7, withCode(rig.Alice, p.nextCode(secret)))
	p.Clock.Advance(5 * time.Minute)
	at(200, 150, withCode(rig.Alice, recovery[0]))

	// By the page it is the same, however many second steps begin.
	mallory := p.Person()
	guesses, throttled := 0, 0
	for range 30 {
		_, page := mallory.Visit("POST", "https://gw.example/login", rig.AliceForm, rig.Form, "Origin: https://gw.example")
		if page.Code == 429 {
			throttled++
			continue
		}
		switch w := mallory.enter(page, "123456"); w.Code {
		case 401:
			guesses++
		case 429:
			throttled++
		}
	}
	if guesses > 10 || throttled < 20 {
		t.Errorf("%d codes were guessed, %d refused", guesses, throttled)
	}
}

// After 50 wrong codes in a row, from many addresses and over days, a right one opens nothing. The user
// reads why at the next sign-in, and gets in by a recovery code. Then the account page tells them that
// somebody may know the password.
func TestCodesStopToCount(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, recovery := p.addTOTP("alice")
	for i := range 50 {
		q := rig.Request("POST", "/login", withCode(rig.Alice, fmt.Sprintf("%06d", i)), rig.JSON)
		q.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", i)
		noCookie(t, "a wrong code", p.WantOf(401, q))
		p.Clock.Advance(5 * time.Minute)
	}
	w := p.Want(401, "POST", "/login", withCode(rig.Alice, p.nextCode(secret)), rig.JSON)
	noCookie(t, "a right code", w)
	if !strings.Contains(w.Body.String(), "do not count any more") || strings.Contains(w.Body.String(),
		"wrong, too old") {
		t.Errorf("a program reads %s", w.Body)
	}
	alice := p.Person()
	const told = "Codes from your app do not count any more"
	_, page := alice.SignIn(rig.PageOf("gw.example"), "alice")
	rig.WantPage(t, page, told, "Lost your device?", `id="recovery"`, `not id="code"`)
	again := alice.enter(page, p.nextCode(secret))
	if rig.WantPage(t, again, told, `id="recovery"`, `not id="code"`); again.Code != 401 {
		t.Errorf("a code on the page: %d", again.Code)
	}
	alice.IsOut(rig.PageOf("gw.example"))
	if w := alice.enter(again, recovery[0]); w.Code != 303 {
		t.Errorf("a recovery code: %d %s", w.Code, w.Body)
	}
	const warning = "somebody knows your password"
	_, page = alice.Visit("GET", "https://gw.example/account", "")
	rig.WantPage(t, page, warning)
	in := p.Login(withCode(rig.Alice, p.nextCode(secret)))
	rig.WantPage(t, p.Want(200, "GET", "/account", "", in.Cookie, rig.Browser), warning)
	rig.WantPage(t, p.Want(200, "GET", "/account", "", p.Login(rig.Bob).Cookie, rig.Browser), "not "+warning)
	if !strings.Contains(p.Log.String(), "codes of the app have stopped to count") {
		t.Error("the audit log does not say why")
	}
}

// person is a browser that can fill in the page of the second step.
type person struct{ *rig.Person }

func (p *people) Person() *person { return &person{p.Rig.Person()} }

// enter sends the code form of a page and returns the answer.
func (p *person) enter(page *httptest.ResponseRecorder, code string) *httptest.ResponseRecorder {
	p.T.Helper()
	action, fields := formWith(p.T, page, "code")
	fields.Set("code", code)
	return p.Ask("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example")
}

// A browser gets a second page, which has no password in it and works in this browser alone,
// for one sign-in and for ten minutes.
func TestSecondStepOnThePage(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, recovery := p.addTOTP("alice")
	alice := p.Person()
	place := rig.PageOf("gw.example")
	at, page := alice.SignIn(place, "alice")
	rig.WantPage(t, page, "Second step", `name="code"`, `autocomplete="one-time-code"`, "alice", "Lost your device?",
		"not wonderland", `not type="password"`, `not name="password"`, "not <script")
	if page.Code != 200 || at != "https://gw.example/login" || len(alice.Jars["gw.example"]) != 1 {
		t.Errorf("at %s: %d with %v", at, page.Code, alice.Jars)
	}
	alice.IsOut(place)
	for _, wrong := range []string{"000000", "", "x"} {
		w := alice.enter(page, wrong)
		rig.WantPage(t, w, "This code is wrong", `name="code"`)
		if w.Code != 401 {
			t.Errorf("%q: %d", wrong, w.Code)
		}
		alice.IsOut(place)
	}
	mallory := p.Person() // who has got hold of the page, and of a code
	code := p.nextCode(secret)
	for _, jar := range []rig.Jar{{}, {"__Host-authgate_login": strings.Repeat("A", 43)}} {
		mallory.Jars["gw.example"] = jar
		if w := mallory.enter(page, code); w.Code != 400 {
			t.Errorf("in another browser: %d", w.Code)
		}
		mallory.IsOut(place)
	}
	again := alice.enter(page, "1")
	if w := alice.enter(again, code); w.Code != 303 || w.Header().Get("Location") != "/session/x?y=%2F&z" {
		t.Errorf("%d, on to %q", w.Code, w.Header().Get("Location"))
	}
	alice.Sees(place, "alice")
	if w := alice.enter(page, p.nextCode(secret)); w.Code != 400 ||
		!strings.Contains(w.Body.String(), "/signin?return_to=") {
		t.Errorf("the step again: %d %s", w.Code, w.Body)
	}
	alice.Sees(place, "alice")

	bob := p.Person()
	_, page = bob.SignIn(place, "alice")
	p.Clock.Advance(10 * time.Minute)
	if w := bob.enter(page, p.code(secret)); w.Code != 400 {
		t.Errorf("after ten minutes: %d", w.Code)
	}
	_, page = bob.SignIn(place, "alice")
	if w := bob.enter(page, recovery[2]); w.Code != 303 {
		t.Errorf("with a recovery code: %d %s", w.Code, w.Body)
	}
	bob.Sees(place, "alice")

	// A change of the account ends what has begun.
	_, page = mallory.SignIn(place, "alice")
	p.addPasskey(key(true), "alice")
	if w := mallory.enter(page, recovery[3]); w.Code != 400 {
		t.Errorf("after a change of the account: %d", w.Code)
	}
	for _, body := range []string{"", "code=1", "step=x", "step=x&code=1&code=2", "step=x&step=y&code=1", "%zz"} {
		p.Want(400, "POST", "/signin/code", body, rig.Form)
	}
	p.Want(415, "POST", "/signin/code", "{}", rig.JSON)
	p.Want(405, "GET", "/signin/code", "")
}

// The second step leads on as the first would have: to another host, and with the wish to
// stay signed in.
func TestSecondStepLeadsOn(t *testing.T) {
	t.Parallel()
	p := newPeopleOf(t, strings.Replace(rig.FiveHostsConfig, "store:", "session: {remember: 720h}\nstore:", 1))
	secret, _ := p.addTOTP("alice")
	alice := p.Person()
	_, page := alice.Visit("GET", rig.PageOf("wiki.example.org"), "")
	action, fields := formWith(t, page, "username")
	fields.Set("username", "alice")
	fields.Set("password", "wonderland")
	fields.Set("remember", "true")
	_, page = alice.Visit("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example")
	again := alice.enter(page, "000000")
	action, fields = formWith(t, again, "code")
	fields.Set("code", p.code(secret))
	at, w := alice.Visit("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example")
	if at != rig.PageOf("wiki.example.org") || w.Code != 200 {
		t.Errorf("at %s by %q: %d", at, alice.Trail, w.Code)
	}
	p.Clock.Advance(29 * 24 * time.Hour)
	alice.Sees(rig.PageOf("wiki.example.org"), "alice")
}

// A user who needs two factors proves them with the sign-in that the page asks for.
func TestStepUpWithTheSecondFactor(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "  - {match: /fresh/, upstream: app, auth: [session], policy: {factors: 2, max_age: 15m}}\n")
	secret, _ := p.addTOTP("alice")
	alice := p.Person()
	signIn := func(place string) {
		t.Helper()
		_, page := alice.Visit("GET", place, "")
		_, page = alice.Post(page, "alice")
		before := p.Reached()
		if w := alice.enter(page, p.nextCode(secret)); w.Code != 303 || p.Reached() != before {
			t.Errorf("%d", w.Code)
		}
		alice.Sees(place, "alice")
	}
	signIn("https://gw.example/vault/x")
	signedIn := maps.Clone(alice.Jars["gw.example"])
	p.Clock.Advance(16 * time.Minute)
	signIn("https://gw.example/fresh/x")
	if alice.Jars["gw.example"]["session_id"] == signedIn["session_id"] {
		t.Error("the session is the same")
	}
}

// Of equal codes that come to two instances at once, one signs in.
func TestReplayOfACode(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, recovery := p.addTOTP("alice")
	other := p.Instance(p.yaml)
	for _, code := range []string{p.code(secret), recovery[0]} {
		if won := atOnce(t, p.Rig, other, 8, func(int) *http.Request {
			return rig.Request("POST", "/login", withCode(rig.Alice, code), rig.JSON)
		}); won != 1 {
			t.Errorf("%d sign-ins with the code %s", won, code)
		}
		p.Clock.Advance(time.Hour)
	}
}

// atOnce sends n requests to two instances at once, each from another address, and returns how
// many were answered with 200. The others must be 401.
func atOnce(t *testing.T, one, other *rig.Rig, n int, request func(i int) *http.Request) int {
	t.Helper()
	var won atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		instance := one
		if i%2 == 1 {
			instance = other
		}
		q := request(i)
		q.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i)
		all.Go(func() {
			<-start
			if w := instance.Serve(q); w.Code == 200 {
				won.Add(1)
			} else if w.Code != 401 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	close(start)
	all.Wait()
	return int(won.Load())
}

// Without an answer of the store there is no login and no cookie.
func TestSecondFactorWithoutTheStore(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, _ := p.addTOTP("alice")
	for name, outage := range rig.Outages {
		rig.EachFailure(p.Client, p.Store, outage, func(broken func(*http.Request) *httptest.ResponseRecorder) {
			w := broken(rig.Request("POST", "/login", withCode(rig.Alice, p.nextCode(secret)), rig.JSON))
			if w.Code != 200 {
				noCookie(t, name, w)
			}
			if w.Code != 200 && w.Code != 503 {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		})
	}
}

// formWith returns the action and the fields of the first form of a page that has a field.
func formWith(t testing.TB, w *httptest.ResponseRecorder, field string) (action string, fields url.Values) {
	t.Helper()
	for part := range strings.SplitSeq(w.Body.String(), "<form") {
		part, _, ended := strings.Cut(part, "</form>")
		if ended && strings.Contains(part, `name="`+field+`"`) {
			one := httptest.NewRecorder()
			one.Body.WriteString("<form" + part + "</form>")
			return rig.FormOf(t, one)
		}
	}
	t.Fatalf("%d: no form has the field %s:\n%s", w.Code, field, w.Body)
	return "", nil
}

// Without the key of TOTP secrets, or the store, the password alone opens nothing. The log names
// the loss of the key; recovery codes go on. Without the file of accounts, no recovery code can be
// used up, and none counts.
func TestLostKeyOpensNothing(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, recovery := p.addTOTP("alice")
	must.Do(t, os.Remove(p.file+".key"))
	lost := newPeopleAt(t, p.file, p.yaml) // another store, another data_dir
	lost.Clock.Advance(p.Clock.Now().Sub(lost.Clock.Now()))
	noCookie(t, "the password", lost.Want(401, "POST", "/login", rig.Alice, rig.JSON))
	noCookie(t, "a code", lost.Want(503, "POST", "/login", withCode(rig.Alice, p.code(secret)), rig.JSON))
	if line := fmt.Sprint(lost.Log.Last(t, "request")); !strings.Contains(line, "the TOTP secret cannot be decrypted") {
		t.Errorf("the log says %s", line)
	}
	must.Do(t, os.Rename(p.file, p.file+".away"))
	noCookie(t, "a recovery code", lost.Want(503, "POST", "/login", withCode(rig.Alice, recovery[0]), rig.JSON))
	if line := fmt.Sprint(lost.Log.Last(t, "request")); !strings.Contains(line, p.file) {
		t.Errorf("the log says %s", line)
	}
	must.Do(t, os.Rename(p.file+".away", p.file))
	lost.Login(withCode(rig.Alice, recovery[0]))
}
