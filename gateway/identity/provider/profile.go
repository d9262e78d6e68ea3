package provider

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"authgate/policy"
)

// Profile describes a user as the provider does. Its JSON is stored.
type Profile struct {
	Subject  string `json:"subject"` // sub: the permanent identifier of the user at this provider
	Username string `json:"username"`
	Name     string `json:"name,omitempty"`

	// Email is empty if the provider does not call the address verified.
	Email string `json:"email,omitempty"`
	// Unverified is the address in that case. It proves nothing about the user.
	Unverified string   `json:"unverified,omitempty"`
	Roles      []string `json:"roles,omitempty"`

	// Claims are those of the ID token and of userinfo; the latter take
	// precedence. They contain no claims of the protocol and no unverified
	// address, and take at most 64 KiB as JSON. Numbers are json.Number.
	Claims map[string]any `json:"claims,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler. Without it, numbers of more than 15 digits would
// come back from the store as others.
func (p *Profile) UnmarshalJSON(raw []byte) error {
	type members Profile // without this method
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode((*members)(p))
}

// Identity returns the user for policies and upstreams. name is that of the provider in the
// configuration, sid the login, if any.
func (p *Profile) Identity(name string, m policy.Mechanism, sid string, expires time.Time) *policy.Identity {
	return &policy.Identity{
		Username:  p.Username,
		Subject:   name + ":" + p.Subject,
		Name:      p.Name,
		Email:     p.Email,
		Roles:     p.Roles,
		Claims:    p.Claims,
		Mechanism: m,
		Provider:  name,
		Login:     sid,
		Expires:   expires,

		Unverified: p.Unverified,
	}
}

const (
	// maxClaims bounds the claims of one source, and Profile.Claims, in bytes of JSON.
	maxClaims = 64 << 10
	// maxName bounds Profile.Name, in bytes. Upstreams get it in a header.
	maxName = 1 << 10
)

// mapping makes profiles from claims.
type mapping struct {
	Mapping
	logger *slog.Logger
}

// profile makes a profile from sources. For each claim, the first source that has it
// in a form that can be used counts. A claim that no source has is empty.
func (m mapping) profile(subject string, roles []string, sources ...claims) Profile {
	email, unverified := verifiedEmail(sources), ""
	if email == "" {
		unverified = text("email", sources, oneAddress)
	}
	return Profile{
		Subject: subject, Username: m.name(subject, email, sources), Name: displayName(sources),
		Email: email, Unverified: unverified, Roles: roles, Claims: m.merge(email, sources),
	}
}

// displayName returns the claim name.
func displayName(sources []claims) string {
	return text("name", sources, func(name string) bool {
		return strings.TrimSpace(name) != "" && len(name) <= maxName && !strings.ContainsFunc(name, policy.Hidden)
	})
}

// name returns the user name: the configured claim, else a verified email address,
// else sub.
func (m mapping) name(subject, email string, sources []claims) string {
	fallback := subject
	if email != "" {
		fallback = email
	}
	switch m.Username {
	case "sub":
		return subject
	case "email": // counts only if verified
		return fallback
	}
	name := text(m.Username, sources, func(name string) bool {
		return checkIdentifier("", name) == nil && checkVisible("", name) == nil && ownName(name, email)
	})
	if name == "" {
		return fallback
	}
	return name
}

// ownName reports whether a name does not look like another user's address. People
// without a name of their own are called by their verified address, and users may
// choose their names at many providers.
func ownName(name, email string) bool {
	const at = "@\uff20\ufe6b" // also wide and small
	return !strings.ContainsAny(name, at) || strings.EqualFold(name, email)
}

// verifiedEmail returns the address of the first source that has one. It is empty if
// there is none, or if any source does not call this address verified. Another
// verified address does not replace it.
func verifiedEmail(sources []claims) string {
	for _, source := range sources {
		email := text("email", []claims{source}, oneAddress)
		if email == "" {
			continue
		}
		if slices.ContainsFunc(sources, func(other claims) bool { return denies(other, email) }) {
			return ""
		}
		return email
	}
	return ""
}

// oneAddress reports whether a text is one address. Two readers could find different
// domains in a@evil@company.com.
func oneAddress(text string) bool {
	local, domain, _ := strings.Cut(text, "@")
	return local != "" && domain != "" && !strings.Contains(domain, "@") && len(text) <= maxSubject &&
		!strings.ContainsFunc(text, func(r rune) bool { return policy.Hidden(r) || unicode.IsSpace(r) })
}

// denies reports whether the source does not call this address verified. A source that
// does not name its address means it too.
func denies(source claims, email string) bool {
	same, _ := source["email"].(string)
	return source.unverified() && (same == "" || strings.EqualFold(same, email))
}

// unverified reports whether the source says of its address anything but that it is
// verified. A string is not a boolean, but says the same.
func (c claims) unverified() bool {
	switch c["email_verified"] {
	case nil, true, "true":
		return false
	}
	return true
}

// text returns a claim of the first source that has it as a usable text, or "".
func text(path string, sources []claims, usable func(string) bool) string {
	for _, source := range sources {
		if text, _ := first(path, source).(string); text != "" && usable(text) {
			return text
		}
	}
	return ""
}

// merge joins the claims of the sources. Earlier sources take precedence.
func (m mapping) merge(email string, sources []claims) map[string]any {
	all := claims{}
	for i := range sources {
		maps.Copy(all, sources[len(sources)-1-i])
	}
	delete(all, "email")
	if email != "" {
		all["email"] = email
	}
	return m.bounded(all)
}

// bounded returns claims without those of the protocol, and without the longest, if
// they are longer than maxClaims together.
func (m mapping) bounded(c claims) claims {
	c = maps.Clone(c)
	for _, name := range protocolClaims {
		delete(c, name)
	}
	sizes := map[string]int{}
	total := 0
	for name, value := range c {
		raw, _ := json.Marshal(value) // what was decoded can be encoded
		sizes[name] = len(name) + len(raw)
		total += sizes[name]
	}
	for total > maxClaims {
		longest := ""
		for name, size := range sizes {
			if size > sizes[longest] || size == sizes[longest] && name < longest {
				longest = name
			}
		}
		m.logger.Warn("a claim of the provider is too long, and counts as absent; let the provider send fewer claims",
			"claim", clip(longest, maxSubject), "bytes", sizes[longest])
		total -= sizes[longest]
		delete(sizes, longest)
		delete(c, longest)
	}
	return c
}
