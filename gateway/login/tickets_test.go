package login

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/record"
	"authgate/internal/test/must"
	"authgate/policy"
)

const (
	homeHost  = "gw.example"
	otherHost = "wiki.example"
)

// ticketFor issues a ticket of a login for otherHost and the browser.
func (r *rig) ticketFor(tb testing.TB, s *signedIn, browser string) string {
	tb.Helper()
	return must.Get(r.tickets().Issue(tb.Context(), Ticket{Login: s.login.ID, Scope: otherHost, Browser: Binding(browser), Path: "/page?a=b"}))(tb)
}

func (r *rig) tickets() *Tickets { return NewTickets(r.store, r.now) }

// wantTicket fails the test unless the browser can use the ticket at otherHost, once.
func (r *rig) wantTicket(tb testing.TB, ticket, browser string, s *signedIn) {
	tb.Helper()
	got, err := r.tickets().Use(tb.Context(), ticket, otherHost, browser)
	if err != nil || got.Login != s.login.ID || got.Path != "/page?a=b" {
		tb.Errorf("got %+v, %v, want a ticket of %s", got, err, s.login.ID)
	}
	r.wantNoTicket(tb, ticket, otherHost, browser)
}

func (r *rig) wantNoTicket(tb testing.TB, ticket, scope, browser string) {
	tb.Helper()
	if got, err := r.tickets().Use(tb.Context(), ticket, scope, browser); got != nil || !errors.Is(err, ErrNoTicket) {
		tb.Errorf("got %+v, %v, want no such ticket", got, err)
	}
}

// A ticket can be used once within a minute, also at another instance.
func TestTicketLifetime(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	s := r.signIn(t, "alice")
	first, second, third := r.ticketFor(t, s, browser), r.ticketFor(t, s, browser), r.ticketFor(t, s, browser)
	r.wantTicket(t, third, browser, s)
	r.clock.Advance(time.Minute - 1)
	r.instance(t, func(r *rig) { r.box = testBox(t, "another") }).wantTicket(t, first, browser, s)
	r.clock.Advance(1)
	r.wantNoTicket(t, second, otherHost, browser)
	r.wantRecords(t, ticketPrefix, 0)
}

// Of two uses at the same time one succeeds.
func TestTicketIsUsedOnce(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	s := r.signIn(t, "alice")
	ticket, elsewhere := r.ticketFor(t, s, browser), r.elsewhere(t)
	r.store.Once("take "+ticketPrefix, func() { elsewhere.wantTicket(t, ticket, browser, s) })
	r.wantNoTicket(t, ticket, otherHost, browser)
}

// A ticket is useless in another browser and at another host, and its first presentation
// there uses it up.
func TestTicketOfAnotherBrowserOrHost(t *testing.T) {
	t.Parallel()
	r, own := newRig(t), NewBrowserSecret()
	s := r.signIn(t, "alice")
	usedUp := func(scope, browser string) {
		t.Helper()
		ticket := r.ticketFor(t, s, own)
		r.wantNoTicket(t, ticket, scope, browser)
		r.wantNoTicket(t, ticket, otherHost, own)
	}
	for _, browser := range []string{NewBrowserSecret(), "", Binding(own), own + "=", own[:42], strings.ToUpper(own)} {
		usedUp(otherHost, browser)
	}
	for _, scope := range []string{homeHost, "", ".wiki.example", ".example", "WIKI.example", "wiki.example."} {
		usedUp(scope, own)
	}
	// No ticket is without a browser or a host.
	bare := must.Get(r.tickets().Issue(t.Context(), Ticket{Login: s.login.ID}))(t)
	r.wantNoTicket(t, bare, "", "")
}

// What resembles a ticket opens nothing, and trying it does no harm to the real one.
func TestForgedTickets(t *testing.T) {
	t.Parallel()
	r, own := newRig(t), NewBrowserSecret()
	s := r.signIn(t, "alice")
	ticket := r.ticketFor(t, s, own)
	for _, forged := range []string{
		"", ticket[:42], ticket + "A", ticket + "=", " " + ticket, loosen(t, ticket), strings.ToUpper(ticket),
		record.Hash([]byte(ticket)), ticketPrefix + record.Hash([]byte(ticket)), own,
		s.session, "\x00", strings.Repeat("A", 1<<20),
	} {
		r.wantNoTicket(t, forged, otherHost, own)
	}
	r.wantTicket(t, ticket, own, s)
}

// What proves a sign-in is of one session, host and binding, and shows none of them.
func TestBegun(t *testing.T) {
	t.Parallel()
	session, binding := newSecretText(), Binding(NewBrowserSecret())
	proof := Begun(session, otherHost, binding)
	if proof != Begun(session, otherHost, binding) || !ValidBinding(proof) {
		t.Errorf("the proof %q", proof)
	}
	for what, other := range map[string]string{
		"another session": Begun(newSecretText(), otherHost, binding), "another host": Begun(session, homeHost, binding),
		"another binding": Begun(session, otherHost, Binding(session)), "parts that join": Begun(session, otherHost+binding[:1], binding[1:]),
		"the session's hash": Binding(session),
	} {
		if other == proof {
			t.Errorf("%s has the same proof", what)
		}
	}
}

// A copy of the store opens no ticket, and a record under another key is damaged.
func TestSealedTickets(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	s := r.signIn(t, "alice")
	ticket := r.ticketFor(t, s, browser)
	sealed := must.Get(r.store.Get(t.Context(), ticketPrefix+record.Hash([]byte(ticket))))(t)
	for _, readable := range []string{s.login.ID, otherHost, "/page", ticket, browser, Binding(browser)} {
		if strings.Contains(string(sealed), readable) {
			t.Errorf("the record shows %q", readable)
		}
	}
	elsewhere := newSecretText()
	must.Do(t, r.store.Put(t.Context(), ticketPrefix+record.Hash([]byte(elsewhere)), sealed, time.Time{}))
	if got, err := r.tickets().Use(t.Context(), elsewhere, otherHost, browser); got != nil || err == nil || errors.Is(err, ErrNoTicket) {
		t.Errorf("damaged: got %+v, %v, want an error that decides nothing", got, err)
	}
}

// attach attaches a session at scope to a login.
func (r *rig) attach(tb testing.TB, s *signedIn, sessions *Sessions, scope string) (id string, err error) {
	tb.Helper()
	id, handle := sessions.New(scope)
	_, err = r.logins.Attach(tb.Context(), s.login.ID, scope, handle)
	return id, err
}

// at returns the credentials of a session at a host, of either kind.
func at(scope, session, delegated string) *auth.Credentials {
	return &auth.Credentials{Scope: scope, Session: session, Delegated: delegated}
}

// A login has sessions at many hosts. Each is valid at its own host alone, all
// end when one of them would, and all end with the login.
func TestSessionsAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, begin := range map[string]func() (*signedIn, *Sessions){
		"local":     func() (*signedIn, *Sessions) { return r.signIn(t, "alice"), r.session },
		"delegated": func() (*signedIn, *Sessions) { return r.signInAt(t, r.grant("user")), r.delegated },
	} {
		s, sessions := begin()
		values := map[string]string{"": s.session + s.delegated}
		r.clock.Advance(10 * time.Minute)
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			values[host] = must.Get(r.attach(t, s, sessions, host))(t)
		}
		for _, instance := range []*rig{r, r.instance(t)} {
			sessions := map[string]*Sessions{"local": instance.session, "delegated": instance.delegated}[name]
			for made, value := range values {
				for here := range values {
					creds := at(here, value, value)
					for _, prove := range []func() (*policy.Identity, error){
						func() (*policy.Identity, error) { return sessions.Authenticate(t.Context(), creds) },
						func() (*policy.Identity, error) { return sessions.Alive(t.Context(), creds) },
					} {
						id, err := prove()
						if here == made && (err != nil || id.Login != s.login.ID || !id.Expires.Equal(s.login.Created.Add(time.Hour))) {
							t.Errorf("%s at %q: %+v, %v", name, here, id, err)
						}
						if here != made && !errors.Is(err, auth.ErrRejected) {
							t.Errorf("%s of %q at %q: %+v, %v", name, made, here, id, err)
						}
					}
					sid, err := sessions.LoginOf(t.Context(), creds)
					if (here == made) != (sid == s.login.ID) || here != made && !errors.Is(err, auth.ErrRejected) {
						t.Errorf("%s of %q at %q: LoginOf %q, %v", name, made, here, sid, err)
					}
				}
			}
		}
		r.end(t, s)
		r.wantRecords(t, SessionPrefix, 0)
		for host, value := range values {
			if id, err := sessions.Authenticate(t.Context(), at(host, value, value)); !errors.Is(err, auth.ErrRejected) {
				t.Errorf("%s at %q after the end: %+v, %v", name, host, id, err)
			}
		}
		if _, err := r.attach(t, s, sessions, "d.example"); !errors.Is(err, ErrNoTicket) {
			t.Errorf("%s: a session was attached to a login that has ended: %v", name, err)
		}
		r.wantRecords(t, SessionPrefix, 0)
	}
}

// A session cannot be attached when those of the login are over, though the login
// goes on by its refresh token.
func TestAttachToOldLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.clock.Advance(time.Hour)
	if _, err := r.attach(t, s, r.session, otherHost); !errors.Is(err, ErrNoTicket) {
		t.Errorf("got %v", err)
	}
	must.Get(r.rotate(t, s.refresh))(t)
}

// A login that ends while a session is attached gives none.
func TestAttachWhileEnding(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, elsewhere := r.signIn(t, "alice"), r.elsewhere(t)
	r.store.Once("swap "+loginPrefix, func() { elsewhere.end(t, s) })
	if _, err := r.attach(t, s, r.session, otherHost); !errors.Is(err, ErrNoTicket) {
		t.Errorf("got %v", err)
	}
	r.wantRecords(t, SessionPrefix, 0)
}

// Sessions that are attached at the same time are all kept.
func TestAttachConcurrently(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, elsewhere := r.signIn(t, "alice"), r.elsewhere(t)
	var other string
	r.store.Once("swap "+loginPrefix, func() {
		other = must.Get(elsewhere.attach(t, s, elsewhere.session, "a.example"))(t)
	})
	own := must.Get(r.attach(t, s, r.session, "b.example"))(t)
	must.Get(r.session.Authenticate(t.Context(), at("a.example", other, "")))(t)
	must.Get(r.session.Authenticate(t.Context(), at("b.example", own, "")))(t)
	r.end(t, s)
	r.wantRecords(t, SessionPrefix, 0)
}

// The tokens of a provider are kept though a session was attached while they were
// renewed: without them the login would be lost.
func TestAttachWhileRenewing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, elsewhere := r.signInAt(t, r.grant("user")), r.elsewhere(t)
	raw := must.Get(r.store.Get(t.Context(), loginPrefix+s.login.ID))(t)
	login := must.Get(decodeLogin(s.login.ID, raw))(t)
	session := must.Get(elsewhere.attach(t, s, elsewhere.delegated, otherHost))(t)
	fresh := r.grant("user").Tokens
	must.Do(t, r.users.replace(t.Context(), login, fresh, false))
	now := must.Get(decodeLogin(s.login.ID, must.Get(r.store.Get(t.Context(), loginPrefix+s.login.ID))(t)))(t)
	if got := must.Get(r.users.Tokens(now))(t); got.Refresh != fresh.Refresh || len(now.Attached) != 1 {
		t.Errorf("the login has %+v and %+v", got, now.Attached)
	}
	must.Get(r.delegated.Authenticate(t.Context(), at(otherHost, "", session)))(t)
	// Tokens that another instance has stored meanwhile are newer.
	must.Do(t, r.users.replace(t.Context(), must.Get(decodeLogin(s.login.ID, raw))(t), r.grant("user").Tokens, false))
	now = must.Get(decodeLogin(s.login.ID, must.Get(r.store.Get(t.Context(), loginPrefix+s.login.ID))(t)))(t)
	if got := must.Get(r.users.Tokens(now))(t); got.Refresh != fresh.Refresh {
		t.Errorf("newer tokens are lost: %+v", got)
	}
}

// A browser that forgets its cookies cannot fill the store: the oldest sessions of
// a host make room, and the oldest of all hosts.
func TestAttachIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	var ids []string
	for range maxAttachedAtHost + 2 {
		ids = append(ids, must.Get(r.attach(t, s, r.session, otherHost))(t))
	}
	var alive []bool
	for _, id := range ids {
		_, err := r.session.Authenticate(t.Context(), at(otherHost, id, ""))
		alive = append(alive, err == nil)
	}
	if diff := cmp.Diff([]bool{false, false, true, true, true, true, true, true, true, true}, alive); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.wantRecords(t, SessionPrefix, 1+maxAttachedAtHost)
	login := &Login{}
	for i := range maxAttached + 3 {
		dropped := login.attach(attached{Scope: strings.Repeat("a", i+1), Key: "k"})
		if (len(dropped) > 0) != (i >= maxAttached) || len(login.Attached) > maxAttached {
			t.Fatalf("%d: %d attached, %d dropped", i, len(login.Attached), len(dropped))
		}
	}
}
