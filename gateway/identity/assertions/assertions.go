// Package assertions finds out which program sends a token of its platform.
//
// # Job
//
// A CI job, a pod or another workload has a token that its platform signed, and no secret of the
// gateway. The configuration says which tokens are whose: [Set.Prove] verifies such an assertion (RFC
// 7523) by the published keys of its trusted issuer, and finds the client whose federation it matches.
//
// # Limits
//
// The package knows clients by their identifiers alone, and makes no token. An assertion may be used
// as long as it lives, as platforms give the same one to each step of a job.
//
// # Threats
//
// Everybody can get a token of a public CI service. So an assertion must be for this gateway and for
// no other audience, must be short-lived, and must have all claims of an entry. A token of another
// purpose has another typ. One that matches several clients is of none. Refused assertions count by
// the address of the client; a pair of client and address that has succeeded has its own count. The
// log has the reason of a refusal; the sender of the assertion does not learn it.
package assertions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store/record"
	"authgate/gateway/wire/jose"
	"authgate/policy"
)

// maxBytes is the maximum length of an assertion.
const maxBytes = 8 << 10

// ErrRefused: the assertion proves no client. It wraps the reason, for operators.
var ErrRefused = fmt.Errorf("assertions: refused: %w", auth.ErrRejected)

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// Issuer verifies the assertions of a trusted issuer; see provider.Trusted.
type Issuer interface {
	VerifyAssertion(ctx context.Context, raw, audience string) (*provider.Assertion, error)
}

// Options are the parts of a Set.
type Options struct {
	Config   *config.Config
	Issuers  map[string]Issuer // trusted issuers, by name
	Vouching []Vouching        // providers of users
	Verifier *auth.Verifier
}

// Set is the federation of all clients of a configuration.
type Set struct {
	audience string // of assertions
	issuers  map[string]Issuer
	verifier *auth.Verifier
	oauth    *config.OAuth
	vouching []Vouching         // those of oauth.cross_app
	names    map[string]string  // of issuers, by their iss
	entries  map[string][]entry // by the name of the issuer
}

// entry is one entry of the federation of a client.
type entry struct {
	client, id  string
	claims      map[string][]string
	maxLifetime time.Duration
}

// New returns the federation of a configuration.
func New(o Options) *Set {
	s := &Set{
		audience: o.Config.Token.Issuer, issuers: o.Issuers, verifier: o.Verifier,
		names: map[string]string{}, entries: map[string][]entry{},
	}
	s.oauth = &o.Config.OAuth
	for _, p := range o.Vouching {
		if slices.Contains(s.oauth.Vouching(), p.Name()) {
			s.vouching = append(s.vouching, p)
		}
	}
	identifiers := map[string]string{}
	for _, issuer := range o.Config.Token.TrustedIssuers {
		s.names[issuer.Issuer], identifiers[issuer.Name] = issuer.Name, issuer.Issuer
	}
	for i := range o.Config.OAuth.Clients {
		client := &o.Config.OAuth.Clients[i]
		for _, f := range client.Federation {
			content, _ := json.Marshal([]any{identifiers[f.Issuer], f.Claims, f.MaxLifetime}) // texts and numbers
			made := entry{client.ID, record.Hash(content), f.Claims, f.MaxLifetime}
			s.entries[f.Issuer] = append(s.entries[f.Issuer], made)
		}
	}
	return s
}

// Proof tells which client an assertion proves, and how.
type Proof struct {
	Client  string
	Entry   string // names the entry of the federation, as it is now
	Issuer  string // the name of the trusted issuer
	Subject string // sub
	Left    time.Duration
}

// Holds reports whether a client has an entry of its federation, unchanged.
func (s *Set) Holds(client, id string) bool {
	for _, all := range s.entries {
		if slices.ContainsFunc(all, func(e entry) bool { return e.client == client && e.id == id }) {
			return true
		}
	}
	return false
}

// Prove returns the proof in an assertion that a client of the gateway sends from an address. It must be
// that of one client, or of any if client is empty. The error is ErrRefused, an
// *auth.ThrottledError, auth.ErrBusy, or a *provider.Error if the issuer does not answer.
func (s *Set) Prove(ctx context.Context, raw, client string, from netip.Addr) (proof *Proof, err error) {
	if client == "" {
		client = s.claimed(raw)
	}
	err = s.verifier.CheckProof(ctx, client, s.version(client), from, func() error {
		proof, err = s.prove(ctx, raw, client)
		return err
	})
	return proof, err
}

// claimed returns the client that an assertion says that it is of, "" for none or several.
func (s *Set) claimed(raw string) string {
	token, err := jose.Parse(raw)
	if err != nil {
		return ""
	}
	claims, _ := token.Claims()
	iss, _ := claims["iss"].(string)
	client, _ := only(s.matching(s.names[iss], "", claims))
	return client
}

// version returns a text that is another one if the federation of a client changes.
func (s *Set) version(client string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.entries)) {
		for _, e := range s.entries[name] {
			if e.client == client {
				all = append(all, e.id)
			}
		}
	}
	return strings.Join(all, " ")
}

// matching returns the entries of an issuer that have only claims of an assertion: those of one client,
// or of all if it is empty.
func (s *Set) matching(issuer, client string, claims map[string]any) (found []entry) {
	for _, e := range s.entries[issuer] {
		lacks := func(name string) bool { return !policy.HasClaim(claims, name, e.claims[name]) }
		others := client != "" && e.client != client
		if !others && !slices.ContainsFunc(slices.Collect(maps.Keys(e.claims)), lacks) {
			found = append(found, e)
		}
	}
	return found
}

// only returns the client of entries, if it is one.
func only(found []entry) (client string, ok bool) {
	for _, e := range found {
		if client != "" && e.client != client {
			return "", false
		}
		client = e.client
	}
	return client, client != ""
}

// prove is Prove for an assertion that is not throttled.
func (s *Set) prove(ctx context.Context, raw, client string) (*Proof, error) {
	iss, _ := jose.IssuerOf(raw).(string)
	name, ok := s.names[iss]
	switch {
	case len(raw) > maxBytes:
		return nil, refused("it is longer than %d bytes", maxBytes)
	case !ok || len(s.entries[name]) == 0:
		if _, err := jose.Parse(raw); err != nil {
			return nil, refused("%w", err)
		}
		return nil, refused("the federation of no client has its issuer %.200q", iss)
	}
	a, err := s.issuers[name].VerifyAssertion(ctx, raw, s.audience)
	if errors.Is(err, provider.ErrInvalid) {
		return nil, refused("%w", err)
	}
	if err != nil {
		return nil, err
	}
	found := s.matching(name, client, a.Claims)
	proven, ok := only(found)
	switch {
	case len(found) == 0:
		return nil, refused("no entry of %s has its claims; its sub is %.200q", federationOf(client), a.Subject)
	case !ok:
		return nil, refused("it matches several clients, as %s and %s; send client_id",
			found[0].client, found[len(found)-1].client)
	}
	lifetime := a.Expires.Sub(a.Issued)
	for _, e := range found {
		if lifetime <= e.maxLifetime {
			return &Proof{Client: proven, Entry: e.id, Issuer: name, Subject: a.Subject, Left: a.Left}, nil
		}
	}
	return nil, refused("it lives for %v, and max_lifetime of %s is shorter", lifetime, federationOf(proven))
}

// federationOf names the federation of a client, for operators.
func federationOf(client string) string {
	if client == "" {
		return "any federation"
	}
	return "the federation of " + client
}
