package signin_test

import (
	"html"
	"maps"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/rig"
)

// vaults have routes that demand proof, at two hosts.
const vaults = `  - {match: /fresh/, upstream: app, auth: [session, oidc], policy: {max_age: 15m}}
  - {match: /two/, upstream: app, auth: [session, oidc], policy: {factors: 2}}
  - {match: wiki.example.org/fresh/, upstream: app, auth: [session, oidc], policy: {max_age: 15m}}
  - {match: /strict/, upstream: app, auth: [oidc], policy: {roles: [admin], all: [{factors: 2}, {max_age: 1h}]}}
  - {match: /either/, upstream: app, auth: [oidc], policy: {any: [{factors: 2}, {max_age: 1h}]}}
  - {match: /, upstream: app, auth: [session, oidc], policy: {factors: 2}}
`

func atVaults(t *testing.T, more string) (*rig.Rig, *rig.Provider) {
	t.Helper()
	p := rig.NewProvider(t)
	r := rig.New(t, rig.Edit(t, p.Config(rig.FiveHostsConfig+vaults, ""), "client_id: gateway", "client_id: gateway"+more))
	p.Now = r.Clock.Now
	return r, p
}

const (
	fresh, two = "https://gw.example/fresh/x?y=%2F", "https://gw.example/two/x"
	freshWiki  = "https://wiki.example.org/fresh/x"
)

// wantForm fails the test unless the person is asked for a password although they are
// signed in, and told why.
func wantForm(t *testing.T, at string, w *httptest.ResponseRecorder, notice string, fields url.Values) {
	t.Helper()
	action, got := rig.FormOf(t, w)
	if action != "/login" || !strings.HasPrefix(at, "https://gw.example/signin?") || w.Code != 200 ||
		!strings.Contains(w.Body.String(), notice) {
		t.Fatalf("at %s: %d %s", at, w.Code, w.Body)
	}
	for name, want := range fields {
		if got.Get(name) != want[0] {
			t.Errorf("the field %s is %q, want %q", name, got.Get(name), want)
		}
	}
}

// A session is not enough when its sign-in is too old: the user is asked for the password
// once more, and comes back.
func TestStepUpByPassword(t *testing.T) {
	t.Parallel()
	r, _ := atVaults(t, "")
	alice := r.Person()
	if at, w := alice.SignIn(fresh, "alice"); at != fresh || w.Code != 200 {
		t.Fatalf("at %s: %d", at, w.Code)
	}
	r.Clock.Advance(15 * time.Minute)
	alice.Sees(fresh, "alice")
	r.Clock.Advance(time.Second)
	before := r.Reached()
	at, w := alice.Visit("GET", fresh, "")
	wantForm(t, at, w, "Sign in again to go on.", url.Values{
		"username": {"alice"}, "max_age": {"15m0s"}, "factors": {""}, "return_to": {"/fresh/x?y=%2F"},
	})
	alice.Sees(rig.PageOf("gw.example"), "alice") // which demands nothing
	if at, w := alice.Post(w, "bob"); w.Code != 200 || at != fresh {
		t.Errorf("as another user: at %s: %d", at, w.Code)
	}
	if r.Reached() != before+2 {
		t.Errorf("%d requests reached the application, want 2", r.Reached()-before)
	}

	// A wrong password leads nowhere, and what is needed stays on the page.
	r.Clock.Advance(16 * time.Minute)
	at, w = alice.Visit("GET", fresh, "")
	action, form := rig.FormOf(t, w)
	form.Set("password", "wrong")
	w = alice.Ask("POST", "https://gw.example"+action, form.Encode(), rig.Form, "Origin: https://gw.example")
	if _, fields := rig.FormOf(t, w); w.Code != 401 || fields.Get("max_age") != "15m0s" {
		t.Errorf("after a wrong password, at %s: %d %v", at, w.Code, fields)
	}
	if at, w = alice.Post(w, "alice"); at != fresh || w.Code != 200 {
		t.Errorf("at %s: %d", at, w.Code)
	}
}

// What a page asks for is no secret and no proof. Without it, or with less, the user comes
// to the same page again, and the application gets nothing.
func TestStepUpCannotBeTakenAway(t *testing.T) {
	t.Parallel()
	r, _ := atVaults(t, "")
	alice := r.Person()
	alice.SignIn(fresh, "alice")
	r.Clock.Advance(time.Hour - time.Minute)
	before := r.Reached()
	for _, query := range []string{"", "&max_age=", "&max_age=24h", "&max_age=-1h", "&max_age=x", "&factors=1",
		"&factors=0",
		"&reason=fresh", "&switch=1"} {
		at, w := alice.Visit("GET", "https://gw.example/signin?return_to=/fresh/"+query, "")
		if w.Code != 200 || !strings.HasPrefix(at, "https://gw.example/signin") {
			t.Errorf("%s: at %s: %d", query, at, w.Code)
		}
		at, w = alice.Visit("GET", "https://gw.example/fresh/", "")
		wantForm(t, at, w, "Sign in again to go on.", nil)
	}
	// One factor stays one, whatever the form said.
	at, w := alice.Visit("GET", two, "")
	wantForm(t, at, w, "Sign in again with two factors", url.Values{"factors": {"2"}})
	action, form := rig.FormOf(t, w)
	form.Set("password", "wonderland")
	for _, factors := range []string{"", "1", "0", "3", "two"} {
		form.Set("factors", factors)
		at, w = alice.Visit("POST", "https://gw.example"+action, form.Encode(), rig.Form, "Origin: https://gw.example")
		wantForm(t, at, w, "Sign in again with two factors", url.Values{"factors": {"2"}})
	}
	if r.Reached() != before {
		t.Errorf("%d requests reached the application", r.Reached()-before)
	}
}

// A user who needs two factors gives the password, and is led to the account to add the
// second one if that is possible. Else nothing changes.
func TestStepUpToASecondFactor(t *testing.T) {
	t.Parallel()
	for _, mayAdd := range []bool{false, true} {
		r, _ := atVaults(t, "")
		r.MayAddFactor = func(a *accounts.Account) bool { return mayAdd && a.Username == "alice" }
		r.Reload(rig.FiveHostsConfig + vaults +
			"providers: [{name: small, issuer: \"http://127.0.0.1:1\", client_id: gateway}]\n")
		alice := r.Person()
		alice.SignIn(rig.PageOf("gw.example"), "alice")
		sessions := maps.Clone(alice.Jars["gw.example"])
		before := r.Reached()
		_, w := alice.Visit("GET", two, "")
		if told := strings.Contains(w.Body.String(), "you can add one"); told != mayAdd {
			t.Errorf("a user who may add a factor (%v) is told so: %v", mayAdd, told)
		}
		at, w := alice.Post(w, "alice")
		switch changed := !maps.Equal(sessions, alice.Jars["gw.example"]); {
		case mayAdd && (!strings.HasPrefix(at, "https://gw.example/account?return_to=") || w.Code != 200 || !changed):
			t.Errorf("at %s: %d, want the account, and a new session", at, w.Code)
		case !mayAdd && (at != "https://gw.example/login" || w.Code != 403 || changed ||
			!strings.Contains(w.Body.String(), "Your account has a password alone")):
			t.Errorf("at %s: %d %s", at, w.Code, w.Body)
		}
		if r.Reached() != before {
			t.Error("the application was reached")
		}
		alice.Sees(rig.PageOf("gw.example"), "alice")
	}
}

// A session at another host, and the ticket that gives one, carry the proof of their login.
// The user signs in once for all hosts.
func TestStepUpAtAnotherHost(t *testing.T) {
	t.Parallel()
	r, _ := atVaults(t, "")
	alice := r.Person()
	for _, extra := range [][]string{nil, {"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"}} {
		alice.Extra = extra
		r.Clock.Advance(time.Hour)
		if at, w := alice.SignIn(freshWiki, "alice"); at != freshWiki || w.Code != 200 {
			t.Fatalf("at %s by %q: %d", at, alice.Trail, w.Code)
		}
		r.Clock.Advance(16 * time.Minute)
		before := r.Reached()
		// Neither the session at public_url nor a ticket for it is younger.
		at, w := alice.Visit("GET", freshWiki, "")
		wantForm(t, at, w, "Sign in again to go on.", url.Values{"max_age": {"15m0s"}, "return_to": {freshWiki}})
		delete(alice.Jars, "wiki.example.org")
		at, _ = alice.Visit("GET", freshWiki, "")
		if at != freshWiki && !strings.HasPrefix(at, "https://gw.example/signin?") || r.Reached() != before {
			t.Errorf("at %s by %q, and %d requests reached the application", at, alice.Trail, r.Reached()-before)
		}
		at, w = alice.Visit("GET", freshWiki, "")
		wantForm(t, at, w, "Sign in again to go on.", nil)
		if at, w = alice.Post(w, "alice"); at != freshWiki || w.Code != 200 {
			t.Errorf("at %s by %q: %d", at, alice.Trail, w.Code)
		}
		// The newer sign-in at public_url is enough for an older session elsewhere.
		r.Clock.Advance(16 * time.Minute)
		_, w = alice.Visit("GET", fresh, "")
		if at, _ := alice.Post(w, "alice"); at != fresh {
			t.Errorf("at %s", at)
		}
		alice.Sees(freshWiki, "alice")
	}
}

// A login at a provider goes there once more, with what is needed. What the provider does
// not confirm is refused, and changes nothing.
func TestStepUpAtAProvider(t *testing.T) {
	t.Parallel()
	r, p := atVaults(t, ", two_factors: {amr: [hwk], acr: [gold]}, step_up: {acr_values: gold silver}")
	carol := r.Person()
	toProvider := func(place string, want url.Values) url.Values {
		t.Helper()
		carol.Stop = func(place string) bool { return strings.HasPrefix(place, p.Issuer) }
		defer func() { carol.Stop = nil }()
		at, _ := carol.Visit("GET", place, "")
		u, err := url.Parse(at)
		if err != nil || !strings.HasPrefix(at, p.Issuer+"/authorize?") {
			t.Fatalf("%s leads by %q to %s", place, carol.Trail, at)
		}
		for _, name := range []string{"prompt", "max_age", "acr_values"} {
			if got := u.Query().Get(name); got != want.Get(name) {
				t.Errorf("%s: %s is %q, want %q", place, name, got, want.Get(name))
			}
		}
		return u.Query()
	}
	back := func(asked url.Values, claims map[string]any) (string, *httptest.ResponseRecorder) {
		t.Helper()
		p.Claims = claims
		return carol.Visit("GET", "https://gw.example/callback?"+rig.ResponseTo(asked), "")
	}
	const plain = "https://gw.example/delegated/x"
	now := func() int64 { return r.Clock.Now().Unix() }
	if at, w := back(toProvider(plain, nil), map[string]any{"amr": []string{"pwd", "mfa"}}); at != plain || w.Code != 200 {
		t.Fatalf("at %s: %d", at, w.Code)
	}
	age := url.Values{"prompt": {"login"}, "max_age": {"900"}}
	factors := url.Values{"prompt": {"login"}, "acr_values": {"gold silver"}}
	for _, c := range []struct {
		place  string
		want   url.Values
		claims map[string]any
		enough bool
	}{
		{fresh, age, nil, false},
		{fresh, age, map[string]any{"auth_time": now() - 901}, false},
		{fresh, age, map[string]any{"auth_time": now() + 3600}, false},
		{fresh, age, map[string]any{"auth_time": "now", "iat": now(), "amr": []string{"hwk"}}, false},
		{two, factors, nil, false},
		{two, factors, map[string]any{"amr": []string{"pwd", "mfa"}, "auth_time": now()}, false}, // which does not count here
		{two, factors, map[string]any{"acr": "silver"}, false},
		{fresh, age, map[string]any{"auth_time": now() - 899}, true},
		{two, factors, map[string]any{"acr": "gold"}, true},
		{fresh, age, map[string]any{"auth_time": now(), "amr": []string{"hwk"}}, true},
		{two, nil, nil, true}, // the last one had both
	} {
		before, session := r.Reached(), carol.Jars["gw.example"]["session"]
		if c.want == nil {
			carol.Sees(c.place, "carol")
			continue
		}
		at, w := back(toProvider(c.place, c.want), c.claims)
		switch kept := carol.Jars["gw.example"]["session"] == session; {
		case c.enough && (at != c.place || w.Code != 200 || kept):
			t.Errorf("%s with %v: at %s: %d %s", c.place, c.claims, at, w.Code, w.Body)
		case !c.enough && (w.Code != 403 || !kept || r.Reached() != before ||
			!strings.Contains(w.Body.String(), "did not confirm enough")):
			t.Errorf("%s with %v: at %s: %d, %d reached; the session was kept: %t", c.place, c.claims, at, w.Code,
				r.Reached()-before, kept)
		}
		if !c.enough {
			carol.Sees(plain, "carol")
		}
	}
}

// firstTrip leads a person from a page to a provider, by the link of the sign-in page if there
// is a choice, and returns what the provider is asked for.
func firstTrip(t *testing.T, person *rig.Person, p *rig.Provider, place string) url.Values {
	t.Helper()
	person.Stop = func(place string) bool { return strings.HasPrefix(place, p.Issuer) }
	defer func() { person.Stop = nil }()
	at, w := person.Visit("GET", place, "")
	if w != nil {
		link := regexp.MustCompile(`href="(/login\?provider=[^"]*)"`).FindStringSubmatch(w.Body.String())
		if link == nil {
			t.Fatalf("%s leads to %s, which has no link to a provider: %s", place, at, w.Body)
		}
		at, _ = person.Visit("GET", "https://gw.example"+html.UnescapeString(link[1]), "")
	}
	u, err := url.Parse(at)
	if err != nil || !strings.HasPrefix(at, p.Issuer+"/authorize?") {
		t.Fatalf("%s leads by %q to %s", place, person.Trail, at)
	}
	return u.Query()
}

// The first trip to a provider asks for what the page demands of every login, so that one
// sign-in is enough. It asks for no sign-in that a session there can answer.
func TestFirstTripToAProvider(t *testing.T) {
	t.Parallel()
	r, p := atVaults(t, ", two_factors: {acr: [gold]}, step_up: {acr_values: gold}")
	for place, want := range map[string]url.Values{
		two:                              {"acr_values": {"gold"}},
		fresh:                            {"max_age": {"900"}},
		freshWiki:                        {"max_age": {"900"}},
		"https://gw.example/strict/x":    {"acr_values": {"gold"}, "max_age": {"3600"}},
		"https://gw.example/either/x":    {}, // either of them is enough
		"https://gw.example/delegated/x": {},
		"https://gw.example/account":     {}, // an own page, below a route that demands more
	} {
		asked := firstTrip(t, r.Person(), p, place)
		for _, name := range []string{"acr_values", "max_age", "prompt"} {
			if got := asked.Get(name); got != want.Get(name) {
				t.Errorf("%s: %s is %q, want %q", place, name, got, want.Get(name))
			}
		}
	}
}

// A provider that confirms less than the first trip asks for still gives a login. The page
// decides then: the role comes first, and what no second trip brings is refused.
func TestFirstTripThatBringsLess(t *testing.T) {
	t.Parallel()
	r, p := atVaults(t, ", two_factors: {acr: [gold]}, step_up: {acr_values: gold}")
	const strict, plain = "https://gw.example/strict/x", "https://gw.example/delegated/x"
	back := func(person *rig.Person, asked url.Values, acr string) (string, *httptest.ResponseRecorder) {
		t.Helper()
		p.Claims = map[string]any{"acr": acr, "auth_time": r.Clock.Now().Unix()}
		person.Stop = func(place string) bool { return strings.HasPrefix(place, p.Issuer) }
		defer func() { person.Stop = nil }()
		return person.Visit("GET", "https://gw.example/callback?"+rig.ResponseTo(asked), "")
	}
	carol := r.Person()
	if at, w := back(carol, firstTrip(t, carol, p, strict), "silver"); at != strict || w == nil || w.Code != 403 {
		t.Errorf("without the role: at %s", at)
	}
	carol.Sees(plain, "carol")

	dan := r.Person()
	again, w := back(dan, firstTrip(t, dan, p, two), "silver")
	u, err := url.Parse(again)
	if err != nil || w != nil || u.Query().Get("prompt") != "login" || u.Query().Get("acr_values") != "gold" {
		t.Fatalf("the second trip leads to %s", again)
	}
	if at, w := back(dan, u.Query(), "silver"); w == nil || w.Code != 403 {
		t.Errorf("a second return without two factors: at %s", at)
	}
	dan.Sees(plain, "carol")
	eve := r.Person()
	if at, w := back(eve, firstTrip(t, eve, p, two), "gold"); at != two || w == nil || w.Code != 200 {
		t.Errorf("one trip with two factors: at %s", at)
	}
}
