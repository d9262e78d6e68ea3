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
	"time"

	"authgate/gateway/password"
)

// script runs steps against a Verifier, separated by semicolons. ADDR is the number of
// an address, an IPv6 address, or * for a new address each time. NAME is an
// account (alice, bob, Alice), or * for a new unknown name each time.
//
//	check NAME ADDR              Check accepts the right password
//	fresh NAME ADDR              CheckFresh accepts the right password
//	good NAME ADDR               both do
//	wrong NAME ADDR [N]          CheckFresh rejects N wrong passwords
//	same NAME ADDR N             Check rejects one wrong password N times
//	reject NAME ADDR             Check rejects the password of the beginning
//	throttled NAME ADDR TIME     both refuse the right password for TIME, and compute no hash
//	open NAME ADDR               a check would be admitted; it is not made
//	known NAME ADDR              the pair is known; unknown: it is not
//	hashes N                     N hashes were computed since the last such line
//	wait TIME                    time passes
//	limits N TIME                SetLimits
//	rehash, disable, remove, rename NAME what a reload changes; rehash is a new password
//	restore                      the accounts are as in the beginning
type script struct {
	*verifierFixture
	t        *testing.T
	users    map[string]Account
	accounts *Accounts
	others   int
}

func newScript(t *testing.T) *script {
	s := &script{verifierFixture: newVerifierFixture(), t: t}
	s.restore()
	return s
}

func (s *script) restore() {
	s.users = map[string]Account{}
	for _, name := range []string{"alice", "bob", "Alice"} {
		s.users[name] = Account{Username: name, PasswordHash: scriptHashes[name]}
	}
	s.reload()
}

func (s *script) reload() {
	s.accounts = newAccounts(s.t, slices.Collect(maps.Values(s.users))...)
}

// scriptHashes are the hashes of the passwords of the accounts, and of "new".
var scriptHashes = map[string]password.Hash{
	"alice": cheapArgon2id("alice's password"), "bob": cheapArgon2id("bob's password"),
	"Alice": cheapArgon2id("Alice's password"), "new": cheapArgon2id("new"),
}

func (s *script) password(name string) string {
	if s.users[name].PasswordHash.Encoded() == scriptHashes["new"].Encoded() {
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

func (s *script) name(word string) string {
	if word == "*" {
		s.others++
		return fmt.Sprint("unknown-", s.others)
	}
	return word
}

func (s *script) run(text string) {
	s.t.Helper()
	for step := range strings.SplitSeq(text, ";") {
		words := strings.Fields(step)
		if err := s.step(words[0], words[1:]); err != nil {
			s.t.Fatalf("%s: %v", strings.TrimSpace(step), err)
		}
	}
}

func (s *script) step(verb string, args []string) error {
	switch verb {
	case "check", "fresh", "good":
		return s.good(verb, args[0], s.client(args[1]))
	case "wrong", "same":
		return s.wrong(verb, args)
	case "reject":
		password := args[0] + "'s password"
		if _, err := s.Check(s.t.Context(), "basic", s.accounts, args[0], password, s.client(args[1])); !errors.Is(err, ErrRejected) {
			return fmt.Errorf("got %v, want ErrRejected", err)
		}
	case "throttled":
		want, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		return s.throttled(args[0], s.client(args[1]), want)
	case "open":
		if wait := retryAfter(s.t, s.Verifier.throttle, args[0], s.client(args[1])); wait != 0 {
			return fmt.Errorf("refused for %s", wait)
		}
	case "known", "unknown":
		return s.known(args[0], s.client(args[1]), verb == "known")
	case "hashes":
		if got := len(s.takeCosts()); strconv.Itoa(got) != args[0] {
			return fmt.Errorf("computed %d", got)
		}
	case "wait":
		d, err := time.ParseDuration(args[0])
		s.clock.Advance(d)
		return err
	case "limits":
		n, err := strconv.Atoi(args[0])
		window, errWindow := time.ParseDuration(args[1])
		s.Verifier.throttle.SetLimits(n, window)
		return errors.Join(err, errWindow)
	case "rehash", "disable", "remove", "rename":
		user := s.users[args[0]]
		user.Disabled = verb == "disable"
		if verb == "rehash" {
			user.PasswordHash = scriptHashes["new"]
		}
		s.users[args[0]] = user
		if verb == "remove" || verb == "rename" {
			delete(s.users, args[0])
		}
		if verb == "rename" {
			user.Username = "other"
			s.users["other"] = user
		}
		s.reload()
	case "restore":
		s.restore()
	default:
		return errors.New("no such step")
	}
	return nil
}

func (s *script) good(verb, name string, client netip.Addr) error {
	methods := s.methods()
	switch verb {
	case "check":
		delete(methods, "CheckFresh")
	case "fresh":
		delete(methods, "Check")
	}
	for method, check := range methods {
		if account, err := check(s.accounts, name, s.password(name), client); err != nil || account.Username != name {
			return fmt.Errorf("%s: got %+v, %w", method, account, err)
		}
	}
	return nil
}

func (s *script) wrong(verb string, args []string) error {
	n := 1
	if len(args) > 2 {
		n, _ = strconv.Atoi(args[2])
	}
	for i := range n {
		name, client := s.name(args[0]), s.client(args[1])
		method, password := "CheckFresh", fmt.Sprint("guess-", i)
		if verb == "same" {
			method, password = "Check", "guess"
		}
		if _, err := s.methods()[method](s.accounts, name, password, client); !errors.Is(err, ErrRejected) {
			return fmt.Errorf("number %d: got %v, want ErrRejected", i, err)
		}
	}
	return nil
}

func (s *script) throttled(name string, client netip.Addr, want time.Duration) error {
	before, password := s.hasher.Computed(), s.password(name)
	if _, ok := s.users[name]; !ok {
		password = s.password(strings.ToLower(name)) // another spelling
	}
	for method, check := range s.methods() {
		account, err := check(s.accounts, name, password, client)
		var throttled *ThrottledError
		if account != nil || !errors.As(err, &throttled) || throttled.RetryAfter != want {
			return fmt.Errorf("%s: got %+v, %v", method, account, err)
		}
	}
	if n := s.hasher.Computed() - before; n != 0 {
		return fmt.Errorf("computed %d hashes", n)
	}
	return nil
}

func (s *script) known(name string, client netip.Addr, want bool) error {
	p, _ := s.Verifier.throttle.pairs.Peek(newSubject(name, client).pairKey)
	account, _ := s.accounts.Lookup(name)
	if got := p.knows(account.Version(), s.clock.Now()); got != want {
		return fmt.Errorf("known: %v", got)
	}
	return nil
}

func TestPasswordChecks(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"accounts and addresses have counts of their own": `
			limits 3 1m; wrong alice 0; wrong alice 1; open alice 9; wrong alice 2; throttled alice 9 1m; open bob 0; wrong * 0 2;
			throttled bob 0 1m; open bob 1`,
		"a window begins with the first failure": `
			limits 2 1m; wrong alice 0; wait 40s; wrong alice 1; throttled alice 2 20s; wait 19.999999999s; throttled alice 2 1ns;
			wait 1ns; open alice 2; wrong alice 0; open alice 2; wrong alice 0; throttled alice 2 1m`,
		"the longer of two windows counts": `limits 1 1m; wrong alice 0; wait 30s; wrong bob 1; throttled alice 0 30s; throttled alice 1 1m; throttled bob 0 1m`,
		"a success removes no failure":     `limits 3 1m; wrong alice 0 2; good alice 0; good bob 0; wrong alice 0; throttled alice 1 1m; throttled Alice 0 1m`,
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
		"a login always hashes":                           `check alice 0; fresh alice 0; fresh alice 0; hashes 3`,
		"a wrong password is not cached":                  `same alice 0 10; hashes 10`,
		"a reload keeps the cache":                        `check alice 0; hashes 1; restore; check alice 0; hashes 0`,
		"a new password is checked":                       `check alice 0; hashes 1; rehash alice; reject alice 0; check alice 0; hashes 2`,
		"a disabled account is not cached":                `check alice 0; hashes 1; disable alice; reject alice 0; hashes 1`,
		"a removed account is not cached":                 `check alice 0; hashes 1; remove alice; reject alice 0; hashes 1`,
		"a renamed account is not cached":                 `check alice 0; hashes 1; rename alice; reject alice 0; hashes 1`,
		"throttled even if correct and cached":            `check alice 0; wrong alice * 10; throttled alice 2 1h; wait 1h; good alice 2`,
		"throttled by address even if correct and cached": `check alice 0; wrong * 2 10; throttled alice 2 1h; wait 1h; good alice 2`,

		"failures on the account spare a known pair":   `check alice 0; wrong alice * 10; hashes 11; check alice 0; hashes 0; wait 1m; good alice 0; throttled alice 3 59m`,
		"failures from the address spare a known pair": `check alice 0; wrong * 0 10; wait 1m; good alice 0; throttled bob 0 59m; good alice 3`,
		"a known pair has a limit of its own": `
			good alice 0; good bob 0; good alice 1; wrong alice 0 9; good alice 0; wrong alice 0; throttled alice 0 1h; good bob 0;
			good alice 1; throttled alice 2 1h; throttled Alice 0 1h; wait 1h; good alice 0; good Alice 0; wrong alice 0 10;
			throttled alice 0 1h`,
		"a cached password makes each client known": `check alice 0; check alice 1; hashes 1; wrong alice * 10; wait 1m; good alice 0; good alice 1`,
		"accounts with one name are known side by side and share a count": `
			good alice 0; good Alice 0; wrong alice * 10; good alice 0; good Alice 0; wrong Alice 0 5; wrong alice 0 5;
			throttled alice 0 1h; throttled Alice 0 1h`,
		"an IPv6 network is one client":                   `good alice 2001:db8::1; wrong alice * 10; good alice 2001:db8::2; throttled alice 2001:db8:0:1::1 1h`,
		"another password makes a pair unknown":           `good alice 0; wrong alice * 10; rehash alice; throttled alice 0 1h; restore; good alice 0`,
		"a disabled account has no known pair":            `good alice 0; wrong alice * 10; disable alice; throttled alice 0 1h`,
		"a removed account has no known pair":             `good alice 0; wrong alice * 10; remove alice; throttled alice 0 1h`,
		"another spelling of the name is not known":       `good alice 0; wrong alice * 10; throttled ALICE 0 1h`,
		"a pair is known for 24 hours":                    `fresh alice 0; wait 23h59m59.999999999s; known alice 0; wait 1ns; unknown alice 0`,
		"a login makes a pair known for longer":           `fresh alice 0; wait 12h; fresh alice 0; wait 23h59m59.999999999s; known alice 0; wait 1ns; unknown alice 0`,
		"a cached password makes a pair known for longer": `fresh alice 0; wait 12h; check alice 1; check alice 0; hashes 2; wait 12h; known alice 0`,
		"a failure does not make a pair known for longer": `fresh alice 0; wait 12h; wrong alice 0; wait 12h; unknown alice 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newScript(t).run(text)
		})
	}
}
