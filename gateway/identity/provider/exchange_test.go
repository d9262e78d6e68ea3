package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/config/issuers"
	"authgate/internal/test/logtest"
)

func TestExchange(t *testing.T) {
	f := newFake(t)
	f.id["sid"], f.id["at_hash"], f.id["department"] = "the-sid", atHash(f.access), "sales"
	idToken := ""
	f.idToken = func(claims object) any { idToken = f.key.sign(claims, nil); return idToken }
	p := f.provider(nil)
	if p.Name() != "test" || p.Issuer() != f.idp {
		t.Errorf("name %q, issuer %q", p.Name(), p.Issuer())
	}
	got := must(exchange(t, p))
	want := &Grant{
		Profile: Profile{
			Subject: "alice-sub", Username: "alice", Name: "Alice", Email: "alice@example.org", Roles: []string{"user", "admin"},
			Claims: object{
				"department": "sales", "name": "Alice", "email": "alice@example.org", "preferred_username": "alice",
				"roles": []any{"user", "admin"},
			},
		},
		Tokens:  Tokens{Access: f.access, Refresh: "the-refresh-token", ID: idToken, Expires: f.now().Add(300 * time.Second)},
		Session: "the-sid",
		Said: Said{
			Userinfo: []byte(`{"email":"alice@example.org","name":"Alice",` +
				`"preferred_username":"alice","roles":["user","admin"]}`),
			ID: []byte(`{"department":"sales"}`), Access: []byte(`{}`),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantForm := url.Values{
		"grant_type": {"authorization_code"}, "code": {"the-code"}, "code_verifier": {testAttempt.Verifier},
		"redirect_uri": {"https://gateway.example/callback"}, "client_id": {testClient},
	}
	form, _ := f.lastCall("/token")
	if diff := cmp.Diff(wantForm, form); diff != "" {
		t.Errorf("the form: %s", diff)
	}
}

// How the client authenticates, in the code exchange and the refresh.
func TestClientAuthentication(t *testing.T) {
	for _, test := range []struct {
		name      string
		secret    string
		method    string
		announced any
		header    string
		inForm    string // client_secret
		fault     string
	}{
		{name: "nothing is announced", secret: testSecret, header: basicHeader},
		{name: "both are announced", secret: testSecret, announced: []string{issuers.AuthMethodPost, issuers.AuthMethodBasic},
			header: basicHeader},
		{name: "the form is announced", secret: testSecret, announced: []string{"private_key_jwt", issuers.AuthMethodPost},
			inForm: testSecret},
		{name: "the form is configured", secret: testSecret, method: issuers.AuthMethodPost,
			announced: []string{issuers.AuthMethodBasic}, inForm: testSecret},
		{name: "basic is configured", secret: testSecret, method: issuers.AuthMethodBasic,
			announced: []string{issuers.AuthMethodPost}, header: basicHeader},
		{name: "public", announced: []string{"none"}},
		{name: "none of ours is announced", secret: testSecret, announced: []string{"private_key_jwt"},
			fault: "private_key_jwt"},
		{name: "an unknown one is configured", secret: testSecret, method: "tls_client_auth", fault: "tls_client_auth"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.discovery["token_endpoint_auth_methods_supported"] = test.announced
			p := f.provider(func(o *Options) { o.Client.Secret, o.Client.AuthMethod = test.secret, test.method })
			grant, err := exchange(t, p)
			if wantError(t, err, ErrFault, test.fault); err != nil {
				return
			}
			for _, grantType := range []string{"authorization_code", "refresh_token"} {
				form, header := f.lastCall("/token")
				got := []string{form.Get("grant_type"), form.Get("client_id"), form.Get("client_secret"), header}
				if diff := cmp.Diff([]string{grantType, testClient, test.inForm, test.header}, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", grantType, diff)
				}
				must(refresh(t, p, grant.Tokens))
			}
		})
	}
}

// What a token endpoint may answer, and what becomes of it.
func TestTokenAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		kind   error
		text   string
	}{
		{"invalid_grant", say(400, "application/json", `{"error":"invalid_grant","error_description":"Code not valid"}`),
			ErrRefused, `error "invalid_grant", "Code not valid"`},
		{"access_denied", say(403, "application/json", `{"error":"access_denied"}`), ErrRefused, "access_denied"},
		{"GitHub's error with status 200", say(200, "application/x-www-form-urlencoded",
			"error=bad_verification_code&error_description=expired"), ErrRefused, "expired"},
		{"the client is at fault", say(401, "application/json", `{"error":"invalid_client"}`), ErrClient, "invalid_client"},
		{"the client is at fault, GitHub", say(200, "application/x-www-form-urlencoded",
			"error=incorrect_client_credentials"), ErrClient, "incorrect_client_credentials"},
		{"invalid_request", say(400, "application/json", `{"error":"invalid_request"}`), ErrFault, "invalid_request"},
		{"out of order", say(503, "text/html", `<h1>opaque-access-token</h1>`), ErrFault, "answered 503 Service Unavailable"},
		{"an error that is an object", say(400, "application/json", `{"error":{"code":"invalid_grant"}}`), ErrFault,
			"400 Bad Request"},
		{"a refusal that repeats the code", say(400, "application/json",
			`{"error":"invalid_grant","error_description":"the code the-code is used"}`), ErrRefused, "400 Bad Request"},
		{"an error of 200 that repeats the code",
			sayJSON(`{"error":"invalid_grant","error_description":"the code the-code is used"}`), ErrRefused, "200 OK"},
		{"a long description", say(400, "application/json", fmt.Sprintf(`{"error":"invalid_grant","error_description":%q}`,
			strings.Repeat("x", 9999))), ErrRefused, strings.Repeat("x", maxErrorDescription) + "…"},
		{"no JSON", sayJSON(`access_token: opaque-access-token`), ErrFault, "neither a JSON object nor a form"},
		{"no access token", sayJSON(`{"token_type":"bearer"}`), ErrFault, "no access_token"},
		{"no ID token", sayJSON(`{"access_token":"opaque-access-token"}`), ErrFault, "is openid among the scopes?"},
		{"a token of another type", sayJSON(`{"access_token":"opaque-access-token","token_type":"DPoP"}`), ErrFault,
			`type "DPoP"`},
		{"an array", sayJSON(`["opaque-access-token"]`), ErrFault, "neither a JSON object nor a form"},
		{"cut off", sayJSON(`{"access_token":"opaque-access-token"`), ErrFault, "unexpected EOF"},
		{"an access token that is a number", sayJSON(`{"access_token":1,"id_token":"x"}`), ErrFault, "no access_token"},
		{"an ID token that is a number", sayJSON(`{"access_token":"opaque-access-token","id_token":1}`), ErrFault,
			"id_token is a number"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.instead["/token"] = test.answer
			_, err := exchange(t, f.provider(nil))
			wantError(t, err, test.kind, test.text)
			f.wantCalled(t, "/userinfo", 0)
		})
	}
}

// A token answer is JSON if it begins like that, and no member that is not needed
// refuses it.
func TestTokenAnswersInOtherForms(t *testing.T) {
	for _, mediaType := range []string{"text/plain", "text/html", "application/x-www-form-urlencoded", "application/jwt",
		"", "nonsense/;;"} {
		f := newFake(t)
		f.answer = object{"expires_in": 300.5, "scope": 5, "error": nil, "error_description": ""}
		f.instead["/token"] = func(w http.ResponseWriter, r *http.Request) {
			say(200, mediaType, " \r\n"+marshal(f.token()))(w, r)
		}
		p := f.provider(nil)
		got, err := exchange(t, p)
		if err != nil {
			t.Errorf("%q: %v", mediaType, err)
			continue
		}
		f.answer["refresh_token"] = "second-refresh-token"
		renewed := must(refresh(t, p, got.Tokens))
		if !renewed.Tokens.Expires.Equal(f.now().Add(300500*time.Millisecond)) ||
			renewed.Tokens.Refresh != "second-refresh-token" {
			t.Errorf("%q: the tokens are not those of the answer", mediaType)
		}
	}
	for _, kind := range []any{"bearer", "BEARER", "", nil, (*int)(nil)} {
		f := newFake(t)
		f.answer["token_type"] = kind
		if _, err := exchange(t, f.provider(nil)); err != nil {
			t.Errorf("token_type %v: %v", kind, err)
		}
	}
}

// Azure AD B2C has endpoints with a query and no userinfo, and issues no access token if
// none is asked for.
func TestEndpointsWithAQuery(t *testing.T) {
	f := newFake(t)
	f.userinfo, f.id["roles"] = nil, "admin"
	f.answer = object{"access_token": nil, "expires_in": nil}
	p := f.provider(func(o *Options) {
		o.Endpoints = Endpoints{Authorization: f.idp + "/authorize?p=b2c_1", Token: f.idp + "/token?p=b2c_1",
			Keys: f.idp + "/keys?p=b2c_1"}
	})
	to, err := p.AuthorizationURL(t.Context(), testAttempt)
	if query := must(url.Parse(to)).Query(); err != nil || query.Get("p") != "b2c_1" ||
		query.Get("client_id") != testClient {
		t.Errorf("the browser goes to %q, %v", to, err)
	}
	login := must(exchange(t, p))
	for _, grant := range []*Grant{login, must(refresh(t, p, login.Tokens))} {
		if profile, _ := profileOf(p, grant, login.Said); len(profile.Roles) != 1 || profile.Roles[0] != "admin" {
			t.Errorf("got %+v", profile)
		}
	}
	for _, path := range []string{"/token", "/keys"} {
		if got := f.last[path].URL.RawQuery; got != "p=b2c_1" {
			t.Errorf("%s was called with %q", path, got)
		}
	}
	f.wantCalled(t, "/userinfo", 0)
}

func TestExpiry(t *testing.T) {
	f := newFake(t)
	const unknown = 0
	for expiresIn, want := range map[any]time.Duration{
		3600: time.Hour, "3600": time.Hour /* PayPal */, 300.5: 300500 * time.Millisecond,
		"300.5": 300500 * time.Millisecond, "soon": unknown, true: unknown, nil: unknown, 0: unknown, -1: unknown,
		999999999: maxExpiresIn * time.Second,
	} {
		f.answer["expires_in"] = expiresIn
		expires := time.Time{}
		if want != unknown {
			expires = f.now().Add(want)
		}
		if got := must(exchange(t, f.provider(nil))).Tokens.Expires; !got.Equal(expires) {
			t.Errorf("expires_in %v: expires at %v, want %v", expiresIn, got, expires)
		}
	}
}

func TestPlainOAuth(t *testing.T) {
	for name, test := range map[string]struct {
		userinfo object
		subject  string
		fault    string
	}{
		"a number":       {object{"id": 583231, "login": "octocat", "email": nil}, "583231", ""},
		"a large number": {object{"id": json.Number("9007199254740993"), "login": "octocat"}, "9007199254740993", ""},
		"a string":       {object{"id": "u-1", "login": "octocat"}, "u-1", ""},
		"a fraction":     {object{"id": 1.5, "login": "octocat"}, "", "not a whole number"},
		"missing":        {object{"sub": "alice-sub", "login": "octocat"}, "", "see subject_claim"},
		"empty":          {object{"id": "", "login": "octocat"}, "", "1 to 255 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.userinfo = test.userinfo
			f.instead["/token"] = say(200, "application/x-www-form-urlencoded",
				"access_token=opaque-access-token&expires_in=3600") // GitHub
			got, err := f.github().Exchange(t.Context(), "the-code", Attempt{State: "s", Verifier: "v"})
			f.wantCalled(t, discoveryPath, 0)
			if wantError(t, err, ErrFault, test.fault); err != nil {
				return
			}
			if got.Profile.Subject != test.subject || got.Profile.Username != "octocat" ||
				!got.Tokens.Expires.Equal(f.now().Add(time.Hour)) {
				t.Errorf("profile %+v until %v, want the subject %s", got.Profile, got.Tokens.Expires, test.subject)
			}
		})
	}
}

// Endpoints by hand, with keys or without: OpenID Connect without discovery, or OAuth.
func TestEndpointsByHand(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fake, *Options)
		fault  string
	}{
		"good":        {func(*fake, *Options) {}, ""},
		"no issuer":   {func(_ *fake, o *Options) { o.Issuer = "" }, "no issuer is configured"},
		"no ID token": {func(f *fake, _ *Options) { f.idToken = func(object) any { return nil } }, "no id_token"},
		"in the clear": {func(_ *fake, o *Options) { o.Endpoints.Token = "http://id.example.org/token" },
			`token_endpoint "http://id.example.org/token" is not https`},
		"nothing says it": {func(_ *fake, o *Options) { o.Endpoints.Keys, o.Endpoints.Userinfo = "", "" },
			"no source names the user"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			_, err := exchange(t, f.provider(func(o *Options) {
				o.Endpoints = f.endpoints(f.idp + "/keys")
				test.change(f, o)
			}))
			wantError(t, err, ErrFault, test.fault)
			f.wantCalled(t, discoveryPath, 0)
		})
	}
}

// A login needs a code and all secrets of its attempt, and a refresh its token and
// subject, before anything is called.
func TestAttemptIsNeeded(t *testing.T) {
	f := newFake(t)
	p := f.provider(nil)
	_, err := p.Exchange(t.Context(), "", testAttempt)
	errs := map[string]error{"no code": err}
	for name, attempt := range map[string]Attempt{"nonce": {State: "s", Verifier: "v"},
		"verifier": {State: "s", Nonce: "n"}} {
		_, errs["exchange without "+name] = p.Exchange(t.Context(), "the-code", attempt)
		_, errs["start without "+name] = p.AuthorizationURL(t.Context(), attempt)
	}
	_, errs["no state"] = p.AuthorizationURL(t.Context(), Attempt{Nonce: "n", Verifier: "v"})
	_, errs["no refresh token"] = p.Refresh(t.Context(), Tokens{Access: "a"}, "alice-sub")
	_, errs["no subject"] = p.Refresh(t.Context(), Tokens{Refresh: "r"}, "")
	for name, err := range errs {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	f.wantCalled(t, discoveryPath, 0)
}

// profile is what is known after a grant, and after what was known before.
func profileOf(p *Provider, grant *Grant, known Said) (Profile, Said) {
	return p.Profile("alice-sub", grant.Said, known)
}

func TestRefresh(t *testing.T) {
	f := newFake(t)
	f.id["sid"], f.id["locale"] = "the-sid", "de"
	p := f.provider(nil)
	login := must(exchange(t, p))

	f.clock.Advance(4 * time.Minute)
	f.userinfo["roles"] = []string{"user"}
	f.access, f.id["nonce"], f.answer["refresh_token"] = "second-access-token", nil, "second-refresh-token"
	rotated := must(refresh(t, p, login.Tokens))
	profile, known := profileOf(p, rotated, login.Said)
	if diff := cmp.Diff([]string{"user"}, profile.Roles); diff != "" {
		t.Errorf("roles: %s", diff)
	}
	got := rotated.Tokens
	if got.ID == login.Tokens.ID || got != (Tokens{f.access, "second-refresh-token", got.ID,
		f.now().Add(300 * time.Second)}) {
		t.Error("the tokens are not the new ones")
	}

	// Neither refresh token nor ID token: the old ones stay, long after the ID
	// token has expired, and so does what only it says.
	f.clock.Advance(time.Hour)
	f.answer = object{"refresh_token": nil, "id_token": nil}
	kept := must(refresh(t, p, got))
	if kept.Tokens.Refresh != got.Refresh || kept.Tokens.ID != got.ID {
		t.Error("the tokens are not the old ones")
	}
	for name, known := range map[string]Said{"known": known, "of a login before an upgrade": kept.Before} {
		if profile, _ := profileOf(p, kept, known); profile.Claims["locale"] != "de" {
			t.Errorf("%s: claims %v", name, profile.Claims)
		}
	}
}

// Roles of the access token are fresher than those of the ID token that came with the
// login. What a new ID token does not say any more has been taken away.
func TestRefreshPrefersFreshRoles(t *testing.T) {
	f := newFake(t)
	f.userinfo = object{"sub": "alice-sub"}
	f.id["roles"], f.id["department"] = []string{"admin", "user"}, "sales"
	p := f.provider(nil)
	login := must(exchange(t, p))
	want := func(department any, roles ...string) {
		t.Helper()
		got, _ := profileOf(p, must(refresh(t, p, login.Tokens)), login.Said)
		if diff := cmp.Diff(roles, got.Roles); diff != "" || got.Claims["department"] != department {
			t.Errorf("department %v, want %v; roles: %s", got.Claims["department"], department, diff)
		}
	}
	f.answer["id_token"] = nil
	want("sales", "admin", "user") // nothing fresh says them
	f.access = f.key.sign(f.claims(object{"aud": "api", "roles": []string{"user"}}), nil)
	want("sales", "user")
	f.access = f.key.sign(f.claims(object{"aud": "api", "roles": 5}), nil)
	want("sales") // a claim that cannot be used says nothing better
	f.access, f.answer, f.id = "opaque-access-token", object{}, object{}
	want(nil)
}

// The claims of a stored ID token count if it is about the same person.
func TestKeptClaims(t *testing.T) {
	f := newFake(t)
	token := f.key.sign(f.claims(nil), nil)
	for raw, subject := range map[string]string{token: "bob-sub", "": "alice-sub", "a.!.c": "alice-sub",
		"a.YQ.c": "alice-sub"} {
		if kept := keptClaims(raw, subject); kept != nil {
			t.Errorf("%q for %s: %v, want none", raw, subject, kept)
		}
	}
}

// What ends a login, what does not, and that no new refresh token is lost.
func TestRefreshRefuses(t *testing.T) {
	token := func(status int, body string) func(*fake) {
		return answers("/token", say(status, "application/json", body))
	}
	for _, test := range []struct {
		name    string
		change  func(*fake)
		kind    error
		text    string
		rotated bool // new tokens came
	}{
		{"invalid_grant", token(400, `{"error":"invalid_grant"}`), ErrEnded, "invalid_grant", false},
		{"Dex", token(400, `{"error":"invalid_request","error_description":"Refresh token expired."}`), ErrEnded,
			"Refresh token expired.", false},
		{"a token that is not valid", token(401, `{"error":"invalid_token"}`), ErrEnded, "invalid_token", false},
		{"a client that may not refresh", token(400, `{"error":"unauthorized_client"}`), ErrEnded,
			"unauthorized_client", false},
		{"a page", answers("/token", say(403, "text/html", "<h1>Forbidden</h1>")), ErrEnded, "403", false},
		{"a redirect", token(302, ""), ErrEnded, "redirects are not followed", false},
		{"an unknown status", token(999, ""), ErrEnded, "999", false},
		{"an error with 200", token(200, `{"error":"bad_refresh_token"}`), ErrEnded, "bad_refresh_token", false},
		{"no JSON", token(200, `<html>`), ErrEnded, "neither a JSON object nor a form", false},
		{"no tokens", token(200, `{}`), ErrEnded, "no access_token", false},
		{"too long", token(200, strings.Repeat(" ", maxAnswer+1)), ErrEnded, "longer than", false},
		{"the client", token(401, `{"error":"invalid_client"}`), ErrClient, "invalid_client", false},
		{"the client, with 400", token(400, `{"error":"invalid_client"}`), ErrClient, "invalid_client", false},
		{"too early", token(429, `{"error":"invalid_grant"}`), ErrFault, "429", false},
		{"too late", token(408, ""), ErrFault, "408", false},
		{"out of order", token(500, `{"error":"invalid_grant"}`), ErrFault, "500", false},
		{"a gateway times out", token(504, ""), ErrFault, "504", false},
		{"the ID token of another", func(f *fake) { f.id["sub"] = "bob-sub" }, ErrEnded, "another person", true},
		{"the userinfo of another", func(f *fake) { f.userinfo["sub"] = "bob-sub"; f.answer["id_token"] = nil }, ErrEnded,
			"another person", true},
		{"an ID token for another client", func(f *fake) { f.id["aud"] = "other" }, ErrEnded, "aud is", true},
		{"an ID token of another issuer", func(f *fake) { f.id["iss"] = "https://evil.example" }, ErrEnded, "iss is", true},
		{"an ID token of another key", func(f *fake) { f.key = newECKey("first") }, ErrEnded, "verify", true},
		{"an ID token of a key that the issuer does not have", func(f *fake) { f.key = newECKey("second") }, ErrEnded,
			"no key", true},
		{"keys out of order", func(f *fake) { f.key = newECKey("second"); f.fail("/keys") }, ErrFault, "503", true},
		{"userinfo out of order", answers("/userinfo", say(500, "", "")), ErrFault, "500", true},
		{"userinfo too early", answers("/userinfo", say(429, "", "")), ErrFault, "429", true},
		{"userinfo without sub", answers("/userinfo", sayJSON(`{}`)), ErrEnded, "sub is missing", true},
		{"userinfo that is null", answers("/userinfo", sayJSON(`null`)), ErrEnded, "null", true},
		{"userinfo elsewhere", answers("/userinfo", say(302, "", "")), ErrEnded, "redirects are not followed", true},
		{"userinfo with 201", answers("/userinfo", say(201, "application/json", `{"sub":"alice-sub"}`)), ErrEnded, "201",
			true},
		{"userinfo refused", answers("/userinfo",
			challenge(`Bearer realm="r", error="invalid_token", error_description="not for userinfo"`)), ErrEnded,
			`401 Unauthorized, error "invalid_token", "not for userinfo"`, true},
		{"userinfo refuses the client", answers("/userinfo", say(401, "application/json", `{"error":"invalid_client"}`)),
			ErrClient, "invalid_client", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			p := f.provider(nil)
			before := must(exchange(t, p)).Tokens
			f.answer["refresh_token"] = "second-refresh-token"
			test.change(f)
			got, err := p.Refresh(t.Context(), before, "alice-sub")
			wantError(t, err, test.kind, test.text)
			if !test.rotated {
				if got != nil {
					t.Errorf("got %+v, want no grant", got)
				}
				return
			}
			if got == nil || got.Tokens.Refresh != "second-refresh-token" { // the old one is used up
				t.Fatalf("the new refresh token is lost: %+v", got)
			}
			if ends := errors.Is(err, ErrEnded); ends && !got.Said.Nothing() {
				t.Errorf("it says %+v", got.Said)
			}
		})
	}
}

// Anybody can make the gateway fetch keys so often that it does not for a while. A key
// that is new meanwhile ends no login.
func TestRefreshWithAKeyThatMayBeNew(t *testing.T) {
	f := newFake(t)
	p := f.provider(nil)
	before := must(exchange(t, p)).Tokens
	for i := range keysBurst {
		_, _ = p.VerifyLogoutToken(t.Context(), f.key.sign(f.logoutClaims(nil), joseHeader{"kid": fmt.Sprint(i)}))
	}
	f.key, f.answer["refresh_token"] = newECKey("second"), "second-refresh-token"
	f.keys = append(f.keys, f.key.public())
	got, err := refresh(t, p, before)
	wantError(t, err, ErrFault, "not fetched again so soon")
	if got == nil || got.Tokens.Refresh != "second-refresh-token" || got.Tokens.ID != before.ID || got.Said.ID != nil ||
		got.Said.Userinfo == nil {
		t.Fatalf("got %+v", got)
	}
	f.clock.Advance(keysInterval)
	if got := must(refresh(t, p, got.Tokens)); got.Said.ID == nil {
		t.Error("the new ID token does not count")
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	tokens := Tokens{Access: "SECRET", Refresh: "SECRET", ID: "SECRET"}
	attempt := Attempt{State: "SECRET", Nonce: "SECRET", Verifier: "SECRET"}
	var logged logtest.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("test", "tokens", tokens, "attempt", attempt)
	for _, text := range []string{
		fmt.Sprint(tokens, attempt), fmt.Sprintf("%v %+v %#v %s", tokens, tokens, tokens, tokens),
		fmt.Sprintf("%+v", Grant{Tokens: tokens}),
		fmt.Sprintf("%v %+v %#v %s", attempt, attempt, attempt, attempt), logged.String(),
	} {
		if strings.Contains(text, "SECRET") || !strings.Contains(text, redacted) {
			t.Errorf("printed %q", text)
		}
	}
	var back Tokens
	if err := json.Unmarshal([]byte(marshal(tokens)), &back); err != nil || back != tokens {
		t.Errorf("JSON does not keep the tokens: %v", err)
	}
}

func TestAuthorizationURL(t *testing.T) {
	offline := []string{"openid", "offline_access"}
	prompted := map[string]string{"prompt": "login"}
	for name, test := range map[string]struct {
		change func(f *fake, o *Options)
		want   url.Values // over the usual ones; nil removes
	}{
		"plain": {func(*fake, *Options) {}, nil},
		"further parameters": {func(_ *fake, o *Options) { o.AuthorizationParams = map[string]string{"hd": "example.org"} },
			url.Values{"hd": {"example.org"}}},
		"parameters that are ours": {func(_ *fake, o *Options) {
			o.AuthorizationParams = map[string]string{"state": "x", "nonce": "x", "code_challenge": "x",
				"code_challenge_method": "plain", "client_id": "x", "redirect_uri": "x", "scope": "x", "response_type": "token"}
		}, nil},
		"offline access": {func(_ *fake, o *Options) { o.Scopes = offline },
			url.Values{"scope": {"openid offline_access"}, "prompt": {"consent"}}},
		"with a prompt": {func(_ *fake, o *Options) { o.Scopes, o.AuthorizationParams = offline, prompted },
			url.Values{"scope": {"openid offline_access"}, "prompt": {"login"}}},
		"without OpenID Connect": {func(f *fake, o *Options) { o.Endpoints = f.endpoints("") }, url.Values{"nonce": nil}},

		"another account": {func(*fake, *Options) {}, url.Values{"prompt": {"login"}}},
		"another account, offline access": {func(_ *fake, o *Options) { o.Scopes = offline },
			url.Values{"scope": {"openid offline_access"}, "prompt": {"login consent"}}},
		"another account, with a prompt": {func(_ *fake,
			o *Options) {
			o.AuthorizationParams = map[string]string{"prompt": "x"}
		}, url.Values{"prompt": {"x"}}},
		"another account, without OpenID Connect": {func(f *fake, o *Options) { o.Endpoints = f.endpoints("") },
			url.Values{"nonce": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			f, attempt := newFake(t), testAttempt
			attempt.Another = strings.HasPrefix(name, "another account")
			got, err := f.provider(func(o *Options) { test.change(f, o) }).AuthorizationURL(t.Context(), attempt)
			if err != nil {
				t.Fatal(err)
			}
			want := url.Values{
				"response_type": {"code"}, "client_id": {testClient}, "redirect_uri": {"https://gateway.example/callback"},
				"scope": {"openid profile"},
				"state": {testAttempt.State}, "nonce": {testAttempt.Nonce},
				// of testAttempt.Verifier: printf %s … | openssl sha256 -binary | basenc --base64url
				"code_challenge": {"H-wHqp3DEpV09yNSxgxr-j_EEJSKItM7jvppyxkV2AQ"}, "code_challenge_method": {"S256"},
			}
			for parameter, values := range test.want {
				if want[parameter] = values; values == nil {
					delete(want, parameter)
				}
			}
			path, query, _ := strings.Cut(got, "?")
			if diff := cmp.Diff(want, must(url.ParseQuery(query))); diff != "" || path != f.idp+"/authorize" {
				t.Errorf("leads to %s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func TestCheckIssuer(t *testing.T) {
	for _, test := range []struct {
		name      string
		announced bool
		iss       string // OWN: of the fake; empty: not present
		mixUp     bool
		asks      int // for metadata
	}{
		{"neither announced nor present", false, "", false, 1},
		{"not announced, but present", false, "OWN", false, 0},
		{"announced and present", true, "OWN", false, 0},
		{"announced and missing", true, "", true, 1},
		{"of another", false, "https://evil.example", true, 0},
		{"with a slash more", false, "OWN/", true, 0},
	} {
		f := newFake(t)
		f.discovery["authorization_response_iss_parameter_supported"] = test.announced
		err := f.provider(nil).CheckIssuer(t.Context(), strings.Replace(test.iss, "OWN", f.idp, 1), test.iss != "")
		if (err != nil) != test.mixUp || err != nil && !errors.Is(err, ErrMixUp) || f.called(discoveryPath) != test.asks {
			t.Errorf("%s: %v after %d calls of discovery, want a mix-up: %t after %d", test.name, err, f.called(discoveryPath),
				test.mixUp, test.asks)
		}
	}
	// Empty is not the issuer, even where none is configured.
	for _, iss := range []string{"", "https://github.com/login/oauth"} {
		wantError(t, newFake(t).provider(nil).CheckIssuer(t.Context(), iss, true), ErrMixUp, "iss")
		wantError(t, newFake(t).github().CheckIssuer(t.Context(), iss, true), ErrMixUp, "iss")
	}
	wantError(t, newFake(t).github().CheckIssuer(t.Context(), "", false), nil, "")
}
