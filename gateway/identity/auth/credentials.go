package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"authgate/gateway/wire/clientcert"
	"authgate/gateway/wire/cookiename"
)

// ErrAmbiguous: the request presents two credentials where only one is allowed:
// two Authorization headers, or two values of one gateway cookie. The gateway
// must not guess, so it answers 400.
var ErrAmbiguous = errors.New("auth: ambiguous credentials")

// AmbiguousCookieError is the ErrAmbiguous of two values of one cookie.
type AmbiguousCookieError struct{ Name string }

// Error implements error, with advice for the operator.
func (e *AmbiguousCookieError) Error() string {
	return ErrAmbiguous.Error() + ": two values of the cookie " + e.Name + ": " +
		"another service of the host or of its domain sets a cookie of that name; " +
		"session.host_prefix: true gives the gateway's cookies names of their own"
}

// Unwrap returns ErrAmbiguous.
func (e *AmbiguousCookieError) Unwrap() error { return ErrAmbiguous }

// Credentials are all credentials that a request presents to the gateway. The
// zero value presents none.
type Credentials struct {
	// Scheme is the scheme of the Authorization header in lower case. Value is
	// the rest of the header (RFC 9110, section 11.6.2).
	Scheme, Value string
	// Apart reports whether Scheme and Value are of another header than Authorization, which
	// then is the application's.
	Apart bool
	// Token is of the header that holds nothing but a token for the gateway; see ReadToken.
	Token string

	// The values of the gateway's cookies. Empty means absent or empty.
	Session, Delegated, Browser, Access, Refresh string

	// Scope is where browsers send the cookies: the host of the request, or,
	// after a dot, the domain that shares its cookies. A session is valid in the
	// scope that it was made for. Read does not set it.
	Scope string
	// Host is the canonical host of the request, for credentials that are valid at one
	// host. Read does not set it.
	Host string

	// Cookies reports whether the request has a gateway cookie, even an empty
	// one, other than those that are no credential.
	Cookies bool
	// Notes reports whether the request has a gateway cookie that is no credential.
	Notes bool
	// Ended is the value of the cookie that tells of a session which has ended by time. It is such a note.
	Ended string
	// Renamed reports whether the request has a cookie of the application under
	// another name; see CookieNames.ToBrowser and Owned.
	Renamed bool

	// Certificate is the certificate of the client, nil if there is none. Read does not
	// set it.
	Certificate *clientcert.Presented

	// Client is the client's address and UserAgent its User-Agent header, for
	// throttling and for binding tokens to a device.
	Client    netip.Addr
	UserAgent string

	// basicVersion is the version of the Basic user that Basic.Authenticate
	// verified. Basic.Alive reads it.
	basicVersion string
}

// Forget removes the cookie with that role.
func (c *Credentials) Forget(role CookieRole) {
	switch role {
	case SessionCookie:
		c.Session = ""
	case DelegatedCookie:
		c.Delegated = ""
	case AccessCookie:
		c.Access = ""
	}
}

// Read makes c the credentials in h. The error is ErrAmbiguous; c then presents none.
func (c *Credentials) Read(h http.Header, names *CookieNames, client netip.Addr) error {
	*c = Credentials{}
	if err := c.readHeader(h, names); err != nil {
		*c = Credentials{}
		return err
	}
	c.Client, c.UserAgent = client, h.Get("User-Agent")
	return nil
}

func (c *Credentials) readHeader(h http.Header, names *CookieNames) error {
	switch values := h["Authorization"]; len(values) {
	case 0:
	case 1:
		c.Scheme, c.Value = splitAuthorization(values[0])
	default:
		return ErrAmbiguous
	}
	for _, line := range h["Cookie"] {
		if err := c.readCookies(line, names); err != nil {
			return err
		}
	}
	for _, value := range []*string{&c.Session, &c.Delegated, &c.Browser, &c.Access, &c.Refresh} {
		if *value == absent {
			*value = ""
		}
	}
	return nil
}

// absent replaces the value of an empty cookie while cookies are read. No cookie
// can have this value.
const absent = ";"

// splitAuthorization splits "Scheme value". A header without a space is a scheme
// without a value, so a token without its scheme is not accepted.
func splitAuthorization(v string) (scheme, value string) {
	scheme, value, _ = strings.Cut(textproto.TrimString(v), " ")
	switch scheme { // as nearly all clients write it
	case "Basic":
		scheme = "basic"
	case "Bearer":
		scheme = "bearer"
	default:
		scheme = strings.Map(lower, scheme)
	}
	return scheme, strings.TrimLeft(value, " ")
}

// lower maps only ASCII letters: Unicode's rules would make "BASİC" "basic".
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// nextCookie returns the first name and value of a Cookie header line, and the
// rest of the line (RFC 6265, section 4.2). Quotes around a value do not belong to
// it: some clients, such as Java's CookieManager, add them.
func nextCookie(line string) (name, value, rest string) {
	pair, rest, _ := strings.Cut(line, ";")
	name, value, _ = strings.Cut(pair, "=")
	value = textproto.TrimString(value) // as net/http does
	if last := len(value) - 1; last > 0 && value[0] == '"' && value[last] == '"' {
		value = value[1:last]
	}
	return textproto.TrimString(name), value, rest
}

// cookieVersion begins the Cookie header of a client that describes its cookies, and
// cookieAttributes are such descriptions of the cookie before them (RFC 2965, section 3.3.4).
const cookieVersion = "$Version"

var cookieAttributes = [...]string{"$Path", "$Domain", "$Port"}

// describes reports whether the name of a cookie is that of an attribute of the cookie
// before it.
func describes(name string) bool {
	if !strings.HasPrefix(name, "$") {
		return false
	}
	return slices.ContainsFunc(cookieAttributes[:], func(a string) bool { return strings.EqualFold(a, name) })
}

func (c *Credentials) readCookies(line string, names *CookieNames) error {
	var name, value string
	for line != "" {
		name, value, line = nextCookie(line)
		var at *string
		switch name {
		case "":
			continue // also no match for the empty name of a role that is not in use
		case names.Session:
			at = &c.Session
		case names.Delegated:
			at = &c.Delegated
		case names.Browser:
			at = &c.Browser
		case names.Access:
			at = &c.Access
		case names.Refresh:
			at = &c.Refresh
		case names.Language:
			c.Notes = true
			continue
		case names.Ended:
			c.Ended, c.Notes = value, true
			continue
		default:
			c.Renamed = c.Renamed || cookiename.Marked(name)
			continue
		}
		if value == "" {
			value = absent // an empty and a non-empty cookie are ambiguous too
		}
		if *at != "" && *at != value {
			return &AmbiguousCookieError{name}
		}
		*at, c.Cookies = value, true
	}
	return nil
}
