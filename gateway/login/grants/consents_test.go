package grants

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// A consent covers what it was for, and grows.
func TestConsented(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, consents := t.Context(), r.consents
	asks := func(client, resource string, scopes ...string) bool {
		t.Helper()
		return must.Get(consents.Given(ctx, "local:alice", client, resource, scopes))(t)
	}
	if asks("grafana", wiki) {
		t.Error("no user has consented to anything")
	}
	must.Do(t, consents.Give(ctx, "local:alice", "grafana", "Grafana", wiki, []string{"read"}))
	must.Do(t, consents.Give(ctx, "local:alice", "cli", "", "", nil))
	r.clock.Advance(time.Minute)
	must.Do(t, consents.Give(ctx, "local:alice", "grafana", "Grafana 2", wiki, []string{"write"}))
	must.Do(t, consents.Give(ctx, "local:alice", "grafana", "Grafana 2", "https://gw.example/git", nil))
	for name, c := range map[string]struct{ got, want bool }{
		"what it was for":  {asks("grafana", wiki, "read"), true},
		"both":             {asks("grafana", wiki, "write", "read"), true},
		"without scopes":   {asks("grafana", wiki), true},
		"the other":        {asks("grafana", "https://gw.example/git"), true},
		"own audience":     {asks("cli", ""), true},
		"another scope":    {asks("grafana", wiki, "read", "admin"), false},
		"another resource": {asks("grafana", "https://gw.example/git", "read"), false},
		"no resource":      {asks("grafana", ""), false},
		"another client":   {asks("grafan", wiki, "read"), false},
		"another user":     {must.Get(consents.Given(ctx, "local:bob", "grafana", wiki, []string{"read"}))(t), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t, want %t", name, c.got, c.want)
		}
	}
	since := r.clock.Now().Add(-time.Minute)
	if diff := cmp.Diff([]Consent{
		{"grafana", "Grafana 2", map[string][]string{wiki: {"read", "write"}, "https://gw.example/git": {}}, since},
		{"cli", "", map[string][]string{"": {}}, since},
	}, must.Get(consents.List(ctx, "local:alice"))(t)); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	if all := must.Get(consents.List(ctx, "local:bob"))(t); len(all) != 0 {
		t.Errorf("got %+v", all)
	}
}

// A subject at another issuer, under the same name of a provider, is another user. A record from before
// issuers were noted is that of the user who has the subject.
func TestConsentsOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const carol = "keycloak:1"
	given := func() bool {
		t.Helper()
		return must.Get(r.consents.Given(t.Context(), carol, "cli", "", nil))(t)
	}
	old := fmt.Sprintf(`{"sub":%q,"written":%q,"all":[{"id":"x","client":"cli","resources":{"":[]},"since":%[2]q}]}`,
		carol, r.clock.Now().Format(time.RFC3339))
	must.Do(t, r.store.Put(t.Context(), consentsKey(carol), []byte(old), r.clock.Now().Add(time.Hour)))
	if !given() {
		t.Error("an older record does not count")
	}
	must.Do(t, r.consents.Give(t.Context(), carol, "grafana", "", "", nil))
	r.op.issuer = "https://other.example.org"
	if all := must.Get(r.consents.List(t.Context(), carol))(t); given() || len(all) != 0 {
		t.Errorf("at another issuer: %+v", all)
	}
	must.Do(t, r.consents.Give(t.Context(), carol, "other", "", "", nil))
	if all := must.Get(r.consents.List(t.Context(), carol))(t); len(all) != 1 || all[0].Client != "other" {
		t.Errorf("after a consent there: %+v", all)
	}
	if all := must.Get(r.consents.List(t.Context(), "gone:1"))(t); len(all) != 0 {
		t.Errorf("of a provider that is gone: %+v", all)
	}
}

// A consent that is withdrawn takes all codes and tokens of the client with it, and a new
// consent does not bring them back. Others keep theirs.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, bobs := r.signIn(t, "alice"), r.signIn(t, "bob")
	other := func(t *Terms) { t.Client = "cli" }
	issued, of, byBob := r.granted(t, s), r.granted(t, s, other), r.granted(t, bobs)
	code := r.code(t, s, terms())
	device, user, err := r.devices.New(t.Context(), terms())
	must.Do(t, err)
	must.Do(t, r.devices.Decide(t.Context(), user, s.Identity))
	r.wantIn(t, issued)
	if found := must.Get(r.consents.Withdraw(t.Context(), s.Subject, "grafana"))(t); !found {
		t.Error("there was none")
	}
	check := func() {
		t.Helper()
		r.wantOut(t, issued)
		got, err := r.grants.Redeem(t.Context(), code, right)
		wantInvalid(t, got, err, "withdrawn")
		r.wantIn(t, of)
		r.wantIn(t, byBob)
		r.wantSession(t, s, true)
	}
	check()
	if found := must.Get(r.consents.Withdraw(t.Context(), s.Subject, "grafana"))(t); found {
		t.Error("it was withdrawn twice")
	}
	r.consentTo(t, s, terms())
	check()
	got, err := r.devices.Poll(t.Context(), device, rightTerms)
	wantInvalid(t, got, err, "withdrawn")
	r.wantIn(t, r.granted(t, s))
}

// Consents at the same moment are all kept, and a withdrawal at the same moment is not undone.
func TestConsentsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	elsewhere := r.elsewhere(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			on := []*rig{r, elsewhere}[i%2]
			if err := on.consents.Give(context.Background(), "local:alice", fmt.Sprint("client ", i/2), "", wiki,
				[]string{fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := must.Get(r.consents.List(t.Context(), "local:alice"))(t); len(got) != 8 ||
		len(got[0].Resources[wiki]) != 2 {
		t.Errorf("got %+v", got)
	}
	r.store.Once("swap consents:", func() {
		must.Get(elsewhere.consents.Withdraw(t.Context(), "local:alice", "client 3"))(t)
	})
	must.Do(t, r.consents.Give(t.Context(), "local:alice", "client 9", "", wiki, nil))
	if must.Get(r.consents.Given(t.Context(), "local:alice", "client 3", wiki, nil))(t) {
		t.Error("a consent that was withdrawn is back")
	}
}

// The consents of a user have a bound, and end if no client comes for a long time.
func TestConsentBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued := r.granted(t, s)
	for i := range maxConsents {
		must.Do(t, r.consents.Give(t.Context(), s.Subject, fmt.Sprint("client ", i), "", wiki, nil))
	}
	if all := must.Get(r.consents.List(t.Context(), s.Subject))(t); len(all) != maxConsents ||
		all[0].Client != "client 0" {
		t.Errorf("%d consents", len(all))
	}
	r.wantOut(t, issued)
	r.store.TakeCalls()
	must.Do(t, r.consents.Give(t.Context(), s.Subject, "client 7", "", wiki, nil))
	r.store.WantReads(t)
	for range 3 {
		r.clock.Advance(consentLifetime - time.Second)
		must.Do(t, r.consents.Give(t.Context(), s.Subject, "client 7", "", wiki, nil))
		if all := must.Get(r.consents.List(t.Context(), s.Subject))(t); len(all) != maxConsents {
			t.Errorf("%d consents", len(all))
		}
	}
	r.clock.Advance(consentLifetime)
	if keys := storetest.Keys(t, r.store.Store, consentsPrefix); len(keys) != 0 {
		t.Errorf("the store keeps %q", keys)
	}
}

// A damaged record is an error, and no missing consent.
func TestDamagedConsents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.consentTo(t, r.signIn(t, "bob"), terms())
	of := must.Get(r.store.Get(t.Context(), consentsKey("local:bob")))(t)
	for _, raw := range []string{"{", string(of)} {
		must.Do(t, r.store.Put(t.Context(), consentsKey("local:alice"), []byte(raw), time.Time{}))
		if held, err := r.consents.Given(t.Context(), "local:alice", "grafana", wiki, nil); held || err == nil ||
			errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %t, %v", raw, held, err)
		}
		if _, err := r.consents.Withdraw(t.Context(), "local:alice", "grafana"); err == nil {
			t.Errorf("%s: withdrawn", raw)
		}
	}
}
