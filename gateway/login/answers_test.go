package login

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/internal/test/must"
)

// fate is what an answer means for a login.
type fate int

const (
	silent  fate = iota // no answer: the login goes on, as it was
	ends                // the login is over
	granted             // an answer with what the test says
)

// answers of an endpoint at a renewal, and what each means.
type answerOf struct {
	name string
	fate fate
	send http.HandlerFunc // nil: no connection; not for granted
}

func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var tokenAnswers = []answerOf{
	{"no connection", silent, nil},
	{"500", silent, answering(500, `{"error":"invalid_grant"}`)},
	{"503", silent, answering(503, "")},
	{"408", silent, answering(408, "")},
	{"429", silent, answering(429, `{"error":"invalid_request"}`)},
	{"400 invalid_client", silent, answering(400, `{"error":"invalid_client"}`)},
	{"401 invalid_client", silent, answering(401, `{"error":"invalid_client"}`)},
	{"400 invalid_grant", ends, answering(400, `{"error":"invalid_grant"}`)},
	{"400 invalid_request", ends, answering(400, `{"error":"invalid_request"}`)},
	{"401 invalid_token", ends, answering(401, `{"error":"invalid_token"}`)},
	{"403", ends, answering(403, "")},
	{"404", ends, answering(404, "")},
	{"302", ends, answering(302, "")},
	{"200 with an error", ends, answering(200, `{"error":"bad_refresh_token"}`)},
	{"200 that is no JSON", ends, answering(200, "<html>")},
	{"200 without tokens", ends, answering(200, "{}")},
	{"tokens", granted, nil},
	{"tokens and an ID token", granted, nil},
	{"an ID token of another person", ends, nil},
	{"an ID token of another key", ends, nil},
}

var userinfoAnswers = []answerOf{
	{"no connection", silent, nil},
	{"500", silent, answering(500, "")},
	{"408", silent, answering(408, "")},
	{"429", silent, answering(429, "")},
	{"401", ends, answering(401, "")},
	{"403", ends, answering(403, "")},
	{"302", ends, answering(302, "")},
	{"201", ends, answering(201, `{"sub":"7"}`)},
	{"200 that is no JSON", ends, answering(200, "<html>")},
	{"200 that is null", ends, answering(200, "null")},
	{"200 about no user", ends, answering(200, "{}")},
	{"200 about another person", ends, answering(200, `{"sub":"8"}`)},
	{"claims", granted, nil},
}

// form is how a source has a claim.
type form int

const (
	absent form = iota
	null
	usable
	unusable
	forms
)

// claimForms are the claims of one source, each in a form.
type claimForms struct{ roles, name, email form }

func (c claimForms) claims() map[string]any {
	all := map[string]any{"sub": "7", "preferred_username": "alice"}
	for name, value := range map[string]struct {
		form             form
		usable, unusable any
	}{
		"roles": {c.roles, "user", 5},
		"name":  {c.name, "Alice", map[string]any{"first": "Alice"}},
		"email": {c.email, "alice@example.org", "a@b@c"},
	} {
		switch value.form {
		case null:
			all[name] = nil
		case usable:
			all[name] = value.usable
		case unusable:
			all[name] = value.unusable
		}
	}
	return all
}

// eachForm calls f with all claims of a source: each claim in each form.
func eachForm(f func(claimForms)) {
	for roles := range forms {
		for name := range forms {
			f(claimForms{roles, name, forms - 1 - name}) // an address in another form than the name
		}
	}
}

// The sources of a claim at the sign-in.
const (
	fromUserinfo = 1 << iota
	fromID
)

// kept reports what is left of a claim after a renewal: nothing, the new value, or the old
// one. A source that is nil was silent.
func kept(before int, userinfo, id *form) (isNew, isOld bool) {
	says := func(f *form) bool { return f != nil && (*f == usable || *f == unusable) }
	has := func(f *form) bool { return f != nil && *f == usable }
	if has(userinfo) || has(id) {
		return true, false
	}
	// A silent source keeps what it alone had, if the other does not speak of it now.
	oldUserinfo := userinfo == nil && before&fromUserinfo != 0 && !says(id) && (id == nil || before&fromID == 0)
	oldID := id == nil && before&fromID != 0 && !says(userinfo) && (userinfo == nil || before&fromUserinfo == 0)
	return false, oldUserinfo || oldID
}

// answered is a provider over no network, whose answers at a renewal a test chooses.
type answered struct {
	key, other    *ecdsa.PrivateKey
	now           func() time.Time
	token, info   answerOf
	id, userinfo  map[string]any
	renewing      bool
	refreshToken  string // the newest
	askedUserinfo bool
}

func (a *answered) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/realms/main")
	send := a.usual(r)
	switch r.URL.Path { // the keys are fetched in the background too, while the test goes on
	case "/token":
		if a.renewing && a.token.fate != granted && !strings.HasPrefix(a.token.name, "an ID token") {
			send = a.token.send
		}
	case "/userinfo":
		a.askedUserinfo = a.renewing
		if a.renewing && a.info.fate != granted {
			send = a.info.send
		}
	}
	if send == nil {
		return nil, errors.New("connection refused")
	}
	send(w, r)
	return w.Result(), nil
}

func (a *answered) usual(r *http.Request) http.HandlerFunc {
	var body any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		body = map[string]any{"issuer": testOP, "authorization_endpoint": testOP + "/authorize",
			"token_endpoint": testOP + "/token", "userinfo_endpoint": testOP + "/userinfo", "jwks_uri": testOP + "/keys"}
	case "/keys":
		point := func(name string) string {
			raw, _ := a.key.PublicKey.Bytes() // uncompressed
			return base64.RawURLEncoding.EncodeToString(map[string][]byte{"x": raw[1:33], "y": raw[33:]}[name])
		}
		body = map[string]any{"keys": []any{
			map[string]any{"kid": "first", "kty": "EC", "crv": "P-256", "x": point("x"), "y": point("y")},
		}}
	case "/token":
		a.refreshToken = rand.Text()
		tokens := map[string]any{"access_token": "access", "token_type": "Bearer",
			"expires_in": 1200, "refresh_token": a.refreshToken}
		claims := maps.Clone(a.id)
		key := a.key
		switch a.token.name {
		case "an ID token of another person":
			claims["sub"] = "8"
		case "an ID token of another key":
			key = a.other
		}
		if !a.renewing || a.token.name != "tokens" {
			tokens["id_token"] = a.sign(key, claims)
		}
		body = tokens
	case "/userinfo":
		body = a.userinfo
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // the test made it
	}
	return answering(200, string(raw))
}

func (a *answered) sign(key *ecdsa.PrivateKey, claims map[string]any) string {
	all := jwt.MapClaims{"iss": testOP, "aud": "gate", "nonce": "n",
		"iat": a.now().Unix(), "exp": a.now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	token := jwt.NewWithClaims(jwt.SigningMethodES256, all)
	token.Header["kid"] = "first"
	signed, err := token.SignedString(key)
	if err != nil {
		panic(err) // the key is good
	}
	return signed
}

// For every answer to a refresh, every answer of userinfo, and every form of each claim in
// each source: the login ends exactly if an answer ends it, nothing stays that the last
// answer does not say any more, nothing goes that was only not said again, and no new
// refresh token is lost.
func TestEveryAnswerAtRenewal(t *testing.T) {
	t.Parallel()
	keys := []*ecdsa.PrivateKey{
		must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t),
		must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t),
	}
	for _, before := range []int{fromUserinfo, fromID, fromUserinfo | fromID} {
		for _, token := range tokenAnswers {
			t.Run(fmt.Sprint(before, " ", token.name), func(t *testing.T) {
				t.Parallel()
				op := &answered{key: keys[0], other: keys[1]}
				r := newRig(t, func(r *rig) { op.now = r.now })
				p := provider.New(provider.Options{
					Name: "keycloak", Issuer: testOP, Client: provider.Client{ID: "gate"}, Scopes: []string{"openid"},
					Mapping:    provider.Mapping{Roles: "roles", Username: "preferred_username"},
					Connection: provider.Connection{Transport: op, Now: r.now},
				})
				t.Cleanup(p.Close)
				r.usersOptions.Providers = map[string]Provider{"keycloak": p}
				r = r.instance(t)
				renewal := &renewalAnswers{rig: r, op: op, p: p, before: before, token: token}
				if token.fate != granted {
					renewal.try(t, userinfoAnswers[len(userinfoAnswers)-1],
						claimForms{usable, usable, usable}, claimForms{usable, usable, usable})
					return
				}
				eachID := eachForm
				if token.name == "tokens" {
					eachID = func(f func(claimForms)) { f(claimForms{}) }
				}
				eachID(func(id claimForms) {
					for _, info := range userinfoAnswers {
						if info.fate != granted {
							renewal.try(t, info, id, claimForms{})
							continue
						}
						eachForm(func(userinfo claimForms) { renewal.try(t, info, id, userinfo) })
					}
				})
			})
		}
	}
}

// renewalAnswers tries renewals with one answer of the token endpoint.
type renewalAnswers struct {
	*rig
	op     *answered
	p      *provider.Provider
	before int // which sources had the claims at the sign-in
	token  answerOf
}

func (r *renewalAnswers) try(t *testing.T, info answerOf, id, userinfo claimForms) {
	t.Helper()
	what := fmt.Sprintf("userinfo %s, ID token %v, userinfo %v", info.name, id, userinfo)
	s := r.signInWithAll(t)
	first := r.op.refreshToken
	r.clock.Advance(15 * time.Minute)
	r.op.renewing, r.op.token, r.op.info, r.op.askedUserinfo = true, r.token, info, false
	r.op.id, r.op.userinfo = id.claims(), userinfo.claims()
	r.users.renewOnce(s.login)
	r.op.renewing = false

	over := r.token.fate == ends || r.token.fate == granted && info.fate == ends
	if r.op.askedUserinfo != (r.token.fate == granted) {
		t.Errorf("%s: userinfo was asked: %t", what, r.op.askedUserinfo)
	}
	identity, err := r.bySession(t, s)
	if (err != nil) != over || err != nil && !errors.Is(err, auth.ErrRejected) {
		t.Fatalf("%s: %v, want the login over: %t", what, err, over)
	}
	r.wantOneReport(t, what, over, over || r.token.fate == silent || info.fate == silent && r.token.fate == granted)
	if over {
		return
	}
	tokens := must.Get(r.users.Tokens(must.Get(decodeLogin(s.login.ID,
		must.Get(r.store.Get(t.Context(), loginPrefix+s.login.ID))(t)))(t)))(t)
	if want := map[bool]string{true: r.op.refreshToken, false: first}[r.token.fate == granted]; tokens.Refresh != want {
		t.Errorf("%s: the refresh token is lost", what)
	}
	newID, newUserinfo := &id, &userinfo
	if r.token.fate == silent || info.fate == silent {
		newUserinfo = nil
	}
	if r.token.name != "tokens and an ID token" {
		newID = nil
	}
	for name, claim := range map[string]struct {
		of           func(*claimForms) *form
		got          string
		latest, past string
	}{
		"roles": {func(c *claimForms) *form { return &c.roles }, strings.Join(identity.Roles, " "), "user", "user admin"},
		"name":  {func(c *claimForms) *form { return &c.name }, identity.Name, "Alice", "Alice Before"},
		"email": {func(c *claimForms) *form { return &c.email }, identity.Email, "alice@example.org", "before@example.org"},
	} {
		formOf := func(c *claimForms) *form {
			if c == nil {
				return nil
			}
			return claim.of(c)
		}
		isNew, isOld := kept(r.before, formOf(newUserinfo), formOf(newID))
		if want := map[bool]string{isNew: claim.latest, isOld: claim.past}[true]; claim.got != want {
			t.Errorf("%s: %s is %q, want %q", what, name, claim.got, want)
		}
	}
	r.end(t, s)
}

// signInWithAll signs in with all claims, from the sources that have them.
func (r *renewalAnswers) signInWithAll(t *testing.T) *signedIn {
	t.Helper()
	all := map[string]any{"roles": []string{"user", "admin"}, "name": "Alice Before", "email": "before@example.org"}
	r.op.id, r.op.userinfo = claimForms{}.claims(), claimForms{}.claims()
	if r.before&fromID != 0 {
		maps.Copy(r.op.id, all)
	}
	if r.before&fromUserinfo != 0 {
		maps.Copy(r.op.userinfo, all)
	}
	attempt := provider.Attempt{State: "s", Nonce: "n", Verifier: "v"}
	s := r.signInAt(t, must.Get(r.p.Exchange(t.Context(), "code", attempt))(t))
	if id, err := r.bySession(t, s); err != nil || !slices.Equal(id.Roles, []string{"user", "admin"}) {
		t.Fatalf("signed in: %+v, %v", id, err)
	}
	return s
}

// wantOneReport fails the test unless there is one report, if one is wanted, of a login that
// has ended or goes on.
func (r *renewalAnswers) wantOneReport(t *testing.T, what string, ended, wanted bool) {
	t.Helper()
	var got []report
	for range len(r.reports) {
		got = append(got, <-r.reports)
	}
	if len(got) > 1 || (len(got) == 1) != wanted || wanted && got[0].ended != ended {
		t.Errorf("%s: reported %+v", what, got)
	}
}
