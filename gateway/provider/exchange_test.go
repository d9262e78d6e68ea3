package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
)

func TestExchange(t *testing.T) {
	clock := clocktest.New()
	f := newFake(t, clock.Now).listen()
	f.id["sid"], f.id["at_hash"], f.id["department"] = "the-sid", atHash(f.access), "sales"
	idToken := ""
	f.idToken = func(claims object) any { idToken = f.key.sign(t, claims, nil); return idToken }

	p := f.provider(nil)
	if p.Name() != "test" || p.Issuer() != f.idp {
		t.Errorf("name %q, issuer %q", p.Name(), p.Issuer())
	}
	got := mustExchange(t, p)
	want := &Grant{
		Profile: Profile{
			Subject: "alice-sub", Username: "alice", Name: "Alice", Email: "alice@example.org", Roles: []string{"user", "admin"},
			Claims: object{
				"department": "sales", "name": "Alice", "email": "alice@example.org", "preferred_username": "alice", "roles": []any{"user", "admin"},
			},
		},
		Tokens:  Tokens{Access: f.access, Refresh: "the-refresh-token", ID: idToken, Expires: clock.Now().Add(300 * time.Second)},
		Session: "the-sid",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantForm := url.Values{
		"grant_type": {"authorization_code"}, "code": {"the-code"}, "code_verifier": {testAttempt.Verifier},
		"redirect_uri": {"https://gateway.example/callback"}, "client_id": {testClient},
	}
	if diff := cmp.Diff(wantForm, f.form("/token")); diff != "" {
		t.Errorf("the form: %s", diff)
	}
}

// How the client authenticates, in the code exchange and the refresh.
func TestClientAuthentication(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(testClient+":"+url.QueryEscape(testSecret)))
	tests := []struct {
		name      string
		secret    string
		method    string
		announced any
		header    string
		inForm    string // client_secret
		fault     string
	}{
		{name: "nothing is announced", secret: testSecret, header: basic},
		{name: "both are announced", secret: testSecret, announced: []string{postMethod, basicMethod}, header: basic},
		{name: "the form is announced", secret: testSecret, announced: []string{"private_key_jwt", postMethod}, inForm: testSecret},
		{name: "the form is configured", secret: testSecret, method: postMethod, announced: []string{basicMethod}, inForm: testSecret},
		{name: "basic is configured", secret: testSecret, method: basicMethod, announced: []string{postMethod}, header: basic},
		{name: "public", announced: []string{"none"}},
		{name: "none of ours is announced", secret: testSecret, announced: []string{"private_key_jwt"}, fault: "private_key_jwt"},
		{name: "an unknown one is configured", secret: testSecret, method: "tls_client_auth", fault: "tls_client_auth"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			f.discovery["token_endpoint_auth_methods_supported"] = test.announced
			p := f.provider(func(o *Options) { o.Client.Secret, o.Client.AuthMethod = test.secret, test.method })
			if test.fault != "" {
				_, err := exchange(t, p)
				wantError(t, err, ErrFault, test.fault)
				return
			}
			check := func(grantType string) {
				t.Helper()
				form := f.form("/token")
				if form.Get("grant_type") != grantType || form.Get("client_id") != testClient {
					t.Errorf("the form of %s: %v", grantType, form)
				}
				if got := form.Get("client_secret"); got != test.inForm {
					t.Errorf("%s: client_secret %q, want %q", grantType, got, test.inForm)
				}
				if got := f.authorization("/token"); got != test.header {
					t.Errorf("%s: Authorization %q, want %q", grantType, got, test.header)
				}
			}
			grant := mustExchange(t, p)
			check("authorization_code")
			mustRefresh(t, p, grant.Tokens)
			check("refresh_token")
		})
	}
}

// What a token endpoint may answer, and what becomes of it.
func TestTokenAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		kind   error
		text   string
	}{
		{"invalid_grant", say(400, "application/json", `{"error":"invalid_grant","error_description":"Code not valid"}`), ErrRefused, `error "invalid_grant", "Code not valid"`},
		{"access_denied", say(403, "application/json", `{"error":"access_denied"}`), ErrRefused, "access_denied"},
		{"GitHub's error with status 200", say(200, "application/x-www-form-urlencoded", "error=bad_verification_code&error_description=expired"), ErrRefused, "expired"},
		{"the client is at fault", say(401, "application/json", `{"error":"invalid_client"}`), ErrFault, "invalid_client"},
		{"out of order", say(503, "text/html", `<h1>opaque-access-token</h1>`), ErrFault, "answered 503 Service Unavailable"},
		{"an error that is an object", say(400, "application/json", `{"error":{"code":"invalid_grant"}}`), ErrFault, "400 Bad Request"},
		{"a refusal that repeats the code", say(400, "application/json", `{"error":"invalid_grant","error_description":"the code the-code is used"}`), ErrRefused, "400 Bad Request"},
		{"an error of 200 that repeats the code", say(200, "application/json", `{"error":"invalid_grant","error_description":"the code the-code is used"}`), ErrRefused, "200 OK"},
		{"a long description", say(400, "application/json", fmt.Sprintf(`{"error":"invalid_grant","error_description":%q}`, strings.Repeat("x", 9999))), ErrRefused, strings.Repeat("x", maxErrorDescription) + "…"},
		{"no JSON", say(200, "application/json", `access_token: opaque-access-token`), ErrFault, "cannot parse json"},
		{"no access token", say(200, "application/json", `{"token_type":"bearer"}`), ErrFault, "missing access_token"},
		{"no ID token", say(200, "application/json", `{"access_token":"opaque-access-token"}`), ErrFault, "is openid among the scopes?"},
		{"a token of another type", say(200, "application/json", `{"access_token":"opaque-access-token","token_type":"DPoP"}`), ErrFault, `type "DPoP"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			f.instead["/token"] = test.answer
			var observed error
			p := f.provider(func(o *Options) {
				o.Observe = func(operation string, _ time.Duration, err error) {
					if operation == "token" {
						observed = err
					}
				}
			})
			_, err := exchange(t, p)
			wantError(t, err, test.kind, test.text)
			if f.called("/userinfo") != 0 {
				t.Errorf("calls after the failure: %v", f.calls)
			}
			if test.name != "no ID token" && observed == nil {
				t.Error("the failure was not observed")
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	clock := clocktest.New()
	f := newFake(t, clock.Now).listen()
	f.userinfo = object{"id": 42}
	p := f.github()
	for answer, want := range map[string]time.Duration{
		`{"access_token":"opaque-access-token","expires_in":3600}`:      time.Hour,
		`{"access_token":"opaque-access-token","expires_in":"3600"}`:    time.Hour, // PayPal
		`{"access_token":"opaque-access-token"}`:                        0,
		`{"access_token":"opaque-access-token","expires_in":0}`:         0,
		`{"access_token":"opaque-access-token","expires_in":-1}`:        0,
		`{"access_token":"opaque-access-token","expires_in":999999999}`: maxExpiresIn * time.Second,
		"access_token=opaque-access-token&expires_in=3600":              time.Hour,
	} {
		mediaType := map[bool]string{true: "application/json", false: "application/x-www-form-urlencoded"}[answer[0] == '{']
		f.instead["/token"] = say(200, mediaType, answer)
		expires := time.Time{}
		if want != 0 {
			expires = clock.Now().Add(want)
		}
		if got := mustExchange(t, p).Tokens.Expires; !got.Equal(expires) {
			t.Errorf("%s: expires at %v, want %v", answer, got, expires)
		}
	}
}

// github is a relying party of the fake without discovery and OpenID Connect.
func (f *fake) github() *Provider {
	return f.provider(func(o *Options) {
		o.Issuer, o.Scopes, o.SubjectClaim, o.Mapping.Username = "", []string{"read:user"}, "id", "login"
		o.Endpoints = Endpoints{Authorization: f.idp + "/authorize", Token: f.idp + "/token", Userinfo: f.idp + "/userinfo"}
	})
}

func TestPlainOAuth(t *testing.T) {
	tests := []struct {
		name     string
		userinfo map[string]any
		subject  string
		fault    string
	}{
		{"a number", object{"id": 583231, "login": "octocat", "email": nil}, "583231", ""},
		{"a large number", object{"id": json.Number("9007199254740993"), "login": "octocat"}, "9007199254740993", ""},
		{"a string", object{"id": "u-1", "login": "octocat"}, "u-1", ""},
		{"a fraction", object{"id": 1.5, "login": "octocat"}, "", "not a whole number"},
		{"missing", object{"sub": "alice-sub", "login": "octocat"}, "", "see subject_claim"},
		{"an object", object{"id": object{}, "login": "octocat"}, "", "see subject_claim"},
		{"empty", object{"id": "", "login": "octocat"}, "", "1 to 255 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			f.userinfo = test.userinfo
			got, err := f.github().Exchange(t.Context(), "the-code", Attempt{State: "s", Verifier: "v"})
			if wantResult(t, err, ErrFault, test.fault); err != nil {
				return
			}
			if got.Profile.Subject != test.subject || got.Profile.Username != "octocat" {
				t.Errorf("profile %+v", got.Profile)
			}
			if f.called(discoveryPath)+f.called("/keys") != 0 {
				t.Errorf("calls %v", f.calls)
			}
		})
	}
	t.Run("without userinfo", func(t *testing.T) {
		f := newFake(t, clocktest.New().Now).listen()
		p := f.provider(func(o *Options) {
			o.Endpoints = Endpoints{Authorization: f.idp + "/authorize", Token: f.idp + "/token"}
		})
		_, err := exchange(t, p)
		wantError(t, err, ErrFault, "nothing says who it is")
	})
}

// Endpoints by hand, with keys: OpenID Connect without discovery.
func TestEndpointsByHand(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	given := Endpoints{Authorization: f.idp + "/authorize", Token: f.idp + "/token", Userinfo: f.idp + "/userinfo", Keys: f.idp + "/keys"}
	mustExchange(t, f.provider(func(o *Options) { o.Endpoints = given }))
	if f.called(discoveryPath) != 0 {
		t.Error("discovery was called")
	}

	_, err := exchange(t, f.provider(func(o *Options) { o.Endpoints, o.Issuer = given, "" }))
	wantError(t, err, ErrFault, "no issuer is configured")

	f.idToken = func(object) any { return nil }
	_, err = exchange(t, f.provider(func(o *Options) { o.Endpoints = given }))
	wantError(t, err, ErrFault, "no id_token")

	given.Token = "http://id.example.org/token"
	_, err = exchange(t, f.provider(func(o *Options) { o.Endpoints = given }))
	wantError(t, err, ErrFault, `token_endpoint "http://id.example.org/token" is not https`)
}

// A login needs a code and all secrets of its attempt, before anything is called.
func TestAttemptIsNeeded(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	p := f.provider(nil)
	for name, try := range map[string]struct {
		code    string
		attempt Attempt
	}{
		"no code":     {"", testAttempt},
		"no state":    {"", Attempt{Nonce: "n", Verifier: "v"}},
		"no nonce":    {"the-code", Attempt{State: "s", Verifier: "v"}},
		"no verifier": {"the-code", Attempt{State: "s", Nonce: "n"}},
	} {
		if _, err := p.Exchange(t.Context(), try.code, try.attempt); err == nil {
			t.Errorf("%s: it is exchanged", name)
		}
		if got, err := p.AuthorizationURL(t.Context(), try.attempt); err == nil && try.attempt != testAttempt {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if got := f.called("/token"); got != 0 {
		t.Errorf("%d calls of the token endpoint", got)
	}
}

// mustRefresh refreshes alice's tokens and succeeds.
func mustRefresh(t testing.TB, p *Provider, tokens Tokens) *Grant {
	t.Helper()
	grant, err := p.Refresh(t.Context(), tokens, "alice-sub")
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func TestRefresh(t *testing.T) {
	clock := clocktest.New()
	f := newFake(t, clock.Now).listen()
	f.id["sid"], f.id["locale"] = "the-sid", "de"
	p := f.provider(nil)
	before := mustExchange(t, p).Tokens

	clock.Advance(4 * time.Minute)
	f.userinfo["roles"] = []string{"user"}
	f.access = "second-access-token"
	f.id["nonce"] = nil
	f.answer["refresh_token"] = "second-refresh-token"
	rotated := mustRefresh(t, p, before)
	if diff := cmp.Diff([]string{"user"}, rotated.Profile.Roles); diff != "" {
		t.Errorf("roles: %s", diff)
	}
	if got := rotated.Tokens; got.Access != "second-access-token" || got.Refresh != "second-refresh-token" || got.ID == before.ID ||
		!got.Expires.Equal(clock.Now().Add(300*time.Second)) {
		t.Error("the tokens are not the new ones")
	}

	// Neither refresh token nor ID token: the old ones stay, long after the ID
	// token has expired, and so does what only it says.
	clock.Advance(time.Hour)
	f.answer = object{"refresh_token": nil, "id_token": nil}
	kept := mustRefresh(t, p, rotated.Tokens)
	if got := kept.Tokens; got.Refresh != "second-refresh-token" || got.ID != rotated.Tokens.ID {
		t.Error("the tokens are not the old ones")
	}
	if kept.Session != "the-sid" || kept.Profile.Claims["locale"] != "de" {
		t.Errorf("session %q, claims %v", kept.Session, kept.Profile.Claims)
	}
}

// Roles that the access token says are fresher than those of the ID token that
// came with the login.
func TestRefreshPrefersFreshRoles(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.userinfo = object{"sub": "alice-sub"}
	f.id["roles"] = []string{"admin", "user"}
	p := f.provider(nil)
	tokens := mustExchange(t, p).Tokens

	f.answer["id_token"] = nil
	f.access = f.key.sign(t, f.claims(object{"aud": "api", "roles": []string{"user"}}), nil)
	got := mustRefresh(t, p, tokens)
	if diff := cmp.Diff([]string{"user"}, got.Profile.Roles); diff != "" {
		t.Errorf("roles: %s", diff)
	}

	f.access = "opaque-access-token"
	got = mustRefresh(t, p, tokens)
	if diff := cmp.Diff([]string{"admin", "user"}, got.Profile.Roles); diff != "" {
		t.Errorf("roles where nothing fresh says them: %s", diff)
	}
}

// What a new ID token does not say any more has been taken away.
func TestRefreshTakesAway(t *testing.T) {
	f := newFake(t, clocktest.New().Now).listen()
	f.userinfo = object{"sub": "alice-sub"}
	f.id["roles"], f.id["department"] = []string{"admin"}, "sales"
	p := f.provider(nil)
	tokens := mustExchange(t, p).Tokens
	f.id = object{}
	got := mustRefresh(t, p, tokens)
	if got.Profile.Roles != nil || got.Profile.Claims["department"] != nil {
		t.Errorf("got %+v", got.Profile)
	}
}

func TestKeptClaims(t *testing.T) {
	f := newFake(t, clocktest.New().Now)
	token := f.key.sign(t, f.claims(nil), nil)
	if got := keptClaims(token, "alice-sub"); got["sub"] != "alice-sub" {
		t.Errorf("got %v", got)
	}
	for name, kept := range map[string]claims{
		"of another person": keptClaims(token, "bob-sub"), "of no token": keptClaims("", "alice-sub"), "of no JWT": keptClaims("a.!.c", "alice-sub"),
		"of no JSON": keptClaims("a.YQ.c", "alice-sub"),
	} {
		if kept != nil {
			t.Errorf("%s: %v", name, kept)
		}
	}
}

func TestRefreshRefuses(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*fake)
		kind    error
		text    string
		rotated bool // new tokens came
	}{
		{"invalid_grant", func(f *fake) { f.instead["/token"] = say(400, "application/json", `{"error":"invalid_grant"}`) }, ErrRefused, "invalid_grant", false},
		{"out of order", func(f *fake) { f.instead["/token"] = say(500, "text/plain", "") }, ErrFault, "500", false},
		{"the ID token of another", func(f *fake) { f.id["sub"] = "bob-sub" }, ErrFault, "another person", true},
		{"the userinfo of another", func(f *fake) { f.userinfo["sub"] = "bob-sub"; f.answer["id_token"] = nil }, ErrFault, "another person", true},
		{"an ID token for another client", func(f *fake) { f.id["aud"] = "other" }, ErrFault, "audience", true},
		{"an ID token of another issuer", func(f *fake) { f.id["iss"] = "https://evil.example" }, ErrFault, "different provider", true},
		{"userinfo out of order", func(f *fake) { f.instead["/userinfo"] = say(500, "", "") }, ErrFault, "500", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, clocktest.New().Now).listen()
			p := f.provider(nil)
			before := mustExchange(t, p).Tokens
			f.answer["refresh_token"] = "second-refresh-token"
			test.change(f)
			got, err := p.Refresh(t.Context(), before, "alice-sub")
			wantError(t, err, test.kind, test.text)
			if !test.rotated {
				if got != nil {
					t.Errorf("got a grant: %+v", got)
				}
				return
			}
			// The old refresh token is used up, so the new one must not be lost. The
			// new ID token may be for another user.
			want := &Grant{Tokens: Tokens{Access: f.access, Refresh: "second-refresh-token", ID: before.ID, Expires: before.Expires}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("without a refresh token or subject", func(t *testing.T) {
		f := newFake(t, clocktest.New().Now).listen()
		p := f.provider(nil)
		_, err := p.Refresh(t.Context(), Tokens{Access: "a"}, "alice-sub")
		wantError(t, err, ErrFault, "needed")
		_, err = p.Refresh(t.Context(), Tokens{Refresh: "r"}, "")
		wantError(t, err, ErrFault, "needed")
		if f.called("/token") != 0 {
			t.Error("the token endpoint was called")
		}
	})
}

func TestSecretsAreNotPrinted(t *testing.T) {
	tokens := Tokens{Access: "SECRET", Refresh: "SECRET", ID: "SECRET"}
	attempt := Attempt{State: "SECRET", Nonce: "SECRET", Verifier: "SECRET"}
	var logged strings.Builder
	logger := slog.New(slog.NewJSONHandler(&logged, nil))
	logger.Info("test", "tokens", tokens, "attempt", attempt)
	for _, text := range []string{
		fmt.Sprint(tokens, attempt), fmt.Sprintf("%v %+v %#v %s", tokens, tokens, tokens, tokens), fmt.Sprintf("%+v", Grant{Tokens: tokens}),
		fmt.Sprintf("%v %+v %#v %s", attempt, attempt, attempt, attempt), logged.String(),
	} {
		if strings.Contains(text, "SECRET") || !strings.Contains(text, redacted) {
			t.Errorf("printed %q", text)
		}
	}
	raw, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	var back Tokens
	if err := json.Unmarshal(raw, &back); err != nil || back != tokens {
		t.Errorf("JSON does not keep the tokens: %v", err)
	}
}
