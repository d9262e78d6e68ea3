package gateway

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// factorEndpoints are the endpoints that change factors, with a body that is understood.
var factorEndpoints = map[string]string{
	"/account/passkeys/options": "{}", "/account/passkeys": `{"name":"key","credential":{}}`,
	"/account/passkeys/remove": `{"id":"AA"}`, "/account/totp": "{}", "/account/totp/confirm": `{"code":"123456"}`,
	"/account/totp/remove": "{}", "/account/recovery-codes": "{}",
}

// read reads the members of an answer.
func read[T any](t testing.TB, w *httptest.ResponseRecorder) (answer T) {
	t.Helper()
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer
}

type newSecret struct{ Secret, URI string }

type newCodes struct {
	ID, Name string
	Codes    []string `json:"recovery_codes"`
}

// addTOTP adds an app to the account of a session, and returns its secret and the recovery codes.
func (r *rig) addTOTP(cookie string) (secret string, codes []string) {
	r.t.Helper()
	made := read[newSecret](r.t, r.want(201, "POST", "/account/totp", "{}", jsonType, cookie))
	code := must.Get(authenticator.Code(made.Secret, r.clock.Now()))(r.t)
	w := r.want(200, "POST", "/account/totp/confirm", `{"code":"`+code+`"}`, jsonType, cookie)
	r.stub()
	return made.Secret, read[newCodes](r.t, w).Codes
}

// addPasskey adds a passkey to the account of a session.
func (r *rig) addPasskey(a *authenticator.Authenticator, name, cookie string) newCodes {
	r.t.Helper()
	options := r.want(200, "POST", "/account/passkeys/options", "", cookie).Body.Bytes()
	body := passkeyBody(name, must.Get(a.Create(options))(r.t))
	w := r.want(201, "POST", "/account/passkeys", body, jsonType, cookie)
	r.stub()
	return read[newCodes](r.t, w)
}

func passkeyBody(name string, credential []byte) string {
	body, _ := json.Marshal(map[string]any{"name": name, "credential": json.RawMessage(credential)})
	return string(body)
}

func newAuthenticator() *authenticator.Authenticator {
	return &authenticator.Authenticator{Origin: "https://gw.example", Verified: true}
}

// wantFactors checks what a user sees of their factors, and that it tells no secret.
func (r *rig) wantFactors(want, cookie string) {
	r.t.Helper()
	if got := strings.TrimSpace(r.want(200, "GET", "/account/factors", "", cookie).Body.String()); got != want {
		r.t.Errorf("the factors are %s, want %s", got, want)
	}
}

const noFactors = `{"passkeys":[],"totp":false,"recovery_codes":0}`

type proved struct {
	AMR      []string
	AuthTime int64 `json:"auth_time"`
}

// An app counts when its first code has come. The login that adds it has used it, and goes on
// with what it has; the other logins of the account end. The last factor takes the recovery
// codes along.
func TestAddTOTP(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"accounts.yaml": fileAccounts,
		"accounts.jsonl": `{"username":"alice","roles":["user"],"password_hash":"` + aliceHash + `"}` + "\n" +
			`{"username":"bob","password_hash":"$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, name, file)
			here, phone, bob := r.login(aliceIn), r.another(), r.login(bobIn)
			token := "Authorization: Bearer " + r.client.NewToken(here.cookie, "").Token
			before := read[proved](t, r.want(200, "GET", "/me", "", here.cookie))
			r.clock.Advance(time.Minute)
			r.wantFactors(noFactors, here.cookie)
			made := read[newSecret](t, r.want(201, "POST", "/account/totp", "", here.cookie))
			if len(made.Secret) != 32 || !strings.HasPrefix(made.URI, "otpauth://totp/gw.example:alice?") {
				t.Errorf("made %+v", made)
			}
			r.want(403, "POST", "/account/totp/confirm", `{"code":"000000"}`, jsonType, here.cookie)
			r.want(403, "POST", "/account/totp/confirm", `{"code":""}`, jsonType, here.cookie)
			r.wantFactors(noFactors, here.cookie)
			if got := content(t, path); got != file {
				t.Errorf("before the code, the file has\n%s", got)
			}
			r.good(phone, true)
			secret, codes := r.addTOTP(here.cookie)
			if len(codes) != 10 || secret == made.Secret {
				t.Errorf("%d codes", len(codes))
			}
			r.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":10}`, here.cookie)
			r.good(here, true)
			r.good(phone, false)
			r.good(bob, true)
			r.want(200, "GET", "/bearer/", "", token)
			after := read[proved](t, r.want(200, "GET", "/me", "", here.cookie))
			if diff := cmp.Diff(proved{[]string{"pwd", "otp", "mfa"}, before.AuthTime}, after); diff != "" {
				t.Errorf("the login has proved (-want +got):\n%s", diff)
			}
			if all := content(t, path) + r.log.String(); strings.Contains(all, secret) || strings.Contains(all, codes[0]) {
				t.Error("the file or the log has a secret")
			}
			r.want(409, "POST", "/account/totp/confirm", `{"code":"123456"}`, jsonType, here.cookie) // used up
			again := read[newCodes](t, r.want(200, "POST", "/account/recovery-codes", "{}", jsonType, here.cookie)).Codes
			if len(again) != 10 || slices.Contains(again, codes[0]) {
				t.Errorf("new codes: %q", again)
			}
			restarted := must.Get(startRig(t, r.dir, fileConfig(t, name), r.store, r.clock.Now))(t)
			restarted.want(200, "GET", "/session/", "", here.cookie)
			restarted.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":10}`, here.cookie)
			r.want(200, "POST", "/account/totp/remove", "{}", jsonType, here.cookie)
			r.wantFactors(noFactors, here.cookie)
			r.want(404, "POST", "/account/totp/remove", "{}", jsonType, here.cookie)
			r.want(409, "POST", "/account/recovery-codes", "{}", jsonType, here.cookie)
			r.stub()
			r.wantSession(200, here)
			log := r.log.String()
			for event, n := range map[string]int{"factor_added": 1, "factor_removed": 1, "recovery_codes_replaced": 1} {
				if got := strings.Count(log, `"event":"`+event+`"`); got != n {
					t.Errorf("%d events %s, want %d", got, event, n)
				}
			}
		})
	}
}

// A passkey is for the account whose user asked for it. With the first factor come recovery
// codes.
func TestAddPasskey(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	here, phone, bob := r.login(aliceIn), r.another(), r.login(bobIn)
	key := newAuthenticator()
	first := r.addPasskey(key, "Zoë's “key”", here.cookie)
	if len(first.Codes) != 10 || first.Name != "Zoë's “key”" {
		t.Errorf("added %+v", first)
	}
	r.good(phone, false)
	got := read[proved](t, r.want(200, "GET", "/me", "", here.cookie))
	if !slices.Equal(got.AMR, []string{"pwd", "hwk", "user", "mfa"}) {
		t.Errorf("the login has proved %q", got.AMR)
	}
	second := r.addPasskey(newAuthenticator(), "second", here.cookie)
	if second.Codes != nil {
		t.Error("a second passkey comes with recovery codes")
	}
	r.wantFactors(`{"passkeys":[{"id":"`+first.ID+`","name":"Zoë's “key”"},{"id":"`+second.ID+
		`","name":"second"}],"totp":false,"recovery_codes":10}`, here.cookie)
	r.wantFactors(noFactors, bob.cookie)

	before := content(t, path)
	options := func(cookie string) []byte {
		return r.want(200, "POST", "/account/passkeys/options", "{}", jsonType, cookie).Body.Bytes()
	}
	add := func(status int, what, body, cookie string) {
		t.Helper()
		if w := r.do("POST", "/account/passkeys", body, jsonType, cookie); w.Code != status ||
			strings.Contains(w.Body.String(), "max_age") {
			t.Errorf("%s: %d %s, want %d", what, w.Code, w.Body, status)
		}
	}
	if _, err := key.Create(options(here.cookie)); err == nil {
		t.Error("the options do not exclude what the account has")
	}
	answer := must.Get(newAuthenticator().Create(options(here.cookie)))(t)
	add(403, "the challenge of another user", passkeyBody("x", answer), bob.cookie)
	add(403, "a challenge that another user has spent", passkeyBody("x", answer), here.cookie)
	late := must.Get(newAuthenticator().Create(options(bob.cookie)))(t)
	r.clock.Advance(9*time.Minute + 59*time.Second)
	evil := newAuthenticator()
	evil.Origin = "https://wiki.gw.example"
	add(403, "another origin", passkeyBody("x", must.Get(evil.Create(options(bob.cookie)))(t)), bob.cookie)
	same := newAuthenticator()
	same.NewID = func() []byte { return key.Credentials[0].ID }
	add(403, "the id of another user's passkey", passkeyBody("x", must.Get(same.Create(options(bob.cookie)))(t)),
		bob.cookie)
	for _, name := range []string{"", " ", "a\u0007b", strings.Repeat("x", 65)} {
		add(400, name, passkeyBody(name, must.Get(newAuthenticator().Create(options(bob.cookie)))(t)), bob.cookie)
	}
	r.clock.Advance(time.Second)
	add(403, "an old challenge", passkeyBody("x", late), bob.cookie)
	for _, body := range []string{`{"name":"x"}`, `{"name":"x","credential":"{}"}`, `{"name":"x","credential":null}`,
		`{"name":"x","credential":{}}`, `{"credential":{}}`, `{"name":7,"credential":{}}`} {
		add(400, body, body, bob.cookie)
	}
	for _, id := range []string{first.ID, "", "x"} {
		r.want(404, "POST", "/account/passkeys/remove", `{"id":"`+id+`"}`, jsonType, bob.cookie)
	}
	if now := content(t, path); now != before {
		t.Errorf("what was refused has changed the file to\n%s", now)
	}
	r.want(200, "POST", "/account/passkeys/remove", `{"id":"`+first.ID+`"}`, jsonType, here.cookie)
	r.wantFactors(`{"passkeys":[{"id":"`+second.ID+`","name":"second"}],"totp":false,"recovery_codes":10}`, here.cookie)
	r.post(303, "/account/passkeys/remove", "id="+second.ID, here.cookie)
	r.wantFactors(noFactors, here.cookie)
	if now := content(t, path); now != fileAccounts {
		t.Errorf("without factors, the file has\n%s", now)
	}
}

// The counter of a passkey is forgotten with the passkey, which the user or the operator
// removes. A reload that keeps the passkey keeps its counter.
func TestRemovedPasskeysLeaveNoCounter(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	here := r.login(aliceIn)
	counted := func(id string) bool {
		t.Helper()
		_, err := r.store.Get(t.Context(), "passkey-counter:"+record.Hash([]byte(id)))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	added := func(name string) string {
		t.Helper()
		key := newAuthenticator()
		id := r.addPasskey(key, name, here.cookie).ID
		r.clock.Advance(time.Second)
		options := r.want(200, "POST", "/signin/passkey/options", "{}", jsonType).Body.Bytes()
		r.want(200, "POST", "/signin/passkey", string(must.Get(key.Get(options))(t)), jsonType)
		if !counted(id) {
			t.Fatal("a sign-in leaves no counter")
		}
		return id
	}
	first, second := added("first"), added("second")
	r.want(200, "POST", "/account/passkeys/remove", `{"id":"`+first+`"}`, jsonType, here.cookie)
	r.mustReload(fileConfig(t, "accounts.yaml"))
	if counted(first) || !counted(second) {
		t.Errorf("after the removal, the first is counted: %t, the second: %t", counted(first), counted(second))
	}
	must.Do(t, os.WriteFile(path, []byte(fileAccounts), 0o600)) // as the operator resets them
	r.mustReload(fileConfig(t, "accounts.yaml"))
	if counted(second) {
		t.Error("a passkey that the operator has removed is still counted")
	}
}

// wantMaxAge checks that a change is refused because the sign-in has proved too little.
func wantMaxAge(t testing.TB, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	answer := read[struct {
		MaxAge int `json:"max_age"`
	}](t, w)
	if w.Code != 403 || answer.MaxAge != 600 {
		t.Errorf("%s: %d %s, want 403 and a max_age", what, w.Code, w.Body)
	}
}

// provesOnly makes a login one that has proved the methods, and no more.
func (r *rig) provesOnly(cookie string, methods ...string) {
	r.t.Helper()
	key := "login:" + r.loginOf(cookie)
	login := map[string]any{}
	must.Do(r.t, json.Unmarshal(must.Get(r.store.Get(r.t.Context(), key))(r.t), &login))
	login["proof"].(map[string]any)["amr"] = methods
	value := must.Get(json.Marshal(login))(r.t)
	must.Do(r.t, r.store.Put(r.t.Context(), key, value, r.clock.Now().Add(time.Hour)))
}

// A change takes a sign-in of the last ten minutes, with a factor that the account has. Neither
// an open session nor the password is enough to take an account over.
func TestFactorsNeedProof(t *testing.T) {
	t.Parallel()
	r, path := newFileRig(t, "accounts.yaml", fileAccounts)
	here := r.login(aliceIn)
	token := "Authorization: Bearer " + r.client.NewToken(here.cookie, "").Token
	r.clock.Advance(10 * time.Minute)
	r.addTOTP(here.cookie)
	before := content(t, path)
	refuse := func(what string, header ...string) {
		t.Helper()
		for target, body := range factorEndpoints {
			wantMaxAge(t, what+" at "+target, r.do("POST", target, body, append(header, jsonType)...))
		}
	}
	r.clock.Advance(1)
	refuse("an old sign-in", here.cookie)
	form := r.post(303, "/account/totp/remove", "", here.cookie).Header().Get("Location")
	if want := "/signin?reason=fresh&return_to=%2Faccount%3Fpart%3Dfactors&factors=2&max_age=10m0s"; form != want {
		t.Errorf("the form leads to %s, want %s", form, want)
	}
	ownrig.WantPage(t, r.want(200, "GET", "/account?part=factors", "", browser, here.cookie),
		`href="/signin?reason=fresh&amp;return_to=`,
		"To change your second factors, sign in again", `not action="/account/totp`, `not data-passkey`)
	r.clock.Advance(-10 * time.Minute)
	r.provesOnly(here.cookie, "pwd")
	refuse("a sign-in without the factor", here.cookie)
	r.provesOnly(here.cookie, "pwd", "otp", "mfa")

	for target, body := range factorEndpoints {
		for line, want := range map[string]int{
			"": 401, here.bearer: 403, token: 403, "Authorization: Bearer x": 401, basicHeader("alice", "wonderland"): 401,
			"Cookie: session_id=x": 401,
		} {
			w := r.want(want, "POST", target, body, jsonType, line)
			if strings.Contains(w.Body.String(), "max_age") {
				t.Errorf("%s with %q: a sign-in would not help: %s", target, line, w.Body)
			}
		}
		r.want(403, "POST", target, body, jsonType, here.cookie, token)
		r.want(403, "POST", target, body, jsonType, here.cookie, "Sec-Fetch-Site: cross-site")
		r.want(403, "POST", target, body, formType, here.cookie, "Origin: https://evil.example")
		r.want(405, "GET", target, "", here.cookie)
		r.want(415, "POST", target, body, "Content-Type: text/plain", here.cookie)
	}
	r.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":10}`, token)
	r.want(401, "GET", "/account/factors", "")
	if now := content(t, path); now != before {
		t.Errorf("what was refused has changed the file to\n%s", now)
	}
}

// A login that ends, or an account that changes, while its change waits for the file takes the
// change along: a user who is thrown out leaves nothing behind.
func TestFactorOfALoginThatEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig, thief, owner signedIn){
		"ended": func(r *rig, _, owner signedIn) {
			r.want(200, "POST", "/account/sessions/end", `{"others":true}`, jsonType, owner.cookie)
		},
		"a new password": func(r *rig, _, _ signedIn) { // of the operator, which takes no time
			file := strings.Replace(fileAccounts, "5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW",
				"pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC", 1)
			must.Do(r.t, os.WriteFile(filepath.Join(r.dir, "accounts.yaml"), []byte(file), 0o600))
			r.mustReload(fileConfig(r.t, "accounts.yaml"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newFileRig(t, "accounts.yaml", fileAccounts)
			thief, owner := r.login(aliceIn), r.another()
			made := read[newSecret](t, r.want(201, "POST", "/account/totp", "{}", jsonType, thief.cookie))
			code := must.Get(authenticator.Code(made.Secret, r.clock.Now()))(t)
			done := false
			r.store.breakIf(func(operation string, _ int64, key string) bool {
				if operation == "take" && strings.HasPrefix(key, "totp-pending:") && !done {
					done = true
					end(r, thief, owner)
				}
				return false
			})
			w := r.do("POST", "/account/totp/confirm", `{"code":"`+code+`"}`, jsonType, thief.cookie)
			r.store.heal()
			if !done || w.Code != 401 && w.Code != 409 || strings.Contains(content(t, path), "totp") {
				t.Errorf("%t, %d %s; the file has\n%s", done, w.Code, w.Body, content(t, path))
			}
		})
	}
}

// Without a file that can be written, or if the configuration says so, there are no such
// endpoints. Users of providers have none.
func TestFactorsElsewhere(t *testing.T) {
	t.Parallel()
	none := func(r *rig, status int, cookie string, targets ...string) {
		t.Helper()
		if targets == nil {
			targets = slices.Collect(maps.Keys(factorEndpoints))
		}
		for _, target := range targets {
			r.want(status, "POST", target, factorEndpoints[target], jsonType, cookie)
		}
		r.wantFactors(noFactors, cookie)
		ownrig.WantPage(t, r.want(200, "GET", "/account?part=factors", "", browser, cookie), "not action=\""+targets[0]+`"`)
	}
	r := newRig(t, baseConfig)
	none(r, 404, r.login(aliceIn).cookie)
	passkeys := []string{"/account/passkeys", "/account/passkeys/options", "/account/passkeys/remove"}
	totp := []string{"/account/totp", "/account/totp/confirm", "/account/totp/remove"}
	r, _ = newFileRig(t, "accounts.yaml", fileAccounts, "factors: {passkeys: false}\n")
	here := r.login(aliceIn)
	none(r, 404, here.cookie, passkeys...)
	r.want(201, "POST", "/account/totp", "{}", jsonType, here.cookie)
	r, _ = newFileRig(t, "accounts.yaml", fileAccounts, "factors: {totp: false}\n")
	here = r.login(aliceIn)
	none(r, 404, here.cookie, totp...)
	r.want(200, "POST", "/account/passkeys/options", "{}", jsonType, here.cookie)
	r, _ = newFileRig(t, "accounts.yaml", fileAccounts, "factors: {passkeys: false, totp: false}\n")
	none(r, 404, r.login(aliceIn).cookie)
	ownrig.WantPage(t, r.want(200, "GET", "/account", "", browser, r.login(aliceIn).cookie), "not Second factors")

	own := strings.Replace(fileConfig(t, "accounts.yaml"), "{file: accounts.yaml}",
		`{file: accounts.yaml, users: [{username: carol, password_hash: "`+aliceHash+`"}]}`, 1)
	r, _ = newFileRig(t, "accounts.yaml", fileAccounts)
	r.mustReload(own)
	none(r, 404, r.login(signInWith("carol", "wonderland")).cookie)
}

// A failure leaves the factors and the file as they were.
func TestFactorsFail(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"swap login:", "changes", "group:"} {
		r, path := newFileRig(t, "accounts.yaml", fileAccounts)
		here := r.login(aliceIn)
		r.another()
		made := read[newSecret](t, r.want(201, "POST", "/account/totp", "{}", jsonType, here.cookie))
		code := must.Get(authenticator.Code(made.Secret, r.clock.Now()))(t)
		r.store.breakIf(func(operation string, _ int64, key string) bool {
			return strings.HasPrefix(operation+" "+key, broken) || strings.HasPrefix(key, broken)
		})
		w := r.do("POST", "/account/totp/confirm", `{"code":"`+code+`"}`, jsonType, here.cookie)
		r.store.heal()
		if now := content(t, path); w.Code != 503 || now != fileAccounts {
			t.Errorf("%s: %d %s; the file has\n%s", broken, w.Code, w.Body, now)
		}
		r.wantFactors(noFactors, here.cookie)
	}
}

// The page does all but passkeys by forms. It shows secrets once.
func TestFactorsPage(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts)
	here := r.login(aliceIn)
	page := func(want ...string) {
		t.Helper()
		ownrig.WantPage(t, r.want(200, "GET", "/account?part=factors", "", browser, here.cookie), want...)
	}
	page("Second factors", `action="/account/totp"`, `data-options="/account/passkeys/options"`, "Set up an app",
		`not action="/account/recovery-codes"`, "not Remove the app")
	w := r.post(201, "/account/totp", "", here.cookie)
	ownrig.WantPage(t, w, "<svg", `action="/account/totp/confirm"`, `name="code"`)
	_, rest, _ := strings.Cut(w.Body.String(), `<p><code>`)
	secret, _, _ := strings.Cut(rest, "<")
	w = r.post(403, "/account/totp/confirm", "code=000000", here.cookie)
	ownrig.WantPage(t, w, "The code is wrong.", `role="alert"`, `name="code"`, "not "+secret, "not <svg viewBox")
	w = r.post(200, "/account/totp/confirm", "code="+must.Get(authenticator.Code(secret, r.clock.Now()))(t), here.cookie)
	ownrig.WantPage(t, w, `id="new-codes"`, "They are not shown again", "You have 10 unused recovery codes.",
		"Remove the app",
		"data-print", "not "+secret)
	page("You have 10 unused recovery codes.", "An app shows codes for your account.", "not new-codes", "not "+secret)
	r.post(409, "/account/totp/confirm", "code=123456", here.cookie)

	key := newAuthenticator()
	begun := r.want(200, "POST", "/account/passkeys/options", "{}", jsonType, here.cookie)
	answer := must.Get(key.Create(begun.Body.Bytes()))(t)
	form := url.Values{"name": {"<b>phone"}, "credential": {string(answer)}}.Encode()
	if to := r.post(303, "/account/passkeys", form, here.cookie).Header().Get("Location"); to != "/account?done=passkey" {
		t.Errorf("to %s", to)
	}
	ownrig.WantPage(t, r.want(200, "GET", "/account?done=passkey", "", browser, here.cookie), "The passkey is added.",
		"&lt;b&gt;phone", "not <b>phone")
	ownrig.WantPage(t, r.post(403, "/account/passkeys", form, here.cookie), "The passkey was not accepted.",
		`role="alert"`)
	r.post(400, "/account/passkeys", "name=x&credential=", here.cookie)
	ownrig.WantPage(t, r.post(200, "/account/recovery-codes", "", here.cookie), `id="new-codes"`)
	if to := r.post(303, "/account/totp/remove", "", here.cookie).Header().Get("Location"); to != "/account?done=factor" {
		t.Errorf("to %s", to)
	}
	ownrig.WantPage(t, r.want(200, "GET", "/account?done=factor", "", browser, here.cookie),
		"The second factor is removed.")
}

// Who needs a second factor for an application, and has none, gives the password, adds one, and
// comes to the application.
func TestLedToAFactor(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts)
	config := strings.Replace(fileConfig(t, "accounts.yaml"), "\nroutes:\n",
		"\nroutes:\n  - {match: /vault/, upstream: app, auth: [session], policy: {factors: 2}}\n", 1)
	r.mustReload(config)
	p := r.client.Person()
	p.Visit("GET", "https://gw.example/vault/a?b=c", "")
	before := r.upstream.Reached()
	at, page := p.SignIn("https://gw.example/vault/a?b=c", "alice")
	if !strings.HasPrefix(at, "https://gw.example/") {
		t.Fatalf("at %s", at)
	}
	for range 2 { // a session of one factor leads to the sign-in once more
		if !strings.Contains(at, "/account") {
			at, page = p.Post(page, "alice")
		}
	}
	const back = "return_to=%2Fvault%2Fa%3Fb%3Dc"
	ownrig.WantPage(t, page, "To open <strong>gw.example</strong> you need a second factor.",
		`action="/account/totp?`+back)
	if r.upstream.Reached() != before {
		t.Error("the application was reached")
	}
	_, page = p.Visit("POST", "https://gw.example/account/totp?"+back+"&factors=2", "", formType,
		"Origin: https://gw.example")
	_, rest, _ := strings.Cut(page.Body.String(), `<p><code>`)
	secret, _, _ := strings.Cut(rest, "<")
	code := must.Get(authenticator.Code(secret, r.clock.Now()))(t)
	_, page = p.Visit("POST", "https://gw.example/account/totp/confirm?"+back+"&factors=2", "code="+code, formType,
		"Origin: https://gw.example")
	ownrig.WantPage(t, page, `id="new-codes"`, `href="/vault/a?b=c"`, "not you need a second factor")
	r.stub()
	p.Sees("https://gw.example/vault/a?b=c", "alice")
	// No user is led to a place that is not the gateway's.
	for _, place := range []string{"https://evil.example/", "//evil.example/", "javascript:alert(1)"} {
		_, page = p.Visit("GET", "https://gw.example/account?factors=2&return_to="+url.QueryEscape(place), "")
		ownrig.WantPage(t, page, "not evil.example", "not javascript")
	}
}

// The code that confirms an app does not sign in. The next one does, and then changes factors.
func TestConfirmationCodeIsSpent(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts)
	here := r.login(aliceIn)
	secret, codes := r.addTOTP(here.cookie)
	signIn := func(code string) string {
		return `{"username":"alice","password":"wonderland","code":"` + code + `"}`
	}
	spent := must.Get(authenticator.Code(secret, r.clock.Now()))(t)
	r.want(401, "POST", "/login", signIn(spent), jsonType)
	r.want(401, "POST", "/login", aliceIn, jsonType)
	r.clock.Advance(30 * time.Second)
	in := r.login(signIn(must.Get(authenticator.Code(secret, r.clock.Now()))(t)))
	r.want(200, "POST", "/account/passkeys/options", "", in.cookie)
	in = r.login(signIn(codes[0]))
	r.want(401, "POST", "/login", signIn(codes[0]), jsonType)
	r.wantFactors(`{"passkeys":[],"totp":true,"recovery_codes":9}`, in.cookie) // at once
	r.want(200, "POST", "/account/totp/remove", "", in.cookie)
	r.clock.Advance(1) // logins that had begun before all others ended are refused
	r.login(aliceIn)
}
