package grants

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
	"authgate/policy"
)

// A code becomes tokens of its user, for its terms.
func TestRedeem(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"alice", "carol"} {
		r := newRig(t)
		s := r.signIn(t, user)
		code := r.code(t, s, terms())
		r.clock.Advance(59 * time.Second)
		refusal := errors.New("not this client")
		issued, err := r.grants.Redeem(t.Context(), code, func(c *Code) error {
			want := &Code{Terms: terms(), RedirectURI: "https://grafana.example/back", Challenge: "S256 of it"}
			if diff := cmp.Diff(want, c); diff != "" {
				t.Errorf("the code is for (-want +got):\n%s", diff)
			}
			return refusal
		})
		if issued != nil || !errors.Is(err, refusal) {
			t.Errorf("got %+v, %v", issued, err)
		}
		issued = must.Get(r.grants.Redeem(t.Context(), code, func(c *Code) error { // a refusal has consumed nothing
			c.Scopes[0], c.Client = "more", "other" // and a check changes nothing
			return nil
		}))(t)
		if issued.ExpiresIn != 15*time.Minute || issued.Login.ID != s.Login || issued.Identity.Subject != s.Subject ||
			!slices.Equal(issued.Login.Clients, []string{"grafana"}) || issued.Terms.Nonce != "n-1" {
			t.Errorf("got %+v", issued)
		}
		id, err := r.at(t, issued.Access)
		if err != nil || id.Subject != s.Subject || id.Username != s.Username || id.Login != s.Login ||
			id.Mechanism != policy.Bearer || id.Provider != s.Provider || !slices.Equal(id.Roles, s.Roles) ||
			id.Owner != nil ||
			!slices.Equal(id.Scopes, terms().Scopes) ||
			!id.Expires.Equal(r.clock.Now().Truncate(time.Second).Add(15*time.Minute)) ||
			!id.SignedIn.Equal(s.SignedIn) || cmp.Diff(id.Proof, s.Proof) != "" {
			t.Errorf("got %+v, %v", id, err)
		}
		r.wantSession(t, s, true)
		r.wantIn(t, must.Get(r.rotate(t, issued.Refresh))(t))
	}
}

// A code lives a minute. Without a refresh token, a grant lives as long as its access token.
func TestCodeExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	code := r.code(t, s, terms())
	r.clock.Advance(time.Minute)
	issued, err := r.grants.Redeem(t.Context(), code, right)
	wantInvalid(t, issued, err, "expired")
	issued = r.granted(t, s, func(t *Terms) { t.Refresh, t.OpenID = 0, false })
	if issued.Refresh != "" || len(issued.Login.Clients) != 0 {
		t.Errorf("got %+v", issued)
	}
	r.wantIn(t, issued)
	r.clock.Advance(15 * time.Minute)
	r.wantOut(t, issued)
	if keys := storetest.Keys(t, r.store.Store, grantPrefix); len(keys) > 0 {
		t.Errorf("the store keeps %q", keys)
	}
}

// What was never issued is no code, costs no look at the store, and ends nothing.
func TestCodesThatAreNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	code := r.code(t, s, terms())
	issued := must.Get(r.grants.Redeem(t.Context(), code, right))(t)
	r.store.TakeCalls()
	for _, wrong := range []string{
		"", "x", code[:len(code)-1], code + "A", strings.ToLower(code), " " + code, code + "\n", issued.Refresh,
		issued.Access,
		refreshMark + code[4:], codeMark + issued.Refresh[4:], deviceMark + code[4:],
		code[:40] + string(code[40]^1) + code[41:], newSecret(codeMark).String()[:length-16] + code[length-16:],
	} {
		got, err := r.grants.Redeem(t.Context(), wrong, right)
		wantInvalid(t, got, err, "never issued")
		got, err = r.devices.Poll(t.Context(), wrong, rightTerms)
		wantInvalid(t, got, err, "never issued")
		if wrong == issued.Refresh {
			continue
		}
		got, err = r.rotate(t, wrong)
		wantInvalid(t, got, err, "never issued")
	}
	if calls := r.store.TakeCalls(); len(calls) > 0 {
		t.Errorf("the store was asked to %q", calls)
	}
	got, err := r.grants.Redeem(t.Context(), newSecret(codeMark).String(), right)
	wantInvalid(t, got, err, "unknown")
	r.wantIn(t, issued)
}

// A program that has one secret of a grant can make others that look right. None opens or
// ends anything that the first one does not.
func TestMadeUpFromAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	code := r.code(t, s, terms())
	known, _ := parse(codeMark, code)
	got, err := r.rotate(t, known.next().String())
	wantInvalid(t, got, err, "its grant has expired")
	issued := must.Get(r.grants.Redeem(t.Context(), code, right))(t)
	got, err = r.grants.Redeem(t.Context(), secret{codeMark, known.family, newSecret("").family}.String(), right)
	wantInvalid(t, got, err, "")
	r.wantIn(t, issued)
	must.Get(r.rotate(t, issued.Refresh))(t)
}

// What a store keeps for too long has expired all the same.
func TestExpiredInTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	code := r.code(t, s, terms())
	issued := r.granted(t, s, func(t *Terms) { t.Refresh = 2 * time.Hour })
	must.Get(r.logins.Lend(t.Context(), s.Login, "", func(*login.Login) (string, []byte, time.Time, error) {
		return "other:x", nil, r.clock.Now().Add(month), nil
	}))(t)
	device, user, err := r.devices.New(t.Context(), terms())
	must.Do(t, err)
	for _, kind := range []string{grantPrefix, devicePrefix, userCodePrefix} {
		for _, key := range storetest.Keys(t, r.store.Store, kind) {
			must.Do(t, r.store.Put(t.Context(), key, must.Get(r.store.Get(t.Context(), key))(t), time.Time{}))
		}
	}
	r.clock.Advance(2 * time.Hour)
	got, err := r.grants.Redeem(t.Context(), code, right)
	wantInvalid(t, got, err, "the code has expired")
	got, err = r.rotate(t, issued.Refresh)
	wantInvalid(t, got, err, "its grant has expired")
	if _, err := r.devices.Find(t.Context(), user); !errors.Is(err, ErrNoDevice) {
		t.Errorf("got %v", err)
	}
	if _, err := r.devices.Poll(t.Context(), device, rightTerms); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v", err)
	}
}

// A login keeps 256 grants. What there is no room for opens nothing, also while its record is
// still there.
func TestManyGrants(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	first, second := r.granted(t, s), r.granted(t, s)
	r.store.Fails("delete grant:")
	for range 255 {
		r.granted(t, s)
	}
	r.store.Fails("")
	r.wantOut(t, first)
	r.wantIn(t, second)
	if keys := storetest.Keys(t, r.store.Store, grantPrefix); len(keys) != 257 {
		t.Errorf("the store has %d grants", len(keys))
	}
}

// Attack: an attacker who has seen a code uses it again. All that was issued for it ends, and
// the login does not. An attacker who cannot prove the code ends nothing.
func TestCodeReplay(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{0, time.Second, time.Hour, 20 * 24 * time.Hour} {
		r := newRig(t)
		s, other := r.signIn(t, "alice"), r.signIn(t, "alice")
		code := r.code(t, s, terms())
		first := must.Get(r.grants.Redeem(t.Context(), code, right))(t)
		unharmed := r.granted(t, other)
		r.clock.Advance(later)
		first, unharmed = must.Get(r.rotate(t, first.Refresh))(t), must.Get(r.rotate(t, unharmed.Refresh))(t)

		refusal := errors.New("not the verifier")
		if _, err := r.grants.Redeem(t.Context(), code, func(*Code) error { return refusal }); !errors.Is(err, refusal) {
			t.Errorf("after %v: got %v", later, err)
		}
		r.wantIn(t, first)
		issued, err := r.grants.Redeem(t.Context(), code, right)
		wantInvalid(t, issued, err, "code was used again")
		reuse, ok := errors.AsType[*ReuseError](err)
		if want := (ReuseError{"code", "grafana", "local:alice", s.Login}); !ok || *reuse != want {
			t.Errorf("after %v: got %+v, want %+v", later, reuse, want)
		}
		r.wantOut(t, first)
		r.wantIn(t, unharmed)
		r.wantSession(t, s, later < time.Hour)
		issued, err = r.grants.Redeem(t.Context(), code, right)
		wantInvalid(t, issued, err, "has ended")
	}
}

// Of many callers with one code, one gets tokens. The others have it too, so these end.
func TestRedeemAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	for range 20 {
		code := r.code(t, s, terms())
		all := atOnce(16, func(r *rig) (*Issued, error) { return r.grants.Redeem(context.Background(), code, right) }, r)
		if len(all) != 1 {
			t.Fatalf("%d of 16 callers got tokens", len(all))
		}
		r.wantOut(t, all[0])
	}
	r.wantSession(t, s, true)
}

// atOnce returns what many callers get at once, half of them on another instance.
func atOnce(callers int, do func(*rig) (*Issued, error), on ...*rig) []*Issued {
	got := make(chan *Issued, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			if issued, err := do(on[i%len(on)]); err == nil {
				got <- issued
			}
		})
	}
	all.Wait()
	close(got)
	var issued []*Issued
	for one := range got {
		issued = append(issued, one)
	}
	return issued
}

// A replay in the middle of a redemption, at whatever moment, ends what is made.
func TestReplayDuringRedemption(t *testing.T) {
	t.Parallel()
	for step, more := 1, true; more; step++ {
		r := newRig(t)
		s := r.signIn(t, "alice")
		code := r.code(t, s, terms())
		elsewhere := r.elsewhere(t)
		var other *Issued
		var calls int
		r.store.Interfere(func(context.Context, string) error {
			if calls++; calls == step {
				other, _ = elsewhere.grants.Redeem(context.Background(), code, right)
			}
			return nil
		})
		issued, err := r.grants.Redeem(t.Context(), code, right)
		r.store.Interfere(nil)
		if more = calls >= step; !more {
			break
		}
		if err == nil && other != nil {
			t.Errorf("step %d: both got tokens", step)
		}
		for _, one := range []*Issued{issued, other} {
			if one != nil {
				r.wantOut(t, one)
			}
		}
	}
}

// Codes and tokens end with the login, whatever ends it, and do not end with its session.
func TestEndOfTheLogin(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, r *rig, s *signedIn) *rig{
		"logout": func(t *testing.T, r *rig, s *signedIn) *rig {
			must.Get(r.logins.End(t.Context(), s.Login))(t)
			return r
		},
		"log out everywhere": func(t *testing.T, r *rig, s *signedIn) *rig {
			must.Get(r.overview.EndOthers(t.Context(), &policy.Identity{Username: s.Username, Provider: s.Provider}))(t)
			return r
		},
		"disabled": func(t *testing.T, r *rig, _ *signedIn) *rig {
			return r.instance(t, func(r *rig) { r.people = []accounts.Account{bob} })
		},
		"disabled, and enabled again": func(t *testing.T, r *rig, _ *signedIn) *rig {
			off := r.instance(t, func(r *rig) { r.people = []accounts.Account{bob} })
			must.Do(t, login.EndOutdated(t.Context(), func() *login.Overview { return off.overview }, []string{"alice"}))
			return r
		},
		"another password": func(t *testing.T, r *rig, _ *signedIn) *rig {
			changed := alice
			changed.Hash = testHash("other")
			return r.instance(t, func(r *rig) { r.people = []accounts.Account{changed, bob} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.signIn(t, "alice")
			code := r.code(t, s, terms())
			device, user, err := r.devices.New(t.Context(), terms())
			must.Do(t, err)
			must.Do(t, r.devices.Decide(t.Context(), user, s.Identity))
			issued, old := r.granted(t, s), r.granted(t, s)
			r.clock.Advance(30 * time.Second)
			r.wantIn(t, issued)
			r.wantIn(t, old)
			r = end(t, r, s)
			r.wantOut(t, issued)
			got, err := r.grants.Redeem(t.Context(), code, right)
			wantInvalid(t, got, err, "")
			got, err = r.devices.Poll(t.Context(), device, rightTerms)
			wantInvalid(t, got, err, "login has ended")
			_, err = r.grants.NewCode(t.Context(), s.Identity, Code{Terms: terms()})
			wantInvalid(t, nil, err, "login has ended")
		})
	}
	r := newRig(t)
	for _, user := range []string{"alice", "carol"} {
		s := r.signIn(t, user)
		issued := r.granted(t, s)
		r.op.answer = func() (*provider.Grant, error) { return r.grant("user"), nil }
		r.clock.Advance(28 * 24 * time.Hour)
		r.wantSession(t, s, false)
		issued = must.Get(r.rotate(t, issued.Refresh))(t)
		r.wantIn(t, issued)
		other := r.signIn(t, user)
		must.Get(r.overview.EndOthers(t.Context(), other.Identity))(t)
		r.wantOut(t, issued)
	}
}

// After the user has changed the password with the login, what it lent before opens nothing,
// though the login goes on.
func TestPasswordChangeOfTheLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.consentTo(t, s, terms())
	device, user, err := r.devices.New(t.Context(), terms())
	must.Do(t, err)
	must.Do(t, r.devices.Decide(t.Context(), user, s.Identity))
	issued, code := r.granted(t, s), r.code(t, s, terms())
	during := r.code(t, s, terms())
	r.wantIn(t, issued)
	changed := alice
	changed.Hash = testHash("looking-glass")
	after := r.instance(t, func(r *rig) { r.people = []accounts.Account{changed, bob} })
	account, _ := after.accounts.Lookup("alice")
	renew := func() {
		must.Get(r.overview.Renew(t.Context(), s.Identity, account, func(*login.Login) []login.Handle {
			_, handle := r.session.New("")
			return []login.Handle{handle}
		}))(t)
	}
	r.store.Once("swap login:", renew) // between the code and what it makes
	got, err := r.grants.Redeem(t.Context(), during, right)
	wantInvalid(t, got, err, "")
	if keys := storetest.Keys(t, r.store.Store, grantPrefix); len(keys) != 1 { // of the other code
		t.Errorf("the store has %q", keys)
	}
	for _, r := range []*rig{r, after} {
		r.wantOut(t, issued)
		got, err := r.grants.Redeem(t.Context(), code, right)
		wantInvalid(t, got, err, "password")
	}
	got, err = after.devices.Poll(t.Context(), device, rightTerms)
	wantInvalid(t, got, err, "password")
	fresh := after.granted(t, s)
	after.wantIn(t, fresh)
}

// A code needs the consent of the user, for all that it is for, and a login.
func TestCodeNeedsConsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.consentTo(t, s, terms())
	for name, change := range map[string]func(*Terms){
		"client": func(t *Terms) { t.Client = "other" }, "resource": func(t *Terms) { t.Resource = "" },
		"scope": func(t *Terms) { t.Scopes = append(t.Scopes, "admin") },
	} {
		code, err := r.grants.NewCode(t.Context(), s.Identity, Code{Terms: terms(change)})
		if code != "" || !errors.Is(err, ErrNoConsent) {
			t.Errorf("%s: got %q, %v", name, code, err)
		}
		_, user, err := r.devices.New(t.Context(), terms(change))
		must.Do(t, err)
		if err := r.devices.Decide(t.Context(), user, s.Identity); !errors.Is(err, ErrNoConsent) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	loose := *s.Identity
	loose.Login = ""
	if code, err := r.grants.NewCode(t.Context(), &loose, Code{Terms: terms()}); code != "" ||
		!errors.Is(err, ErrInvalid) {
		t.Errorf("without a login: got %q, %v", code, err)
	}
}

// A store that does not answer decides nothing: no code, token or consent is refused or lost
// by it.
func TestWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued, code := r.granted(t, s), r.code(t, s, terms())
	device, user, err := r.devices.New(t.Context(), terms())
	must.Do(t, err)
	unknown := func(what, calls string, err error) {
		t.Helper()
		for _, decision := range []error{ErrInvalid, ErrNoConsent, ErrNoDevice, ErrPending, ErrExpired,
			auth.ErrRejected, auth.ErrNoCredentials} {
			if err == nil || errors.Is(err, decision) {
				t.Errorf("%s while the store fails to %s: got %v", what, calls, err)
				return
			}
		}
	}
	for _, calls := range []string{"get grant:", "get consents:", "get login:", "get grantrevoked:"} {
		r.store.Fails(calls)
		_, err := r.elsewhere(t).at(t, issued.Access)
		must.Do(t, err) // the store is fine elsewhere
		_, err = r.instance(t).at(t, issued.Access)
		unknown("an access token", calls, err)
		_, err = r.grants.Inspect(t.Context(), "grafana", issued.Access)
		unknown("introspection", calls, err)
		if calls == "get grantrevoked:" {
			continue
		}
		_, err = r.rotate(t, issued.Refresh)
		unknown("a refresh token", calls, err)
		_, err = r.grants.Redeem(t.Context(), code, right)
		unknown("a code", calls, err)
		if calls != "get grant:" {
			_, err = r.grants.NewCode(t.Context(), s.Identity, Code{Terms: terms()})
			unknown("a new code", calls, err)
		}
	}
	r.store.Fails("get ")
	_, err = r.devices.Find(t.Context(), user)
	unknown("a user code", "get", err)
	unknown("a decision", "get", r.devices.Decide(t.Context(), user, s.Identity))
	_, err = r.devices.Poll(t.Context(), device, rightTerms)
	unknown("a device", "get", err)
	_, err = r.consents.Given(t.Context(), s.Subject, "grafana", wiki, nil)
	unknown("a consent", "get", err)
	_, err = r.consents.Withdraw(t.Context(), s.Subject, "grafana")
	unknown("a withdrawal", "get", err)
	unknown("a revocation", "get", r.revoke(t.Context(), "grafana", issued.Refresh))
	for _, calls := range []string{"swap grant:", "put grant:", "delete grant:", "put grantrevoked:", "swap consents:"} {
		r.store.Fails(calls)
		switch calls {
		case "swap grant:":
			_, err = r.rotate(t, issued.Refresh)
			unknown("a refresh token", calls, err)
			_, err = r.grants.Redeem(t.Context(), code, right)
		case "put grant:":
			_, err = r.grants.NewCode(t.Context(), s.Identity, Code{Terms: terms()})
		case "delete grant:":
			err = r.revoke(t.Context(), "grafana", issued.Refresh)
		case "put grantrevoked:":
			err = r.revoke(t.Context(), "grafana", issued.Access)
		case "swap consents:":
			_, err = r.consents.Withdraw(t.Context(), s.Subject, "grafana")
		}
		unknown("it", calls, err)
	}
	r.store.Fails("")
	r.wantIn(t, issued)
	must.Get(r.rotate(t, issued.Refresh))(t)
	r.wantIn(t, must.Get(r.grants.Redeem(t.Context(), code, right))(t))
}

// The store learns no code and no token.
func TestNothingStoredOpensAnything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	code := r.code(t, s, terms())
	issued := must.Get(r.grants.Redeem(t.Context(), code, right))(t)
	next := must.Get(r.rotate(t, issued.Refresh))(t)
	device, user, err := r.devices.New(t.Context(), terms())
	must.Do(t, err)
	must.Do(t, r.devices.Decide(t.Context(), user, s.Identity))
	must.Get(r.devices.Poll(t.Context(), device, rightTerms))(t)
	for _, written := range r.store.EverWritten() {
		for _, secret := range []string{code, issued.Refresh, next.Refresh, device, user, issued.Access} {
			for _, part := range []string{secret, secret[4:min(len(secret), 30)]} {
				if len(part) >= 4 && strings.Contains(string(written), part) {
					t.Errorf("the store got %q of %q", part, secret)
				}
			}
		}
	}
}
