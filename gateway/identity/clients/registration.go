package clients

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/store/record"
)

const (
	// registeredPrefix begins the keys of registered clients in the store.
	registeredPrefix = "oauthclient:" // + identifier

	// A registered client is forgotten that long after its last use, and its use is recorded
	// when less than the second time is left.
	keptUnused = 90 * 24 * time.Hour
	recordUse  = 60 * 24 * time.Hour
)

// responseCode is the one response_type.
const responseCode = "code"

// registeredForm matches the identifiers that registration gives.
var registeredForm = regexp.MustCompile(`^reg_[A-Z2-7]{26}$`)

// registration is the record of a registered client.
type registration struct {
	ID           string    `json:"id"`
	Name         string    `json:"name,omitempty"`
	RedirectURIs []string  `json:"redirect_uris,omitempty"`
	Grants       []string  `json:"grants"`
	PostLogout   []string  `json:"post_logout,omitempty"`
	Scopes       []string  `json:"scopes,omitempty"`
	Secret       string    `json:"secret,omitempty"` // its hash; empty: a public client
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`
}

// Registered is the answer to a client about its registration, as JSON (RFC 7591, section 3.2.1).
type Registered struct {
	ID            string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	Secret        string   `json:"client_secret,omitempty"`
	SecretExpires *int64   `json:"client_secret_expires_at,omitempty"` // 0: never
	Name          string   `json:"client_name,omitempty"`
	Method        string   `json:"token_endpoint_auth_method"`
	RedirectURIs  []string `json:"redirect_uris,omitempty"`
	Grants        []string `json:"grant_types"`
	Responses     []string `json:"response_types"`
	PostLogout    []string `json:"post_logout_redirect_uris,omitempty"`
	Scope         string   `json:"scope,omitempty"`
}

// The methods of authentication that a client can register. The first is the default, by RFC
// 7591, section 2.
var registeredMethods = []string{"client_secret_basic", "client_secret_post", methodNone}

// Register registers the client that a body describes, and returns the answer.
// The error is a *RegistrationError, or one of the store.
func (s *Set) Register(ctx context.Context, body []byte) (*Registered, error) {
	m, err := readMetadata(s.oauth, body)
	if err != nil {
		return nil, err
	}
	if m.Method == "" {
		m.Method = registeredMethods[0]
	}
	if !slices.Contains(registeredMethods, m.Method) {
		methods := strings.Join(registeredMethods, ", ")
		return nil, wrongMetadata("token_endpoint_auth_method must be one of %s.", methods)
	}
	now := s.now()
	r := registration{
		ID: "reg_" + rand.Text(), Name: m.Name, RedirectURIs: m.RedirectURIs, Grants: m.Grants,
		PostLogout: m.PostLogout, Scopes: m.Scopes, Created: now, Expires: now.Add(keptUnused),
	}
	a := Registered{
		ID: r.ID, IssuedAt: now.Unix(), Name: r.Name, Method: m.Method, RedirectURIs: r.RedirectURIs,
		Grants: slices.Clone(r.Grants), Responses: []string{}, PostLogout: r.PostLogout,
		Scope: strings.Join(r.Scopes, " "),
	}
	if slices.Contains(r.Grants, config.GrantAuthorizationCode) {
		a.Responses = append(a.Responses, responseCode)
	}
	if i := slices.Index(a.Grants, config.GrantDeviceCode); i >= 0 {
		a.Grants[i] = deviceGrant
	}
	if m.Method != methodNone {
		a.Secret, a.SecretExpires = rand.Text()+rand.Text(), new(int64)
		r.Secret = record.Hash([]byte(a.Secret))
	}
	value, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := s.store.Put(ctx, registeredPrefix+r.ID, value, r.Expires); err != nil {
		return nil, err
	}
	return &a, nil
}

// registered returns a registered client. Its use keeps it.
func (s *Set) registered(ctx context.Context, id string) (*Client, error) {
	key := registeredPrefix + id
	raw, err := record.Find(ctx, s.store, key)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, fmt.Errorf("%w: %q was not registered, or was not used for long", ErrUnknown, id)
	}
	r, err := record.Decode[registration](raw)
	if err != nil {
		return nil, err
	}
	if now := s.now(); r.Expires.Sub(now) < recordUse {
		// If it cannot be recorded, the next use does it: there are two months left.
		used := *r
		used.Expires = now.Add(keptUnused)
		if edit, err := record.Edited(&used, used.Expires); err == nil {
			_ = s.store.Swap(ctx, key, raw, edit.Value, edit.Expires)
		}
	}
	client := &Client{
		ID: r.ID, Name: r.Name, RedirectURIs: r.RedirectURIs, Grants: r.Grants, method: methodNone,
		PostLogout: r.PostLogout, Scopes: r.Scopes, hash: r.Secret,
	}
	if r.Secret != "" {
		client.method = methodSecret
	}
	return client, nil
}
