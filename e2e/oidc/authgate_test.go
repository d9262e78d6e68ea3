package oidc

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/authenticator"
)

// secondGate is a gateway whose provider is another gateway.
type secondGate struct {
	*world.Delegated
	provider *world.Issuer
}

// The people at the provider.
var (
	aliceThere = world.Person("alice", world.WonderlandHash,
		", name: Alice Example, email: alice@example.org, roles: [user, admin]")
	bobThere    = world.Person("bob", world.BuilderHash, ", roles: [user]")
	bobPromoted = world.Person("bob", world.BuilderHash, ", roles: [user, admin]")
	bobDisabled = world.Person("bob", world.BuilderHash, ", roles: [user, admin], disabled: true")
)

func startSecondGate(t *testing.T) *secondGate {
	t.Helper()
	g := &secondGate{Delegated: &world.Delegated{Instance: world.Prepare(t), Up: world.Record(t)}}
	g.provider = world.PrepareIssuer(t, nil, "accounts: {file: accounts.yaml}\ntoken: {access_lifetime: 4s}\n", g.Instance)
	g.provider.Write("accounts.yaml", aliceThere+bobThere)
	g.provider.Run()
	g.Configure(world.App(g.Up.URL) + g.provider.Entry(", logout: redirect") + world.DelegatedRoutes +
		"  - {match: '/{$}', upstream: app, auth: [none]}\n" + stepUpRoutes)
	g.Run()
	return g
}

// stepUpRoutes demand more of a login.
const stepUpRoutes = `
  - {match: /two, upstream: app, auth: [oidc], policy: {factors: 2}}
  - {match: /fresh, upstream: app, auth: [oidc], policy: {max_age: 10s}}
`

// TestSecondAuthgate: a gateway is the OpenID provider of another one. What the upstream gets
// tells who is signed in, with which roles, and for how long.
func TestSecondAuthgate(t *testing.T) {
	t.Parallel()
	g := startSecondGate(t)
	g.signsIn(t)
	g.renews(t)
	g.signsOutHere(t)
	g.endsThere(t)
	g.provesTwoFactors(t)
	g.provesFreshness(t)
	g.losesTheAccount(t)
}

// atForm fails the test unless the browser shows the sign-in page of the provider.
func (g *secondGate) atForm(b *browser) {
	b.T.Helper()
	if f, ok := b.Form(); !ok || !f.Fields.Has("username") ||
		!strings.HasPrefix(b.URL.String(), g.provider.Base+"/signin?") {
		b.T.Fatalf("expected the sign-in page of the provider: %s\n%s", b.Describe(), g.Log)
	}
}

// givesPassword fills that page in.
func (g *secondGate) givesPassword(b *browser, user string) {
	b.T.Helper()
	g.atForm(b)
	b.Send(map[string]string{"username": user, "password": world.Passwords[user]})
}

// signedIn returns a browser in which a user has signed in.
func (g *secondGate) signedIn(t *testing.T, user string) *browser {
	t.Helper()
	b := browse(g.Instance)
	b.Open(g.Base + "/login?return_to=/secure-resource")
	g.Up.None(t)
	g.givesPassword(b, user)
	wantReached(t, g.Delegated, b, "/secure-resource", user)
	return b
}

// logs waits until the log of an instance has a line with all of these.
func logs(g *world.Instance, parts ...string) {
	g.T.Helper()
	world.Until(g.T, "a line of the log with "+strings.Join(parts, ", "), func() bool {
		for line := range strings.Lines(g.Log.String()) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return true
			}
		}
		return false
	})
}

// signsIn: the provider says who it is, in the ID token and at userinfo.
func (g *secondGate) signsIn(t *testing.T) {
	b := browse(g.Instance)
	b.Open(g.Base + "/secure-resource?x=1")
	g.Up.None(t)
	g.givesPassword(b, "alice")
	m := wantReached(t, g.Delegated, b, "/secure-resource?x=1", "alice")
	for name, want := range map[string]string{
		"X-Auth-Subject": "demo:alice", "X-Auth-Name": "Alice Example", "X-Auth-Email": "alice@example.org",
		"X-Auth-Roles": "user,admin", "X-Auth-Mechanism": "oidc", "X-Auth-Provider": "demo",
	} {
		if got := m.Value(t, name); got != want {
			t.Errorf("the upstream gets %s %q, expected %q", name, got, want)
		}
	}
	logs(g.provider.Instance, `"path":"/oauth/userinfo"`, `"status":200`, `"subject":"local:alice"`)
}

// renews: what changes at the provider applies with the next renewal, and the session outlives
// the access token.
func (g *secondGate) renews(t *testing.T) {
	b := g.signedIn(t, "bob")
	if got := g.Status(b.Client, "GET", "/admin-resource"); got != http.StatusForbidden {
		t.Errorf("bob is no admin, and /admin-resource is %d", got)
	}
	g.Up.None(t)
	g.provider.Write("accounts.yaml", aliceThere+bobPromoted)
	world.Until(t, "the new role", func() bool { return g.Status(b.Client, "GET", "/admin-resource") == http.StatusOK })
	if got := g.Up.One(t).Value(t, "X-Auth-Roles"); got != "user,admin" {
		t.Errorf("the upstream gets the roles %q", got)
	}
}

// signsOutHere: a logout at the gateway ends the session at the provider, and comes back.
func (g *secondGate) signsOutHere(t *testing.T) {
	b := g.signedIn(t, "alice")
	session := sessionOf(g.Delegated, b)
	b.Open(g.Base + "/logout")
	if b.URL.String() != g.Base+"/" || b.Page.Status != http.StatusOK {
		t.Errorf("the browser does not come back: %s", b.Describe())
	}
	wantOut(t, g.Delegated, session)
	b.Open(g.Base + "/secure-resource")
	g.atForm(b)
	g.Up.None(t)
}

// endsThere: a login that its user ends on the account page of the provider ends at the gateway
// within a second, and another login of the user goes on. A busy machine gets more chances for
// the measurement.
func (g *secondGate) endsThere(t *testing.T) {
	keeps := g.signedIn(t, "bob")
	took := time.Hour
	for try := 0; try < 5 && took >= time.Second; try++ {
		session := sessionOf(g.Delegated, g.signedIn(t, "bob"))
		wantIn(t, g.Delegated, session)
		a := g.provider.Do(keeps.Client, "POST", "/account/sessions/end", `{"others":true}`,
			"Content-Type", world.TypeJSON, "Origin", g.provider.Base)
		since := time.Now()
		world.WantStatus(t, "the end of the login at the provider", a, http.StatusOK)
		world.Until(t, "the end of the session", func() bool {
			return g.Status(g.Stranger(), "GET", "/secure-resource", "Cookie", session) == http.StatusUnauthorized
		})
		took = time.Since(since)
		wantOut(t, g.Delegated, session)
		t.Logf("the session ended %v after the login at the provider", took.Round(time.Millisecond))
	}
	if took >= time.Second {
		t.Errorf("the session ended %v after the login at the provider", took)
	}
	logs(g.Instance, `"event":"backchannel_logout"`, `"subject":"demo:bob"`)
	wantIn(t, g.Delegated, sessionOf(g.Delegated, keeps))
}

// provesTwoFactors: a page for two factors leads to the provider, which asks for all that the
// account has. The password alone opens nothing and takes nothing away.
func (g *secondGate) provesTwoFactors(t *testing.T) {
	b := g.signedIn(t, "alice")
	session := sessionOf(g.Delegated, b)
	b.Open(g.Base + "/two")
	g.givesPassword(b, "alice")
	if b.Page.Status != http.StatusForbidden || !strings.HasPrefix(b.URL.String(), g.Base+"/callback?") {
		t.Errorf("without a second factor, expected 403: %s", b.Describe())
	}
	g.Up.None(t)
	wantIn(t, g.Delegated, session)

	secret := g.provider.AddTOTP("alice")
	b.Open(g.Base + "/two")
	g.givesPassword(b, "alice")
	if f, ok := b.Form(); !ok || !f.Fields.Has("code") {
		t.Fatalf("the provider asks for no code: %s", b.Describe())
	}
	g.Up.None(t)
	next := time.Now().Add(30 * time.Second) // the code of now is used
	b.Send(map[string]string{"code": world.Must(authenticator.Code(secret, next))(t)})
	wantReached(t, g.Delegated, b, "/two", "alice")
	if amr := proofOf(t, g.Delegated, b).AMR; !strings.Contains(strings.Join(amr, " "), "mfa") {
		t.Errorf("the login has the methods %q", amr)
	}
}

// provesFreshness: where a sign-in must be fresh, the provider asks for the password again, also
// in a browser that is signed in there.
func (g *secondGate) provesFreshness(t *testing.T) {
	b := g.signedIn(t, "bob")
	before := proofOf(t, g.Delegated, b).AuthTime
	world.Until(t, "an old sign-in", func() bool { return g.Status(b.Client, "GET", "/fresh") == http.StatusUnauthorized })
	g.Up.All()
	b.StopAt = g.provider.Base
	b.Open(g.Base + "/fresh")
	b.StopAt = ""
	if asked := world.QueryOf(b.Next); asked.Get("prompt") != "login" || asked.Get("max_age") != "10" {
		t.Errorf("the gateway asks the provider for %v", asked)
	}
	b.Open(b.Next)
	g.givesPassword(b, "bob")
	wantReached(t, g.Delegated, b, "/fresh", "bob")
	if after := proofOf(t, g.Delegated, b).AuthTime; after <= before {
		t.Errorf("the sign-in is of %d after that of %d", after, before)
	}
}

// losesTheAccount: who is disabled at the provider is out here, too.
func (g *secondGate) losesTheAccount(t *testing.T) {
	session := sessionOf(g.Delegated, g.signedIn(t, "bob"))
	wantIn(t, g.Delegated, session)
	g.provider.Write("accounts.yaml", aliceThere+bobDisabled)
	world.Until(t, "the end of the session", func() bool {
		return g.Status(g.Stranger(), "GET", "/secure-resource", "Cookie", session) == http.StatusUnauthorized
	})
	wantOut(t, g.Delegated, session)
}
