package provider

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"authgate/policy"
)

// Options configure a Provider. Only Issuer is required, but without clients a
// provider is of no use.
type Options struct {
	// Issuer is http://HOST[:PORT] with a loopback host, exactly as in the
	// configuration of the clients.
	Issuer  string
	Clients []Client
	// Users can sign in; nil means those of the demonstration.
	Users []User

	// CodeLifetime is how long a code is valid; 0 means 1 minute.
	CodeLifetime time.Duration
	// AccessTokenLifetime is the lifetime of access and ID tokens; 0 means 5 minutes.
	AccessTokenLifetime time.Duration
	// SessionLifetime is the lifetime of sessions and refresh tokens; 0 means 8
	// hours.
	SessionLifetime time.Duration
	// AccessTokenAudience makes access tokens JWTs for these audiences (RFC
	// 9068). Without it they are opaque.
	AccessTokenAudience []string

	// HTTPClient sends logout tokens; nil means a new client. It does not follow
	// redirects.
	HTTPClient *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger logs failed deliveries of logout tokens; nil means no log.
	Logger *slog.Logger
}

// Client is an application whose users sign in here.
type Client struct {
	ID     string
	Secret string // empty: a public client, with PKCE alone
	// RedirectURIs are the addresses for answers. They are compared exactly.
	RedirectURIs []string
	// PostLogoutRedirectURIs are the addresses for the browser after a logout that
	// the client started.
	PostLogoutRedirectURIs []string
	// BackchannelLogoutURI gets a logout token when a session with tokens for the
	// client ends; empty: no logout token.
	BackchannelLogoutURI string
}

// User is a user who can sign in.
type User struct {
	Subject       string // sub: unique and permanent; empty means Username
	Username      string
	Password      string
	Name          string
	Email         string
	EmailVerified bool
	Roles         []string
}

func (u *User) subject() string { return cmp.Or(u.Subject, u.Username) }

// demoUsers returns the users of the demonstration: alice with the password
// wonderland and the roles user and admin, and bob with the password builder and
// the role user.
func demoUsers() []User {
	return []User{
		{
			Subject: "1001", Username: "alice", Password: "wonderland", Name: "Alice Example",
			Email: "alice@example.org", EmailVerified: true, Roles: []string{"user", "admin"},
		},
		{
			Subject: "1002", Username: "bob", Password: "builder", Name: "Bob Example",
			Email: "bob@example.org", EmailVerified: true, Roles: []string{"user"},
		},
	}
}

// complete sets the defaults.
func (o *Options) complete() {
	if o.Users == nil {
		o.Users = demoUsers()
	}
	o.CodeLifetime = cmp.Or(o.CodeLifetime, time.Minute)
	o.AccessTokenLifetime = cmp.Or(o.AccessTokenLifetime, 5*time.Minute)
	o.SessionLifetime = cmp.Or(o.SessionLifetime, 8*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HTTPClient == nil {
		o.HTTPClient = &http.Client{}
	}
}

// check returns the first mistake in the options.
func (o *Options) check() error {
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Scheme != "http" || !policy.Loopback(issuer.Hostname()) || o.Issuer != "http://"+issuer.Host {
		return fmt.Errorf("the issuer %q is not http://HOST:PORT with a loopback host, like http://127.0.0.1:9400", o.Issuer)
	}
	for _, lifetime := range []time.Duration{o.CodeLifetime, o.AccessTokenLifetime, o.SessionLifetime} {
		if lifetime < 0 {
			return fmt.Errorf("the lifetime %s is negative", lifetime)
		}
	}
	clients := map[string]bool{}
	for _, c := range o.Clients {
		if c.ID == "" || clients[c.ID] {
			return fmt.Errorf("the client ID %q is empty or a duplicate", c.ID)
		}
		clients[c.ID] = true
		if err := c.check(); err != nil {
			return fmt.Errorf("client %s: %w", c.ID, err)
		}
	}
	return checkUsers(o.Users)
}

func (c *Client) check() error {
	uris := slices.Concat(c.RedirectURIs, c.PostLogoutRedirectURIs)
	if c.BackchannelLogoutURI != "" {
		uris = append(uris, c.BackchannelLogoutURI)
	}
	for _, uri := range uris {
		u, err := url.Parse(uri)
		if err != nil || u.Host == "" || u.Fragment != "" ||
			u.Scheme != "https" && (u.Scheme != "http" || !policy.Loopback(u.Hostname())) {
			return fmt.Errorf("%q is not an https URL, or an http URL on loopback, without a fragment", uri)
		}
	}
	return nil
}

func checkUsers(users []User) error {
	names, subjects := map[string]bool{}, map[string]bool{}
	for _, u := range users {
		if u.Username == "" || u.Password == "" {
			return errors.New("every user needs a user name and a password")
		}
		subject := u.subject()
		if names[u.Username] || subjects[subject] {
			return fmt.Errorf("two users have the user name or the subject of %s", u.Username)
		}
		names[u.Username], subjects[subject] = true, true
	}
	return nil
}
