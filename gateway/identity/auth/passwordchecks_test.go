package auth

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
	"authgate/internal/test/scripttest"
)

// script plays scripts against a Verifier; see steps. NAME is an account (alice, bob,
// Alice), or * for a new unknown name each time. ADDR is the number of an address, an IPv6
// address, or * for a new address each time.
type script struct {
	*verifierFixture
	users    map[string]accounts.Account
	accounts *accounts.Set
	others   int
}

// scriptHashes are the hashes of the passwords of the people, and of "new".
var scriptHashes = map[string]password.Hash{
	"alice": passwordtest.Argon2id("alice's password"), "bob": passwordtest.Argon2id("bob's password"),
	"Alice": passwordtest.Argon2id("Alice's password"), "new": passwordtest.Argon2id("new"),
}

func (s *script) restore() {
	s.users = map[string]accounts.Account{}
	for _, name := range []string{"alice", "bob", "Alice"} {
		s.users[name] = accounts.Account{Username: name, Hash: scriptHashes[name]}
	}
	s.reload()
}

func (s *script) reload() { s.accounts = newAccounts(slices.Collect(maps.Values(s.users))...) }

// change makes a reload with a changed account, under its name or another one.
func (s *script) change(name string, change func(*accounts.Account)) {
	user := s.users[name]
	delete(s.users, name)
	change(&user)
	if user.Username != "" {
		s.users[user.Username] = user
	}
	s.reload()
}

func (s *script) password(name string) string {
	if _, ok := s.users[name]; !ok {
		name = strings.ToLower(name) // another spelling
	}
	if s.users[name].Hash.Encoded() == scriptHashes["new"].Encoded() {
		return "new"
	}
	return name + "'s password"
}

func (s *script) client(word string) netip.Addr {
	if word == "*" {
		s.others++
		return nthAddr(1000 + s.others)
	}
	if n, err := strconv.Atoi(word); err == nil {
		return nthAddr(n)
	}
	return netip.MustParseAddr(word)
}

// wrong makes N wrong checks, N being the third word or 1.
func (s *script) wrong(t *testing.T, check checkMethod, args []string, guess func(i int) string) {
	t.Helper()
	n := 1
	if len(args) > 2 {
		n = scripttest.Number(t, args[2:])
	}
	for i := range n {
		name := args[0]
		if name == "*" {
			s.others++
			name = fmt.Sprint("unknown-", s.others)
		}
		wantError[accounts.Account](t, ErrRejected)(check(s.accounts, name, guess(i), s.client(args[1])))
	}
}

func (s *script) good(t *testing.T, args []string, methods ...checkMethod) {
	t.Helper()
	client := s.client(args[1])
	for _, check := range methods {
		if account := must.Get(check(s.accounts, args[0], s.password(args[0]), client))(t); account.Username != args[0] {
			t.Errorf("got %+v", account)
		}
	}
}

func (s *script) throttled(t *testing.T, args []string) {
	t.Helper()
	before, client := s.hasher.Computed(), s.client(args[1])
	for method, check := range s.methods() {
		account, err := check(s.accounts, args[0], s.password(args[0]), client)
		var throttled *ThrottledError
		if account != nil || !errors.As(err, &throttled) || throttled.RetryAfter != scripttest.Duration(t, args[2:]) {
			t.Errorf("%s: got %+v, %v", method, account, err)
		}
	}
	if n := s.hasher.Computed() - before; n != 0 {
		t.Errorf("computed %d hashes", n)
	}
}

func (s *script) known(t *testing.T, args []string, want bool) {
	t.Helper()
	p, _ := s.Verifier.throttle.pairs.Peek(newSubject(args[0], s.client(args[1])).pairKey)
	account, _ := s.accounts.Lookup(args[0])
	if got := p.knows(account.Version(), s.clock.Now()); got != want {
		t.Errorf("known: %v, want %v", got, want)
	}
}

// steps are the steps of a script.
func (s *script) steps(t *testing.T) scripttest.Steps {
	check, fresh := s.methods()["Check"], s.methods()["CheckFresh"]
	reload := func(change func(*accounts.Account)) func([]string) {
		return func(args []string) { s.change(args[0], change) }
	}
	return scripttest.Steps{
		// NAME ADDR: Check, CheckFresh, or both accept the right password.
		"check": func(args []string) { s.good(t, args, check) },
		"fresh": func(args []string) { s.good(t, args, fresh) },
		"good":  func(args []string) { s.good(t, args, check, fresh) },
		// NAME ADDR [N]: CheckFresh rejects N wrong passwords, or Check one wrong password N times.
		"wrong": func(args []string) { s.wrong(t, fresh, args, func(i int) string { return fmt.Sprint("guess-", i) }) },
		"same":  func(args []string) { s.wrong(t, check, args, func(int) string { return "guess" }) },
		// NAME ADDR: Check rejects the password of the beginning.
		"reject": func(args []string) { s.wrong(t, check, args, func(int) string { return args[0] + "'s password" }) },
		// NAME ADDR TIME: both refuse the right password for TIME, and compute no hash.
		"throttled": func(args []string) { s.throttled(t, args) },
		// NAME ADDR: a check would be admitted; it is not made.
		"open": func(args []string) { wantRetry(t, s.Verifier.throttle, args[0], s.client(args[1]), 0) },
		// NAME ADDR: the pair is known, or it is not.
		"known":   func(args []string) { s.known(t, args, true) },
		"unknown": func(args []string) { s.known(t, args, false) },
		// N: so many hashes were computed since the last such step.
		"hashes": func(args []string) {
			if got := len(s.takeCosts()); got != scripttest.Number(t, args) {
				t.Errorf("computed %d", got)
			}
		},
		"wait": func(args []string) { s.clock.Advance(scripttest.Duration(t, args)) },
		"limits": func(args []string) {
			s.Verifier.throttle.SetLimits(scripttest.Number(t, args), scripttest.Duration(t, args[1:]))
		},
		// NAME: what a reload changes; rehash is a new password. restore: the accounts are as in the beginning.
		"rehash":  reload(func(a *accounts.Account) { a.Hash = scriptHashes["new"] }),
		"disable": reload(func(a *accounts.Account) { a.Disabled = true }),
		"remove":  reload(func(a *accounts.Account) { a.Username = "" }),
		"rename":  reload(func(a *accounts.Account) { a.Username = "other" }),
		"restore": func([]string) { s.restore() },
	}
}

func TestPasswordChecks(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"accounts and addresses have counts of their own": `
			limits 3 1m; wrong alice 0; wrong alice 1; open alice 9; wrong alice 2; throttled alice 9 1m; open bob 0;
			wrong * 0 2; throttled bob 0 1m; open bob 1`,
		"a window begins with the first failure": `
			limits 2 1m; wrong alice 0; wait 40s; wrong alice 1; throttled alice 2 20s; wait 19.999999999s;
			throttled alice 2 1ns; wait 1ns; open alice 2; wrong alice 0; open alice 2; wrong alice 0; throttled alice 2 1m`,
		"the longer of two windows counts": `
			limits 1 1m; wrong alice 0; wait 30s; wrong bob 1; throttled alice 0 30s; throttled alice 1 1m;
			throttled bob 0 1m`,
		"a success removes no failure": `
			limits 3 1m; wrong alice 0 2; good alice 0; good bob 0; wrong alice 0; throttled alice 1 1m; throttled Alice 0 1m`,
		"a success removes no failure of a known pair": `
			limits 3 1m; good alice 0; wrong alice 0; good alice 0; wrong alice 0; good alice 0; wrong alice 0;
			throttled alice 0 1m`,
		"new limits keep the counts and the windows": `
			limits 5 1m; wrong alice 0 3; limits 3 1h; throttled alice 1 1m; limits 4 1h; open alice 1; wrong bob 2 4;
			throttled bob 3 1h`,
		"no limits turn the throttle off": `
			limits 0 0s; open alice 0; wrong alice 0; throttled alice 1 1s; wait 1s; limits -1 -1s; wrong alice 0;
			throttled alice 1 1s`,

		"a correct password is cached": `
			check alice 0; hashes 1; check alice 0; check alice 1; wait 59.999999999s; check alice 0; hashes 0; wait 1ns;
			check alice 0; check alice 0; hashes 1`,
		"a login always hashes":            `check alice 0; fresh alice 0; fresh alice 0; hashes 3`,
		"a wrong password is not cached":   `same alice 0 10; hashes 10`,
		"a reload keeps the cache":         `check alice 0; hashes 1; restore; check alice 0; hashes 0`,
		"a new password is checked":        `check alice 0; hashes 1; rehash alice; reject alice 0; check alice 0; hashes 2`,
		"a disabled account is not cached": `check alice 0; hashes 1; disable alice; reject alice 0; hashes 1`,
		"a removed account is not cached":  `check alice 0; hashes 1; remove alice; reject alice 0; hashes 1`,
		"a renamed account is not cached":  `check alice 0; hashes 1; rename alice; reject alice 0; hashes 1`,
		"throttled even if correct and cached": `
			check alice 0; wrong alice * 10; throttled alice 2 1h; wait 1h; good alice 2`,
		"throttled by address even if correct and cached": `
			check alice 0; wrong * 2 10; throttled alice 2 1h; wait 1h; good alice 2`,

		"failures on the account spare a known pair": `
			check alice 0; wrong alice * 10; hashes 11; check alice 0; hashes 0; wait 1m; good alice 0; throttled alice 3 59m`,
		"failures from the address spare a known pair": `
			check alice 0; wrong * 0 10; wait 1m; good alice 0; throttled bob 0 59m; good alice 3`,
		"a known pair has a limit of its own": `
			good alice 0; good bob 0; good alice 1; wrong alice 0 9; good alice 0; wrong alice 0; throttled alice 0 1h;
			good bob 0; good alice 1; throttled alice 2 1h; throttled Alice 0 1h; wait 1h; good alice 0; good Alice 0;
			wrong alice 0 10; throttled alice 0 1h`,
		"a cached password makes each client known": `
			check alice 0; check alice 1; hashes 1; wrong alice * 10; wait 1m; good alice 0; good alice 1`,
		"accounts with one name are known side by side and share a count": `
			good alice 0; good Alice 0; wrong alice * 10; good alice 0; good Alice 0; wrong Alice 0 5; wrong alice 0 5;
			throttled alice 0 1h; throttled Alice 0 1h`,
		"an IPv6 network is one client": `
			good alice 2001:db8::1; wrong alice * 10; good alice 2001:db8::2; throttled alice 2001:db8:0:1::1 1h`,
		"another password makes a pair unknown": `
			good alice 0; wrong alice * 10; rehash alice; throttled alice 0 1h; restore; good alice 0`,
		"a disabled account has no known pair":      `good alice 0; wrong alice * 10; disable alice; throttled alice 0 1h`,
		"a removed account has no known pair":       `good alice 0; wrong alice * 10; remove alice; throttled alice 0 1h`,
		"another spelling of the name is not known": `good alice 0; wrong alice * 10; throttled ALICE 0 1h`,
		"a pair is known for 24 hours": `
			fresh alice 0; wait 23h59m59.999999999s; known alice 0; wait 1ns; unknown alice 0`,
		"a login makes a pair known for longer": `
			fresh alice 0; wait 12h; fresh alice 0; wait 23h59m59.999999999s; known alice 0; wait 1ns; unknown alice 0`,
		"a cached password makes a pair known for longer": `
			fresh alice 0; wait 12h; check alice 1; check alice 0; hashes 2; wait 12h; known alice 0`,
		"a failure does not make a pair known for longer": `
			fresh alice 0; wait 12h; wrong alice 0; wait 12h; unknown alice 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{verifierFixture: newVerifierFixture()}
			s.restore()
			scripttest.Play(t, text, s.steps(t), func() {})
		})
	}
}
