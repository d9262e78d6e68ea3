package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"authgate/gateway/cookiename"
)

// ErrAmbiguous: the request presents two credentials where there can be one
// (two Authorization headers, two values of one gateway cookie). Which of
// them counts would be a guess, so it is a malformed request: 400.
var ErrAmbiguous = errors.New("auth: ambiguous credentials")

// Credentials is everything that a request presents to the gateway, read
// once. The zero value presents nothing.
type Credentials struct {
	// Scheme is the scheme of the Authorization header in lower case, and
	// Value what follows it (RFC 9110, section 11.6.2).
	Scheme, Value string

	// The values of the gateway's cookies, by their role; empty when absent.
	Session, Delegated, Browser, Access, Refresh string

	// Cookies tells that at least one gateway cookie is there, be it empty.
	Cookies bool
	// Renamed tells that a cookie of the application is there under the name
	// that the browser has for it; see CookieNames.ToBrowser.
	Renamed bool

	// Client is the address of who asks, UserAgent the header of that name;
	// throttling and device binding go by them.
	Client    netip.Addr
	UserAgent string

	// basicVersion is the version of the Basic user whose password was
	// verified; Basic.Authenticate sets it for Basic.Alive.
	basicVersion string
}

// Forget makes as if the cookie with that role had not come.
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

// ReadCredentials reads what h presents. The error is ErrAmbiguous.
func ReadCredentials(h http.Header, names *CookieNames, client netip.Addr) (Credentials, error) {
	c := Credentials{Client: client, UserAgent: h.Get("User-Agent")}
	switch values := h["Authorization"]; len(values) {
	case 0:
	case 1:
		c.Scheme, c.Value = splitAuthorization(values[0])
	default:
		return Credentials{}, ErrAmbiguous
	}
	for _, line := range h["Cookie"] {
		if err := c.readCookies(line, names); err != nil {
			return Credentials{}, err
		}
	}
	for _, value := range []*string{&c.Session, &c.Delegated, &c.Browser, &c.Access, &c.Refresh} {
		if *value == absent {
			*value = ""
		}
	}
	return c, nil
}

// absent stands for the value of an empty cookie while cookies are read; no
// cookie can have it.
const absent = ";"

// splitAuthorization cuts "Scheme value". Without a space it is a scheme
// alone, never a value: a token without its scheme word is not accepted.
func splitAuthorization(v string) (scheme, value string) {
	scheme, value, _ = strings.Cut(strings.Trim(v, " \t"), " ")
	return strings.Map(lower, scheme), strings.TrimLeft(value, " ")
}

// lower is for ASCII alone: with Unicode's rules "BASİC" would be "basic".
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// cookieSpace is what net/http leaves out around cookies. A request with a line
// break in a header never gets this far.
const cookieSpace = " \t\r\n"

// nextCookie cuts the first name=value pair off a Cookie header line (RFC
// 6265, section 4.2).
func nextCookie(line string) (name, value, rest string) {
	pair, rest, _ := strings.Cut(line, ";")
	name, value, _ = strings.Cut(pair, "=")
	return strings.Trim(name, cookieSpace), strings.Trim(value, cookieSpace), rest
}

func (c *Credentials) readCookies(line string, names *CookieNames) error {
	var name, value string
	for line != "" {
		name, value, line = nextCookie(line)
		var at *string
		switch name {
		case "":
			continue // nor is a role without a cookie ever named so
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
		default:
			c.Renamed = c.Renamed || cookiename.Marked(name)
			continue
		}
		if value == "" {
			value = absent // tells two cookies apart even if one is empty
		}
		if *at != "" && *at != value {
			return ErrAmbiguous
		}
		*at, c.Cookies = value, true
	}
	return nil
}
