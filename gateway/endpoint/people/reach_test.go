package people_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
	"authgate/internal/test/rig"
	"authgate/policy"
)

// An account that a policy of a route, of an OAuth client or of accounts.admins lets in, and not the
// user, is out of reach: with every change, by its name, its address and what it lacks.
func TestPeopleReachNothingThatPoliciesKeepFromThem(t *testing.T) {
	t.Parallel()
	const people = household + "- {username: eve, email: eve@secret.example, roles: [user]}\n" +
		"- {username: mallory, disabled: true, email: m@secret.example}\n"
	for name, c := range map[string]struct {
		config string
		beyond []string // accounts, of which new ones begin with +
		within []string
	}{
		"a name": {"  - {match: /vault/, name: vault, upstream: app, auth: [session], policy: {users: [bob, Vacant]}}\n",
			[]string{"bob", "+Vacant"}, []string{"eve", "+vacant", "+carol"}},
		"a name at an address": {
			"  - {match: /vault/, name: vault, upstream: app, auth: [session], " +
				"policy: {users: [bob], networks: [192.0.2.0/24], factors: 2}}\n", []string{"bob"}, []string{"eve", "+carol"}},
		"an address": {
			"  - {match: /vault/, name: vault, upstream: app, auth: [bearer], " +
				"policy: {email_domains: [secret.example]}}\n",
			[]string{"eve", "mallory"}, []string{"bob", "+carol"}},
		"an exception": {
			"  - {match: /vault/, name: vault, upstream: app, auth: [session], policy: {none: [{roles: [admin]}]}}\n",
			[]string{"bob", "eve", "mallory", "+carol"}, []string{"dave"}},
		"a client": {`oauth: {enabled: true, clients: [{id: wiki, secret: "a secret of the wiki, and long",
  redirect_uris: ["https://wiki.example/"], policy: vaulted}]}
token: {issuer: "https://gw.example", secret: "a secret that signs tokens, of enough bytes", audience: [apps]}
`, []string{"bob", "+vacant"}, []string{"eve", "+carol"}},
		"who looks after accounts": {"", []string{"+trusted"}, []string{"bob", "+carol"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := rig.Edit(t, config, "policies:", "policies:\n  vaulted: {users: [bob, vacant]}")
			yaml = rig.Edit(t, yaml, "admins: {roles: [admin]}",
				"admins: {any: [{roles: [admin], max_age: 8h}, {users: [trusted]}]}")
			r := rig.WithUsers(t, yaml+c.config, people)
			in := r.Login(rig.Alice)
			before := usersFile(t, r)
			for _, account := range c.beyond {
				for change := range changes {
					name, isNew := strings.CutPrefix(account, "+")
					if isNew != (change == "add") {
						continue
					}
					w := post(r, 403, in.Cookie, change, `{"username":"`+name+`","roles":[]}`)
					if !strings.Contains(w.Body.String(), "The account opens something that yours does not.") {
						t.Errorf("%s %s: %s", change, account, w.Body)
					}
				}
			}
			if usersFile(t, r) != before {
				t.Error("the file has changed")
			}
			for _, account := range c.within {
				if added, isNew := strings.CutPrefix(account, "+"); isNew {
					post(r, 201, in.Cookie, "add", `{"username":"`+added+`","roles":[]}`)
				} else {
					post(r, 201, in.Cookie, "invite", `{"username":"`+account+`"}`)
				}
			}
		})
	}
}

// chance makes random configurations and changes.
type chance struct{ *rand.Rand }

func (c chance) one(of ...string) string { return of[c.IntN(len(of))] }

// some returns a list of words, in brackets.
func (c chance) some(least int, of ...string) string {
	c.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return "[" + strings.Join(of[:least+c.IntN(len(of)-least)], ", ") + "]"
}

func (c chance) name() string { return c.one("bob", "carl", "dora", "vacant", "Vacant") }

// policy returns a policy in braces.
func (c chance) policy(depth int) string {
	keys := map[string]string{}
	for range 1 + c.IntN(2) {
		switch c.IntN(12 + min(depth, 1)*6) {
		case 0, 1:
			keys["roles"] = c.some(1, "user", "staff", "root")
		case 2:
			keys["all_roles"] = c.some(1, "user", "staff", "root")
		case 3, 4:
			keys["users"] = c.some(1, "alice", "bob", "carl", "vacant")
		case 5:
			keys["email_domains"] = c.some(1, "a.example", "b.example")
		case 6:
			keys["providers"] = c.one("[local]", "[basic]")
		case 7:
			keys["networks"] = c.some(1, "192.0.2.0/24", "198.51.100.7")
		case 8:
			keys["methods"] = c.some(1, "GET", "POST")
		case 9:
			keys["factors"], keys["max_age"] = "2", c.one("5m", "8h")
		case 10:
			keys["claims"] = "{site: [x]}"
		case 11:
			keys["mechanisms"] = c.some(1, "session", "bearer")
		default:
			keys[c.one("any", "all", "none")] = "[" + c.policy(depth-1) + ", " + c.policy(depth-1) + "]"
		}
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		pairs = append(pairs, key+": "+keys[key])
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

// config returns a configuration whose accounts alice looks after, and the accounts.
func (c chance) config() (yaml, users string) {
	yaml = config
	for i := range 3 {
		yaml += fmt.Sprintf("  - {match: /r%d/, upstream: app, auth: [session, bearer], policy: %s}\n", i, c.policy(2))
	}
	for _, name := range []string{"alice", "bob", "carl", "dora"} {
		roles := c.some(0, "user", "staff", "root")
		if name == "alice" {
			roles = strings.Replace(roles, "[", "[admin, ", 1)
		}
		hash := map[string]string{"alice": rig.AliceHash}[name]
		users += fmt.Sprintf("- {username: %s, roles: %s, password_hash: %q, email: %q, disabled: %t}\n", name, roles,
			cmp.Or(hash, rig.BobHash), c.one("", "x@a.example", "x@b.example"), name != "alice" && c.IntN(4) == 0)
	}
	return yaml, users
}

// change makes a change that alice asks for.
func (c chance) change(r *rig.Rig, cookie string) (name, account string, done bool) {
	name, account = c.one("add", "invite", "disable", "enable", "roles", "reset-factors", "end", "add", "roles"), c.name()
	body := fmt.Sprintf(`{"username":%q,"roles":["%s"]}`, account, strings.Join(c.roles(), `","`))
	w := r.Do("POST", "/account/people/"+name, body, rig.JSON, cookie)
	return name, account, w.Code/100 == 2
}

func (c chance) roles() (roles []string) {
	for _, role := range []string{"user", "staff", "root"} {
		if c.IntN(3) == 0 {
			roles = append(roles, role)
		}
	}
	if roles == nil {
		return []string{"user"}
	}
	return roles
}

// circumstances are what else a policy looks at, for a login of one account or another.
func (c chance) circumstances() (*policy.Identity, *policy.Request) {
	now := time.Unix(1_800_000_000, 0)
	id := &policy.Identity{Mechanism: policy.Mechanism(c.one("session", "bearer"))}
	id.AMR, id.AuthTime = []string{c.one("pwd", "mfa")}, now.Add(-time.Duration(c.IntN(10))*time.Minute)
	client := netip.MustParseAddr(c.one("192.0.2.1", "198.51.100.7", "203.0.113.1"))
	return id, &policy.Request{Method: c.one("GET", "POST", "PUT"), Now: now, Client: client}
}

// Whatever a configuration says, and whatever a user changes, they change no account that opens, then
// or before, something that their own does not.
func TestPeopleNeverGetMoreThanTheyHave(t *testing.T) {
	t.Parallel()
	var done, refused int
	for seed := range uint64(40) {
		c := chance{rand.New(rand.NewPCG(seed, 4))}
		yaml, users := c.config()
		r := rig.WithUsers(t, yaml, users)
		in := r.Login(rig.Alice)
		for range 10 {
			before := accountsOf(t, r)
			change, name, ok := c.change(r, in.Cookie)
			if !ok {
				refused++
				continue
			}
			done++
			for _, all := range []map[string]*accounts.Account{before, accountsOf(t, r)} {
				if what := c.opensMore(r, all[name], all["alice"]); what != "" {
					t.Fatalf("seed %d: alice may %s %s, which opens more:%s\n%s%s", seed, change, name, what, yaml, users)
				}
			}
		}
	}
	if done < 50 || refused < 50 {
		t.Errorf("%d changes are made, and %d are not", done, refused)
	}
}

// accountsOf returns the accounts of the file.
func accountsOf(t *testing.T, r *rig.Rig) map[string]*accounts.Account {
	t.Helper()
	all := map[string]*accounts.Account{}
	for _, account := range must.Get(r.Config.AccountsFile().Users())(t) {
		all[account.Username] = &account
	}
	return all
}

// opensMore returns what an account opens, and another one does not, in some circumstances.
func (c chance) opensMore(r *rig.Rig, account, other *accounts.Account) string {
	if account == nil { // it is added
		return ""
	}
	for _, route := range r.Config.Table().Routes() {
		for range 30 {
			how, req := c.circumstances()
			outcome := func(a *accounts.Account) policy.Outcome {
				id := a.Identity(how.Mechanism, "", time.Time{})
				id.Proof = how.Proof
				return route.Decide(id, req).Outcome
			}
			if outcome(account) == policy.Allow && outcome(other) != policy.Allow {
				return fmt.Sprintf(" %s, as %+v %+v", route.Label(), how, req)
			}
		}
	}
	return ""
}
