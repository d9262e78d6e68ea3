package journey

import (
	"errors"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store/record"
	"authgate/internal/test/must"
)

const (
	homeHost  = "gw.example"
	otherHost = "wiki.example"
	testLogin = "sid"
)

// ticketFor issues a ticket for otherHost and the browser.
func (r *rig) ticketFor(tb testing.TB, browser string) string {
	tb.Helper()
	return must.Get(r.tickets.Issue(tb.Context(),
		Ticket{Login: testLogin, Scope: otherHost, Browser: Binding(browser), Path: "/page?a=b"}))(tb)
}

// wantTicket fails the test unless the browser can use the ticket at otherHost, once.
func (r *rig) wantTicket(tb testing.TB, ticket, browser string) {
	tb.Helper()
	got, err := r.tickets.Use(tb.Context(), ticket, otherHost, browser)
	if err != nil || got.Login != testLogin || got.Path != "/page?a=b" {
		tb.Errorf("got %+v, %v, want a ticket of %s", got, err, testLogin)
	}
	r.wantNoTicket(tb, ticket, otherHost, browser)
}

func (r *rig) wantNoTicket(tb testing.TB, ticket, scope, browser string) {
	tb.Helper()
	if got, err := r.tickets.Use(tb.Context(), ticket, scope, browser); got != nil || !errors.Is(err, ErrNoTicket) {
		tb.Errorf("got %+v, %v, want no such ticket", got, err)
	}
}

// A ticket can be used once within a minute, also at another instance.
func TestTicketLifetime(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	first, second, third := r.ticketFor(t, browser), r.ticketFor(t, browser), r.ticketFor(t, browser)
	r.wantTicket(t, third, browser)
	r.clock.Advance(time.Minute - 1)
	r.with(testBox(t, "another")).wantTicket(t, first, browser)
	r.clock.Advance(1)
	r.wantNoTicket(t, second, otherHost, browser)
	r.wantRecords(t, 0)
}

// Of two uses at the same time one succeeds.
func TestTicketIsUsedOnce(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	ticket, elsewhere := r.ticketFor(t, browser), r.elsewhere()
	r.store.Once("take "+ticketPrefix, func() { elsewhere.wantTicket(t, ticket, browser) })
	r.wantNoTicket(t, ticket, otherHost, browser)
}

// A ticket is useless in another browser and at another host, and its first presentation
// there uses it up.
func TestTicketOfAnotherBrowserOrHost(t *testing.T) {
	t.Parallel()
	r, own := newRig(t), NewBrowserSecret()
	usedUp := func(scope, browser string) {
		t.Helper()
		ticket := r.ticketFor(t, own)
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
	bare := must.Get(r.tickets.Issue(t.Context(), Ticket{Login: testLogin}))(t)
	r.wantNoTicket(t, bare, "", "")
}

// What resembles a ticket opens nothing, and trying it does no harm to the real one.
func TestForgedTickets(t *testing.T) {
	t.Parallel()
	r, own := newRig(t), NewBrowserSecret()
	ticket := r.ticketFor(t, own)
	for _, forged := range []string{
		"", ticket[:42], ticket + "A", ticket + "=", " " + ticket, loosen(ticket), strings.ToUpper(ticket),
		record.Hash([]byte(ticket)), ticketPrefix + record.Hash([]byte(ticket)), own,
		"\x00", strings.Repeat("A", 1<<20),
	} {
		r.wantNoTicket(t, forged, otherHost, own)
	}
	r.wantTicket(t, ticket, own)
}

// A copy of the store opens no ticket, and a record under another key is damaged.
func TestSealedTickets(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	ticket := r.ticketFor(t, browser)
	sealed := must.Get(r.store.Get(t.Context(), ticketPrefix+record.Hash([]byte(ticket))))(t)
	for _, readable := range []string{testLogin, otherHost, "/page", ticket, browser, Binding(browser)} {
		if strings.Contains(string(sealed), readable) {
			t.Errorf("the record shows %q", readable)
		}
	}
	elsewhere := newSecret()
	must.Do(t, r.store.Put(t.Context(), ticketPrefix+record.Hash([]byte(elsewhere)), sealed, time.Time{}))
	if got, err := r.tickets.Use(t.Context(), elsewhere, otherHost, browser); got != nil || err == nil ||
		errors.Is(err, ErrNoTicket) {
		t.Errorf("damaged: got %+v, %v, want an error that decides nothing", got, err)
	}
}
