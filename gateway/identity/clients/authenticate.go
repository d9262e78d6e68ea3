package clients

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"authgate/gateway/identity/assertions"
	"authgate/gateway/identity/auth"
	"authgate/gateway/store/record"
)

// Presented is how a request says and proves which client sends it (RFC 6749, section 2.3;
// RFC 7523, section 2.2).
type Presented struct {
	Basic         bool   // the request has Basic credentials
	Value         string // of them
	ID            string // client_id in the form
	Secret        string // client_secret in the form
	AssertionType string
	Assertion     string
	Grant         string   // the assertion of a grant (RFC 7523, section 2.1), which may prove the client too
	Audience      []string // of assertions: the issuer and the URL of the endpoint
	Address       netip.Addr

	Found bool // set by Authenticate: there is such a client
}

// bare reports whether the request proves no client but by the assertion of its grant.
func (p *Presented) bare() bool {
	return !p.Basic && p.Secret == "" && p.Assertion == "" && p.AssertionType == ""
}

// Claimed returns the client that a request says it comes from, "" if that cannot be read.
func (p *Presented) Claimed() string {
	id := p.ID
	if c, err := p.readClaim(); err == nil {
		id = c.id
	} else if name, _, err := readBasic(p.Value); p.Basic && err == nil {
		id = name
	}
	return id
}

// Authenticate returns the client that sends a request, and the assertion of its platform that
// proves it, if there is one. A public client proves nothing. The error is ErrUnknown,
// ErrUnauthenticated, ErrTwoWays, ErrUnreachable, assertions.ErrRefused for that of a grant, an
// *auth.ThrottledError, an *auth.StartsError, auth.ErrBusy, one of the store, or one of an issuer.
func (s *Set) Authenticate(ctx context.Context, p *Presented) (*Client, *assertions.Proof, error) {
	if p.Grant == "" {
		return s.authenticate(ctx, p)
	}
	id := p.ID
	if !p.bare() {
		client, _, err := s.authenticate(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		id = client.ID
	} else if id != "" {
		if _, err := s.Find(ctx, id, p.Address); err != nil {
			return nil, nil, err
		}
	}
	return s.prove(ctx, p.Grant, id, p.Address)
}

// prove returns the client that an assertion of its platform proves.
func (s *Set) prove(ctx context.Context, raw, id string, from netip.Addr) (*Client, *assertions.Proof, error) {
	proof, err := s.assertions.Prove(ctx, raw, id, from)
	if err != nil {
		return nil, nil, err
	}
	return s.configured[proof.Client], proof, nil
}

// authenticate is Authenticate without the assertion of a grant.
func (s *Set) authenticate(ctx context.Context, p *Presented) (*Client, *assertions.Proof, error) {
	c, err := p.readClaim()
	if err != nil {
		return nil, nil, err
	}
	if c.platform != "" {
		client, proof, err := s.prove(ctx, c.platform, c.id, p.Address)
		if errors.Is(err, assertions.ErrRefused) {
			err = fmt.Errorf("%w: %w", ErrUnauthenticated, err)
		}
		return client, proof, err
	}
	client, err := s.Find(ctx, c.id, p.Address)
	if err != nil {
		return nil, nil, err
	}
	p.Found = true
	switch {
	case client.method == methodNone && c.secrets == nil && c.assertion == nil:
	case client.method == methodSecret && c.secrets != nil:
		err = s.checkSecret(ctx, client, c.secrets, p.Address)
	case client.method == methodPrivateKey && c.assertion != nil:
		err = s.checkAssertion(ctx, client, c.assertion, p)
	default:
		err = fmt.Errorf("%w: %.100q must authenticate by %s", ErrUnauthenticated, client.ID, client.method)
	}
	if err != nil {
		return nil, nil, err
	}
	return client, nil, nil
}

// claim is who a request says that it comes from.
type claim struct {
	id        string
	secrets   []string // spellings of one secret; nil: none
	assertion *assertion
	platform  string // an assertion that the client did not make itself
}

// readClaim finds the one way in which the client authenticates.
func (p *Presented) readClaim() (*claim, error) {
	c, ways := &claim{id: p.ID}, 0
	if p.Basic {
		id, secrets, err := readBasic(p.Value)
		if err != nil {
			return nil, err
		}
		if p.ID != "" && p.ID != id {
			return nil, fmt.Errorf("%w: Basic and the form name two clients", ErrTwoWays)
		}
		c.id, c.secrets = id, secrets
		ways++
	}
	if p.Secret != "" { // an empty parameter counts as omitted
		c.secrets = []string{p.Secret}
		ways++
	}
	if p.Assertion != "" || p.AssertionType != "" {
		ways++
	}
	if ways > 1 {
		return nil, ErrTwoWays
	}
	if p.Assertion != "" || p.AssertionType != "" {
		if p.AssertionType == assertionType && isOfPlatform(p.Assertion) {
			c.platform = p.Assertion
			return c, nil
		}
		var err error
		if c.assertion, err = readAssertion(p.AssertionType, p.Assertion); err != nil {
			return nil, err
		}
		if c.id == "" { // the assertion names it
			c.id = c.assertion.subject
		}
	}
	if c.id == "" {
		return nil, fmt.Errorf("%w: the request names no client", ErrUnauthenticated)
	}
	return c, nil
}

// readBasic reads Basic credentials of a client, whose parts are encoded as in a form (RFC
// 6749, section 2.3.1). Many clients do not encode them, so the secret as it came counts too.
func readBasic(value string) (id string, secrets []string, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || strings.ContainsAny(value, "\r\n") { // base64 skips line breaks
		return "", nil, fmt.Errorf("%w: the Basic credentials are not valid base64", ErrUnauthenticated)
	}
	id, secret, found := strings.Cut(string(raw), ":")
	if !found {
		return "", nil, fmt.Errorf("%w: the Basic credentials hold no colon", ErrUnauthenticated)
	}
	if decoded, err := url.QueryUnescape(id); err == nil {
		id = decoded
	}
	if secret == "" {
		return id, nil, nil // a public client
	}
	secrets = []string{secret}
	if decoded, err := url.QueryUnescape(secret); err == nil && decoded != secret {
		secrets = append(secrets, decoded)
	}
	return id, secrets, nil
}

// checkSecret checks the secret of a client, in each of its spellings.
func (s *Set) checkSecret(ctx context.Context, client *Client, spellings []string, from netip.Addr) error {
	wrong := fmt.Errorf("%w: it is not the secret of %.100q", ErrUnauthenticated, client.ID)
	if client.secrets == nil { // secrets that registration makes cannot be guessed
		same := func(secret string) bool {
			return subtle.ConstantTimeCompare([]byte(record.Hash([]byte(secret))), []byte(client.hash)) == 1
		}
		if !slices.ContainsFunc(spellings, same) {
			return wrong
		}
		return nil
	}
	err := s.verifier.CheckSecret(ctx, client.secrets, from, spellings...)
	if errors.Is(err, auth.ErrRejected) {
		return wrong
	}
	return err
}
