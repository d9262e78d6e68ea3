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
)

// Options configure a Provider. Issuer is all that is needed; without clients
// nobody can do anything.
type Options struct {
	// Issuer is http://HOST[:PORT] with a host on loopback, exactly as clients
	// are configured with it.
	Issuer  string
	Clients []Client
	// Users may sign in; nil means DemoUsers.
	Users []User

	// CodeLifetime is how long a code can be exchanged; 0 means 1 minute.
	CodeLifetime time.Duration
	// AccessTokenLifetime is that of access and ID tokens; 0 means 5 minutes.
	AccessTokenLifetime time.Duration
	// SessionLifetime is how long somebody stays signed in, and how long
	// refresh tokens last; 0 means 8 hours.
	SessionLifetime time.Duration
	// AccessTokenAudience makes access tokens JWTs for these audiences (RFC
	// 9068). Without it they are opaque.
	AccessTokenAudience []string

	// HTTPClient sends logout tokens; nil means a client of its own. Its
	// redirects are not followed.
	HTTPClient *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger is told of logout tokens that could not be delivered; nil means
	// nobody is.
	Logger *slog.Logger
}

// Client is an application that may have people sign in here.
type Client struct {
	ID     string
	Secret string // empty: a public client, which has PKCE alone
	// RedirectURIs are where answers may go: compared to the byte.
	RedirectURIs []string
	// PostLogoutRedirectURIs are where the browser may go after a logout that
	// the client began.
	PostLogoutRedirectURIs []string
	// BackchannelLogoutURI gets a logout token when a session ends that the
	// client took part in; empty: it does not.
	BackchannelLogoutURI string
}

// User is somebody who can sign in.
type User struct {
	Subject       string // sub: unique and for good; empty means Username
	Username      string
	Password      string
	Name          string
	Email         string
	EmailVerified bool
	Roles         []string
}

func (u *User) subject() string { return cmp.Or(u.Subject, u.Username) }

// DemoUsers are those of the demonstration: alice with the password
// wonderland, who is a user and an admin, and bob with builder, who is a user.
func DemoUsers() []User {
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

// complete fills in what was left out.
func (o *Options) complete() {
	if o.Users == nil {
		o.Users = DemoUsers()
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

// check finds the first mistake in what a program was given to configure.
func (o *Options) check() error {
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Scheme != "http" || !onLoopback(issuer.Hostname()) || o.Issuer != "http://"+issuer.Host {
		return fmt.Errorf("the issuer %q is not http://HOST:PORT with a host on loopback, like http://127.0.0.1:9400", o.Issuer)
	}
	for _, lifetime := range []time.Duration{o.CodeLifetime, o.AccessTokenLifetime, o.SessionLifetime} {
		if lifetime < 0 {
			return fmt.Errorf("the lifetime %s is negative", lifetime)
		}
	}
	clients := map[string]bool{}
	for _, c := range o.Clients {
		if c.ID == "" || clients[c.ID] {
			return fmt.Errorf("the client ID %q is empty or taken", c.ID)
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
			u.Scheme != "https" && (u.Scheme != "http" || !onLoopback(u.Hostname())) {
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
			return fmt.Errorf("there are two users with the user name or the subject of %s", u.Username)
		}
		names[u.Username], subjects[subject] = true, true
	}
	return nil
}
