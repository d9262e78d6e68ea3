package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"authgate/gateway/wire/strictjson"
	"authgate/policy"
)

const (
	metadataLifetime = time.Hour   // then it is renewed, and the old one is used meanwhile
	failureLifetime  = time.Second // for how long a failed discovery is not repeated for a caller
	firstRetry       = time.Second // the first pause after a failed discovery; it doubles
	lastRetry        = time.Minute // the longest pause
)

// metadata is announced by the provider (OpenID Connect Discovery 1.0, section 3; RFC 8414, section
// 2; RP-Initiated Logout 1.0; RFC 9207), or set by the configuration instead.
type metadata struct {
	Authorization            string   `json:"authorization_endpoint"`
	Token                    string   `json:"token_endpoint"`
	Userinfo                 string   `json:"userinfo_endpoint"`
	Keys                     string   `json:"jwks_uri"`
	EndSession               string   `json:"end_session_endpoint"`
	Revocation               string   `json:"revocation_endpoint"`
	Introspection            string   `json:"introspection_endpoint"`
	Algorithms               []string `json:"id_token_signing_alg_values_supported"`
	AuthMethods              []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionAuthMethods []string `json:"introspection_endpoint_auth_methods_supported"`
	IssParameter             bool     `json:"authorization_response_iss_parameter_supported"`

	keys *keySet // nil if Keys is empty
}

// endpoint is one of metadata.
type endpoint struct{ name, address string }

func (m *metadata) endpoints() []endpoint {
	return []endpoint{
		{"authorization_endpoint", m.Authorization}, {"token_endpoint", m.Token}, {"userinfo_endpoint", m.Userinfo},
		{"jwks_uri", m.Keys}, {"end_session_endpoint", m.EndSession}, {"revocation_endpoint", m.Revocation},
		{"introspection_endpoint", m.Introspection},
	}
}

// checkPlace refuses addresses on this machine by http, unless the issuer is here too:
// a provider elsewhere must not lead the gateway to services that only it can reach.
func (m *metadata) checkPlace(issuer string) error {
	if u, err := url.Parse(issuer); err == nil && policy.Loopback(u.Hostname()) {
		return nil
	}
	for _, endpoint := range m.endpoints() {
		if strings.HasPrefix(strings.ToLower(endpoint.address), "http:") {
			return fmt.Errorf("%s %q is on the gateway's machine, and the issuer is not",
				endpoint.name, endpoint.address)
		}
	}
	return nil
}

// checkEndpoints refuses addresses that cannot be used, and requires the needed ones.
func (m *metadata) checkEndpoints(needed ...string) error {
	for _, endpoint := range m.endpoints() {
		if endpoint.address == "" && !slices.Contains(needed, endpoint.name) {
			continue
		}
		if err := checkEndpoint(endpoint.name, endpoint.address); err != nil {
			return err
		}
	}
	return nil
}

// checkEndpoint requires https, or http on this machine, so that no one else on the
// network can read the calls.
func checkEndpoint(name, address string) error {
	if address == "" {
		return fmt.Errorf("%s is missing", name)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case u.Host == "" || u.User != nil || u.Fragment != "":
		return fmt.Errorf("%s %q is not the address of an endpoint", name, address)
	case u.Scheme == "https", u.Scheme == "http" && policy.Loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%s %q is not https; http is for providers on this machine alone", name, address)
}

// issuer is the common part of Provider and Trusted: metadata, keys, and the client
// that fetches them.
type issuer struct {
	id     string // the issuer identifier; empty for a provider without OpenID Connect
	needed []string
	client *client
	now    func() time.Time
	logger *slog.Logger

	background *background
	given      *metadata // from the configuration; nil: discovery
	discovered cached[*metadata]
	retrying   atomic.Bool
}

// newIssuer returns an issuer that must announce the needed endpoints.
func newIssuer(id, name string, c Connection, needed ...string) *issuer {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	i := &issuer{
		id: id, needed: needed, client: newClient(name, c), now: c.Now,
		logger: c.Logger.With("provider", name), background: newBackground(),
	}
	i.discovered.fetch, i.discovered.now, i.discovered.background = i.discover, i.now, i.background
	return i
}

func (i *issuer) close() {
	i.background.close()
	i.client.http.CloseIdleConnections()
}

// metadata returns the cached metadata, or fetches it if there is none.
func (i *issuer) metadata(ctx context.Context) (*metadata, error) {
	if i.given != nil {
		if err := i.given.checkEndpoints(i.needed...); err != nil {
			return nil, i.client.fail("discovery", fmt.Errorf("the configured endpoints: %w", err))
		}
		return i.given, nil
	}
	known, now := i.discovered.state(), i.now()
	switch {
	case known.value != nil:
		if now.Sub(known.fetched) > metadataLifetime {
			i.retry(0)
		}
		return known.value, nil
	case known.err != nil && now.Sub(known.tried) < failureLifetime:
		return nil, known.err
	}
	known, err := i.discovered.renew(ctx, known.tries)
	switch {
	case err != nil:
		return nil, i.client.fail("discovery", err)
	case known.value == nil:
		i.retry(firstRetry)
		return nil, known.err
	}
	return known.value, nil
}

// retry repeats discovery in the background until it succeeds, first after wait and
// then with increasing pauses.
func (i *issuer) retry(wait time.Duration) {
	if !i.retrying.CompareAndSwap(false, true) {
		return
	}
	i.background.start(func(ctx context.Context) {
		defer i.retrying.Store(false)
		for before := i.discovered.state().tries; sleep(ctx, wait); wait = min(max(2*wait, firstRetry), lastRetry) {
			known := i.discovered.state()
			if known.err != nil || known.tries == before {
				var err error
				if known, err = i.discovered.renew(ctx, known.tries); err != nil {
					return
				}
			}
			if known.err == nil {
				return
			}
			i.logger.Warn("discovery of the provider failed; it will be tried again", "error", known.err)
		}
	})
}

// discover fetches the discovery document. If jwks_uri has not changed, the cached
// keys stay.
func (i *issuer) discover(ctx context.Context) (*metadata, error) {
	var m metadata
	err := i.client.call(ctx, "discovery", func(ctx context.Context) error {
		if err := checkEndpoint("the issuer", i.id); err != nil {
			return err
		}
		document, err := oidc.NewProvider(ctx, i.id)
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := errors.Join(document.Claims(&raw), document.Claims(&m)); err != nil {
			return fmt.Errorf("the discovery document: %w", err)
		}
		if err := errors.Join(strictjson.Unique(raw), m.checkEndpoints(i.needed...), m.checkPlace(i.id)); err != nil {
			return fmt.Errorf("the discovery document: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if old := i.discovered.state().value; old != nil && old.Keys == m.Keys {
		m.keys = old.keys
	} else if m.Keys != "" {
		m.keys = i.newKeySet(m.Keys)
	}
	return &m, nil
}
